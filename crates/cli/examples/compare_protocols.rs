//! Runs one job under each checkpoint algorithm, crashes it, and prints what each one costs: what `flott compare` does.
//!
//! ```sh
//! cargo run --release -p flott-cli --example compare_protocols
//! ```

use flott_cli::compare::{Options, run};
use flott_cli::output::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&Options::default()) {
        Ok(code) => code,
        Err(Failure::Engine(error)) => {
            eprintln!("compare_protocols: {error}");
            ExitCode::from(error.kind().exit_code())
        }
        Err(Failure::Output(error)) => {
            eprintln!("compare_protocols: cannot write the output: {error}");
            ExitCode::FAILURE
        }
        Err(Failure::Interrupted) => ExitCode::from(130),
    }
}
