//! How a running pipeline gets on: a line that changes on a terminal, a log line every 10 seconds
//! without one.

use std::fmt;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tidegate_runtime::Status;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::console;

/// Shows the progress whenever it is time.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    ticks: Interval,
    rate: Rate,
}

impl Progress {
    /// Begins. On a terminal `lines` draws the progress, unless results are written there too.
    pub(crate) fn start(lines: &MultiProgress, shares_terminal: bool) -> Self {
        let bar = (console::is_interactive() && !shares_terminal).then(|| {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            lines.add(ProgressBar::new_spinner().with_style(style))
        });
        let every = Duration::from_millis(if bar.is_some() { 200 } else { 10_000 });
        let mut ticks = interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { bar, ticks, rate: Rate::start() }
    }

    /// Waits until it is time to show the progress again. Cancel-safe.
    pub(crate) async fn tick(&mut self) {
        self.ticks.tick().await;
    }

    /// Shows it.
    pub(crate) fn show(&mut self, status: &Status) {
        let rate = self.rate.update(status.read);
        match &self.bar {
            Some(bar) => {
                bar.set_message(Line { status, rate }.to_string());
                bar.tick();
            }
            None => tracing::info!(
                read = status.read,
                written = status.written,
                filtered = status.filtered,
                diverted = status.diverted,
                rate = format_args!("{rate:.0}/s"),
                in_flight = status.in_flight,
                lag = status.lag,
                "progress"
            ),
        }
    }

    /// Takes the line away.
    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Records read a second, over about the last two seconds, or since the last look if that is
/// longer ago.
struct Rate {
    at: Instant,
    read: u64,
    per_second: f64,
}

impl Rate {
    const WINDOW: f64 = 2.0;

    fn start() -> Self {
        Self { at: Instant::now(), read: 0, per_second: 0.0 }
    }

    fn update(&mut self, read: u64) -> f64 {
        let now = Instant::now();
        let seconds = now.duration_since(self.at).as_secs_f64().max(0.001);
        let latest = read.saturating_sub(self.read) as f64 / seconds;
        let weight = (seconds / Self::WINDOW).min(1.0);
        let per_second = self.per_second + (latest - self.per_second) * weight;
        *self = Self { at: now, read, per_second };
        per_second
    }
}

/// The line on the terminal.
struct Line<'a> {
    status: &'a Status,
    rate: f64,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.status;
        write!(
            f,
            "read {}  written {}  filtered {}  diverted {}  {}/s  in flight {}",
            grouped(s.read),
            grouped(s.written),
            grouped(s.filtered),
            grouped(s.diverted),
            grouped(self.rate.round() as u64),
            grouped(s.in_flight),
        )?;
        if let Some(lag) = s.lag {
            write!(f, "  lag {}", grouped(lag))?;
        }
        match s.stalls.first() {
            Some(stall) => write!(f, "  STALLED: {stall}"),
            None => Ok(()),
        }
    }
}

/// `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let numbers = [0, 12, 999, 1_000, 12_345, 1_234_567];
        let texts = ["0", "12", "999", "1,000", "12,345", "1,234,567"];
        assert_eq!(numbers.map(grouped), texts);
    }

    #[test]
    fn the_line_says_everything_that_is_known() {
        let mut status =
            Status { read: 12_345, written: 12_000, filtered: 300, ..Status::default() };
        status.in_flight = 45;
        assert_eq!(
            Line { status: &status, rate: 8_200.4 }.to_string(),
            "read 12,345  written 12,000  filtered 300  diverted 0  8,200/s  in flight 45"
        );
        status.lag = Some(1_000);
        assert!(
            Line { status: &status, rate: 0.0 }.to_string().ends_with("in flight 45  lag 1,000")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_is_that_of_the_last_seconds() {
        let mut rate = Rate::start();
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(rate.update(1_000), 100.0);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(rate.update(1_300), 200.0, "halfway from 100 to 300");
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(rate.update(1_300), 0.0);
    }
}
