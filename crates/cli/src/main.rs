//! `flott`, the operators' binary: looks at what jobs leave behind, and asks those that run, without the jobs' own programs.
//!
//! Exit codes: 0; 1 damage found, or the storage failed; 2 usage. Results go to stdout, everything else to stderr.

#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use flott_cli::{checkpoints, compare, output, remote};
use std::process::ExitCode;

/// Looks after flott jobs and their checkpoints.
#[derive(Parser)]
#[command(name = "flott", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists, shows and verifies checkpoints.
    #[command(subcommand)]
    Checkpoints(checkpoints::Command),
    /// Runs one job under each checkpoint algorithm, crashes it, and shows what each one costs.
    Compare(compare::Options),
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
        Err(output::Failure::Engine(error)) => {
            eprintln!("flott: {error}");
            ExitCode::from(error.kind().exit_code())
        }
    }
}
