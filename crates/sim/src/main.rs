//! The simulator on the command line: `flott-sim --seeds 200`, `--seed 17`, `--mutate no-fence`.
//!
//! Exit codes: 0 if all is well, or if a broken rule was noticed; 1 if something was found, a pair was never hit, or a broken
//! rule was not noticed; 2 for a wrong command line.

#![forbid(unsafe_code)]

use clap::Parser;
use flott_sim::campaign::{Failure, Summary, run_seed, run_seeds};
use flott_sim::mutation::Mutation;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::process::ExitCode;

/// Runs simulated worlds in which everything goes wrong that can.
#[derive(Parser)]
#[command(name = "flott-sim", version)]
struct Args {
    /// How many seeds to run [default: 200; 600 with a broken rule, which ends at the first finding].
    #[arg(long, conflicts_with = "seed")]
    seeds: Option<u64>,
    /// The first of them.
    #[arg(long, default_value_t = 0, conflicts_with = "seed")]
    from: u64,
    /// Runs this seed alone, and prints all that happens in it.
    #[arg(long)]
    seed: Option<u64>,
    /// Breaks a rule, and expects that this is noticed.
    #[arg(long, value_parser = mutation_named)]
    mutate: Option<Mutation>,
    /// Prints one object of JSON a line.
    #[arg(long)]
    json: bool,
}

impl Args {
    fn seeds(&self) -> u64 {
        self.seeds.unwrap_or(if self.mutate.is_some() { flott_sim::campaign::SEEDS_TO_NOTICE } else { 200 })
    }
}

fn mutation_named(name: &str) -> Result<Mutation, String> {
    let names: Vec<&str> = Mutation::ALL.iter().map(|mutation| mutation.name()).collect();
    Mutation::named(name).ok_or_else(|| format!("known are: {}", names.join(", ")))
}

fn main() -> ExitCode {
    let args = Args::parse();
    match args.seed {
        Some(seed) => one(&args, seed),
        None => many(&args),
    }
}

fn one(args: &Args, seed: u64) -> ExitCode {
    let ran = run_seed(seed, args.mutate, !args.json);
    let failure = ran.violation.clone().map(|violation| Failure { seed, violation });
    if args.json {
        let violation = failure.as_ref().map(|failure| failure.violation.to_string());
        let digest = format!("{:016x}", ran.digest);
        println!("{}", serde_json::json!({ "event": "seed", "seed": seed, "violation": violation, "digest": digest }));
    } else {
        let (seconds, digest) = (ran.lasted.as_secs_f64(), ran.digest);
        println!(
            "seed {seed}: {seconds:.1} s simulated, {} processes, {} attempts, {} checkpoints, digest {digest:016x}",
            ran.processes, ran.attempts, ran.recorded
        );
        println!("{}", failure.as_ref().map_or("all is well".to_owned(), |failure| failure.violation.to_string()));
    }
    verdict(failure.is_none(), args.mutate)
}

fn many(args: &Args) -> ExitCode {
    let bar = bar(args);
    let summary = run_seeds(args.from, args.seeds(), args.mutate, |seed, summary| {
        bar.inc(1);
        let newest = summary.failures.last().filter(|failure| failure.seed == seed && args.mutate.is_none());
        if let Some(failure) = newest {
            bar.suspend(|| report(args, failure));
        }
    });
    bar.finish_and_clear();
    match args.mutate {
        Some(mutation) => mutated(args, mutation, &summary),
        None => plain(args, &summary),
    }
}

fn bar(args: &Args) -> ProgressBar {
    let target = if args.json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {eta} left").expect("a valid template");
    ProgressBar::with_draw_target(Some(args.seeds()), target).with_style(style)
}

fn report(args: &Args, failure: &Failure) {
    let replay = failure.replay(args.mutate);
    if args.json {
        let violation = failure.violation.to_string();
        let line =
            serde_json::json!({ "event": "failure", "seed": failure.seed, "violation": violation, "replay": replay });
        println!("{line}");
    } else {
        println!("seed {}: {}\n  replay: {replay}", failure.seed, failure.violation);
    }
}

fn plain(args: &Args, summary: &Summary) -> ExitCode {
    let missed = summary.never_hit();
    if args.json {
        let missed: Vec<String> = missed.iter().map(|(kind, fault)| format!("{kind} x {fault}")).collect();
        let pairs =
            summary.coverage.iter().map(|((kind, fault), hits)| (format!("{kind} x {fault}"), serde_json::json!(hits)));
        let line = serde_json::json!({
            "event": "summary", "seeds": summary.seeds, "failures": summary.failures.len(), "never_hit": missed,
            "checkpoints": summary.recorded, "with_records_in_flight": summary.in_flight, "processes": summary.processes, "attempts": summary.attempts, "rescaled": summary.rescaled, "zombies": summary.zombies,
            "simulated_s": summary.simulated.as_secs_f64(), "hits": pairs.collect::<serde_json::Map<_, _>>(),
        });
        println!("{line}");
    } else {
        println!(
            "{} seeds, {} failed; {:.0} s simulated, {} processes, {} zombies, {} attempts ({} rescaled), {} checkpoints ({} with records in flight), {} faults",
            summary.seeds,
            summary.failures.len(),
            summary.simulated.as_secs_f64(),
            summary.processes,
            summary.zombies,
            summary.attempts,
            summary.rescaled,
            summary.recorded,
            summary.in_flight,
            summary.coverage.values().sum::<u64>()
        );
        missed.iter().for_each(|(kind, fault)| println!("never hit: {kind} x {fault}"));
    }
    let ok = summary.failures.is_empty() && missed.is_empty();
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn mutated(args: &Args, mutation: Mutation, summary: &Summary) -> ExitCode {
    match summary.failures.first() {
        Some(failure) => {
            if !args.json {
                println!("{mutation} was noticed after {} seeds:", summary.seeds);
            }
            report(args, failure);
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("{mutation} was not noticed in {} seeds", summary.seeds);
            ExitCode::FAILURE
        }
    }
}

fn verdict(well: bool, mutation: Option<Mutation>) -> ExitCode {
    if well == mutation.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
