//! Repository checks and long tests, one command each; never shipped. `cargo xtask --help` lists them.
//!
//! Each command prints what it did and exits 0 if all is well, 1 if a check failed, 2 on wrong usage.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the roof reads clocks and waits for processes")]

mod ci;
mod kill;
mod process;
mod real;
mod s3;
mod soak;
mod tidy;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Repository checks and long tests of flott")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check what the compiler does not: floors, sizes, heads, docs, where I/O may be
    Tidy,
    /// Everything that has to hold before a change lands: fmt, clippy, docs, tidy, deny, simulator, kill test
    Ci,
    /// Kill an example with SIGKILL again and again and compare its output with an undisturbed run
    Kill(kill::KillOptions),
    /// Run the seeded simulator; takes the arguments of `flott-sim`
    Sim {
        /// For example `--seeds 200`, `--seed 17`, `--mutate no-fence`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run two jobs with churning keys for long, disturb them, and show that nothing they use grows
    Soak(soak::SoakOptions),
    /// Run tests against real components: `postgres`, `rocksdb`. Installs what they need, or says how
    Test {
        /// Which, separated by commas
        #[arg(long, value_delimiter = ',', required = true)]
        real: Vec<String>,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Tidy => tidy::run(),
        Command::Ci => ci::run(),
        Command::Kill(options) => kill::run(&options),
        Command::Sim { arguments } => {
            process::cargo(&[&["run", "--release", "-p", "flott-sim", "--"], &strs(&arguments)[..]].concat())
        }
        Command::Soak(options) => soak::run(&options),
        Command::Test { real } => real::run(&real),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn strs(strings: &[String]) -> Vec<&str> {
    strings.iter().map(String::as_str).collect()
}
