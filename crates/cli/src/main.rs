//! `flott`, the operators' binary: looks at what jobs leave behind, and asks those that run, without the jobs' own programs.
//!
//! Results go to stdout, everything else to stderr.

#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use flott_cli::{checkpoints, compare, output, remote, state};
use flott_runtime::ErrorKind;
use std::process::ExitCode;

const EXIT_CODES: &str = "Exit codes: 0 done; 1 damage found, the storage failed, or `state get` found nothing; 2 usage, or \
refused before anything was done; 130 interrupted. What a checkpoint command reads is pinned meanwhile.";

/// Looks after flott jobs and their checkpoints.
#[derive(Parser)]
#[command(name = "flott", version, about, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists, shows, verifies, compares, converts and collects checkpoints.
    #[command(subcommand)]
    Checkpoints(checkpoints::Command),
    /// Runs one job under each checkpoint algorithm, crashes it, and shows what each one costs.
    Compare(compare::Options),
    /// Looks into the state of a checkpoint or savepoint, and puts state from a file into one.
    #[command(subcommand)]
    State(state::Command),
    /// How a running job stands, and where its pending checkpoint is.
    Status(remote::Place),
    /// Takes a savepoint of a running job, and stops the job with it if told to.
    Savepoint(remote::Savepoint),
    /// Changes how a running job takes its next checkpoints.
    Set(remote::Change),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Checkpoints(command) => checkpoints::run(&command),
        Command::Compare(options) => compare::run(&options),
        Command::State(command) => state::run(&command),
        Command::Status(place) => remote::status(&place),
        Command::Savepoint(wanted) => remote::savepoint(&wanted),
        Command::Set(change) => remote::set(&change),
    };
    match result {
        Ok(code) => code,
        // Whoever reads us has seen enough (`flott … | head`).
        Err(output::Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(output::Failure::Output(error)) => {
            eprintln!("flott: cannot write the output: {error}");
            ExitCode::FAILURE
        }
        Err(output::Failure::Interrupted) => {
            eprintln!("flott: interrupted");
            ExitCode::from(130)
        }
        Err(output::Failure::Engine(error)) => {
            eprintln!("flott: {error}");
            // To a tool, a checkpoint that a job cannot use is damage.
            ExitCode::from(if error.kind() == ErrorKind::Unusable { 1 } else { error.kind().exit_code() })
        }
    }
}
