//! Kills an example with SIGKILL, again and again, and compares what it committed with an undisturbed run.
//!
//! Some of the kills come from outside: most of them a random time after as many checkpoints as the seed says, so that a slow machine
//! is hit where a fast one is, and some at a random moment, so that starts and restores are hit too. Some the process does to
//! itself at a crash point, for the moments between log slot and commit are short.

mod everything;
mod output;
mod victim;

use crate::process::{cargo, target};
use crate::{real, s3};
use clap::Args;
use output::Rows;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use victim::{Death, Moment, Victim};

/// Crash points that lie between the log slot and the last commit.
const POINTS: [&str; 3] = ["AfterLogSlot", "BetweenCommits", "BetweenLinkAndUnlink"];
/// Every so many kills the process kills itself.
const EVERY: u32 = 4;
/// Of the others every so many comes at a moment that nothing was reported for, so many milliseconds after the start.
const BLIND: u32 = 5;
const SHORTEST: u64 = 120;
const LONGEST: u64 = 520;
/// The rest come after so many completed checkpoints at most, and so many milliseconds.
const MOST_CHECKPOINTS: u64 = 4;
const LONGEST_AFTER: u64 = 100;
/// How long anything that a job is to report may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a life is expected to last, in milliseconds: the input must outlive all of them.
const LIFE: u64 = 1_000;
/// So much longer if each request goes over a network.
const S3_PATIENCE: u64 = 4;
/// Rows of the example's input.
const INPUT_ROWS: u32 = 27_004;

#[derive(Args)]
pub(crate) struct KillOptions {
    /// Which example; or `everything`, a job that has one of each kind
    #[arg(long, default_value = "flights")]
    pub(crate) example: String,
    /// Which checkpoint mode
    #[arg(long, default_value = "aligned")]
    pub(crate) mode: String,
    /// Where its state lies: heap or rocksdb, which is built for it
    #[arg(long, default_value = "heap")]
    pub(crate) state_backend: String,
    /// How many kills
    #[arg(long, default_value_t = 20)]
    pub(crate) kills: u32,
    /// Decides the moments
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Checkpoints go to an S3 server that is started for it
    #[arg(long)]
    pub(crate) s3: bool,
}

/// What came of the kills.
#[derive(Default)]
struct Tally {
    hit_after_checkpoint: u32,
    hit_before_commit: u32,
}

pub(crate) fn run(options: &KillOptions) -> Result<(), String> {
    let of_all = options.example == everything::NAME;
    if of_all && options.mode == "at-least-once" {
        return Err("what the job with one of each kind writes can be judged in exact modes only".into());
    }
    let (kind, name) = if of_all { ("--bin", everything::BINARY) } else { ("--example", options.example.as_str()) };
    let mut features = vec!["testing"];
    features.extend(options.s3.then_some("s3"));
    features.extend((options.state_backend == "rocksdb").then_some("rocksdb"));
    let features = features.join(",");
    cargo(&["build", "--release", "--locked", "-p", "flott", "--features", &features, kind, name])?;
    let server = if options.s3 { Some(s3::Server::start(&s3::library(real::install)?)?) } else { None };
    let stage = Stage {
        binary: target().join(if of_all { "release" } else { "release/examples" }).join(name),
        variables: server.as_ref().map(s3::Server::variables).unwrap_or_default(),
    };
    let place = if options.s3 { "s3" } else { "disk" };
    let job = format!("{}-{}-{}", options.example, options.mode, options.state_backend);
    let directory = target().join("kill").join(place).join(job);
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(|error| format!("cannot clear {}: {error}", directory.display()))?;
    }
    if of_all {
        everything::write_input(&directory.join("input"))?;
    }
    let undisturbed = undisturbed(&stage, options, &directory.join("undisturbed"))?;
    let (disturbed, tally) = disturbed(&stage, options, &directory.join("killed"))?;
    report(options, &undisturbed, &disturbed, &tally)
}

/// What is killed, and what it finds in its environment.
struct Stage {
    binary: PathBuf,
    variables: Vec<(String, String)>,
}

impl Stage {
    fn start(&self, arguments: &[String], crash_at: Option<&str>) -> Result<Victim, String> {
        Victim::start(&self.binary, arguments, &self.variables, crash_at)
    }
}

fn undisturbed(stage: &Stage, options: &KillOptions, directory: &Path) -> Result<Rows, String> {
    let victim = stage.start(&arguments(options, directory, None, 2), None)?;
    match victim.wait()?.0 {
        Death::Exit(0) => committed(options, directory),
        other => Err(format!("the undisturbed run ended with {other:?}")),
    }
}

fn committed(options: &KillOptions, directory: &Path) -> Result<Rows, String> {
    let output = directory.join("out");
    if options.example == everything::NAME { everything::read(&output) } else { Rows::read(&output) }
}

/// How many workers a life has. Records in flight bind a checkpoint to their number; of the example little depends on it.
fn workers(options: &KillOptions, life: u32) -> u16 {
    if options.example == everything::NAME && !options.mode.contains("unaligned") {
        [2, 3, 1, 4].get(life as usize % 4).copied().unwrap_or(2)
    } else {
        2
    }
}

