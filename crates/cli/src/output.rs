//! Tables for people, one JSON object a line for programs, and what can go wrong with both.

use flott_runtime::Error;
use serde::Serialize;
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

/// Why a command ends early.
pub enum Failure {
    /// The directory cannot be used.
    Engine(Error),
    /// The output cannot be written.
    Output(io::Error),
    /// Ctrl-C, or a request to end.
    Interrupted,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Engine(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

/// A table whose columns are as wide as what stands in them.
pub struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table. Columns whose heading ends with `>` are aligned to the right.
    pub fn new(headings: &[&'static str]) -> Table {
        Table { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Adds a row of as many cells as there are headings.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Prints it; nothing but the headings if it is empty.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let titles: Vec<String> =
            self.headings.iter().map(|heading| heading.trim_end_matches('>').to_owned()).collect();
        let width = |column: usize| {
            let cells = self.rows.iter().chain([&titles]).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..titles.len()).map(width).collect();
        for row in [&titles].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for ((cell, width), heading) in row.iter().zip(&widths).zip(&self.headings) {
                let gap = " ".repeat(width - cell.chars().count());
                let cell = if heading.ends_with('>') { format!("{gap}{cell}") } else { format!("{cell}{gap}") };
                line.push_str(&cell);
                line.push_str("  ");
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// One JSON object on one line.
pub fn json_line(out: &mut impl Write, object: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, object)?;
    writeln!(out)
}

/// An id, or a dash.
pub fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Bytes with a unit.
pub fn bytes(count: u64) -> String {
    indicatif::BinaryBytes(count).to_string()
}

/// Microseconds as a duration.
pub fn micros(count: u64) -> String {
    humantime::format_duration(Duration::from_micros(count)).to_string()
}

/// Microseconds since the epoch as a moment, in UTC.
pub fn moment(micros: u64) -> String {
    match UNIX_EPOCH.checked_add(Duration::from_micros(micros)) {
        // The year 10000 is beyond what the format can say.
        Some(time) if micros < 253_402_300_800_000_000 => humantime::format_rfc3339_millis(time).to_string(),
        _ => "-".to_owned(),
    }
}
