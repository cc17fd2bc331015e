//! What has to hold before a change lands, in the order of what fails soonest. Locally and in CI the same.

use crate::process::{self, cargo, exists};
use crate::{kill, real, tidy};

pub(crate) fn run() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])?;
    tidy::run()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"])?;
    process::run("cargo", &["doc", "--workspace", "--no-deps", "--locked"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    deny()?;
    cargo(&["run", "--release", "--locked", "-p", "flott-sim", "--", "--seeds", "200"])?;
    for mode in ["aligned", "stop-the-world", "at-least-once"] {
        kill::run(&kill::KillOptions { example: "flights".into(), mode: mode.into(), kills: 20, seed: 1 })?;
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