fn arguments(options: &KillOptions, directory: &Path, rate: Option<u32>, workers: u16) -> Vec<String> {
    let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let mut arguments: Vec<String> = ["--json", "--checkpoint-interval", "50ms"].map(String::from).to_vec();
    arguments.extend(["--workers".into(), workers.to_string()]);
    if options.example == everything::NAME {
        arguments.extend(["--input".into(), path("../input/*.jsonl.gz")]);
    }
    arguments.extend(["--checkpoint-mode".into(), options.mode.clone()]);
    // The server is a new one, so the name of the directory is enough.
    let in_bucket = || {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        format!("s3://{}/{}/{name}", s3::Server::BUCKET, options.mode)
    };
    let checkpoints = if options.s3 { in_bucket() } else { path("checkpoints") };
    arguments.extend(["--state-backend".into(), options.state_backend.clone(), "--work-dir".into(), path("work")]);
    arguments.extend(["--checkpoint-dir".into(), checkpoints, "--output".into(), path("out")]);
    arguments.extend(rate.into_iter().flat_map(|rate| ["--rate".into(), rate.to_string()]));
    arguments
}

fn disturbed(stage: &Stage, options: &KillOptions, directory: &Path) -> Result<(Rows, Tally), String> {
    let mut seed = options.seed;
    let mut tally = Tally::default();
    // Slow enough that the last kill still finds work to do.
    let longer = if options.s3 { S3_PATIENCE } else { 1 };
    let lives = u64::from(options.kills.max(1)) * LIFE * longer;
    let rate = u32::try_from(u64::from(INPUT_ROWS) * 1_000 / lives).unwrap_or(1).max(1);
    for kill in 1..=options.kills {
        let point =
            kill.is_multiple_of(EVERY).then(|| POINTS.get((kill / EVERY) as usize % POINTS.len()).copied()).flatten();
        let slow = arguments(options, directory, Some(rate), workers(options, kill));
        let mut victim = stage.start(&slow, point)?;
        let (death, life) = victim.kill_at(moment(kill, point, longer, &mut seed))?;
        let running = matches!(death, Death::Killed | Death::KilledItself);
        tally.hit_after_checkpoint += u32::from(running && (life.completed > 0 || life.restored.is_some()));
        tally.hit_before_commit += u32::from(death == Death::KilledItself && point.is_some());
        let restored = life.restored.map_or_else(|| "nothing".to_owned(), |id| format!("checkpoint {id}"));
        println!("kill {kill:>2}: restored {restored}, completed {} more, {}", life.completed, describe(death, point));
        if let Death::Exit(code) = death
            && code != 0
        {
            return Err(format!(
                "the job failed with exit code {code} instead of being killed; last words: {}",
                life.last_words
            ));
        }
    }
    let (death, life) = stage.start(&arguments(options, directory, None, 2), None)?.wait()?;
    if death != Death::Exit(0) {
        return Err(format!("the last run ended with {death:?}; last words: {}", life.last_words));
    }
    Ok((committed(options, directory)?, tally))
}

/// When to kill it, unless it has killed itself before.
fn moment(kill: u32, point: Option<&str>, longer: u64, seed: &mut u64) -> Moment {
    let (one, other) = (next(seed), next(seed));
    if point.is_some() {
        Moment { patience: PATIENCE, checkpoints: None }
    } else if kill.is_multiple_of(BLIND) {
        Moment { patience: Duration::from_millis(longer * (SHORTEST + one % (LONGEST - SHORTEST))), checkpoints: None }
    } else {
        let after = Duration::from_millis(longer * (other % LONGEST_AFTER));
        let checkpoints = u32::try_from(1 + one % MOST_CHECKPOINTS).expect("a small number");
        Moment { patience: PATIENCE, checkpoints: Some((checkpoints, after)) }
    }
}

fn describe(death: Death, point: Option<&str>) -> String {
    match death {
        Death::Killed => "killed".into(),
        Death::KilledItself => format!("killed at {}", point.unwrap_or("an unknown point")),
        Death::Exit(code) => format!("had ended by itself (exit code {code})"),
    }
}

fn report(options: &KillOptions, undisturbed: &Rows, disturbed: &Rows, tally: &Tally) -> Result<(), String> {
    let exact = options.mode != "at-least-once";
    let (lost, doubled) =
        if exact { undisturbed.differences(disturbed) } else { undisturbed.final_differences(disturbed) };
    println!(
        "{}: {} rows undisturbed; lost {lost}, {} {doubled}; {} of {} kills after a completed checkpoint, {} between log slot and commit",
        options.mode,
        undisturbed.len(),
        if exact { "doubled" } else { "over-counted" },
        tally.hit_after_checkpoint,
        options.kills,
        tally.hit_before_commit
    );
    let enough =
        tally.hit_after_checkpoint * 4 >= options.kills * 3 && (tally.hit_before_commit >= 3 || options.kills < 12);
    if lost > 0 || (exact && doubled > 0) {
        Err(format!("{lost} rows are lost and {doubled} too many"))
    } else if !enough {
        Err("too few kills hit a job that had a completed checkpoint, or lay between log slot and commit".into())
    } else {
        Ok(())
    }
}

/// SplitMix64.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 27)
}
