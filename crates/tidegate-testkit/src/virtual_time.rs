use std::future::Future;
use std::time::Duration;

use tidegate_core::{Clock, Record, Timestamp};
use tidegate_runtime::{Settings, Threads};

/// The wall-clock time at which virtual time begins: 2001-09-09 01:46:40 UTC.
pub const EPOCH: Timestamp = Timestamp::from_millis(1_000_000_000_000);

/// Runs a test on virtual time: whenever everything waits, the clock jumps to the next moment at
/// which something is due. The same as `#[tokio::test(start_paused = true)]`.
pub fn run_virtual<F: Future>(test: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing that could be missing")
        .block_on(test)
}

/// Default settings, but on the caller's runtime and with its clock.
pub fn virtual_settings() -> Settings {
    Settings { threads: Threads::Current, clock: virtual_clock(), ..Settings::default() }
}

/// A wall clock that begins at [`EPOCH`] and moves with tokio's time. To be made and asked within
/// a tokio runtime.
pub fn virtual_clock() -> Clock {
    let begin = tokio::time::Instant::now();
    Clock::from_fn(move || {
        let passed = i64::try_from(begin.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(EPOCH.as_millis().saturating_add(passed))
    })
}

/// Lets virtual time pass, with everything that happens meanwhile.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// The payload as text; what is not UTF-8 is replaced. For first steps of tests.
pub fn text(record: Record<'_>) -> String {
    String::from_utf8_lossy(record.payload()).into_owned()
}
