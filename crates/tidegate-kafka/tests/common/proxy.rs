//! A proxy in front of the broker that can cut and block connections.
//!
//! The broker's listener for it is advertised at a port where only this proxy listens, so a client
//! that begins there stays behind it.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, MutexGuard, watch};

use super::Broker;

const LISTENS: &str = "127.0.0.1:19095";
const BROKER: &str = "127.0.0.1:19094";

/// There is one port for it, so there can be one at a time.
static ONE: Mutex<()> = Mutex::const_new(());

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Everything passes.
    Open,
    /// Connections are closed, and new ones, too.
    Cut,
    /// Connections stay, but nothing passes.
    Blocked,
}

pub(crate) struct Proxy {
    mode: Arc<watch::Sender<Mode>>,
    task: tokio::task::JoinHandle<()>,
    _one: MutexGuard<'static, ()>,
}

impl Proxy {
    pub(crate) async fn start() -> Self {
        let one = ONE.lock().await;
        let mode = Arc::new(watch::Sender::new(Mode::Open));
        let (listener, modes) = (TcpListener::bind(LISTENS).await.unwrap(), Arc::clone(&mode));
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(connection(client, modes.subscribe()));
            }
        });
        Self { mode, task, _one: one }
    }

    /// The broker behind the proxy.
    pub(crate) fn broker(&self) -> Broker {
        Broker { bootstrap: LISTENS.to_owned(), replicas: 1 }
    }

    pub(crate) fn open(&self) {
        self.mode.send_replace(Mode::Open);
    }

    pub(crate) fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }

    pub(crate) fn block(&self) {
        self.mode.send_replace(Mode::Blocked);
    }

    /// Closes the connections that there are; new ones are let through.
    pub(crate) async fn hiccup(&self) {
        self.cut();
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.open();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}

async fn connection(client: TcpStream, mut mode: watch::Receiver<Mode>) {
    if *mode.borrow_and_update() == Mode::Cut {
        return;
    }
    let Ok(broker) = TcpStream::connect(BROKER).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_broker, to_broker) = broker.into_split();
    let both = async {
        tokio::select! {
            () = pass(from_client, to_broker, mode.clone()) => {}
            () = pass(from_broker, to_client, mode.clone()) => {}
        }
    };
    let mut other = mode.clone();
    tokio::select! {
        () = both => {}
        _ = other.wait_for(|mode| *mode == Mode::Cut) => {}
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read) = from.read(&mut buffer).await
        && read > 0
        && mode.wait_for(|mode| *mode != Mode::Blocked).await.is_ok()
        && to.write_all(&buffer[..read]).await.is_ok()
    {}
}
