//! Sources whose partitions move: several members, driven in turn.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::{Demand, Generation, Partition, Source, SourceCapabilities};

use super::report::{Outcome, Report, ensure};
use super::source::{fill, payloads};
use super::source_driver::{Member, PATIENCE, wide};
use super::source_harness::SourceHarness;

/// How long each member is listened to in its turn.
const TURN: Duration = Duration::from_millis(50);

pub(super) async fn checks<H: SourceHarness>(
    harness: &mut H,
    capabilities: SourceCapabilities,
    report: &mut Report,
) {
    macro_rules! checks {
        ($($name:ident),+ $(,)?) => {
            $(if !capabilities.rebalances {
                report.skip(stringify!($name), "its partitions don't move");
            } else if capabilities.bounded {
                report.skip(stringify!($name), "its partitions end rather than move");
            } else if harness.partitions() < 2 {
                report.skip(stringify!($name), "the harness has only one partition");
            } else {
                report.run(stringify!($name), $name(harness)).await;
            })+
        };
    }
    checks!(
        shares_partitions_between_members,
        hands_over_at_the_commit_with_a_higher_generation,
        takes_over_from_a_member_that_left,
        takes_over_from_a_member_that_died,
        refuses_the_commits_of_a_zombie,
        rebalances_while_nothing_is_allowed,
    );
}

/// Listens to all members in turn until `done`. What is revoked is committed as far as it came
/// and let go.
async fn drive<S: Source>(
    members: &mut [Member<S>],
    demand: &Demand,
    what: &str,
    done: impl Fn(&[Member<S>]) -> bool,
) -> Outcome {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !done(members) {
        ensure!(
            tokio::time::Instant::now() < deadline,
            "after {} s {what}; owned are {:?}",
            PATIENCE.as_secs(),
            members.iter().map(|member| member.owned.keys().collect()).collect::<Vec<Vec<_>>>()
        );
        for member in &mut *members {
            member.step(demand, TURN).await?;
            let going = std::mem::take(&mut member.revoking);
            for partition in &going {
                let records = member.got.get(partition).map_or(0, Vec::len);
                if records > 0 {
                    member.commit(partition, records).await?;
                }
            }
            if !going.is_empty() {
                member.release(&going).await?;
                member.got.retain(|partition, _| !going.contains(partition));
            }
        }
    }
    Ok(())
}

fn is_shared<S>(members: &[Member<S>], partitions: usize) -> bool {
    let owned: Vec<&Partition> = members.iter().flat_map(|member| member.owned.keys()).collect();
    members.iter().all(|member| !member.owned.is_empty()) && owned.len() == partitions
}

fn owns_all<S>(member: &Member<S>, partitions: usize) -> bool {
    member.owned.len() == partitions
}

/// A member that owns everything and has read it.
async fn sole_owner<H: SourceHarness>(
    harness: &mut H,
    each: usize,
) -> Result<Member<H::Source>, String> {
    let partitions = harness.partitions();
    let mut members = [Member::new(harness.start().await)];
    drive(&mut members, &wide(), "a single member has not read everything", |members| {
        owns_all(&members[0], partitions) && members[0].count() >= each * partitions
    })
    .await?;
    let [member] = members;
    Ok(member)
}

async fn shares_partitions_between_members<H: SourceHarness>(harness: &mut H) -> Outcome {
    fill(harness, 20).await;
    let partitions = harness.partitions();
    let first = sole_owner(harness, 20).await?;
    let mut members = [first, Member::new(harness.start().await)];
    let unshared = "two members don't share the partitions";
    drive(&mut members, &wide(), unshared, |members| is_shared(members, partitions)).await?;
    let kept = members[0].owned.clone();
    let before: BTreeMap<_, _> = kept
        .keys()
        .map(|partition| (partition.clone(), members[0].payloads(partition).len()))
        .collect();
    ensure!(
        before.values().all(|came| *came == 20),
        "what stays is read on, not again: {before:?}"
    );
    for index in 0..partitions {
        harness.produce(index, &payloads(index, 20, 10)).await;
    }
    let total = kept.len() * 30 + (partitions - kept.len()) * 10;
    drive(&mut members, &wide(), "not all new records came", |members| {
        members.iter().map(Member::count).sum::<usize>() >= total
    })
    .await?;
    for index in 0..partitions {
        let partition = harness.partition(index);
        let (owner, from) = if kept.contains_key(&partition) { (0, 0) } else { (1, 20) };
        let (got, other) =
            (members[owner].payloads(&partition), members[1 - owner].payloads(&partition));
        let expected = payloads(index, from, 30 - from);
        ensure!(got == expected, "of {partition} its owner got {got:?}, not {expected:?}");
        ensure!(other.is_empty(), "of {partition}, which it doesn't own, a member got {other:?}");
    }
    let [first, second] = members;
    first.close().await?;
    second.close().await
}

