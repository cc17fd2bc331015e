//! `flott-bench`: what flott costs, each figure beside its bar and, where there is one, beside the limit of the machine.
//!
//! Speed is shown here and nowhere else: no test has a time in it. Figures are medians of `--runs`; what is compared is run
//! in turn, so that a busy machine disturbs both sides alike, and CPU time is preferred to wall time for the same reason.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::indexing_slicing, reason = "the roof reads clocks")]

mod backend;
mod backpressure;
mod beside;
mod build;
mod counts;
mod cut;
mod idle;
mod increment;
mod keyed_count;
mod large;
mod latency;
mod measure;
mod memory;
mod recovery;
mod report;
mod scrape;
mod startup;

use backend::Backend;
use clap::{Parser, ValueEnum};
use report::{Figure, Form};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "flott-bench", about = "Measures flott; each figure with its bar and verdict")]
struct Options {
    /// What to measure; `all` is everything that is built
    #[arg(required = true)]
    benches: Vec<Bench>,
    /// How many runs; the figure is their median
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// One JSON object a figure instead of a table
    #[arg(long)]
    json: bool,
    /// A table for `docs/benchmarks.md`
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// What to run beside it: `limit` (the bare loop), `timely` (plain timely dataflow), `flink` (Flink 2.3, fetched once from
    /// Maven Central into a cache folder; needs a JDK 17 and mvn; beside `keyed-count`, `backpressure` and `recovery`)
    #[arg(long, value_delimiter = ',', default_value = "limit,timely")]
    beside: Vec<Beside>,
    /// Credit window of a channel in KiB, for `keyed-count`, `struct-count` and `backpressure`; flott's default if not given
    #[arg(long)]
    window: Option<usize>,
    /// Records of `keyed-count` and `struct-count`: enough for a few checkpoints in the second half
    #[arg(long, default_value_t = RECORDS)]
    records: u64,
    /// Records of `keyed-count` in Flink: enough that its code is compiled in the second half
    #[arg(long, default_value_t = 20_000_000)]
    flink_records: u64,
    /// Where the state lies, in turn: `heap`, `rocksdb` (a build with the feature `rocksdb`); for `cut`, `increment`, `memory`,
    /// `recovery`, `state` and `keyed-count`
    #[arg(long, value_delimiter = ',', default_value = "heap")]
    backend: Vec<Backend>,
    /// Memory for the state of `rocksdb-large`
    #[arg(long, default_value = "64MiB", value_parser = bytes)]
    budget: u64,
    /// State of `rocksdb-large` and `state`, 40 bytes a key
    #[arg(long, default_value_t = LARGE_STATE, value_parser = bytes)]
    state: u64,
    /// `keyed-count` in turn also with its metrics served and read each second
    #[arg(long)]
    metrics: bool,
    /// Millions of records a second for `latency`, so that two builds can be compared: without it half of what the job can take
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
    #[arg(skip)]
    flink: Option<beside::flink::Flink>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Bench {
    KeyedCount,
    StructCount,
    Memory,
    Cut,
    Increment,
    Startup,
    Idle,
    Backpressure,
    Latency,
    Recovery,
    Build,
    /// Heap or RocksDB in a job: throughput, checkpoints and restore beside a plain copy
    State,
    /// State larger than its memory, in RocksDB; not part of `all`
    RocksdbLarge,
    All,
}

/// Records of `keyed-count`, unless it is told otherwise.
const RECORDS: u64 = 200_000_000;

/// Five times what `rocksdb-large` gives it.
const LARGE_STATE: u64 = 320 << 20;

impl Options {
    /// Those that are asked for.
    ///
    /// # Errors
    /// If one of them is not built in.
    fn backends(&self) -> Result<Vec<Backend>, String> {
        self.backend.iter().map(|backend| backend.built()).collect()
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if (0.001..=1_000.0).contains(&rate) {
        Ok(rate)
    } else {
        Err("it is 0.001 to 1000 million records a second".into())
    }
}

/// A number of bytes: `64MiB`, `2GiB`, or plain.
fn bytes(text: &str) -> Result<u64, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("", 0)];
    let (number, shift) =
        units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift))).unwrap_or((text, 0));
    let number: u64 = number.trim().parse().map_err(|_| format!("`{text}` is no size: write 64MiB or 2GiB"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is too large"))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Beside {
    Limit,
    Timely,
    Flink,
}

const ALL: [Bench; 12] = [
    Bench::Cut,
    Bench::Increment,
    Bench::KeyedCount,
    Bench::StructCount,
    Bench::Memory,
    Bench::Startup,
    Bench::Idle,
    Bench::Backpressure,
    Bench::Latency,
    Bench::Recovery,
    Bench::Build,
    Bench::State,
];

fn main() -> ExitCode {
    if let [_, flag, directory] = &std::env::args().collect::<Vec<_>>()[..]
        && flag == startup::CHILD
    {
        return startup::child(directory).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    if let [_, flag, what, size] = &std::env::args().collect::<Vec<_>>()[..]
        && flag == memory::CHILD
    {
        return memory::child(what, size).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    if let [_, flag, backend, directory] = &std::env::args().collect::<Vec<_>>()[..]
        && flag == recovery::CHILD
    {
        return recovery::child(backend, directory).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    if let [_, flag, what, spec] = &std::env::args().collect::<Vec<_>>()[..]
        && flag == large::child::CHILD
    {
        return large::child::child(what, spec).map_or_else(failed, |()| ExitCode::SUCCESS);
    }
    let mut options = Options::parse();
    if options.beside.contains(&Beside::Flink) {
        match beside::flink::Flink::prepare() {
            Ok(flink) => options.flink = Some(flink),
            Err(missing) => {
                eprintln!("error: {missing}");
                return ExitCode::from(2);
            }
        }
    }
    measure_all(&options)
}

fn failed(error: String) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

fn measure_all(options: &Options) -> ExitCode {
    let all = options.benches.contains(&Bench::All);
    let known = ALL.into_iter().chain([Bench::RocksdbLarge]);
    let wanted = |bench: &Bench| options.benches.contains(bench) || all && *bench != Bench::RocksdbLarge;
    let benches: Vec<Bench> = known.filter(wanted).collect();
    let backends = match options.backends() {
        Ok(backends) => backends,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let mut figures: Vec<Figure> = Vec::new();
    let mut error = None;
    for (number, bench) in benches.iter().enumerate() {
        // The figures come at the end; until then this tells that it goes on.
        let name = bench.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        eprintln!("{name}: {} of {}, {} runs", number + 1, benches.len(), options.runs);
        match run(*bench, options, &backends) {
            Ok(measured) => figures.extend(measured),
            Err(reason) => {
                error = Some(format!("{name}: {reason}"));
                break;
            }
        }
    }
    report::print(
        &figures,
        if options.markdown {
            Form::Markdown
        } else if options.json {
            Form::Json
        } else {
            Form::Table
        },
    );
    match error {
        Some(error) => failed(error),
        None if figures.iter().any(Figure::misses) => ExitCode::from(3),
        None => ExitCode::SUCCESS,
    }
}

fn run(bench: Bench, options: &Options, backends: &[Backend]) -> Result<Vec<Figure>, String> {
    match bench {
        Bench::KeyedCount => keyed_count::run(options),
        Bench::StructCount => keyed_count::run_struct(options),
        Bench::Memory => memory::run(backends, options.runs),
        Bench::Cut => Ok(cut::run(backends, options.runs)),
        Bench::Increment => Ok(increment::run(backends, options.runs)),
        Bench::Startup => startup::run(options.runs),
        Bench::Idle => idle::run(options.runs),
        Bench::Backpressure => backpressure::run(options),
        Bench::Latency => latency::run(options),
        Bench::Recovery => recovery::run(options),
        Bench::Build => build::run(),
        Bench::State => large::run_both(options),
        Bench::RocksdbLarge => large::run_large(options),
        Bench::All => Ok(Vec::new()),
    }
}
