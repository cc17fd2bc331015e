//! A job for the tests with real processes that has one of each kind: a source with dead letters, folds in parts, map and list
//! state, a side output, rules to all, values that expire, timers.
//!
//! What it writes is the same however its records interleave, as long as all records of a user are in one file; where time or
//! order has a say, a row tells what is needed to judge it (`tests/everything.rs` does).

#![forbid(unsafe_code)]

use flott::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// How long a value lives.
const TTL: Duration = Duration::from_millis(40);
/// How long a record waits for its timer.
const DELAY: Duration = Duration::from_millis(30);
/// Rules that all workers get.
const RULES: u32 = 8;

const ODD: SideOutput<(u32, u64, u32)> = SideOutput::named("odd");

#[derive(clap::Args)]
struct Args {
    /// Files to read, a glob
    #[arg(long)]
    input: String,
    /// Directory for the outputs, one directory a sink
    #[arg(long)]
    output: PathBuf,
    /// Read only so many lines a second
    #[arg(long)]
    rate: Option<u64>,
}

/// A line of the input.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Visit {
    user: u32,
    page: u32,
    number: u64,
}

fn main() -> flott::Result<()> {
    flott::main_with::<Args>("everything", |args, job| {
        let output = |name: &str| FileSink::csv(args.output.join(name));
        let (mut visits, dead) = job.source_or_dead_letter("visits", FileSource::json::<Visit>(args.input));
        if let Some(rate) = args.rate {
            visits = visits.throttle(rate);
        }
        dead.map(|letter| (letter.position.unwrap_or_default(), letter.record)).sink("dead", output("dead"));
        visits
            .clone()
            .key_by(|visit| visit.page)
            .commutative()
            .fold("pages", 0u64, |count, _| *count += 1, |count, more| *count += more)
            .sink("counted", output("pages"));
        let seen = users(visits.clone());
        seen.side(ODD).sink("side", output("odd"));
        seen.sink("seen", output("users"));
        ruled(job, visits.clone()).sink("ruled", output("ruled"));
        lives(visits.clone()).sink("lived", output("lives"));
        fired(visits).sink("fired", output("fired"));
    })
}

/// Of each visit what is known of its user then: how many visits, how many of this page, and the sum of all numbers.
fn users(visits: Stream<Visit>) -> Stream<(u32, u64, u32, usize, u64)> {
    let state = (Map::<u32, u32>::named("pages"), List::<u64>::named("numbers"), Value::<u64>::named("sum"));
    visits.key_by(|visit| visit.user).process("users", state, |(mut pages, mut numbers, mut sum), visit, out| {
        let of_page = pages.update(
            visit.page,
            || 0,
            |count| {
                *count += 1;
                *count
            },
        );
        numbers.push(visit.number);
        let sum = sum.update(
            || 0,
            |sum| {
                *sum += visit.number;
                *sum
            },
        );
        let known: u64 = numbers.read(|numbers| numbers.iter().sum());
        if known != sum {
            return Err(format!("the list of user {} adds up to {known}, not {sum}", visit.user).into());
        }
        if visit.number % 2 == 1 {
            out.emit_to(ODD, (visit.user, visit.number, of_page));
        }
        out.emit((visit.user, visit.number, of_page, numbers.len(), sum));
        Ok(())
    })
}

/// Of each visit the rule for its page, if it was there.
fn ruled(job: &Job, visits: Stream<Visit>) -> Stream<(u32, u64, u32, Option<u32>)> {
    let rules = job.source("rules", MemorySource::new((0..RULES).map(|rule| (rule, rule * rule + 1)).collect()));
    let (state, copy) = (Value::<u64>::named("visits"), Map::<u32, u32>::named("rules"));
    visits.key_by(|visit| visit.user).connect_broadcast(rules).process(
        "rule",
        state,
        copy,
        |mut count, rules, visit, out| {
            count.update(|| 0, |count| *count += 1);
            let rule = rules.get(&(visit.page % RULES));
            out.emit((visit.user, visit.number, visit.page, rule));
            Ok(())
        },
        |rules, (rule, value)| {
            rules.insert(rule, value);
            Ok(())
        },
    )
}

/// Of each visit its moment, and that of the user's visit before if that is still remembered.
fn lives(visits: Stream<Visit>) -> Stream<(u32, u64, u64, Option<u64>)> {
    let last = Value::<u64>::named("last").ttl(TTL);
    visits.key_by(|visit| visit.user).process("lives", last, |mut last, visit, out| {
        let (now, kept) = (out.now().millis(), last.get().copied());
        last.set(now);
        out.emit((visit.user, visit.number, now, kept));
        Ok(())
    })
}

/// Each number, when its timer fires.
fn fired(visits: Stream<Visit>) -> Stream<u64> {
    visits.key_by(|visit| visit.number).process_with_timers(
        "timers",
        Value::<u64>::named("number"),
        |mut number, visit, out| {
            number.set(visit.number);
            out.timer_after(DELAY);
            Ok(())
        },
        |mut number, _moment, out| {
            let kept = number.get().copied().ok_or("a timer without its state")?;
            number.clear();
            out.emit(kept);
            Ok(())
        },
    )
}
