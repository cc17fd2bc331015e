//! Broadcast maps: every worker has a copy, and it is told once.

use super::{Json, lines, must, place, text};
use flott::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// Rules that all workers get, one after the other, over and over; runs until it is stopped.
fn ruled(place: &Path, name: &str, workers: u16) -> Job {
    let job = Job::new("ruled");
    job.checkpoint_dir(text(place.join(name))).workers(workers);
    let rules = job.source("rules", MemorySource::new((0..1_000_000u64).collect())).throttle(4_000);
    let data = job.source("data", MemorySource::new((0..1_000_000u64).collect())).throttle(100);
    data.key_by(|n| n % 10)
        .connect_broadcast(rules)
        .process(
            "apply",
            Value::<u64>::named("seen"),
            Map::<u64, u64>::named("rules"),
            |mut seen, rules, _, out| {
                seen.update(|| 0, |seen| *seen += 1);
                out.emit(rules.get(&0));
                Ok(())
            },
            |rules, rule| {
                match rule % 7 {
                    0 => drop(rules.remove(&(rule / 2 % 5_000))),
                    _ => rules.insert(rule % 5_000, rule),
                }
                Ok(())
            },
        )
        .sink("out", MemorySink::new());
    job
}

/// Lets it take some records more, and stops it with a savepoint.
fn savepoint(place: &Path, name: &str, job: &Job, records: u64) -> String {
    let (taken, running) = (text(place.join(name).join("taken")), job.spawn().expect("it starts"));
    while running.status().records_in < records {
        std::thread::yield_now();
    }
    running.stop_with_savepoint(taken.clone(), false).expect("it is taken");
    running.wait().expect("it stopped");
    taken
}

fn rules(directory: &str) -> BTreeMap<String, Json> {
    let rows = lines(&must(&["state", "export", directory, "--state", "rules"]));
    let count = rows.len();
    let part = |row: &Json, name: &str| row.get(name).expect("it is there").clone();
    let rules: BTreeMap<_, _> = rows.iter().map(|row| (part(row, "map_key").to_string(), part(row, "value"))).collect();
    assert_eq!(rules.len(), count, "a rule is exported once");
    rules
}

#[test]
fn a_diff_counts_a_broadcast_map_once_whatever_the_numbers_of_workers() {
    let place = place();
    let one = savepoint(place.path(), "one", &ruled(place.path(), "one", 2), 1_000);
    for (name, workers) in [("same", 2), ("other", 3)] {
        let job = ruled(place.path(), name, workers);
        job.restore_from(one.clone());
        let two = savepoint(place.path(), name, &job, 1_000);
        let (before, after) = (rules(&one), rules(&two));
        let added = after.keys().filter(|rule| !before.contains_key(*rule)).count();
        let removed = before.keys().filter(|rule| !after.contains_key(*rule)).count();
        let changed = after.iter().filter(|(rule, value)| before.get(*rule).is_some_and(|old| old != *value)).count();
        assert!(added > 0 && removed > 0, "{added} added, {removed} removed");
        let told = lines(&must(&["checkpoints", "diff", &one, &two, "--state", "rules", "--keys", "--json"]));
        let (sum, keys) = told.split_last().expect("a line for the state");
        let numbers =
            ["before", "after", "added", "removed", "changed"].map(|name| sum[name].as_u64().expect("a number"));
        assert_eq!(
            numbers.map(|number| number as usize),
            [before.len(), after.len(), added, removed, changed],
            "{name}"
        );
        assert_eq!(keys.len(), added + removed + changed, "{name}");
        assert!(keys.iter().all(|line| line.get("key").is_none() && line.get("map_key").is_some()), "{name}: {keys:?}");
    }
}
