//! A value lives as long as it says after its last write, and no restore makes it live longer or die earlier.

use crate::prelude::*;
use crate::testing::{Crash, Test};
use std::collections::BTreeMap;
use std::time::Duration;

const TTL: u64 = 6;

/// Key, number, moment, and the moment that was kept.
type Step = (u64, u64, u64, Option<u64>);

/// Numbers of frequent and of rare keys. Every second record only looks.
fn remembering(out: &MemorySink<Step>) -> Job {
    let job = Job::new("remembering");
    let last = Value::<u64>::named("last").ttl(Duration::from_millis(TTL));
    job.source("numbers", MemorySource::new((0..1_200u64).collect()))
        .throttle(10_000)
        .key_by(|n| if n % 10 < 8 { n % 4 } else { 4 + n % 300 })
        .process("remember", (last, Value::<u64>::named("seen")), |(mut last, mut seen), n, out| {
            let now = out.now().millis();
            let kept = last.get().copied();
            assert_eq!(kept, last.read(|last| last.copied()));
            // The three ways to write.
            match seen.update(|| 0, |seen| (*seen += 1, *seen).1) % 3 {
                0 => last.set(now),
                1 => {
                    let begun = last.update(|| u64::MAX, |last| std::mem::replace(last, now));
                    assert_eq!(kept.unwrap_or(u64::MAX), begun, "an expired value was changed");
                }
                _ => {
                    last.clear();
                    assert_eq!(last.get(), None);
                    last.set(now);
                }
            }
            out.emit((*out.key, n, now, kept));
            Ok(())
        })
        .sink("out", out.clone());
    job
}

fn check(steps: &[Step]) -> (usize, usize) {
    let mut last = BTreeMap::new();
    let (mut alive, mut expired) = (0, 0);
    for (key, n, now, kept) in steps {
        if let Some(before) = last.insert(*key, *now) {
            let lives = now - before < TTL;
            assert_eq!(*kept, lives.then_some(before), "key {key}, number {n} at {now}, written at {before}");
            alive += usize::from(lives);
            expired += usize::from(!lives);
        } else {
            assert_eq!(*kept, None);
        }
    }
    (alive, expired)
}

#[test]
fn values_expire_after_their_last_write_through_crashes() {
    let (mut alive, mut expired, mut restored) = (0, 0, 0);
    for seed in 0..15 {
        let out = MemorySink::new();
        let job = remembering(&out);
        let test = Test::new(&job).seed(seed).interval(Duration::from_millis(3 + seed % 4));
        let tested = test.crash(Crash::AfterCheckpoint(2)).crash(Crash::AfterCheckpoint(1 + seed % 3)).run().unwrap();
        let mut steps = out.committed();
        steps.sort_unstable_by_key(|step| step.1);
        assert!(steps.iter().map(|step| step.1).eq(0..1_200), "seed {seed}");
        let counts = check(&steps);
        (alive, expired, restored) = (alive + counts.0, expired + counts.1, restored + tested.restored.len());
    }
    assert!(alive > 1_000 && expired > 1_000 && restored >= 30, "{alive} {expired} {restored}");
}
