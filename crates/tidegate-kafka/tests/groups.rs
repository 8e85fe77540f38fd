//! Members of a group that come, go, hang and come back.
//! Needs the broker of `scripts/services up kafka`.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{Broker, Member, PATIENCE, drive, share, unique};
use tidegate_core::Source;
use tidegate_kafka::{KafkaSourceConfig, Rebalance};

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

async fn filled(broker: &Broker, partitions: u32, each: usize) -> String {
    let topic = broker.topic(partitions).await;
    for partition in 0..partitions {
        broker.produce(&topic, partition, &numbers(0..each)).await;
    }
    topic
}

/// A member that owns everything and has read it.
async fn alone(config: &KafkaSourceConfig, records: usize) -> Member {
    let mut member = Member::new(config.clone());
    member.until(|member| member.count() >= records).await;
    member
}

/// P7 of the design: others are not touched. P14, P24.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn while_some_partitions_are_drained_the_others_stay_and_nothing_is_repeated() {
    let broker = Broker::single();
    let topic = filled(&broker, 4, 20).await;
    let config = broker.source(&topic, &unique("group"));
    let mut first = alone(&config, 80).await;
    let mut second = Member::new(config);
    // The second joins, and the first is asked to give up two.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while first.revoking.is_empty() {
        assert!(tokio::time::Instant::now() < deadline);
        first.hear(Duration::from_millis(30)).await.unwrap();
        second.hear(Duration::from_millis(30)).await.unwrap();
    }
    assert_eq!((first.owned.len(), first.revoking.len()), (4, 2));
    // It takes its time, longer than a session lasts; nobody gets them meanwhile.
    let drained = tokio::time::Instant::now() + Duration::from_secs(4);
    while tokio::time::Instant::now() < drained {
        first.hear(Duration::from_millis(100)).await.unwrap();
        second.hear(Duration::from_millis(100)).await.unwrap();
        assert!(second.owned.is_empty(), "{:?}", second.owned);
    }
    first.let_go().await;
    let mut members = [first, second];
    drive(&mut members, |members| share(members, 4)).await;
    for partition in 0..4 {
        broker.produce(&topic, partition, &numbers(20..25)).await;
    }
    drive(&mut members, |m| m.iter().map(Member::count).sum::<usize>() >= 100).await;

    let [first, second] = members;
    assert_eq!(first.assigned.len(), 1, "what stays is not assigned anew: {:?}", first.assigned);
    assert!(first.lost.is_empty() && second.lost.is_empty());
    for partition in 0..4 {
        let all: Vec<_> = [first.texts(partition), second.texts(partition)].concat();
        assert_eq!(all, numbers(0..25), "{partition}");
    }
    first.close().await;
    second.close().await;
}

/// P27: what does not fit into the drain's time is abandoned uncommitted, and comes again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn partitions_that_are_not_drained_in_time_are_lost_and_come_again_elsewhere() {
    let broker = Broker::single();
    let topic = filled(&broker, 2, 10).await;
    let config = broker.source(&topic, &unique("group"));
    let mut first = alone(&config, 20).await;
    let mut second = Member::new(config);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    // The first listens, but lets nothing go.
    while second.owned.is_empty() {
        assert!(tokio::time::Instant::now() < deadline);
        first.hear(Duration::from_millis(50)).await.unwrap();
        second.hear(Duration::from_millis(50)).await.unwrap();
    }
    second.until(|second| second.count() >= 10).await;

    let moved = second.owned.keys().next().unwrap().clone();
    let number = moved.index().unwrap();
    assert_eq!(first.lost, [number]);
    assert_eq!(second.texts(number), numbers(0..10));
    let report = first.try_commit(std::slice::from_ref(&moved)).await.unwrap();
    assert_eq!(report.refused, [moved], "P22");
    first.close().await;
    second.close().await;
}

/// P23, P31: the client lives on while the pipeline hangs, but not for ever.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_member_whose_pipeline_hangs_leaves_and_joins_again_when_it_goes_on() {
    let broker = Broker::single();
    let topic = filled(&broker, 2, 10).await;
    let config = broker.source(&topic, &unique("group"));
    let mut hanging = alone(&config, 20).await;
    let before = hanging.owned.clone();
    let mut other = Member::new(config);
    other.until(|other| other.owned.len() == 2).await;
    other.until(|other| other.count() >= 20).await;

    // It hears what has happened, and takes its share again.
    hanging.until(|hanging| hanging.lost.len() == 2).await;
    let mut members = [hanging, other];
    drive(&mut members, |members| share(members, 2)).await;

    let [hanging, other] = members;
    for (partition, generation) in &hanging.owned {
        assert!(generation > &before[partition]);
    }
    hanging.close().await;
    other.close().await;
}

