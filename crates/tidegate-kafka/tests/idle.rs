//! In a binary of its own, because it looks at the processor time of the whole process.
//! Needs the broker of `scripts/services up kafka`.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{Broker, Member, unique};
use tidegate_core::{Demand, Source, SourceEvent};

/// P38: an idle source sleeps.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs scripts/services up kafka"]
async fn an_idle_source_and_one_without_demand_cost_next_to_nothing() {
    let broker = Broker::single();
    let topic = broker.topic(4).await;
    for partition in 0..4 {
        let payloads: Vec<_> = (0..1000).map(|n: u32| n.to_string()).collect();
        broker.produce(&topic, partition, &payloads).await;
    }
    let config = broker.source(&topic, &unique("group"));
    let mut member = Member::new(config);
    member.until(|member| !member.owned.is_empty()).await;
    for (name, demand) in
        [("without demand", Demand::new(0, 0)), ("idle", Demand::new(1000, 1 << 20))]
    {
        while let Ok(event) =
            tokio::time::timeout(Duration::from_secs(1), member.source.next(&demand)).await
        {
            assert!(matches!(event.unwrap(), SourceEvent::Fetched(_)));
        }
        let before = common::cpu_time();
        let rested =
            tokio::time::timeout(Duration::from_secs(3), member.source.next(&demand)).await;
        assert!(rested.is_err());
        let spent = common::cpu_time() - before;
        assert!(spent < Duration::from_millis(150), "{name}: {spent:?} of 3 s");
    }
    member.close().await;
}
