use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fault::Part;
use crate::{Fault, Process};

/// A call that can be made to go wrong, of a source or a sink. Cheap to clone; all clones are the
/// same point.
///
/// Faults are taken in the order in which they were planned, one a call; when there are none left,
/// calls go well.
#[derive(Clone, Debug, Default)]
pub struct FaultPoint(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    next: VecDeque<Fault>,
    always: Option<Fault>,
}

/// A call that was made to fail.
pub(crate) struct Failed {
    pub(crate) message: String,
    pub(crate) retryable: bool,
}

impl FaultPoint {
    /// The next call that has no fault yet gets this one.
    pub fn plan(&self, fault: Fault) {
        self.lock().next.push_back(fault);
    }

    /// The next `calls` calls that have no fault yet get this one each.
    pub fn plan_times(&self, calls: usize, fault: Fault) {
        self.lock().next.extend(std::iter::repeat_n(fault, calls));
    }

    /// Every call that has no fault of its own gets this one, until [`FaultPoint::clear`].
    pub fn always(&self, fault: Fault) {
        self.lock().always = Some(fault);
    }

    /// From now on calls go well.
    pub fn clear(&self) {
        *self.lock() = Plan::default();
    }

    /// Makes one call: `work`, with whatever fault is planned around it.
    pub(crate) async fn call<R>(
        &self,
        process: &Process,
        work: impl FnOnce() -> R,
    ) -> Result<R, Failed> {
        process.must_be_alive().await;
        let fault = {
            let mut plan = self.lock();
            plan.next.pop_front().or_else(|| plan.always.clone())
        };
        let (mut work, mut result) = (Some(work), None);
        for part in fault.into_iter().flat_map(|fault| fault.parts) {
            match part {
                Part::Work => result = work.take().map(|work| work()).or(result),
                Part::Delay(time) => tokio::time::sleep(time).await,
                Part::Hold(gate) => gate.pass().await,
                Part::Fail { message, retryable } => return Err(Failed { message, retryable }),
                Part::Panic(message) => panic!("{message}"),
                Part::Crash => process.crash(),
            }
            // It may have crashed here, or elsewhere while this call waited.
            process.must_be_alive().await;
        }
        let late = work.map(|work| work());
        Ok(result.or(late).expect("the work was done where the fault said, or just now"))
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;

    async fn call(point: &FaultPoint, process: &Process, done: &Cell<u32>) -> Result<(), String> {
        point.call(process, || done.set(done.get() + 1)).await.map_err(|failed| failed.message)
    }

    #[tokio::test(start_paused = true)]
    async fn faults_come_in_order_and_then_calls_go_well() {
        let (point, process, done) = (FaultPoint::default(), Process::new(), Cell::new(0));
        point.plan_times(2, Fault::fail("down"));
        point.plan(Fault::delay(Duration::from_secs(60)).and(Fault::lose_reply()));
        assert_eq!(call(&point, &process, &done).await, Err("down".to_owned()));
        assert_eq!(call(&point, &process, &done).await, Err("down".to_owned()));
        assert_eq!(done.get(), 0, "a call that failed has done nothing");
        let before = tokio::time::Instant::now();
        assert_eq!(call(&point, &process, &done).await, Err("the reply got lost".to_owned()));
        assert_eq!((done.get(), before.elapsed().as_secs()), (1, 60));
        assert_eq!(call(&point, &process, &done).await, Ok(()));
        assert_eq!(done.get(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_crash_no_call_returns_or_does_anything() {
        let (point, process, done) = (FaultPoint::default(), Process::new(), Cell::new(0));
        point.plan(Fault::work().and(Fault::crash()));
        for expected in [1, 1] {
            let call = call(&point, &process, &done);
            assert!(tokio::time::timeout(Duration::from_secs(600), call).await.is_err());
            assert_eq!(done.get(), expected);
        }
        assert!(process.is_crashed());
    }
}
