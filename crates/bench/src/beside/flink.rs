//! Real Flink on the same records: fetched from Maven Central into a cache folder, compiled against, and run in a fresh JVM with an
//! embedded cluster (the real job master, task executor, checkpoint coordinator and REST endpoint).
//!
//! Nothing of Flink is in this repository or in anything that is built from it. A run whose totals are wrong is an error.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

/// As in `pom.xml`.
pub(crate) const VERSION: &str = "2.3.0";
/// What a cache says that has all that `pom.xml` names.
const FETCHED: &str = "2.3.0, RocksDB";
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/beside/flink");
const FETCH: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
/// The oldest Java that is tried; Flink 2.3 runs on 17 and 21.
const JAVA: u32 = 17;
/// Seconds after which a run gives up.
const PATIENCE: &str = "300";

/// What Flink needs opened on Java 17, as its own start scripts have it.
const OPENED: [&str; 15] = [
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.text=ALL-UNNAMED",
    "--add-opens=java.base/java.time=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED",
];

/// Flink, fetched and compiled against.
pub(crate) struct Flink {
    cache: PathBuf,
    class_path: String,
}

impl Flink {
    /// Fetches what is not there yet.
    ///
    /// # Errors
    /// What is missing, and what to install.
    pub(crate) fn prepare() -> Result<Flink, String> {
        let cache = cache()?;
        let text = |error: std::io::Error| format!("cannot use the cache folder {}: {error}", cache.display());
        std::fs::create_dir_all(&cache).map_err(text)?;
        check_java()?;
        let library = cache.join("lib");
        let fetched = cache.join("lib.complete");
        if std::fs::read_to_string(&fetched).ok().as_deref() != Some(FETCHED) {
            fetch(&cache, &library)?;
            std::fs::write(&fetched, FETCHED).map_err(text)?;
        }
        let classes = cache.join("classes");
        let libraries = library.join("*").display().to_string();
        let mut javac = Command::new("javac");
        javac.args(["-nowarn", "-d"]).arg(&classes).args(["-cp", &libraries]);
        let compiled =
            output(javac.arg(Path::new(SOURCES).join("FlinkBench.java")), "javac", "a JDK 17, not only a JRE")?;
        if !compiled.status.success() {
            return Err(format!("javac refuses {SOURCES}/FlinkBench.java: {}", tail(&compiled.stderr)));
        }
        let class_path = format!("{}:{libraries}", classes.display());
        Ok(Flink { cache, class_path })
    }

    /// Runs one job; what it measured.
    ///
    /// # Errors
    /// If it fails, or its totals are wrong.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Value, String> {
        let work = tempfile::tempdir_in(&self.cache).map_err(|error| error.to_string())?;
        for folder in ["tmp", "ckpt"] {
            std::fs::create_dir(work.path().join(folder)).map_err(|error| error.to_string())?;
        }
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis().to_string();
        let mut java = Command::new("java");
        java.args(OPENED).args(["-Xmx3g", "-cp", &self.class_path, "bench.FlinkBench", "--work"]).arg(work.path());
        java.args(["--rest-port", "0", "--t0-ms", &started, "--max-sec", PATIENCE]).args(arguments);
        let ran = output(&mut java, "java", "a JDK 17")?;
        let said = String::from_utf8_lossy(&ran.stdout);
        let line = said.lines().rev().find(|line| line.starts_with('{'));
        let line = line.ok_or_else(|| format!("Flink {arguments:?} measured nothing: {}", tail(&ran.stderr)))?;
        let measured: Value = serde_json::from_str(line).map_err(|error| format!("Flink said `{line}`: {error}"))?;
        if measured["totals_ok"] != true {
            return Err(format!("Flink {arguments:?} failed or its totals are wrong: {line}"));
        }
        Ok(measured)
    }

    /// CPU nanoseconds per record of the second half of the keyed count.
    pub(crate) fn keyed_count(&self, records: u64, checkpoints: bool) -> Result<f64, String> {
        let mode = if checkpoints { "eo" } else { "none" };
        let measured = self.run(&["--n", &records.to_string(), "--p", "2", "--ckpt", mode, "--interval", "1000"])?;
        number(&measured, &["steady_cpu_us_per_record"]).map(|micros| micros * 1_000.0)
    }

    /// The same with Flink's RocksDB backend, incremental checkpoints.
    pub(crate) fn keyed_count_stored(&self, records: u64, checkpoints: bool) -> Result<f64, String> {
        let mode = if checkpoints { "eo" } else { "none" };
        let job = ["--n", &records.to_string(), "--p", "2", "--ckpt", mode, "--interval", "1000"];
        let stored = ["--backend", "rocksdb", "--incremental", "true"];
        number(&self.run(&[&job[..], &stored[..]].concat())?, &["steady_cpu_us_per_record"])
            .map(|micros| micros * 1_000.0)
    }

    /// Median milliseconds of a checkpoint under full back-pressure.
    pub(crate) fn backpressure(&self, unaligned: bool) -> Result<f64, String> {
        let mode = if unaligned { "unaligned" } else { "eo" };
        let job = ["--n", "240000", "--p", "2", "--ckpt", mode, "--interval", "2000"];
        let slow = ["--skew", "0.5", "--sleep-every", "10", "--sleep-ms", "1"];
        number(&self.run(&[&job[..], &slow[..]].concat())?, &["checkpoints", "e2e_ms", "p50"])
    }

    /// Seconds from the last record before an exception to the first one after it.
    pub(crate) fn recovery(&self) -> Result<f64, String> {
        let job = ["--n", "6000000", "--p", "2", "--ckpt", "eo", "--interval", "1000", "--fail", "exception"];
        number(&self.run(&job)?, &["downtime_ms"]).map(|millis| millis / 1_000.0)
    }
}

