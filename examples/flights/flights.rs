//! The flights job as a library program: the same source, rules, table and dead letters as
//! `flights.yaml`.
//!
//! ```text
//! cargo run --release --example flights
//! python3 examples/flights/truth.py
//! ```

#![allow(clippy::print_stdout)] // it is a program

use serde::{Deserialize, Serialize};
use tidegate::core::BoxPositionStore;
use tidegate::file::{FileSink, FileSinkConfig, FileSource, FileSourceConfig};
use tidegate::prelude::*;
use tidegate::sqlite::{
    ColumnType, Columns, SqliteSink, SqliteSinkConfig, SqliteStore, SqliteStoreConfig,
};

/// The fields of a departure that the job needs; the data has more.
#[derive(Deserialize)]
struct Departure {
    minute: u32,
    dep_time: Option<u32>,
    arr_time: Option<u32>,
    dep_delay: Option<i64>,
    arr_delay: Option<i64>,
    carrier: String,
    flight: u32,
    tailnum: Option<String>,
    origin: String,
    dest: String,
    air_time: Option<f64>,
    distance: u32,
    time_hour: String,
}

/// A row of the table.
#[derive(Serialize)]
struct Flight {
    id: String,
    carrier: String,
    flight: u32,
    tailnum: Option<String>,
    origin: String,
    dest: String,
    route: String,
    scheduled_at: String,
    dep_delay: Option<i64>,
    arr_delay: Option<i64>,
    diverted: bool,
    late: Option<bool>,
    delay_bucket: Option<&'static str>,
    made_up: Option<i64>,
    distance: u32,
    air_time: Option<f64>,
    speed_mph: Option<f64>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = "examples/flights/out";
    let store =
        SqliteStore::open(&SqliteStoreConfig::new(format!("{out}/flights.state.db")), "flights")?;
    let departures = FileSource::new(
        FileSourceConfig::new("examples/flights/data/*.jsonl.gz"),
        Some(BoxPositionStore::new(store)),
    )?;
    let table = SqliteSinkConfig::new(format!("{out}/flights.db"), "flights")
        .key(["id"])
        .create(true)
        .columns(columns());
    let dead_letters = FileSink::new(FileSinkConfig::new(format!("{out}/dead.jsonl")))?;

    let flights = Pipeline::new("flights")
        .dead_letters(dead_letters)
        .source(departures)
        .try_map(|record| serde_json::from_slice::<Departure>(record.payload()))
        .named("parse")
        .filter(|departure| departure.dep_time.is_some())
        .try_map(arrived)
        .named("arrived")
        .map(flight)
        .sink(SqliteSink::new(table));
    print!("{}", flights.guarantee());
    println!("{}", flights.run().await?);
    Ok(())
}

/// It left, and nobody wrote down that it landed anywhere: a dead letter.
fn arrived(departure: Departure) -> Result<Departure, String> {
    match departure.arr_time {
        Some(_) => Ok(departure),
        None => Err(format!(
            "flight {}{} departed but has no arrival",
            departure.carrier, departure.flight
        )),
    }
}

fn flight(departure: Departure) -> Flight {
    let Departure { carrier, flight, origin, dest, dep_delay, arr_delay, .. } = departure;
    // The hour it was scheduled for, with the minute: 2013-01-01T05:00:00Z and 15.
    let hour = departure.time_hour.get(..14).unwrap_or_default();
    Flight {
        id: format!("{carrier}{flight}-{origin}-{}", departure.time_hour),
        route: format!("{origin}-{dest}"),
        scheduled_at: format!("{hour}{:02}:00Z", departure.minute),
        // An arrival without an arrival delay: it landed somewhere else.
        diverted: arr_delay.is_none(),
        late: arr_delay.map(|delay| delay >= 15),
        delay_bucket: arr_delay.map(|delay| match delay {
            ..0 => "early",
            0..15 => "on time",
            15..60 => "late",
            60.. => "very late",
        }),
        made_up: dep_delay.zip(arr_delay).map(|(departure, arrival)| departure - arrival),
        speed_mph: departure
            .air_time
            .map(|minutes| (f64::from(departure.distance) * 600.0 / minutes).round() / 10.0),
        carrier,
        flight,
        tailnum: departure.tailnum,
        origin,
        dest,
        dep_delay,
        arr_delay,
        distance: departure.distance,
        air_time: departure.air_time,
    }
}

fn columns() -> Columns {
    use ColumnType::{Boolean, Integer, Real, Text, Timestamp};
    Columns::from_iter([
        ("id", Text),
        ("carrier", Text),
        ("flight", Integer),
        ("tailnum", Text),
        ("origin", Text),
        ("dest", Text),
        ("route", Text),
        ("scheduled_at", Timestamp),
        ("dep_delay", Integer),
        ("arr_delay", Integer),
        ("diverted", Boolean),
        ("late", Boolean),
        ("delay_bucket", Text),
        ("made_up", Integer),
        ("distance", Integer),
        ("air_time", Integer),
        ("speed_mph", Real),
    ])
}
