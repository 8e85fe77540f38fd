use std::panic::Location;
use std::sync::Arc;

use tidegate_core::{BoxError, Delivery, OwnedRecord, Record, StepId, Transformed};

use crate::plan::PlanHandle;
use crate::stream::{Stream, Top};
use crate::task::{Head, Intake, Make};

/// The records as the source delivered them. The first step borrows each record from the ledger
/// and makes a value of it.
pub struct RecordStream {
    plan: PlanHandle,
}

impl RecordStream {
    pub(crate) fn new(plan: PlanHandle) -> Self {
        Self { plan }
    }

    /// One value for each record.
    #[track_caller]
    pub fn map<U: Send + 'static>(
        self,
        f: impl Fn(Record<'_>) -> U + Send + Sync + 'static,
    ) -> Stream<Top, U> {
        let step = self.plan.add_step("map", Location::caller());
        self.intake(step, move |delivery: Delivery, step| {
            delivery.transform(step, |record| Ok(Some(f(record))))
        })
    }

    /// A value for each record, or an error: then the record goes to the dead letters.
    #[track_caller]
    pub fn try_map<U: Send + 'static, E: Into<BoxError>>(
        self,
        f: impl Fn(Record<'_>) -> Result<U, E> + Send + Sync + 'static,
    ) -> Stream<Top, U> {
        let step = self.plan.add_step("try_map", Location::caller());
        self.intake(step, move |delivery: Delivery, step| {
            delivery.transform(step, |record| f(record).map(Some).map_err(Into::into))
        })
    }

    /// A value for some of the records; the others are filtered.
    #[track_caller]
    pub fn filter_map<U: Send + 'static>(
        self,
        f: impl Fn(Record<'_>) -> Option<U> + Send + Sync + 'static,
    ) -> Stream<Top, U> {
        let step = self.plan.add_step("filter_map", Location::caller());
        self.intake(step, move |delivery: Delivery, step| {
            delivery.transform(step, |record| Ok(f(record)))
        })
    }

    /// The records themselves, for steps that keep them or send them on as they are. Each one
    /// keeps its batch in memory.
    #[track_caller]
    pub fn records(self) -> Stream<Top, OwnedRecord> {
        let step = self.plan.add_step("records", Location::caller());
        self.intake(step, Delivery::into_records)
    }

    fn intake<F, U>(self, step: StepId, transform: F) -> Stream<Top, U>
    where
        F: Fn(Delivery, StepId) -> Transformed<U> + Send + Sync + 'static,
        U: Send + 'static,
    {
        let transform = Arc::new(transform);
        Stream::new(self.plan, step, move |next| {
            let make: Make<dyn Head> = Arc::new(move |context| {
                Box::new(Intake {
                    transform: Arc::clone(&transform),
                    step,
                    next: next(context),
                    failures: Arc::clone(&context.failures),
                    current: context.current.clone(),
                })
            });
            make
        })
    }
}
