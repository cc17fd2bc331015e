//! `flott-bench`: what flott costs, each figure beside its bar and, where there is one, beside the limit of the machine.
//!
//! Speed is shown here and nowhere else: no test has a time in it. Figures are medians of `--runs`; what is compared is run
//! in turn, so that a busy machine disturbs both sides alike, and CPU time is preferred to wall time for the same reason.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::indexing_slicing, reason = "the roof reads clocks")]

mod backpressure;
mod beside;
mod build;
mod cut;
mod heap;
mod idle;
mod increment;
mod keyed_count;
mod latency;
mod measure;
mod memory;
mod recovery;
mod report;
mod startup;

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
    #[arg(long, default_value_t = 200_000_000)]
    records: u64,
    /// Records of `keyed-count` in Flink: enough that its code is compiled in the second half
    #[arg(long, default_value_t = 20_000_000)]
    flink_records: u64,
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
    All,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Beside {
    Limit,
    Timely,
    Flink,
}

const ALL: [Bench; 11] = [
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
    if let [_, flag, directory] = &std::env::args().collect::<Vec<_>>()[..]
        && flag == recovery::CHILD
    {
        return recovery::child(directory).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
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

fn measure_all(options: &Options) -> ExitCode {
    let all = options.benches.contains(&Bench::All);
    let benches: Vec<Bench> = ALL.into_iter().filter(|bench| all || options.benches.contains(bench)).collect();
    let mut figures: Vec<Figure> = Vec::new();
    for bench in benches {
        let measured = match bench {
            Bench::KeyedCount => keyed_count::run(options),
            Bench::StructCount => keyed_count::run_struct(options),
            Bench::Memory => memory::run(options.runs),
            Bench::Cut => Ok(cut::run(options.runs)),
            Bench::Increment => Ok(increment::run(options.runs)),
            Bench::Startup => startup::run(options.runs),
            Bench::Idle => idle::run(options.runs),
            Bench::Backpressure => backpressure::run(options),
            Bench::Latency => latency::run(options.runs),
            Bench::Recovery => recovery::run(options),
            Bench::Build => build::run(),
            Bench::All => Ok(Vec::new()),
        };
        match measured {
            Ok(measured) => figures.extend(measured),
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::FAILURE;
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
    if figures.iter().any(Figure::misses) { ExitCode::from(3) } else { ExitCode::SUCCESS }
}
