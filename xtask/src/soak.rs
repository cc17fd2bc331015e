//! A long run: two jobs with churning keys, disturbed all the time, and what they use while they do it.
//!
//! One job's process is killed or stopped again and again; the other one lives for the whole run and restarts within, so that
//! what a process leaks is not hidden by its death. Both change mode and interval of their checkpoints. At least once is
//! left out, because its output is not exact. The run fails if a figure grows or if the output is wrong.

mod oracle;
mod sample;
mod site;
mod verdict;

use crate::process::{cargo, root};
use clap::Args;
use oracle::Load;
use serde_json::json;
use site::{Setup, Site};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks at what the jobs say.
const TICK: Duration = Duration::from_millis(50);
const BETWEEN_SAMPLES: Duration = Duration::from_secs(1);
const BETWEEN_PROGRESS: Duration = Duration::from_secs(15);
/// Between two changes of mode and interval.
const BETWEEN_CHANGES: Duration = Duration::from_secs(3);
/// A process lives for so many milliseconds.
const SHORTEST_LIFE: u64 = 4_000;
const LONGEST_LIFE: u64 = 16_000;
/// Of so many ends one is a stop, and the others are kills.
const STOP_EVERY: u64 = 4;
/// Time between two panics in a process, about, in milliseconds.
const PANIC_EVERY: u64 = 6_000;
/// The modes whose output is exact.
const MODES: [&str; 4] = ["aligned", "stop-the-world", "unaligned", "aligned-then-unaligned"];

/// Records a second of each job.
const RATE: u64 = 10_000;
/// Keys alive at a time, records of a key, and how long one lives that is not removed, in milliseconds. Between two records
/// of a key lies a second, so that only a pause of fourteen could let one expire too early.
const SLOTS: u64 = 10_000;
const LIFE: u64 = 10;
const TTL: u64 = 15_000;

#[derive(Args)]
pub(crate) struct SoakOptions {
    /// For how long; 3 at least, so that there is something to compare
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// Decides the moments of kills, stops, panics and changes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &SoakOptions) -> Result<(), String> {
    cargo(&["build", "--release", "--locked", "-p", "flott", "--features", "testing", "--bin", "flott-soak-job"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let directory = target.join("soak");
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(|error| format!("cannot clear {}: {error}", directory.display()))?;
    }
    let binary = target.join("release/flott-soak-job");
    let mut soak = Soak {
        killed: Site::new(setup("killed", &binary, &directory, options)),
        kept: Site::new(setup("kept", &binary, &directory, options)),
        seed: options.seed,
        began: Instant::now(),
        end: Duration::from_secs(options.minutes * 60),
    };
    soak.run()?;
    soak.report(options)
}

fn setup(name: &'static str, binary: &Path, directory: &Path, options: &SoakOptions) -> Setup {
    let arguments = [
        ("--rate", RATE),
        ("--slots", SLOTS),
        ("--life", LIFE),
        ("--ttl", TTL),
        ("--panic-every", PANIC_EVERY),
        ("--seed", options.seed),
    ];
    Setup {
        name,
        binary: binary.to_owned(),
        directory: directory.join(name),
        load: Load { records: RATE * 60 * options.minutes, slots: SLOTS, life: LIFE },
        arguments: arguments.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value.to_string()]).collect(),
    }
}

struct Soak {
    killed: Site,
    kept: Site,
    seed: u64,
    began: Instant,
    end: Duration,
}

/// When things are due, since the begin.
struct Due {
    sample: Duration,
    progress: Duration,
    change: Duration,
    death: Duration,
}

impl Soak {
    fn run(&mut self) -> Result<(), String> {
        let life = Duration::from_millis(SHORTEST_LIFE);
        let mut due = Due { sample: TICK, progress: BETWEEN_PROGRESS, change: BETWEEN_CHANGES, death: life };
        // Kills and panics cost time, and the job does all its records whatever happens.
        let deadline = self.end * 2 + Duration::from_secs(120);
        while !(self.killed.finished && self.kept.finished) {
            std::thread::sleep(TICK);
            let now = self.began.elapsed();
            if now > deadline {
                return Err(format!(
                    "not finished after {} s: {}, {}",
                    now.as_secs(),
                    self.killed.line(),
                    self.kept.line()
                ));
            }
            self.disturb(now, &mut due)?;
            for site in [&mut self.killed, &mut self.kept] {
                site.tend()?;
                if now >= due.sample {
                    site.sample(now.as_secs_f64())?;
                }
            }
            if now >= due.sample {
                due.sample = now + BETWEEN_SAMPLES;
            }
            if now >= due.progress {
                due.progress = now + BETWEEN_PROGRESS;
                eprintln!("{:>5} s  {}  |  {}", now.as_secs(), self.killed.line(), self.kept.line());
            }
        }
        for site in [&mut self.killed, &mut self.kept] {
            site.sample(self.began.elapsed().as_secs_f64())?;
            site.reader.end();
        }
        Ok(())
    }

    fn disturb(&mut self, now: Duration, due: &mut Due) -> Result<(), String> {
        if now >= due.change {
            due.change = now + BETWEEN_CHANGES;
            let mode = MODES.get(self.below(MODES.len() as u64) as usize).copied().unwrap_or("aligned");
            let interval = Duration::from_millis(100 + self.below(300));
            [&self.killed, &self.kept].into_iter().for_each(|site| site.change(mode, interval));
        }
        if now >= due.death && now < self.end {
            due.death = now + Duration::from_millis(SHORTEST_LIFE + self.below(LONGEST_LIFE - SHORTEST_LIFE));
            if self.below(STOP_EVERY) == 0 {
                self.killed.stop()?;
            } else {
                self.killed.kill()?;
            }
        }
        Ok(())
    }

    /// SplitMix64.
    fn below(&mut self, bound: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27)) % bound
    }

    fn report(&self, options: &SoakOptions) -> Result<(), String> {
        let mut wrong = Vec::new();
        let mut jobs = Vec::new();
        for site in [&self.killed, &self.kept] {
            let (name, found) = (site.setup.name, &site.reader.wrong);
            let grows = verdict::verdicts(&site.samples).into_iter().zip(&sample::FIGURES);
            let grows = grows.filter(|(verdict, _)| verdict.is_none_or(|verdict| verdict.grows));
            wrong.extend(grows.map(|(_, figure)| format!("{name}: {} is not shown to be flat", figure.name)));
            wrong.extend(found.iter().map(|found| format!("{name}: {found}")));
            if site.reader.rows == 0 {
                wrong.push(format!("{name}: it has written nothing"));
            }
            if options.json {
                let mut job = verdict::json(&site.samples);
                if let Some(fields) = job.as_object_mut() {
                    fields.extend([("name".to_owned(), json!(name)), ("rows".to_owned(), json!(site.reader.rows))]);
                    fields.insert("wrong".to_owned(), json!(found));
                }
                jobs.push(job);
            } else {
                println!("\njob `{name}`, seed {}", options.seed);
                verdict::lines(&site.samples).iter().for_each(|line| println!("{line}"));
                println!(
                    "output   {} rows, {}",
                    site.reader.rows,
                    if found.is_empty() { "all right" } else { "wrong" }
                );
            }
        }
        if options.json {
            println!("{}", json!({"minutes": options.minutes, "seed": options.seed, "jobs": jobs, "failures": wrong}));
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }
}
