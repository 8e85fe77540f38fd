use std::future::Future;

use tidegate_core::{Report as Answers, Sink};

use super::report::{Outcome, Report, ensure, unexpected};

/// Makes sinks of one kind, and reads what they have written from outside.
///
/// Items are numbered; the number must be found again in what was written.
pub trait SinkHarness: Send {
    /// The sink.
    type Sink: Sink;

    /// A new, empty place to write to. Each check gets one.
    fn reset(&mut self) -> impl Future<Output = ()> + Send;

    /// A sink for the place as a new process would make it, not opened yet.
    fn make(&mut self) -> impl Future<Output = Self::Sink> + Send;

    /// The item with this number.
    fn item(&self, number: u64) -> <Self::Sink as Sink>::Item;

    /// An item that can't be written, whatever its neighbours are; `None` if there is none.
    fn bad_item(&self) -> Option<<Self::Sink as Sink>::Item> {
        None
    }

    /// The numbers of all items in the place, read without the sink: in the order in which they
    /// were written if [`SinkHarness::keeps_order`].
    fn read(&mut self) -> impl Future<Output = Vec<u64>> + Send;

    /// Whether the place shows the order of writes.
    fn keeps_order(&self) -> bool;

    /// Makes the next write fail with an error that may pass; false if that can't be done. The
    /// check calls [`SinkHarness::repair`] before it writes again.
    fn break_down(&mut self) -> impl Future<Output = bool> + Send {
        std::future::ready(false)
    }

    /// Undoes [`SinkHarness::break_down`].
    fn repair(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// The rules of a [`Sink`].
pub async fn sink<H: SinkHarness>(harness: &mut H) -> Report {
    let mut report = Report::default();
    harness.reset().await;
    let capabilities = harness.make().await.capabilities();
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
    check!(answers_for_every_item);
    check!(is_durable_when_it_answers);
    check!(survives_without_being_closed);
    check!(adds_to_what_earlier_sinks_wrote);
    check!(writes_as_many_items_as_it_says);
    check!(closes_without_having_written);
    check!(keeps_the_order, if harness.keeps_order(), else "the place shows no order");
    let bad = harness.bad_item().is_some();
    check!(refuses_a_bad_item_alone, if bad, else "the harness knows no bad item");
    check!(repeats_leave_one, if capabilities.idempotent, else "repeats show");
    harness.reset().await;
    let breaks = harness.break_down().await;
    harness.repair().await;
    check!(loses_nothing_by_a_failed_write, if breaks, else "the harness can't break it");
    report
}

async fn opened<H: SinkHarness>(harness: &mut H) -> Result<H::Sink, String> {
    let mut sink = harness.make().await;
    sink.open().await.map_err(unexpected("open"))?;
    Ok(sink)
}

async fn write<H: SinkHarness>(
    harness: &H,
    sink: &mut H::Sink,
    numbers: impl IntoIterator<Item = u64>,
) -> Outcome {
    let items: Vec<_> = numbers.into_iter().map(|number| harness.item(number)).collect();
    let answers = sink.write(&items).await.map_err(unexpected("write"))?;
    ensure!(answers.len() == items.len(), "{} answers to {} items", answers.len(), items.len());
    let refused = refused(answers);
    ensure!(refused.is_empty(), "good items were refused: {refused:?}");
    Ok(())
}

fn refused(answers: Answers) -> Vec<(usize, String)> {
    answers.into_rejections().into_iter().map(|(index, error)| (index, error.to_string())).collect()
}

async fn close<H: SinkHarness>(mut sink: H::Sink) -> Outcome {
    sink.close().await.map_err(unexpected("close"))
}

/// That exactly these are there, in this order if the place shows one.
async fn ensure_there<H: SinkHarness>(
    harness: &mut H,
    expected: impl IntoIterator<Item = u64>,
) -> Outcome {
    let mut there = harness.read().await;
    let mut expected: Vec<_> = expected.into_iter().collect();
    if !harness.keeps_order() {
        there.sort_unstable();
        expected.sort_unstable();
    }
    ensure!(there == expected, "there is {there:?}, expected was {expected:?}");
    Ok(())
}

async fn answers_for_every_item<H: SinkHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let mut sink = opened(harness).await?;
    for (first, count) in [(0, 1), (1, 2), (3, 100)] {
        write(harness, &mut sink, first..first + count).await?;
    }
    close::<H>(sink).await?;
    ensure_there(harness, 0..103).await
}

async fn is_durable_when_it_answers<H: SinkHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let mut sink = opened(harness).await?;
    for number in 0..5 {
        write(harness, &mut sink, [number]).await?;
        // The sink is still open: nothing may wait for its close.
        ensure_there(harness, 0..=number).await?;
    }
    close::<H>(sink).await
}

