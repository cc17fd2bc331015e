//! Counts by key into a table of PostgreSQL, exactly once: kill this process or the server, start it again, and the table is what
//! one undisturbed run writes.
//!
//! ```sh
//! psql -d shop -c 'CREATE TABLE counts (key text, count bigint)'
//! cargo run --release --features postgres --example postgres_exact -- \
//!     --input 'input/*.txt' --database 'host=localhost user=me dbname=shop' --checkpoint-dir /tmp/counts
//! ```

#![forbid(unsafe_code)]

use flott::connector::PostgresSink;
use flott::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(clap::Args)]
struct Args {
    /// Files to read, a glob; what stands before the first comma of a line is its key
    #[arg(long)]
    input: String,
    /// The database, as `host=… user=… dbname=…`
    #[arg(long)]
    database: String,
    /// The table, with the columns `key` and `count`; all its rows are this job's
    #[arg(long, default_value = "counts")]
    table: String,
    /// Read only so many lines a second
    #[arg(long)]
    rate: Option<u64>,
}

/// A row of the table: its fields have the names of the columns.
#[derive(Clone, Serialize, Deserialize)]
struct Row {
    key: String,
    count: u64,
}

fn main() -> flott::Result<()> {
    flott::main_with::<Args>("postgres-exact", |args, job| {
        let mut lines = job.source("lines", FileSource::lines(args.input));
        if let Some(rate) = args.rate {
            lines = lines.throttle(rate);
        }
        lines
            .key_by(|line| line.split(',').next().unwrap_or_default().to_owned())
            .fold("count", 0u64, |count, _line| *count += 1)
            .map(|(key, count)| Row { key, count })
            .sink("table", PostgresSink::new(args.database, args.table).owns_table());
    })
}
