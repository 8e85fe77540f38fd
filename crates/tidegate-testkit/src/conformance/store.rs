use std::future::{Future, ready};

use tidegate_core::{Partition, Position, PositionStore, SavedPosition};

use super::cancel::polled;
use super::report::{Outcome, Report, ensure, unexpected};

/// Makes stores of one kind.
pub trait StoreHarness: Send {
    /// The store.
    type Store: PositionStore;

    /// A new, empty place. Each check gets one; no store is open then.
    fn reset(&mut self) -> impl Future<Output = ()> + Send;

    /// A store for the place as a new process would open it; the one before was dropped.
    fn open(&mut self) -> impl Future<Output = Self::Store> + Send;

    /// Damages what is saved, so that it can't be read as it was; false if that can't be done.
    /// The store is not open then.
    fn damage(&mut self) -> impl Future<Output = bool> + Send {
        ready(false)
    }
}

/// The rules of a [`PositionStore`].
pub async fn store<H: StoreHarness>(harness: &mut H) -> Report {
    let mut report = Report::default();
    macro_rules! check {
        ($name:ident) => {
            report.run(stringify!($name), $name(harness)).await
        };
    }
    check!(is_empty_at_first);
    check!(gives_back_what_was_saved);
    check!(replaces_only_the_partitions_it_is_given);
    check!(takes_lower_positions_too);
    check!(survives_being_opened_anew);
    check!(saves_all_or_nothing_when_it_is_cut_off);
    check!(holds_thousands_of_partitions);
    harness.reset().await;
    let mut store = harness.open().await;
    let is_saved = store.save(&[saved(Partition::whole("p"), 7, b"note")]).await.is_ok();
    drop(store);
    if is_saved && harness.damage().await {
        check!(refuses_damaged_content);
    } else {
        report.skip("refuses_damaged_content", "the harness can't damage it");
    }
    report
}

fn saved(partition: Partition, frontier: u64, note: &[u8]) -> SavedPosition {
    SavedPosition { partition, frontier: Position::new(frontier), note: note.to_vec() }
}

/// One of each kind of partition, position and note.
fn specimens() -> Vec<SavedPosition> {
    vec![
        saved(Partition::whole("orders"), 0, b""),
        saved(Partition::new("orders", 0), 1, b"a"),
        saved(Partition::new("orders", u32::MAX), u64::MAX, &[0; 4096]),
        saved(Partition::whole("data/ä b\n'\"%/…"), i64::MAX as u64, &[0xff, 0x00, b'\n']),
        saved(Partition::whole("data/ä b\n'\"%/…."), i64::MAX as u64 + 1, "ü".as_bytes()),
    ]
}

async fn ensure_saved(store: &mut impl PositionStore, expected: &[SavedPosition]) -> Outcome {
    let order = |saved: &SavedPosition| saved.partition.clone();
    let mut there = store.load().await.map_err(unexpected("load"))?;
    let mut expected = expected.to_vec();
    there.sort_by_key(order);
    expected.sort_by_key(order);
    ensure!(there == expected, "there is {there:?}, expected was {expected:?}");
    Ok(())
}

async fn save(store: &mut impl PositionStore, positions: &[SavedPosition]) -> Outcome {
    store.save(positions).await.map_err(unexpected("save"))
}

async fn is_empty_at_first<H: StoreHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let mut store = harness.open().await;
    ensure_saved(&mut store, &[]).await?;
    save(&mut store, &[]).await?;
    ensure_saved(&mut store, &[]).await
}

async fn gives_back_what_was_saved<H: StoreHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let mut store = harness.open().await;
    save(&mut store, &specimens()).await?;
    ensure_saved(&mut store, &specimens()).await
}

async fn replaces_only_the_partitions_it_is_given<H: StoreHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let mut store = harness.open().await;
    let mut all = specimens();
    save(&mut store, &all).await?;
    (all[1].frontier, all[1].note) = (Position::new(99), b"another".to_vec());
    (all[3].frontier, all[3].note) = (Position::new(100), Vec::new());
    save(&mut store, &[all[3].clone(), all[1].clone()]).await?;
    ensure_saved(&mut store, &all).await
}

async fn takes_lower_positions_too<H: StoreHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let mut store = harness.open().await;
    // A file that was replaced begins anew.
    for frontier in [10, 3] {
        let position = [saved(Partition::whole("p"), frontier, b"")];
        save(&mut store, &position).await?;
        ensure_saved(&mut store, &position).await?;
    }
    Ok(())
}

async fn survives_being_opened_anew<H: StoreHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let mut all = specimens();
    for round in 0..3 {
        let mut store = harness.open().await;
        if round > 0 {
            ensure_saved(&mut store, &all).await?;
        }
        all[0].frontier = Position::new(round);
        save(&mut store, &all).await?;
    }
    ensure_saved(&mut harness.open().await, &all).await
}

async fn saves_all_or_nothing_when_it_is_cut_off<H: StoreHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let round = |frontier| -> Vec<_> {
        (0..50).map(|index| saved(Partition::new("t", index), frontier, b"note")).collect()
    };
    save(&mut harness.open().await, &round(0)).await?;
    for polls in 0..6 {
        let mut store = harness.open().await;
        let next = round(polls as u64 + 1);
        // Dropped where it waits, or done if it never does; then the process ends.
        let _ = polled(store.save(&next), polls).await;
        drop(store);
        let there = harness.open().await.load().await.map_err(unexpected("load"))?;
        ensure!(there.len() == 50, "{} of 50 partitions are there", there.len());
        let first = there[0].frontier;
        ensure!(
            there.iter().all(|saved| saved.frontier == first),
            "a save was cut in two: {there:?}"
        );
    }
    Ok(())
}

async fn holds_thousands_of_partitions<H: StoreHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let all: Vec<_> = (0..5000).map(|n| saved(Partition::new("t", n), n.into(), b"x")).collect();
    let mut store = harness.open().await;
    save(&mut store, &all).await?;
    ensure_saved(&mut store, &all).await
}

async fn refuses_damaged_content<H: StoreHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    save(&mut harness.open().await, &specimens()).await?;
    ensure!(harness.damage().await, "the harness could damage it before");
    match harness.open().await.load().await {
        Ok(there) => Err(format!("damaged content was taken for good: {there:?}")),
        Err(error) => {
            ensure!(!error.is_retryable(), "a retry can't help against damage: {error}");
            Ok(())
        }
    }
}