async fn survives_without_being_closed<H: SinkHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let mut sink = opened(harness).await?;
    write(harness, &mut sink, 0..10).await?;
    drop(sink);
    ensure_there(harness, 0..10).await?;
    let mut next = opened(harness).await?;
    write(harness, &mut next, 10..20).await?;
    ensure_there(harness, 0..20).await?;
    close::<H>(next).await
}

async fn adds_to_what_earlier_sinks_wrote<H: SinkHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    for run in 0..3 {
        let mut sink = opened(harness).await?;
        write(harness, &mut sink, run * 10..run * 10 + 10).await?;
        close::<H>(sink).await?;
    }
    ensure_there(harness, 0..30).await
}

async fn writes_as_many_items_as_it_says<H: SinkHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let mut sink = opened(harness).await?;
    // No need to go to the end of what is only bounded by memory.
    let most = sink.capabilities().max_items.min(20_000) as u64;
    write(harness, &mut sink, 0..most).await?;
    close::<H>(sink).await?;
    ensure_there(harness, 0..most).await
}

async fn closes_without_having_written<H: SinkHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let sink = opened(harness).await?;
    close::<H>(sink).await?;
    ensure_there(harness, []).await
}

async fn keeps_the_order<H: SinkHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let mut sink = opened(harness).await?;
    let numbers: Vec<u64> = (0..500).map(|n| n * 7919 % 500).collect();
    for part in numbers.chunks(37) {
        write(harness, &mut sink, part.iter().copied()).await?;
    }
    close::<H>(sink).await?;
    ensure_there(harness, numbers).await
}

async fn refuses_a_bad_item_alone<H: SinkHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let mut sink = opened(harness).await?;
    for (batch, at) in [0usize, 3, 6].into_iter().enumerate() {
        let numbers = batch as u64 * 6..batch as u64 * 6 + 6;
        let mut items: Vec<_> = numbers.map(|number| harness.item(number)).collect();
        items.insert(at, harness.bad_item().ok_or("the bad item is gone")?);
        let answers = sink.write(&items).await.map_err(unexpected("write"))?;
        ensure!(answers.len() == 7, "{} answers to 7 items", answers.len());
        let refused = refused(answers);
        ensure!(
            refused.len() == 1 && refused[0].0 == at && !refused[0].1.is_empty(),
            "item {at} must be refused with a reason, and no other: {refused:?}"
        );
    }
    let bad = harness.bad_item().ok_or("the bad item is gone")?;
    let answers = sink.write(&[bad]).await.map_err(unexpected("write"))?;
    ensure!(refused(answers).len() == 1, "a bad item alone was not refused");
    close::<H>(sink).await?;
    ensure_there(harness, 0..18).await
}

async fn repeats_leave_one<H: SinkHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let mut sink = opened(harness).await?;
    write(harness, &mut sink, 0..10).await?;
    write(harness, &mut sink, 5..15).await?;
    write(harness, &mut sink, [3, 3, 3]).await?;
    close::<H>(sink).await?;
    let mut there = harness.read().await;
    there.sort_unstable();
    ensure!(there == (0..15).collect::<Vec<_>>(), "there is {there:?}");
    Ok(())
}

async fn loses_nothing_by_a_failed_write<H: SinkHarness>(harness: &mut H) -> Outcome {
    harness.reset().await;
    let mut sink = opened(harness).await?;
    write(harness, &mut sink, 0..10).await?;
    harness.break_down().await;
    let items: Vec<_> = (10..20).map(|number| harness.item(number)).collect();
    match sink.write(&items).await {
        Ok(_) => return Err("it answered although it was broken".to_owned()),
        Err(error) => ensure!(error.is_retryable(), "it gave up: {error}"),
    }
    harness.repair().await;
    write(harness, &mut sink, 10..20).await?;
    close::<H>(sink).await?;
    let mut there = harness.read().await;
    there.sort_unstable();
    there.dedup();
    ensure!(there == (0..20).collect::<Vec<_>>(), "there is {there:?}");
    Ok(())
}
