//! The first release build of a hello world that depends on flott: bar < 120 CPU-seconds, and a binary < 10 MiB stripped.

use crate::report::Figure;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = r#"use flott::prelude::*;

fn main() -> flott::Result<()> {
    flott::main("hello", |job| {
        job.source("lines", FileSource::lines("*.txt"))
            .flat_map(|line: String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .key_by(|word| word.clone())
            .fold("count", 0u64, |count, _word| *count += 1)
            .sink("out", FileSink::csv("counts"));
    })
}
"#;

pub(crate) fn run() -> Result<Vec<Figure>, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = format!(
        "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nflott = {{ path = \"{}\" }}\n\n[profile.release]\nstrip = true\n\n[workspace]\n",
        root.join("crates/flott").display()
    );
    let write = |path: &Path, text: &str| fs::write(path, text).map_err(|error| error.to_string());
    fs::create_dir_all(directory.path().join("src")).map_err(|error| error.to_string())?;
    write(&directory.path().join("Cargo.toml"), &manifest)?;
    write(&directory.path().join("src/main.rs"), PROGRAM)?;
    let _ = fs::copy(root.join("Cargo.lock"), directory.path().join("Cargo.lock"));
    let target = directory.path().join("target");
    let fetched = cargo(&directory, &target, &["fetch"])?;
    let built = cargo(&directory, &target, &["build", "--release", "--offline"])? - fetched;
    let binary = fs::metadata(target.join("release/hello")).map_err(|error| error.to_string())?.len();
    let mib = binary as f64 / f64::from(1 << 20);
    Ok(vec![
        Figure::of("build", "first release build of a hello world, one run", &[built], "CPU s", Some(120.0)),
        Figure::of("build", "its binary, stripped", &[mib], "MiB", Some(10.0)),
    ])
}

/// Runs cargo; the CPU seconds that all children of this process have used by now.
fn cargo(directory: &tempfile::TempDir, target: &Path, arguments: &[&str]) -> Result<f64, String> {
    let output = Command::new("cargo")
        .args(arguments)
        .env("CARGO_TARGET_DIR", target)
        .current_dir(directory.path())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    children_cpu()
}

/// User and system time of ended children, from the kernel's own account of this process (clock ticks of 10 ms).
fn children_cpu() -> Result<f64, String> {
    let stat =
        fs::read_to_string("/proc/self/stat").map_err(|error| format!("cannot read /proc/self/stat: {error}"))?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<f64> =
        after_name.split_whitespace().skip(13).take(2).filter_map(|field| field.parse().ok()).collect();
    match fields[..] {
        [user, system] => Ok((user + system) / 100.0),
        _ => Err("/proc/self/stat has another form".into()),
    }
}