async fn hands_over_at_the_commit_with_a_higher_generation<H: SourceHarness>(
    harness: &mut H,
) -> Outcome {
    fill(harness, 20).await;
    let partitions = harness.partitions();
    let mut first = sole_owner(harness, 20).await?;
    let old: BTreeMap<Partition, Generation> = first.owned.clone();
    // Fewer than were read: the rest must come again, at whoever owns the partition then.
    for index in 0..partitions {
        first.commit(&harness.partition(index), 12).await?;
    }
    let mut second = Member::new(harness.start().await);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while second.owned.is_empty() {
        ensure!(tokio::time::Instant::now() < deadline, "a second member got no partition");
        first.step(&wide(), TURN).await?;
        let going = first.revoking.clone();
        if !going.is_empty() {
            first.release(&going).await?;
        }
        second.step(&wide(), TURN).await?;
    }
    let moved = second.owned.clone();
    second.read(&wide(), moved.len() * 8).await?;
    for (partition, generation) in &moved {
        let before = old.get(partition).copied().unwrap_or_default();
        ensure!(*generation > before, "{partition}: {generation:?} follows {before:?}");
        let index = (0..partitions).find(|&index| harness.partition(index) == *partition);
        let expected = payloads(index.unwrap_or(0), 12, 8);
        let got = second.payloads(partition);
        ensure!(got == expected, "of {partition} its new owner got {got:?}, not {expected:?}");
    }
    first.close().await?;
    second.close().await
}

/// The one that is left gets everything, and what was not committed again.
async fn takes_over<H: SourceHarness>(harness: &mut H, mut left: Member<H::Source>) -> Outcome {
    let partitions = harness.partitions();
    let mut members = [left];
    drive(&mut members, &wide(), "one member of two has not taken everything over", |members| {
        owns_all(&members[0], partitions)
    })
    .await?;
    [left] = members;
    for index in 0..partitions {
        harness.produce(index, &payloads(index, 20, 5)).await;
    }
    let is_last = |got: &str, index: usize| got == payloads(index, 24, 1)[0];
    let mut members = [left];
    let names: Vec<_> = (0..partitions).map(|index| harness.partition(index)).collect();
    drive(&mut members, &wide(), "not all new records came", |members| {
        names.iter().enumerate().all(|(index, partition)| {
            members[0].payloads(partition).last().is_some_and(|got| is_last(got, index))
        })
    })
    .await?;
    [left] = members;
    for (index, partition) in names.iter().enumerate() {
        let got = left.payloads(partition);
        let all = payloads(index, 0, 25);
        ensure!(
            got.len() >= 5
                && all.ends_with(&got.iter().map(|g| (*g).to_owned()).collect::<Vec<_>>()),
            "of {partition} came {got:?}: a part is missing"
        );
    }
    left.close().await
}

async fn two_members<H: SourceHarness>(harness: &mut H) -> Result<[Member<H::Source>; 2], String> {
    fill(harness, 20).await;
    let partitions = harness.partitions();
    let first = sole_owner(harness, 20).await?;
    let mut members = [first, Member::new(harness.start().await)];
    let unshared = "two members don't share the partitions";
    drive(&mut members, &wide(), unshared, |members| is_shared(members, partitions)).await?;
    Ok(members)
}

async fn takes_over_from_a_member_that_left<H: SourceHarness>(harness: &mut H) -> Outcome {
    let [first, second] = two_members(harness).await?;
    first.close().await?;
    takes_over(harness, second).await
}

async fn takes_over_from_a_member_that_died<H: SourceHarness>(harness: &mut H) -> Outcome {
    let [first, second] = two_members(harness).await?;
    harness.kill(first.source).await;
    takes_over(harness, second).await
}

async fn refuses_the_commits_of_a_zombie<H: SourceHarness>(harness: &mut H) -> Outcome {
    fill(harness, 20).await;
    let partitions = harness.partitions();
    let mut zombie = sole_owner(harness, 20).await?;
    // From here on it isn't listened to, as if its process hung.
    let mut members = [Member::new(harness.start().await)];
    drive(&mut members, &wide(), "nobody took over from a member that hangs", |members| {
        owns_all(&members[0], partitions) && members[0].count() >= 20 * partitions
    })
    .await?;
    let [mut owner] = members;
    let position = owner.commit(&harness.partition(0), 5).await?;
    for index in 0..partitions {
        let partition = harness.partition(index);
        let Some(last) = zombie.got.get(&partition).and_then(|got| got.last()).cloned() else {
            return Err(format!("nothing of {partition} came"));
        };
        // An error is as good as a refusal.
        if let Ok(report) = zombie.commit_at(&partition, last.position.next()).await {
            ensure!(
                report.refused.contains(&partition),
                "a commit of {partition} by its former owner was accepted"
            );
        }
    }
    let committed = harness.committed(0).await;
    ensure!(committed == Some(position), "{committed:?} is committed, not {position:?}");
    harness.kill(zombie.source).await;
    owner.close().await
}

async fn rebalances_while_nothing_is_allowed<H: SourceHarness>(harness: &mut H) -> Outcome {
    fill(harness, 20).await;
    let partitions = harness.partitions();
    let first = sole_owner(harness, 20).await?;
    let mut members = [first, Member::new(harness.start().await)];
    let nothing = Demand::new(0, 0);
    let unshared = "two members without demand don't share the partitions";
    drive(&mut members, &nothing, unshared, |members| is_shared(members, partitions)).await?;
    let [first, second] = members;
    first.close().await?;
    second.close().await
}