fn number(measured: &Value, path: &[&str]) -> Result<f64, String> {
    let found = path.iter().try_fold(measured, |value, name| value.get(name)).and_then(Value::as_f64);
    found.ok_or_else(|| format!("Flink did not measure {}: {measured}", path.join(".")))
}

fn cache() -> Result<PathBuf, String> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("FLOTT_BENCH_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|path| path.join("flott-bench")))
        .or_else(|| variable("HOME").map(|path| path.join(".cache/flott-bench")));
    let cache = cache.ok_or("there is no folder to keep Flink in: set FLOTT_BENCH_CACHE, XDG_CACHE_HOME or HOME")?;
    Ok(cache.join(format!("flink-{VERSION}")))
}

fn check_java() -> Result<(), String> {
    let said = output(Command::new("java").arg("-version"), "java", "a JDK 17 (Debian: openjdk-17-jdk-headless)")?;
    let said = String::from_utf8_lossy(&said.stderr);
    let major = said.split('"').nth(1).and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    match major {
        Some(JAVA..) => Ok(()),
        _ => Err(format!("`java` is too old or unknown ({}): install a JDK {JAVA}", said.lines().next().unwrap_or(""))),
    }
}

fn fetch(cache: &Path, library: &Path) -> Result<(), String> {
    eprintln!("fetching Flink {VERSION} from Maven Central into {} (about 100 MB)", cache.display());
    let _ = std::fs::remove_dir_all(library);
    let mut maven = Command::new("mvn");
    maven.args(["-B", "-q", "-f"]).arg(Path::new(SOURCES).join("pom.xml"));
    maven.arg(format!("-Dmaven.repo.local={}", cache.join("repository").display()));
    maven.args([FETCH, "-DincludeScope=runtime"]).arg(format!("-DoutputDirectory={}", library.display()));
    let fetched = output(&mut maven, "mvn", "Maven 3 (Debian: maven)")?;
    if fetched.status.success() {
        return Ok(());
    }
    Err(format!(
        "cannot fetch Flink {VERSION} from Maven Central: {}; this needs a way to repo.maven.apache.org, or a folder in \
         FLOTT_BENCH_CACHE that was filled elsewhere",
        tail(&fetched.stdout)
    ))
}

fn output(command: &mut Command, name: &str, install: &str) -> Result<Output, String> {
    command.output().map_err(|error| format!("`{name}` is missing or cannot run ({error}): install {install}"))
}

/// The last lines of what a program said.
fn tail(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(5)..].join(" | ")
}
