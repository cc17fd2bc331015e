//! Delays of the flights that left New York City, by carrier and by aircraft, kept up to date with every flight.
//!
//! For each input row one output row per kind of key: `by,key,flights,known_delays,delay_sum,mean_delay`. With several
//! files or workers the rows interleave; the last row of a key is the answer. Kill it at any moment and start it again:
//! the output is that of a run that was never disturbed.
//!
//! ```sh
//! cargo run --release --example flights
//! cargo run --release --example flights -- --rate 5000 --workers 2
//! ```

use flott::prelude::*;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Error as IoError, ErrorKind, Write};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(version)]
struct Args {
    /// Files to read [default: examples/data/flights-2013-01.csv of the repository]
    #[arg(long, value_name = "GLOB")]
    input: Option<String>,
    /// Directory for the output [default: target/flights/out of the repository]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Read only so many records a second
    #[arg(long, value_name = "N")]
    rate: Option<u64>,
}

/// What we read of a flight. Other columns are ignored.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Flight {
    carrier: String,
    #[serde(deserialize_with = "unless_na")]
    tailnum: Option<String>,
    #[serde(deserialize_with = "unless_na")]
    dep_delay: Option<i64>,
}

/// Missing values are written `NA`.
fn unless_na<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    let text = String::deserialize(deserializer)?;
    if text == "NA" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error| serde::de::Error::custom(format!("`{text}`: {error}")))
}

/// The state of one key.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Delays {
    flights: u64,
    known: u64,
    sum: i64,
}

impl Delays {
    fn add(&mut self, delay: Option<i64>) {
        self.flights += 1;
        self.known += u64::from(delay.is_some());
        self.sum += delay.unwrap_or(0);
    }

    /// With two decimals; empty if no delay is known.
    fn mean(&self) -> String {
        if self.known == 0 { String::new() } else { format!("{:.2}", self.sum as f64 / self.known as f64) }
    }
}

/// A row of the output.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    by: String,
    key: String,
    flights: u64,
    known_delays: u64,
    delay_sum: i64,
    mean_delay: String,
}

/// Counts by one kind of key, which is also the operator's name.
fn count_by(by: &'static str, flights: Stream<(String, Option<i64>)>) -> Stream<Row> {
    flights.key_by(|(key, _)| key.clone()).fold(by, Delays::default(), |delays, (_, delay)| delays.add(delay)).map(
        move |(key, delays)| Row {
            by: by.to_owned(),
            key,
            flights: delays.flights,
            known_delays: delays.known,
            delay_sum: delays.sum,
            mean_delay: delays.mean(),
        },
    )
}

fn main() -> flott::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().unwrap_or_else(|_| PathBuf::from("."));
    let work = root.join("target/flights");
    let mut output = work.join("out");
    let mut prints_json = false;

    flott::main_with::<Args>("flights", |args, job| {
        let data = root.join("examples/data/flights-2013-01.csv");
        let input = args.input.unwrap_or_else(|| data.display().to_string());
        output = args.output.unwrap_or_else(|| output.clone());
        job.checkpoint_dir(work.join("checkpoints").display().to_string());

        let mut flights = job.source("flights", FileSource::csv::<Flight>(input));
        if let Some(rate) = args.rate {
            flights = flights.throttle(rate);
        }
        let by_carrier = flights.clone().map(|flight| (flight.carrier, flight.dep_delay));
        let by_tailnum = flights.flat_map(|flight| flight.tailnum.map(|tailnum| (tailnum, flight.dep_delay)));
        count_by("carrier", by_carrier).union(count_by("tailnum", by_tailnum)).sink("out", FileSink::csv(&output));
        prints_json = std::env::args_os().any(|word| word == "--json");
    })?;

    // With `--json` the standard output belongs to the events.
    if !prints_json {
        let carriers = carriers(&output)
            .map_err(|error| flott::Error::failed(format!("cannot read {}: {error}", output.display())))?;
        match print(&carriers, &output) {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            printed => printed.map_err(|error| flott::Error::failed(format!("cannot print the table: {error}")))?,
        }
    }
    Ok(())
}

/// Reads the committed files back, in the order of their names: the last row of a carrier is the answer.
fn carriers(output: &Path) -> Result<Vec<Row>, IoError> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(output)?.map(|entry| Ok(entry?.path())).collect::<Result<_, IoError>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "csv") && !is_hidden(path));
    files.sort();
    // A key's rows all come from one subtask, in the order of its parts.
    let mut carriers: BTreeMap<String, Row> = BTreeMap::new();
    for file in files {
        for row in csv::Reader::from_path(file)?.deserialize() {
            let row: Row = row?;
            if row.by == "carrier" {
                carriers.insert(row.key.clone(), row);
            }
        }
    }
    Ok(carriers.into_values().collect())
}

/// Prints a table of the carriers, and where the output is.
fn print(carriers: &[Row], output: &Path) -> Result<(), IoError> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:<8}{:>8}{:>8}{:>12}{:>12}", "carrier", "flights", "known", "delay sum", "mean delay")?;
    for Row { key, flights, known_delays, delay_sum, mean_delay, .. } in carriers {
        writeln!(out, "{key:<8}{flights:>8}{known_delays:>8}{delay_sum:>12}{mean_delay:>12}")?;
    }
    writeln!(out, "{}", output.display())?;
    out.flush()
}

/// Parts that are not committed yet begin with a dot.
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}
