//! Kills an example with SIGKILL, again and again, and compares what it committed with an undisturbed run.
//!
//! Some of the kills come from outside at random moments; some the process does to itself at a crash point, so that the
//! moments between log slot and commit, which are short, are hit as well.

mod everything;
mod output;
mod victim;

use crate::process::{cargo, root};
use clap::Args;
use output::Rows;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use victim::{Death, Victim};

/// Crash points that lie between the log slot and the last commit.
const POINTS: [&str; 3] = ["AfterLogSlot", "BetweenCommits", "BetweenLinkAndUnlink"];
/// Every so many kills the process kills itself.
const EVERY: u32 = 4;
/// How long one life may last before it is killed, in milliseconds.
const SHORTEST: u64 = 120;
const LONGEST: u64 = 520;
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
    /// How many kills
    #[arg(long, default_value_t = 20)]
    pub(crate) kills: u32,
    /// Decides the moments
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
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
    cargo(&["build", "--release", "--locked", "-p", "flott", "--features", "testing", kind, name])?;
    let binary = target().join(if of_all { "release" } else { "release/examples" }).join(name);
    let directory = target().join("kill").join(format!("{}-{}", options.example, options.mode));
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(|error| format!("cannot clear {}: {error}", directory.display()))?;
    }
    if of_all {
        everything::write_input(&directory.join("input"))?;
    }
    let undisturbed = undisturbed(&binary, options, &directory.join("undisturbed"))?;
    let (disturbed, tally) = disturbed(&binary, options, &directory.join("killed"))?;
    report(options, &undisturbed, &disturbed, &tally)
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn undisturbed(binary: &Path, options: &KillOptions, directory: &Path) -> Result<Rows, String> {
    let victim = Victim::start(binary, &arguments(options, directory, None, 2), None)?;
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
    arguments.extend(["--checkpoint-dir".into(), path("checkpoints"), "--output".into(), path("out")]);
    arguments.extend(rate.into_iter().flat_map(|rate| ["--rate".into(), rate.to_string()]));
    arguments
}

fn disturbed(binary: &Path, options: &KillOptions, directory: &Path) -> Result<(Rows, Tally), String> {
    let mut seed = options.seed;
    let mut tally = Tally::default();
    // Slow enough that the last kill still finds work to do.
    let rate = INPUT_ROWS * 10 / (options.kills.max(1) * 4);
    for kill in 1..=options.kills {
        let point =
            kill.is_multiple_of(EVERY).then(|| POINTS.get((kill / EVERY) as usize % POINTS.len()).copied()).flatten();
        let slow = arguments(options, directory, Some(rate), workers(options, kill));
        let mut victim = Victim::start(binary, &slow, point)?;
        let patience = if point.is_some() {
            Duration::from_secs(20)
        } else {
            Duration::from_millis(SHORTEST + next(&mut seed) % (LONGEST - SHORTEST))
        };
        let (death, life) = victim.kill_after(patience)?;
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
    let (death, life) = Victim::start(binary, &arguments(options, directory, None, 2), None)?.wait()?;
    if death != Death::Exit(0) {
        return Err(format!("the last run ended with {death:?}; last words: {}", life.last_words));
    }
    Ok((committed(options, directory)?, tally))
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
