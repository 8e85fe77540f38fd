//! Ends: of one life, for a reason, and of the whole run, in good order.

use std::time::Duration;

use tidegate_runtime::{Handle, PipelineError, PipelineErrorKind, Summary};

use super::World;
use crate::trace::Event;

/// How an incarnation ended.
pub type Outcome = Result<Summary, PipelineError>;

impl World {
    /// By when the process, if it was asked to stop at `stopped_at`, must have ended.
    pub fn must_end_by(&self, incarnation: u32, stopped_at: Duration) -> Duration {
        let paused = self.lock().life(incarnation).paused_until;
        let faults = &self.scenario().faults;
        let slack = faults.slowest * 20 + Duration::from_secs(10);
        stopped_at.max(paused) + self.scenario().settings.drain + slack
    }

    /// A life has ended by itself: was there a reason for it to end like this?
    pub fn ended(&self, incarnation: u32, outcome: &Outcome) {
        let (fatal, stopped, written) = {
            let mut state = self.lock();
            let life = state.life(incarnation);
            if !std::mem::take(&mut life.alive) {
                return;
            }
            life.changed.notify_waiters();
            (life.fatal, life.stopped_at.is_some(), life.written)
        };
        self.note(&Event::Ended { incarnation, outcome: kind_of(outcome) });
        match outcome {
            Ok(summary) => {
                if fatal.certain {
                    self.violated("P7: a failure is not swallowed", format!("{summary}"));
                }
                if !stopped && !summary.ended {
                    self.violated("P32: a pipeline ends for a reason", format!("{summary}"));
                }
                let status = &summary.status;
                if status.written != written {
                    let what = format!("{written} items were confirmed: {status:?}");
                    self.violated("P53: the counters are right", what);
                }
                if status.in_flight != 0 || status.in_flight_bytes != 0 || status.failed != 0 {
                    self.violated("P35: nothing is in flight at the end", format!("{status:?}"));
                }
            }
            Err(error) => {
                let has_reason = match error.kind() {
                    PipelineErrorKind::Message { .. } => fatal.message,
                    PipelineErrorKind::Source { .. } => fatal.source,
                    PipelineErrorKind::Sink { .. } => fatal.sink,
                    PipelineErrorKind::Contract { .. } => fatal.short,
                    PipelineErrorKind::Panicked { .. } | PipelineErrorKind::Unanswered { .. } => {
                        fatal.panic
                    }
                    _ => false,
                };
                if !has_reason {
                    self.violated("P9: nothing fails without a reason", format!("{error}"));
                }
            }
        }
        self.lets_go_of_all(incarnation);
    }

    /// Everything is committed. If nothing happened for a while, this must not have taken longer
    /// than the interval of commits (P3, P10): an idle stream is committed, too.
    pub fn check_promptness(&self) {
        let scenario = self.scenario();
        if scenario.shape.has_throttle() {
            // Messages of several partitions may wait for one another at the throttle.
            return;
        }
        let busy_at = self.lock().busy_at.max(scenario.faults.calm_at);
        let slow_call = scenario.faults.slowest * 2 + Duration::from_millis(500);
        let work = scenario.shape.slowness() + slow_call;
        let [_, longest_pause, _] = scenario.settings.retry;
        let deadline = busy_at + work + scenario.settings.commit_every + longest_pause;
        if self.now() > deadline {
            self.violated(
                "P3: what is settled is committed within the interval",
                format!("nothing has happened since {:.3} s", busy_at.as_secs_f64()),
            );
        }
    }

    /// When something last happened: now, while a call of a source goes on.
    fn quiet_since(&self) -> Duration {
        let now = self.now();
        let state = self.lock();
        let calling = state.incarnations.iter().any(|life| life.alive && life.calls > 0);
        if calling { now.max(state.busy_at) } else { state.busy_at }
    }

    /// Nothing is left to do: everybody who is alive must say so (P31, P33).
    pub async fn check_idleness(&self) {
        loop {
            // The watchdog looks once a second, but for while a call of the source takes long.
            let quiet_at = self.quiet_since() + Duration::from_millis(2100);
            if quiet_at <= self.now() {
                break;
            }
            self.sleep_until(quiet_at).await;
        }
        let state = self.lock();
        let lives = state.incarnations.iter().filter(|life| life.alive);
        let all: Vec<_> =
            lives.filter_map(|life| life.handle.as_ref()).map(Handle::status).collect();
        drop(state);
        for status in all {
            let idle = status.in_flight == 0 && status.in_flight_bytes == 0;
            if !idle || !status.is_live() || status.lag.is_some_and(|lag| lag > 0) {
                self.violated("P31: who has nothing to do is green", format!("{status:?}"));
            }
        }
    }

    /// All is done: no instance is started any more, and those that run are asked to stop.
    pub fn retire(&self) {
        self.lock().retired = true;
        self.0.progress.notify_waiters();
        self.stop_all();
    }

    /// Whether all is done.
    pub fn is_retired(&self) -> bool {
        self.lock().retired
    }

    /// Waits for so long, or until all is done.
    pub async fn pause_before_restart(&self, pause: Duration) {
        tokio::select! {
            biased;
            () = self.wait_for(Self::is_retired) => {}
            () = self.sleep_until(self.now() + pause) => {}
        }
    }

    /// How those that live stand, for the report of a stall.
    pub fn standing(&self) -> String {
        let state = self.lock();
        let lives = state.incarnations.iter().enumerate().filter(|(_, life)| life.alive);
        let lives: Vec<String> = lives
            .map(|(number, life)| {
                let status = life.handle.as_ref().map(Handle::status);
                format!("incarnation {number}: {status:?}")
            })
            .collect();
        lives.join(", ")
    }
}

fn kind_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Ok(summary) if summary.ended => "came to its end",
        Ok(_) => "stopped",
        Err(error) => match error.kind() {
            PipelineErrorKind::Settings(_) => "settings",
            PipelineErrorKind::Message { .. } => "message",
            PipelineErrorKind::Unanswered { .. } => "unanswered",
            PipelineErrorKind::Source { .. } => "source",
            PipelineErrorKind::Sink { .. } => "sink",
            PipelineErrorKind::Contract { .. } => "contract",
            PipelineErrorKind::Panicked { .. } => "panicked",
            _ => "another error",
        },
    }
}
