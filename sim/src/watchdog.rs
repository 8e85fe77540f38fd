//! Ends the process if a seed takes too much real time.
//!
//! In virtual time a loop that never waits is not seen by any checker: the time stands still. This
//! is the only thread beside the simulation, and it touches nothing of it.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Far more than any seed takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits for the next seed to begin, or for the end.
pub(crate) struct Watchdog(Option<Sender<(u64, String)>>);

impl Watchdog {
    /// Begins to watch. Without a thread for it nothing is watched.
    pub(crate) fn start() -> Self {
        let (sender, seeds) = channel();
        let thread = std::thread::Builder::new().name("watchdog".to_owned());
        Self(thread.spawn(move || watch(&seeds)).ok().map(|_| sender))
    }

    /// A seed begins; the command repeats it.
    pub(crate) fn begins(&self, seed: u64, command: String) {
        if let Some(sender) = &self.0 {
            // The thread ends only with this.
            let _ = sender.send((seed, command));
        }
    }
}

fn watch(seeds: &Receiver<(u64, String)>) {
    let mut running = None;
    loop {
        match seeds.recv_timeout(LIMIT) {
            Ok(seed) => running = Some(seed),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let Some((seed, command)) = &running else { continue };
                let _ = writeln!(
                    std::io::stderr(),
                    "seed {seed} failed: it spins (P38): no end after {} s, in which the virtual \
                     time may stand still\n  {command}",
                    LIMIT.as_secs()
                );
                std::process::exit(1);
            }
        }
    }
}
