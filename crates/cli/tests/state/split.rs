//! Split lists in a file and back: whoever had an element, somebody has it again.

use super::{lines, must, must_verify, place, run, text};
use flott::prelude::*;
use std::path::Path;

const NUMBERS: u64 = 4_000;

/// Gathers numbers from `first` on, and gives them out at the end.
fn gathering(place: &Path, name: &str, (workers, first): (u16, u64), rate: Option<u64>) -> (Job, MemorySink<Vec<u64>>) {
    let (job, out) = (Job::new("gathering"), MemorySink::new());
    job.checkpoint_dir(text(place.join(name))).workers(workers);
    let splits = (0..8).map(|split| (0..NUMBERS / 8).map(|n| first + n * 8 + split).collect()).collect();
    let mut numbers = job.source("numbers", MemorySource::with_splits(splits));
    if let Some(rate) = rate {
        numbers = numbers.throttle(rate);
    }
    let gathered = numbers.process_with_list(
        "gather",
        SplitList::<u64>::named("waiting"),
        |mut waiting, n, _| {
            waiting.push(n);
            Ok(())
        },
        |waiting, out| {
            out.emit(waiting.to_vec());
            Ok(())
        },
    );
    gathered.sink("out", out.clone());
    (job, out)
}

/// Stops such a job in the middle of its input, with a savepoint.
fn savepoint(place: &Path, name: &str, (workers, first): (u16, u64)) -> String {
    let ((job, _), taken) =
        (gathering(place, name, (workers, first), Some(1_000)), text(place.join(name).join("taken")));
    let running = job.spawn().expect("it starts");
    while running.status().records_in < 300 {
        std::thread::yield_now();
    }
    running.stop_with_savepoint(taken.clone(), false).expect("it is taken");
    running.wait().expect("it stopped");
    taken
}

fn elements(directory: &str) -> Vec<u64> {
    let rows = lines(&must(&["state", "export", directory]));
    assert!(rows.iter().all(|row| row.get("key").is_none() && row.get("position").is_none()));
    let mut elements: Vec<u64> = rows.iter().map(|row| row["value"].as_u64().expect("a number")).collect();
    elements.sort_unstable();
    elements
}

#[test]
fn the_elements_of_four_workers_are_dealt_out_to_the_two_of_the_template_and_the_job_has_them() {
    let place = place();
    let from = savepoint(place.path(), "four", (4, 0));
    let template = savepoint(place.path(), "two", (2, 100_000));
    let exported = elements(&from);
    assert!(exported.len() > 100, "{}", exported.len());
    for (format, merge, workers) in [("json", false, 2), ("csv", false, 2), ("json", true, 2), ("csv", true, 3)] {
        let name = format!("{format}-{merge}-{workers}");
        let (file, to) = (text(place.path().join(format!("{name}.{format}"))), text(place.path().join(&name)));
        must(&["state", "export", &from, "--operator", "gather", "--format", format, "-o", &file]);
        let mut arguments = vec!["state", "import", &file, "--from", &template, "--to", &to, "--operator", "gather"];
        arguments.extend(merge.then_some("--merge"));
        must(&arguments);
        must_verify(&to);
        let mut expected = exported.clone();
        expected.extend(elements(&template).into_iter().filter(|_| merge));
        assert_eq!(elements(&to), expected, "{name}");
        let count = lines(&must(&["state", "count", &to, "--json"]));
        assert_eq!((&count[0]["keys"], &count[0]["entries"]), (&2.into(), &expected.len().into()), "{name}");

        let (job, out) = gathering(place.path(), &format!("{name}-run"), (workers, 100_000), None);
        job.restore_from(to);
        job.run().expect("it runs to its end");
        let mut given: Vec<u64> = out.committed().into_iter().flatten().collect();
        given.sort_unstable();
        if merge {
            expected = exported.iter().copied().chain(100_000..100_000 + NUMBERS).collect();
        } else {
            given.retain(|n| *n < 100_000);
        }
        assert_eq!(given, expected, "{name}");
    }
}

#[test]
fn a_key_without_the_name_of_a_state_is_none_of_a_worker() {
    let place = place();
    let from = savepoint(place.path(), "one", (1, 0));
    // One worker owns all key groups: its own key is the smallest number.
    let (code, stdout, _) = run(&["state", "get", &from, "--key", "0"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert_eq!(must(&["state", "export", &from, "--key", "0"]), "");
    let named = lines(&must(&["state", "get", &from, "--key", "0", "--state", "waiting", "--json"]));
    assert_eq!(named.len(), elements(&from).len());
}
