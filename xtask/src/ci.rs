//! What has to hold before a change lands, in the order of what fails soonest. Locally and in CI the same.

use crate::process::{cargo, exists, run};
use crate::{kill, real, tidy};

pub(crate) fn run_kill(mode: &str) -> Result<(), String> {
    kill::run(&kill::KillOptions { example: "flights".into(), mode: mode.into(), kills: 20, seed: 1 })
}

pub(crate) fn run() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])?;
    tidy::run()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"])?;
    run("cargo", &["doc", "--workspace", "--no-deps", "--locked"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    deny()?;
    cargo(&["run", "--release", "--locked", "-p", "flott-sim", "--", "--seeds", "200"])?;
    for mode in ["aligned", "stop-the-world", "at-least-once"] {
        run_kill(mode)?;
    }
    real::run(&real::all())
}

/// Licences, banned crates and sources. Installed if it is missing: a clean machine has only cargo.
fn deny() -> Result<(), String> {
    if !exists("cargo-deny", "--version") {
        cargo(&["install", "--locked", "--version", "0.20.2", "cargo-deny"])?;
    }
    cargo(&["deny", "--all-features", "check", "licenses", "bans", "sources"])
}
