//! Runs the client's blocking calls where they stall nobody.
//!
//! The connection moves into each call and back out of it. If the caller gives up waiting, the
//! call still runs to its end on its thread and the connection is closed there; the next call
//! opens a new one.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_core::Panicked;
use tokio::task::spawn_blocking;

use crate::client::{Client, Failure, Fault};

/// A connection, and the way to get another one.
pub(crate) struct Worker {
    path: PathBuf,
    busy_timeout: Duration,
    client: Option<Client>,
    inline: bool,
}

impl Worker {
    /// A worker that has yet to connect, which its first call does.
    pub(crate) fn new(path: PathBuf, busy_timeout: Duration) -> Self {
        Self { path, busy_timeout, client: None, inline: false }
    }

    /// Makes calls on the caller's own thread from now on.
    pub(crate) fn set_inline(&mut self) {
        self.inline = true;
    }

    /// Closes the connection, which moves what is in the log of writes into the database.
    pub(crate) async fn close(&mut self) -> Result<(), Failure> {
        let client = self.client.take();
        run(self.inline, move || drop(client)).await
    }

    /// Runs `work` with the connection.
    pub(crate) async fn run<R: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Client) -> Result<R, Failure> + Send + 'static,
    ) -> Result<R, Failure> {
        let connected = self.client.take();
        let (path, busy_timeout) = (self.path.clone(), self.busy_timeout);
        let done = run(self.inline, move || {
            let client = match connected {
                Some(client) => client,
                None => Client::open(&path, busy_timeout)?,
            };
            let result = work(&client);
            Ok::<_, Failure>((client, result))
        });
        let (client, result) = done.await??;
        self.client = Some(client);
        result
    }
}

async fn run<R: Send + 'static>(
    inline: bool,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Failure> {
    if inline {
        return Ok(work());
    }
    spawn_blocking(work).await.map_err(|error| match error.try_into_panic() {
        Ok(payload) => Failure::new(Fault::Explained, Panicked::from_payload(payload).to_string()),
        Err(error) => {
            Failure::new(Fault::Explained, format!("the runtime is shutting down: {error}"))
        }
    })
}
