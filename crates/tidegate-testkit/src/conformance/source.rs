use tidegate_core::{Demand, Source};

use super::cancel::polled;
use super::rebalance;
use super::report::{Outcome, Report, ensure, unexpected};
use super::source_driver::{Member, PATIENCE, QUIET, wide};
use super::source_harness::SourceHarness;

/// The rules of a [`Source`], for every harness.
///
/// It waits with tokio's time: for what must come at most 30 s, for what must not 3 s. A source
/// that keeps to tokio's time and a given clock can be checked on virtual time, in no time; a
/// group's session timeout must be shorter than 30 s.
pub async fn source<H: SourceHarness>(harness: &mut H) -> Report {
    let mut report = Report::default();
    harness.reset().await;
    let capabilities = harness.start().await.capabilities();
    macro_rules! check {
        ($name:ident) => {
            report.run(stringify!($name), $name(harness)).await
        };
        ($name:ident, if $condition:expr, else $reason:literal) => {
            if $condition {
                check!($name);
            } else {
                report.skip(stringify!($name), $reason);
            }
        };
    }
    check!(delivers_every_record_in_order);
    check!(loses_nothing_when_next_is_dropped);
    check!(keeps_to_the_limits_of_a_demand);
    check!(leaves_closed_partitions_alone);
    check!(waits_while_nothing_is_allowed);
    check!(delivers_again_what_was_not_committed);
    check!(delivers_nothing_of_what_was_let_go);
    let bounded = capabilities.bounded;
    check!(delivers_what_comes_later, if !bounded, else "it comes to an end");
    check!(waits_when_there_is_nothing, if !bounded, else "it comes to an end");
    check!(ends_when_everything_is_read, if bounded, else "it has no end");
    check!(ends_when_there_is_nothing, if bounded, else "it has no end");
    let resumes = capabilities.resumes;
    check!(goes_on_at_the_commit, if resumes, else "it keeps no position");
    check!(goes_on_at_the_commit_after_a_crash, if resumes, else "it keeps no position");
    check!(takes_the_same_commit_twice, if resumes, else "it keeps no position");
    check!(commits_partitions_apart, if resumes, else "it keeps no position");
    rebalance::checks(harness, capabilities, &mut report).await;
    report
}

/// `count` payloads of different lengths, the same for the same partition.
pub(super) fn payloads(partition: usize, from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|n| format!("{partition}-{n}-{}", "x".repeat(n % 17))).collect()
}

/// Fills every partition with this many records.
pub(super) async fn fill<H: SourceHarness>(harness: &mut H, each: usize) {
    harness.reset().await;
    for partition in 0..harness.partitions() {
        let payloads = payloads(partition, 0, each);
        harness.produce(partition, &payloads).await;
    }
}

/// A source that has read so many records of each partition.
async fn reader<H: SourceHarness>(
    harness: &mut H,
    each: usize,
) -> Result<Member<H::Source>, String> {
    let mut member = Member::new(harness.start().await);
    member.read(&wide(), each * harness.partitions()).await?;
    Ok(member)
}

/// That exactly the records from `from` on have come of each partition, in order.
fn ensure_came<H: SourceHarness>(
    harness: &H,
    member: &Member<H::Source>,
    from: impl Fn(usize) -> usize,
    to: usize,
) -> Outcome {
    for index in 0..harness.partitions() {
        let partition = harness.partition(index);
        let expected = payloads(index, from(index), to - from(index));
        let got = member.payloads(&partition);
        ensure!(got == expected, "of {partition} came {got:?}, expected was {expected:?}");
    }
    Ok(())
}

async fn delivers_every_record_in_order<H: SourceHarness>(harness: &mut H) -> Outcome {
    fill(harness, 300).await;
    let mut member = reader(harness, 300).await?;
    member.read_until_quiet(&wide()).await?;
    ensure_came(harness, &member, |_| 0, 300)?;
    member.close().await
}

async fn loses_nothing_when_next_is_dropped<H: SourceHarness>(harness: &mut H) -> Outcome {
    fill(harness, 40).await;
    let mut member = Member::new(harness.start().await);
    let demand = Demand::new(3, 1 << 20);
    let total = 40 * harness.partitions();
    let mut polls = (0..7).cycle();
    while member.count() < total {
        // Dropped after no, one, two … polls, and then let run to its end once.
        let times = polls.next().unwrap_or(0);
        ensure!(!member.ended, "it ended after {} of {total} records", member.count());
        let event = if times == 6 {
            tokio::time::timeout(PATIENCE, member.source.next(&demand)).await.map(Some)
        } else {
            tokio::time::timeout(PATIENCE, polled(member.source.next(&demand), times)).await
        };
        match event {
            Ok(Some(event)) => member.hear(event.map_err(unexpected("next"))?, &demand)?,
            Ok(None) => {}
            Err(_) => return Err(format!("only {} of {total} records came", member.count())),
        }
    }
    ensure_came(harness, &member, |_| 0, 40)?;
    member.close().await
}

