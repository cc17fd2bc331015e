//! Counts words: of files, or of the lines that come from a socket.
//!
//! ```sh
//! cargo run --release --example word_count -- 'README.md'
//! cargo run --release --example word_count -- --socket 127.0.0.1:9999
//! ```

use flott::prelude::*;

#[derive(clap::Args)]
struct Args {
    /// Files to read, a glob
    #[arg(default_value = "*.md")]
    input: String,
    /// Read lines from this address instead, until the other side closes
    #[arg(long, value_name = "ADDRESS")]
    socket: Option<String>,
}

fn words(line: &str) -> Vec<String> {
    line.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

fn main() -> flott::Result<()> {
    flott::main_with::<Args>("word-count", |args, job| {
        let lines = match args.socket {
            Some(address) => job.source("lines", SocketSource::connect(address)),
            None => job.source("lines", FileSource::lines(args.input)),
        };
        lines
            .flat_map(|line| words(&line))
            .key_by(|word| word.clone())
            .fold("count", 0u64, |count, _word| *count += 1)
            .sink("counts", print());
    })
}
