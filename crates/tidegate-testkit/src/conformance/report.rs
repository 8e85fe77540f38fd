use std::fmt;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tidegate_core::Panicked;

/// Why a check did not pass.
pub(super) type Outcome = Result<(), String>;

/// A check that did not run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// Its name.
    pub check: &'static str,
    /// Why it can't run on this part.
    pub reason: &'static str,
}

/// What became of each check of a suite.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[must_use = "a report says nothing until it is asserted"]
pub struct Report {
    /// The checks that passed.
    pub passed: Vec<&'static str>,
    /// The checks that did not run.
    pub skipped: Vec<Skipped>,
    /// The checks that failed, with what was wrong.
    pub failed: Vec<(&'static str, String)>,
}

impl Report {
    /// Panics unless every check has run and passed.
    #[track_caller]
    pub fn assert_passed(&self) {
        self.assert_passed_except(&[]);
    }

    /// Panics unless exactly these checks were skipped, and all others have passed.
    #[track_caller]
    pub fn assert_passed_except(&self, skipped: &[&str]) {
        let were: Vec<_> = self.skipped.iter().map(|skipped| skipped.check).collect();
        let as_expected = were.iter().all(|check| skipped.contains(check))
            && skipped.iter().all(|check| were.contains(check));
        assert!(
            self.failed.is_empty() && as_expected,
            "expected to be skipped: {skipped:?}\n{self}"
        );
    }

    pub(super) fn skip(&mut self, check: &'static str, reason: &'static str) {
        self.skipped.push(Skipped { check, reason });
    }

    /// Runs a check; a panic in it or in the part is a failure too.
    pub(super) async fn run(&mut self, check: &'static str, work: impl Future<Output = Outcome>) {
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(Ok(())) => self.passed.push(check),
            Ok(Err(what)) => self.failed.push((check, what)),
            Err(panic) => {
                let what = Panicked::from_payload(panic).to_string();
                self.failed.push((check, what));
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.passed {
            writeln!(f, "passed   {check}")?;
        }
        for Skipped { check, reason } in &self.skipped {
            writeln!(f, "SKIPPED  {check}: {reason}")?;
        }
        for (check, what) in &self.failed {
            writeln!(f, "FAILED   {check}: {what}")?;
        }
        Ok(())
    }
}

/// Fails the check unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}
pub(super) use ensure;

/// An error of the part, within a check.
pub(super) fn unexpected<E: Into<tidegate_core::BoxError>>(
    during: &'static str,
) -> impl Fn(E) -> String {
    move |error| format!("{during}: {}", tidegate_core::error_chain(&error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failure_a_panic_and_an_unexpected_skip_are_loud() {
        let mut report = Report::default();
        report.run("good", async { Ok(()) }).await;
        report.assert_passed();
        report.skip("other", "it can't");
        report.assert_passed_except(&["other"]);
        let asserts = |report: &Report, skipped: &[&str]| {
            std::panic::catch_unwind(AssertUnwindSafe(|| report.assert_passed_except(skipped)))
        };
        assert!(asserts(&report, &[]).is_err(), "a skipped check must be named");
        assert!(asserts(&report, &["other", "good"]).is_err(), "a named check must be skipped");
        let mut failed = report.clone();
        failed.run("bad", async { Err("wrong".to_owned()) }).await;
        assert!(asserts(&failed, &["other"]).is_err());
        report.run("worse", async { panic!("very wrong") }).await;
        assert_eq!(report.failed, [("worse", "panicked: very wrong".to_owned())]);
    }
}
