//! Enums in a file: a checkpoint does not know all variants of a type, so a new one is the job's to judge.

use super::{Json, lines, must, place, run, text};
use flott::prelude::*;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Phase {
    Open,
    Paused { since: u64 },
    Closed,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    phase: Phase,
    lines: u64,
}

/// Orders of which none is closed yet.
fn orders(place: &Path, name: &str) -> Job {
    let job = Job::new("orders");
    job.checkpoint_dir(text(place.join(name))).workers(1);
    job.source("numbers", MemorySource::new((0..1_000_000u64).collect()))
        .throttle(1_000)
        .key_by(|n| n % 10)
        .process("orders", Value::<Order>::named("orders"), |mut order, n, out| {
            if order.get().is_none() {
                let phase = if n % 2 == 0 { Phase::Open } else { Phase::Paused { since: n } };
                order.set(Order { phase, lines: n });
            }
            out.emit(n);
            Ok(())
        })
        .sink("out", MemorySink::new());
    job
}

/// Lets it take some records, and stops it with a savepoint.
fn savepoint(place: &Path, name: &str, job: &Job) -> String {
    let (taken, running) = (text(place.join(name).join("taken")), job.spawn().expect("it starts"));
    while running.status().records_in < 100 {
        std::thread::yield_now();
    }
    running.stop_with_savepoint(taken.clone(), false).expect("it is taken");
    running.wait().expect("it stopped");
    taken
}

fn phases(directory: &str) -> Vec<Json> {
    let rows = lines(&must(&["state", "export", directory]));
    rows.iter().map(|row| row.pointer("/value/phase").expect("it is there").clone()).collect()
}

/// A shape is that of a few values, so it lacks variants that thousands of entries have: to refuse those that it lacks would refuse what
/// was exported before.
#[test]
fn a_variant_that_a_checkpoint_does_not_know_goes_in_and_the_job_judges_it_at_its_start() {
    let place = place();
    let from = savepoint(place.path(), "first", &orders(place.path(), "first"));
    assert!(phases(&from).iter().any(|phase| phase["Paused"]["since"] == 7), "{:?}", phases(&from));
    let known = lines(&must(&["state", "list", &from, "--json"]))[0].to_string();
    assert!(!known.contains("Closed"), "{known}");
    let import = |name: &str, phase: &str| {
        let (file, to) = (text(place.path().join("rows.jsonl")), text(place.path().join(name)));
        fs::write(&file, format!("{{\"key\":3,\"value\":{{\"phase\":{phase},\"lines\":1}}}}\n")).expect("written");
        let (code, _, stderr) =
            run(&["state", "import", &file, "--from", &from, "--to", &to, "--operator", "orders", "--merge"]);
        assert_eq!(code, 0, "{stderr}");
        to
    };
    let closed = import("closed", "\"Closed\"");
    let job = orders(place.path(), "goes-on");
    job.restore_from(closed);
    let after = phases(&savepoint(place.path(), "goes-on", &job));
    assert_eq!(after.iter().filter(|phase| *phase == "Closed").count(), 1, "{after:?}");
    assert!(after.iter().any(|phase| phase["Paused"]["since"] == 7), "{after:?}");
    let misspelt = import("misspelt", "\"Shut\"");
    let job = orders(place.path(), "refused");
    job.restore_from(misspelt);
    let error = job.run().expect_err("there is no such variant");
    assert_eq!(error.kind().exit_code(), 4, "{error}");
    assert!(error.to_string().contains("Shut") && error.to_string().contains("key 3"), "{error}");
}
