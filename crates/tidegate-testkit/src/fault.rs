use std::time::Duration;

use crate::Gate;

/// What goes wrong in one call: small parts, joined with [`Fault::and`], that happen one after
/// another.
///
/// The call does its work where [`Fault::work`] stands, or at the end if it stands nowhere and
/// nothing before has ended the call.
///
/// ```
/// use std::time::Duration;
/// use tidegate_testkit::Fault;
/// // Takes a minute, is then done, but its caller hears that it failed:
/// let lost = Fault::delay(Duration::from_secs(60)).and(Fault::lose_reply());
/// // Is done, and then the process dies before anybody hears of it:
/// let crash = Fault::work().and(Fault::crash());
/// # let _ = (lost, crash);
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    pub(crate) parts: Vec<Part>,
}

#[derive(Clone, Debug)]
pub(crate) enum Part {
    Work,
    Delay(Duration),
    Hold(Gate),
    Fail { message: String, retryable: bool },
    Panic(String),
    Crash,
}

impl Fault {
    fn one(part: Part) -> Self {
        Self { parts: vec![part] }
    }

    /// Here the call does what it is there for.
    pub fn work() -> Self {
        Self::one(Part::Work)
    }

    /// It takes so long.
    pub fn delay(time: Duration) -> Self {
        Self::one(Part::Delay(time))
    }

    /// It waits at the gate.
    pub fn hold(gate: &Gate) -> Self {
        Self::one(Part::Hold(gate.clone()))
    }

    /// It fails with an error that may pass.
    pub fn fail(message: impl Into<String>) -> Self {
        Self::one(Part::Fail { message: message.into(), retryable: true })
    }

    /// It fails with an error that will not pass.
    pub fn fail_for_good(message: impl Into<String>) -> Self {
        Self::one(Part::Fail { message: message.into(), retryable: false })
    }

    /// It is done, but the caller gets an error that may pass.
    pub fn lose_reply() -> Self {
        Self::work().and(Self::fail("the reply got lost"))
    }

    /// It panics.
    pub fn panic(message: impl Into<String>) -> Self {
        Self::one(Part::Panic(message.into()))
    }

    /// The [`Process`](crate::Process) crashes here, and the call never returns.
    pub fn crash() -> Self {
        Self::one(Part::Crash)
    }

    /// First this, then the other.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self
    }
}