async fn keeps_to_the_limits_of_a_demand<H: SourceHarness>(harness: &mut H) -> Outcome {
    fill(harness, 60).await;
    let mut member = Member::new(harness.start().await);
    // What holds of every event is checked when it comes.
    member.read(&Demand::new(7, 1 << 20), 30).await?;
    member.read(&Demand::new(1000, 64), 45).await?;
    member.read(&Demand::new(1000, 1), 50).await?;
    member.read(&wide(), 60 * harness.partitions()).await?;
    ensure_came(harness, &member, |_| 0, 60)?;
    member.close().await
}

async fn leaves_closed_partitions_alone<H: SourceHarness>(harness: &mut H) -> Outcome {
    fill(harness, 30).await;
    let mut member = Member::new(harness.start().await);
    // That nothing of a closed partition comes is checked with every event. Whether others come
    // meanwhile is the source's affair: it may read one after another.
    for index in 0..harness.partitions() {
        let others = Demand::new(4, 1 << 20).without([harness.partition(index)]);
        for _ in 0..5 {
            member.step(&others, QUIET).await?;
        }
    }
    member.read(&wide(), 30 * harness.partitions()).await?;
    ensure_came(harness, &member, |_| 0, 30)?;
    member.close().await
}

async fn waits_while_nothing_is_allowed<H: SourceHarness>(harness: &mut H) -> Outcome {
    fill(harness, 30).await;
    let mut member = Member::new(harness.start().await);
    let nothing = Demand::new(0, 0);
    member.read_until_quiet(&nothing).await?;
    ensure!(member.count() == 0, "{} records came", member.count());
    ensure!(!member.ended, "it ended before anything was read");
    member.read(&wide(), 30 * harness.partitions()).await?;
    member.close().await
}

async fn delivers_what_comes_later<H: SourceHarness>(harness: &mut H) -> Outcome {
    fill(harness, 10).await;
    let mut member = reader(harness, 10).await?;
    member.read_until_quiet(&wide()).await?;
    for index in 0..harness.partitions() {
        harness.produce(index, &payloads(index, 10, 10)).await;
    }
    member.read(&wide(), 20 * harness.partitions()).await?;
    ensure_came(harness, &member, |_| 0, 20)?;
    member.close().await
}

async fn waits_when_there_is_nothing<H: SourceHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let mut member = Member::new(harness.start().await);
    member.read_until_quiet(&wide()).await?;
    ensure!(!member.ended && member.count() == 0, "it ended, or invented records");
    harness.produce(0, &payloads(0, 0, 5)).await;
    member.read(&wide(), 5).await?;
    member.close().await
}

/// Reads to the end; what is finished is committed and let go on the way, as by the runtime.
async fn read_to_the_end<H: SourceHarness>(
    harness: &mut H,
    member: &mut Member<H::Source>,
) -> Outcome {
    let resumes = member.source.capabilities().resumes;
    while !member.ended {
        let heard = member.step(&wide(), PATIENCE).await?;
        ensure!(heard, "it did not end within 30 s");
        for partition in std::mem::take(&mut member.finished) {
            let records = member.payloads(&partition).len();
            if records > 0 {
                let position = member.commit(&partition, records).await?;
                let index = (0..harness.partitions()).find(|&i| harness.partition(i) == partition);
                let committed = match index.filter(|_| resumes) {
                    Some(index) => harness.committed(index).await,
                    None => Some(position),
                };
                ensure!(committed == Some(position), "{committed:?} is committed of {partition}");
            }
            member.release(&[partition]).await?;
        }
    }
    Ok(())
}

