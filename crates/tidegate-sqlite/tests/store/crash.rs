//! A process that saves is killed at whatever it is doing, over and over.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tidegate_core::{Partition, PositionStore as _};
use tidegate_sqlite::{SqliteStore, SqliteStoreConfig};

use crate::{StoreFile, load, position};

const STORE: &str = "TIDEGATE_TEST_STORE";

/// Not a test of its own: what the killed process runs. It saves two partitions in one go, always
/// at the same frontier, and says so after each save.
#[tokio::test]
#[ignore = "run by the tests below, in a process of its own"]
async fn saves_until_it_is_killed() {
    let path = std::env::var(STORE).expect("run by the tests below only");
    let mut store = SqliteStore::open(&SqliteStoreConfig::new(path), "p").unwrap();
    let begin = store.load().await.unwrap().first().map_or(0, |saved| saved.frontier.get());
    println!("\nopened");
    for frontier in begin + 1.. {
        let both = ["a", "b"].map(|stream| position(Partition::whole(stream), frontier, b"x"));
        store.save(&both).await.unwrap();
        println!("\nsaved {frontier}");
    }
}

fn start(path: &Path) -> (Child, impl Iterator<Item = String>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::saves_until_it_is_killed", "--ignored", "--nocapture"])
        .env(STORE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    (child, lines.filter(|line| line == "opened" || line.starts_with("saved ")))
}

/// P7, P12: what was said to be saved is there, both partitions of a save or none.
#[tokio::test]
async fn a_killed_process_leaves_every_save_whole_and_its_lock_free() {
    let file = StoreFile::absent();
    let mut last = 0;
    for round in 0..10 {
        let (mut child, mut lines) = start(&file.path);
        assert_eq!(lines.next().as_deref(), Some("opened"), "round {round}");
        let said = lines.by_ref().nth(round * 3).unwrap();
        child.kill().unwrap();
        // What it said before it died, but hadn't been read yet, counts too.
        let said = lines.last().unwrap_or(said);
        child.wait().unwrap();
        let said: u64 = said.strip_prefix("saved ").unwrap().parse().unwrap();
        assert!(said > last, "it went on where the one before was killed");

        let mut store = file.open("p").unwrap();
        let saved = load(&mut store).await;
        last = saved[0].frontier.get();
        assert!(last == said || last == said + 1, "said {said}, loaded {last}");
        let whole = ["a", "b"].map(|stream| position(Partition::whole(stream), last, b"x"));
        assert_eq!(saved, whole);
    }
}

/// P22
#[test]
fn a_second_process_is_refused_while_the_first_runs() {
    let file = StoreFile::absent();
    let (mut child, mut lines) = start(&file.path);
    assert_eq!(lines.next().as_deref(), Some("opened"));
    let error = file.open("p").unwrap_err();
    assert!(error.to_string().contains(&format!("process {}", child.id())), "{error}");
    file.open("another").unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    file.open("p").unwrap();
}
