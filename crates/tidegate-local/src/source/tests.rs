//! What a locked file does to a source; the rest is tested from outside, in `tests/`.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::{LocalRecord, LocalSinkConfig, Producer};

/// The result of a call that doesn't wait.
fn now<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the call waits"),
    }
}

/// P7, P28: while another process holds the lock every call fails with "try again"; afterwards
/// it works, and nothing was lost or done twice.
#[tokio::test(start_paused = true)]
async fn a_locked_file_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.db");
    let config = LocalSinkConfig { partitions: Some(1), ..LocalSinkConfig::new(&path, "t") };
    Producer::open(config).unwrap().append(&[LocalRecord::new("x")]).unwrap();
    let mut locker = Client::open(&path, Access::Existing, Duration::ZERO).unwrap();
    let config = LocalSourceConfig {
        lock_timeout: Duration::from_millis(4),
        ..LocalSourceConfig::new(&path, "t", "g")
    };
    let mut source = LocalSource::open(config).unwrap();
    let demand = Demand::new(10, 1000);
    let one = Partition::new("t", 0);
    let frontier = |position| {
        let (partition, generation) = (one.clone(), Generation::new(1));
        [PartitionFrontier { partition, generation, position: Position::new(position) }]
    };
    let mut locked = |source: &mut LocalSource, call: &dyn Fn(&mut LocalSource) -> SourceError| {
        let error = locker.write(|_| Ok(call(source))).unwrap();
        assert!(error.is_retryable(), "{error:?}");
        assert!(error.to_string().contains("locked by another process"));
    };

    locked(&mut source, &|source| now(source.next(&demand)).unwrap_err());
    let event = source.next(&demand).await.unwrap();
    assert!(matches!(event, SourceEvent::Assigned(all) if all.len() == 1));
    let event = source.next(&demand).await.unwrap();
    assert!(matches!(event, SourceEvent::Fetched(batch) if batch.len() == 1));

    let commit = |source: &mut LocalSource| {
        now(source.commit(Commit::Through(&frontier(1)))).map(|report| report.refused)
    };
    locked(&mut source, &|source| commit(source).unwrap_err());
    assert_eq!(commit(&mut source).unwrap(), []);
    let release = |source: &mut LocalSource| now(source.release(std::slice::from_ref(&one)));
    locked(&mut source, &|source| release(source).unwrap_err());
    release(&mut source).unwrap();
    locked(&mut source, &|source| now(source.close()).unwrap_err());
    now(source.close()).unwrap();

    let members = "SELECT count(*) FROM members";
    let left = locker.read(|tx| tx.row(members, &[], |row| row.integer(0))).unwrap();
    assert_eq!(left, Some(0));
}

/// The transaction that acquired a partition was made durable, but its answer was lost.
#[tokio::test(start_paused = true)]
async fn a_partition_that_is_owned_unknowingly_is_acquired_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.db");
    let config = LocalSinkConfig { partitions: Some(1), ..LocalSinkConfig::new(&path, "t") };
    Producer::open(config).unwrap();
    let mut source = LocalSource::open(LocalSourceConfig::new(&path, "t", "g")).unwrap();
    let demand = Demand::new(10, 1000);
    assert!(matches!(source.next(&demand).await.unwrap(), SourceEvent::Assigned(_)));
    source.holdings = Holdings::default();
    let SourceEvent::Assigned(all) = source.next(&demand).await.unwrap() else { unreachable!() };
    assert_eq!(all[0].generation, Generation::new(2));
}