/// Flapping assignments cost no rebuild: what stays is assigned once.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn members_that_come_and_go_leave_what_stays_alone() {
    let broker = Broker::single();
    let topic = filled(&broker, 6, 10).await;
    let config = broker.source(&topic, &unique("group"));
    let mut members = vec![alone(&config, 60).await];
    for round in 0..4 {
        members.push(Member::new(config.clone()));
        drive(&mut members, |members| share(members, 6)).await;
        let guest = members.pop().unwrap();
        assert_eq!(guest.owned.len(), 3, "round {round}");
        let came = guest.close().await;
        assert!(came.is_empty(), "everything was committed, but {came:?} came again");
        drive(&mut members, |members| share(members, 6)).await;
    }
    let first = members.pop().unwrap();
    assert!(first.lost.is_empty());
    let assigned: Vec<u32> = first.assigned.concat();
    let times = |partition| assigned.iter().filter(|assigned| **assigned == partition).count();
    let steady = (0..6).filter(|partition| times(*partition) == 1).count();
    assert_eq!(steady, 3, "three of six stay with the first all the time: {:?}", first.assigned);
    assert_eq!(first.count(), 60, "nothing came twice");
    first.close().await;
}

/// A member with a name comes back to its partitions, and the other doesn't notice.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn a_named_member_that_restarts_gets_its_partitions_back() {
    let broker = Broker::single();
    let topic = filled(&broker, 4, 10).await;
    let base = broker.source(&topic, &unique("group"));
    let named = |name: &str| KafkaSourceConfig {
        member: Some(name.to_owned()),
        session_timeout: Duration::from_secs(6),
        ..base.clone()
    };
    let mut members = [Member::new(named("a")), Member::new(named("b"))];
    drive(&mut members, |m| share(m, 4) && m.iter().map(Member::count).sum::<usize>() >= 40).await;
    let [mut a, b] = members;
    let had: Vec<_> = b.owned.keys().cloned().collect();
    let assignments = a.assigned.len();
    b.close().await;

    let mut b = Member::new(named("b"));
    b.until(|b| b.owned.len() == 2).await;

    assert_eq!(b.owned.keys().cloned().collect::<Vec<_>>(), had);
    assert!(a.hear(Duration::from_millis(500)).await.unwrap().is_none());
    assert_eq!((a.assigned.len(), a.lost.len(), a.revoking.len()), (assignments, 0, 0));
    a.close().await;
    b.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn two_members_of_one_name_are_told_so() {
    let broker = Broker::single();
    let topic = filled(&broker, 2, 1).await;
    let config = KafkaSourceConfig {
        member: Some("same".to_owned()),
        ..broker.source(&topic, &unique("group"))
    };
    let mut first = alone(&config, 2).await;
    let mut second = Member::new(config);
    second.until(|second| second.owned.len() == 2).await;

    let error = first.error().await;

    assert!(!error.is_retryable());
    let text = error.to_string();
    assert!(text.contains("as member same and took this one's place"), "{text}");
    first.source.close().await.unwrap();
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn chosen_partitions_need_a_group_of_their_own() {
    let broker = Broker::single();
    let topic = filled(&broker, 1, 1).await;
    let config = broker.source(&topic, &unique("group"));
    let member = alone(&config, 1).await;
    let mut other = Member::new(KafkaSourceConfig {
        topics: Vec::new(),
        partitions: Some([(topic, vec![0])].into()),
        ..config
    });
    other.until(|other| other.count() >= 1).await;
    let partitions: Vec<_> = other.owned.keys().cloned().collect();

    let error = other.try_commit(&partitions).await.unwrap_err();

    assert!(!error.is_retryable());
    assert!(error.to_string().contains("has members that share its partitions"), "{error}");
    other.source.close().await.unwrap();
    member.close().await;
}

/// P26: whenever it comes, a commit goes through, is refused, or is to be made again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn commits_during_rebalances_go_through_or_are_made_again() {
    for rebalance in [Rebalance::Cooperative, Rebalance::Eager, Rebalance::Consumer] {
        let broker = Broker::single();
        let topic = filled(&broker, 4, 50).await;
        let group = unique("group");
        let config = KafkaSourceConfig { rebalance, ..broker.source(&topic, &group) };
        let mut first = alone(&config, 200).await;
        let mut second = Member::new(config);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !(share(std::slice::from_ref(&first), 2) && second.owned.len() == 2) {
            assert!(tokio::time::Instant::now() < deadline, "{rebalance:?}");
            first.hear(Duration::from_millis(1)).await.unwrap();
            let owned: Vec<_> = first.owned.keys().cloned().collect();
            match first.try_commit(&owned).await {
                Ok(report) => assert!(report.refused.is_empty(), "{rebalance:?}: {report:?}"),
                Err(error) => assert!(error.is_retryable(), "{rebalance:?}: {error}"),
            }
            first.let_go_if_committed().await;
            second.hear(Duration::from_millis(1)).await.unwrap();
            second.let_go().await;
        }
        let committed = broker.all_committed(&group, &topic, 4).await;
        assert!(committed.values().all(|at| *at == 50) && committed.len() == 4, "{committed:?}");
        second.until(|s| s.owned.len() == 2).await;
        assert_eq!(second.count(), 0, "{rebalance:?}: everything was committed");
        first.close().await;
        second.close().await;
    }
}
