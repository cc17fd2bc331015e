//! A job for long runs (`cargo xtask soak`): keys come and go all the time, so that what it holds stays about the same.
//!
//! Record `i` belongs to slot `i % slots`; a slot has one key after the other, each for so many records. A key's last record
//! gives out one row, `key,count,sum`, and then every second key is removed, the others expire. Whoever knows the arguments
//! knows every row. On demand its code panics at random moments.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the moments of panics are those of a real clock")]

use flott::connector::Generator;
use flott::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
struct Args {
    /// Directory for the output
    #[arg(long)]
    output: PathBuf,
    /// So many records in all
    #[arg(long)]
    records: u64,
    /// So many a second
    #[arg(long)]
    rate: f64,
    /// Keys that are alive at a time; even
    #[arg(long)]
    slots: u64,
    /// Records of a key
    #[arg(long)]
    life: u64,
    /// After how many milliseconds a key expires
    #[arg(long)]
    ttl: u64,
    /// Panic every so many milliseconds, more or less; 0: never
    #[arg(long)]
    panic_every: u64,
    /// Decides the moments
    #[arg(long)]
    seed: u64,
}

/// A record, reduced to what counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Visit {
    key: u64,
    value: u64,
    is_last: bool,
}

/// What is known of a key.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Seen {
    count: u64,
    sum: u64,
}

/// A row of the output.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    key: u64,
    count: u64,
    sum: u64,
}

/// The record of this number.
fn visit(index: u64, slots: u64, life: u64) -> Visit {
    let (slot, round) = (index % slots, index / slots);
    // Slots begin at different points of a life, so that keys end all the time and not all at once.
    let age = round + slot % life;
    Visit { key: age / life * slots + slot, value: mix(index), is_last: age % life == life - 1 }
}

/// The finisher of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// When the code of the job panics next.
struct Trouble {
    every: u64,
    next: Mutex<(u64, Instant)>,
}

impl Trouble {
    fn new(every: u64, seed: u64) -> Trouble {
        Trouble { every, next: Mutex::new((seed, Instant::now() + Duration::from_millis(every))) }
    }

    fn make(&self) {
        if self.every == 0 {
            return;
        }
        // A panic must not poison what decides about the next one.
        let is_due = {
            let mut next = self.next.lock().expect("nobody panics with the lock");
            let is_due = Instant::now() >= next.1;
            if is_due {
                next.0 = next.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
                next.1 = Instant::now() + Duration::from_millis(self.every / 2 + mix(next.0) % self.every);
            }
            is_due
        };
        assert!(!is_due, "a panic on purpose");
    }
}

fn main() -> flott::Result<()> {
    flott::main_with::<Args>("churning", |args, job| {
        let Args { output, records, rate, slots, life, ttl, panic_every, seed } = args;
        job.longest_restart_delay(Duration::from_millis(200));
        let trouble = Trouble::new(panic_every, seed);
        let seen = Value::<Seen>::named("seen").ttl(Duration::from_millis(ttl));
        job.source(
            "visits",
            Generator::new(records, seed, move |index, _| visit(index, slots, life)).splits(2).rate(rate),
        )
        .key_by(|visit| visit.key)
        .process("count", seen, move |mut seen, visit, out| {
            trouble.make();
            let Seen { count, sum } = seen.update(Seen::default, |seen| {
                seen.count += 1;
                seen.sum = seen.sum.wrapping_add(visit.value);
                seen.clone()
            });
            if visit.is_last {
                if visit.key % 2 == 0 {
                    seen.clear();
                }
                out.emit(Row { key: visit.key, count, sum });
            }
            Ok(())
        })
        .sink("out", FileSink::csv(output));
    })
}
