//! Tests against real components. Each entry installs or starts what it needs, or names what is missing.

use crate::process::{self, cargo, exists};
use crate::s3;
use std::path::{Path, PathBuf};

/// Components that this version has tests for.
pub(crate) fn all() -> Vec<String> {
    ["postgres", "rocksdb", "s3"].map(str::to_owned).to_vec()
}

pub(crate) fn run(names: &[String]) -> Result<(), String> {
    names.iter().try_for_each(|name| match name.as_str() {
        "postgres" => postgres(),
        "rocksdb" => rocksdb(),
        "s3" => object_stores(),
        _ => Err(format!("there are no tests against `{name}` in this version; known are: {}", all().join(", "))),
    })
}

/// The PostgreSQL sink against servers that its tests start, kill and start again.
fn postgres() -> Result<(), String> {
    if postgres_programs().is_none() {
        install("postgresql", "its tests start servers of their own, so no running one is needed, only the programs")?;
    }
    let programs = postgres_programs().ok_or(
        "no `initdb` was found after installing postgresql: name its directory in FLOTT_POSTGRES_BIN, then run this again",
    )?;
    eprintln!("postgres: the programs in {}", programs.display());
    let features = ["--locked", "-p", "flott", "--features", "postgres,testing"];
    cargo(&[&["build"], &features[..], &["--example", "postgres_exact"]].concat())?;
    cargo(&["test", "--locked", "-p", "flott-postgres"])?;
    cargo(&[&["test"], &features[..], &["--doc", "databases"]].concat())?;
    // A server for each test: a few at a time.
    cargo(&[&["test"], &features[..], &["--test", "postgres", "--", "--test-threads", "3"]].concat())
}

/// State in RocksDB, which is built from its sources: the store, and jobs that are killed. The first build takes some 20 minutes
/// of one core.
fn rocksdb() -> Result<(), String> {
    needs_of_rocksdb()?;
    cargo(&["test", "--locked", "-p", "flott-rocksdb"])?;
    cargo(&[
        "test",
        "--locked",
        "-p",
        "flott",
        "--features",
        "rocksdb,testing",
        "--test",
        "rocksdb",
        "--test",
        "rocksdb_disk",
    ])
}

/// Checkpoints in an object store: a real S3 server that the tests start, through a network that they break. The clients of all
/// three providers are compiled; tests are against S3.
fn object_stores() -> Result<(), String> {
    let library = s3::library(install)?.to_string_lossy().into_owned();
    let test =
        ["test", "--locked", "-p", "flott", "--features", "s3,testing", "--test", "s3", "--", "--test-threads", "4"];
    process::run("cargo", &test, &[("FLOTT_MOTO", &library)])?;
    cargo(&["check", "--locked", "-p", "flott-cli", "--features", "s3,gs,az"])
}

/// What compiles RocksDB, wherever all features are on.
pub(crate) fn needs_of_rocksdb() -> Result<(), String> {
    if !exists("clang", "--version") {
        install("clang", "RocksDB is C++, and its bindings are made by libclang")?;
    }
    if !has_libclang() {
        install("libclang-dev", "the bindings of RocksDB are made by libclang")?;
    }
    Ok(())
}

/// Whether the library is where its users look for it.
fn has_libclang() -> bool {
    let named = std::env::var_os("LIBCLANG_PATH").map(PathBuf::from);
    let versions = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let llvm = versions.filter(|entry| entry.file_name().to_string_lossy().starts_with("llvm-"));
    let known =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"].map(PathBuf::from);
    let directories = named.into_iter().chain(llvm.map(|entry| entry.path().join("lib"))).chain(known);
    let mut names = directories.flat_map(|path| std::fs::read_dir(path).into_iter().flatten().flatten());
    names.any(|entry| entry.file_name().to_string_lossy().starts_with("libclang"))
}

/// The directory of `initdb`, as the tests look for it. Debian keeps it out of the path.
fn postgres_programs() -> Option<PathBuf> {
    let named = std::env::var_os("FLOTT_POSTGRES_BIN").map(PathBuf::from);
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let known = versions.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |directory: &PathBuf| directory.join("initdb").exists();
    named.into_iter().chain(known).chain(std::env::split_paths(&path)).find(is_there)
}

/// Installs a package of the system, or says how.
pub(crate) fn install(package: &str, why: &str) -> Result<(), String> {
    let by_hand = format!("install it with `sudo apt-get install {package}` ({why}), then run this again");
    if !exists("apt-get", "--version") {
        return Err(format!(
            "{package} is missing, and there is no apt-get here: install it as this system does it ({why})"
        ));
    }
    if !may_install() {
        return Err(format!("{package} is missing, and only root may install it: {by_hand}"));
    }
    let quiet = [("DEBIAN_FRONTEND", "noninteractive")];
    process::run("apt-get", &["update", "-q"], &quiet)
        .and_then(|()| process::run("apt-get", &["install", "-y", "-q", "--no-install-recommends", package], &quiet))
        .map_err(|error| format!("{package} is missing and cannot be installed ({error}): {by_hand}"))
}

/// Whether the system's packages are ours to change.
fn may_install() -> bool {
    let status = std::fs::read_to_string(Path::new("/proc/self/status")).unwrap_or_default();
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    user.and_then(|ids| ids.split_whitespace().nth(1)).is_some_and(|id| id == "0")
}