async fn ends_when_everything_is_read<H: SourceHarness>(harness: &mut H) -> Outcome {
    fill(harness, 50).await;
    let mut member = Member::new(harness.start().await);
    let resumes = member.source.capabilities().resumes;
    read_to_the_end(harness, &mut member).await?;
    ensure_came(harness, &member, |_| 0, 50)?;
    // Those that did not say that they were finished can be committed after the end.
    for partition in member.owned.keys().cloned().collect::<Vec<_>>() {
        member.commit(&partition, 50).await?;
    }
    member.close().await?;
    let mut again = Member::new(harness.start().await);
    read_to_the_end(harness, &mut again).await?;
    let expected = if resumes { 0 } else { 50 * harness.partitions() };
    ensure!(again.count() == expected, "{} records came after the last commit", again.count());
    again.close().await
}

async fn ends_when_there_is_nothing<H: SourceHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    for partition in 0..harness.partitions() {
        harness.produce(partition, &[]).await;
    }
    let mut member = Member::new(harness.start().await);
    read_to_the_end(harness, &mut member).await?;
    ensure!(member.count() == 0, "it invented records");
    member.close().await
}

async fn goes_on_at_the_commit<H: SourceHarness>(harness: &mut H) -> Outcome {
    fill(harness, 50).await;
    let mut member = reader(harness, 50).await?;
    for index in 0..harness.partitions() {
        let position = member.commit(&harness.partition(index), 20 + index).await?;
        let committed = harness.committed(index).await;
        ensure!(
            committed == Some(position),
            "once commit has returned, {position:?} is durable, not {committed:?}"
        );
    }
    member.close().await?;
    let mut next = Member::new(harness.start().await);
    next.read_until_quiet(&wide()).await?;
    ensure_came(harness, &next, |index| 20 + index, 50)?;
    next.close().await
}

async fn goes_on_at_the_commit_after_a_crash<H: SourceHarness>(harness: &mut H) -> Outcome {
    fill(harness, 50).await;
    let mut member = reader(harness, 50).await?;
    for index in 0..harness.partitions() {
        member.commit(&harness.partition(index), 10).await?;
        member.commit(&harness.partition(index), 30 + index).await?;
    }
    harness.kill(member.source).await;
    let mut next = Member::new(harness.start().await);
    let left: usize = (0..harness.partitions()).map(|index| 20 - index).sum();
    next.read(&wide(), left).await?;
    next.read_until_quiet(&wide()).await?;
    ensure_came(harness, &next, |index| 30 + index, 50)?;
    next.close().await
}

async fn delivers_again_what_was_not_committed<H: SourceHarness>(harness: &mut H) -> Outcome {
    fill(harness, 30).await;
    let member = reader(harness, 30).await?;
    member.close().await?;
    let again = reader(harness, 30).await?;
    ensure_came(harness, &again, |_| 0, 30)?;
    harness.kill(again.source).await;
    let once_more = reader(harness, 30).await?;
    ensure_came(harness, &once_more, |_| 0, 30)?;
    once_more.close().await
}

async fn takes_the_same_commit_twice<H: SourceHarness>(harness: &mut H) -> Outcome {
    fill(harness, 30).await;
    let mut member = reader(harness, 30).await?;
    let partition = harness.partition(0);
    let position = member.commit(&partition, 15).await?;
    // As after a reply that got lost.
    member.commit(&partition, 15).await?;
    let committed = harness.committed(0).await;
    ensure!(committed == Some(position), "{committed:?} is committed, not {position:?}");
    member.close().await
}

async fn commits_partitions_apart<H: SourceHarness>(harness: &mut H) -> Outcome {
    fill(harness, 30).await;
    let mut member = reader(harness, 30).await?;
    let position = member.commit(&harness.partition(0), 30).await?;
    ensure!(harness.committed(0).await == Some(position), "{position:?} is not committed");
    for index in 1..harness.partitions() {
        let committed = harness.committed(index).await;
        let nothing = committed.is_none_or(|at| {
            let first = member.got.get(&harness.partition(index)).and_then(|got| got.first());
            first.is_some_and(|first| at <= first.position)
        });
        ensure!(nothing, "{committed:?} of partition {index} is committed, which nobody asked for");
    }
    member.close().await
}

async fn delivers_nothing_of_what_was_let_go<H: SourceHarness>(harness: &mut H) -> Outcome {
    fill(harness, 200).await;
    let mut member = Member::new(harness.start().await);
    member.read(&Demand::new(5, 1 << 20), 10).await?;
    // As a stop does it: everything is let go while there is more to read. It may be assigned
    // anew; that records come only after that, and with demand, is checked with every event.
    let partitions: Vec<_> = member.owned.keys().cloned().collect();
    member.release(&partitions).await?;
    for _ in 0..3 {
        member.step(&Demand::new(0, 0), QUIET).await?;
    }
    member.close().await
}
