//! Readings of sensors, some of which are broken: the mean of each sensor goes one way, what cannot be read another, with the
//! reason.
//!
//! ```sh
//! printf 'a,20.5\nb,warm\na,21.5\n' > /tmp/readings.txt
//! cargo run -p flott --example dead_letter -- --input /tmp/readings.txt
//! ```

use flott::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(clap::Args)]
struct Arguments {
    /// Lines of a sensor's name, a comma, and degrees.
    #[arg(long, default_value = "readings/*.txt")]
    input: String,
    /// The directory of both outputs.
    #[arg(long, default_value = "means")]
    output: String,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Mean {
    count: u32,
    sum: f64,
}

fn parse(line: &str) -> Result<(String, f64), String> {
    let (sensor, degrees) = line.split_once(',').ok_or("there is no comma")?;
    let degrees: f64 = degrees.trim().parse().map_err(|error| format!("`{degrees}`: {error}"))?;
    if degrees < -273.15 { Err(format!("{degrees} degrees are too cold")) } else { Ok((sensor.to_owned(), degrees)) }
}

fn main() -> flott::Result<()> {
    flott::main_with::<Arguments>("dead-letter", |arguments, job| {
        let lines = job.source("lines", FileSource::lines(&arguments.input));
        let (readings, dead) = lines.try_map_or_dead_letter(|line: &String| parse(line));
        readings
            .key_by(|reading| reading.0.clone())
            .fold("mean", Mean::default(), |mean, (_, degrees)| {
                mean.count += 1;
                mean.sum += degrees;
            })
            .map(|(sensor, mean)| (sensor, mean.sum / f64::from(mean.count)))
            .sink("means", FileSink::csv(&arguments.output).header(["sensor", "mean"]));
        dead.map(|letter| (letter.record, letter.error, letter.operator))
            .sink("dead", FileSink::csv(&arguments.output).header(["line", "error", "operator"]));
    })
}
