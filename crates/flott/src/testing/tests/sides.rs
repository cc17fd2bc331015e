//! Side outputs are as exact as the stream beside them, and none is dropped in silence.

use crate::prelude::*;
use crate::testing::{Crash, MemoryFiles, Test};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const ODD: SideOutput<String> = SideOutput::named("odd");

fn parted(numbers: u64, even: &MemorySink<u64>, odd: Option<&MemorySink<String>>) -> Job {
    let job = Job::new("parted");
    let stream = job.source("numbers", MemorySource::new((0..numbers).collect())).key_by(|n| n % 7).process(
        "part",
        Value::<u64>::named("seen"),
        |mut seen, n, out| {
            seen.update(|| 0, |seen| *seen += 1);
            if n % 2 == 0 {
                out.emit(n)
            } else {
                out.emit_to(ODD, n.to_string())
            }
            Ok(())
        },
    );
    if let Some(odd) = odd {
        stream.side(ODD).map(|text| text + "!").sink("odd", odd.clone());
    }
    stream.sink("even", even.clone());
    job
}

#[test]
fn side_outputs_are_exact_through_crashes() {
    for seed in 0..10 {
        let (even, odd) = (MemorySink::new(), MemorySink::new());
        let job = parted(2_000, &even, Some(&odd));
        let test = Test::new(&job).seed(seed).interval(std::time::Duration::from_millis(3));
        test.crash(Crash::AfterCheckpoint(2)).crash(Crash::AtTurn(70 + seed)).run().unwrap();
        let (mut even, mut odd) = (even.committed(), odd.committed());
        even.sort_unstable();
        odd.sort_unstable();
        let mut expected: Vec<String> = (0..1_000).map(|n| format!("{}!", 2 * n + 1)).collect();
        expected.sort_unstable();
        assert!(even.into_iter().eq((0..1_000).map(|n| 2 * n)), "seed {seed}");
        assert_eq!(odd, expected, "seed {seed}");
    }
}

#[test]
fn a_side_output_can_be_taken_twice_and_crosses_to_other_workers() {
    let (even, first, second) = (MemorySink::new(), MemorySink::new(), MemorySink::new());
    let job = Job::new("twice");
    let parted = job.source("numbers", MemorySource::new((0..100u64).collect())).key_by(|n| *n).process(
        "part",
        Value::<u64>::named("unused"),
        |_, n, out| {
            out.emit_to(ODD, n.to_string());
            out.emit(n);
            Ok(())
        },
    );
    parted.side(ODD).rebalance().sink("first", first.clone());
    parted.side(ODD).sink("second", second.clone());
    parted.sink("even", even.clone());
    Test::new(&job).run().unwrap();
    assert_eq!((even.committed().len(), first.committed().len(), second.committed().len()), (100, 100, 100));
}

#[test]
fn a_record_for_a_side_output_that_nobody_took_is_an_error_that_names_both() {
    let error = Test::new(&parted(10, &MemorySink::new(), None)).without_checkpoints().run().unwrap_err().to_string();
    assert!(error.contains("operator `part`") && error.contains("`odd`") && error.contains(".side("), "{error}");
}

#[test]
fn a_side_output_in_the_wrong_place_or_of_two_types_is_refused() {
    let job = Job::new("wrong");
    let numbers = job.source("numbers", MemorySource::new((0..10u64).collect()));
    numbers.clone().map(|n| n).side(ODD).sink("a", MemorySink::new());
    let counts = numbers.clone().key_by(|n| *n).fold("count", 0u64, |count, _| *count += 1);
    counts.side(ODD).sink("b", MemorySink::new());
    let part = numbers.key_by(|n| *n).process("part", Value::<u64>::named("n"), |_, n, out| {
        out.emit(n);
        Ok(())
    });
    part.side(ODD).sink("c", MemorySink::new());
    part.side(SideOutput::<u64>::named("odd")).sink("d", MemorySink::new());
    part.sink("e", MemorySink::new());
    let error = Test::new(&job).run().unwrap_err().to_string();
    for place in ["`map after numbers`", "`count`", "`odd of part` is taken twice"] {
        assert!(error.contains(place), "{place}: {error}");
    }
}

#[test]
fn dead_letters_keep_record_error_and_operator_and_are_exact_through_crashes() {
    for seed in 0..10 {
        let (numbers, dead) = (MemorySink::new(), MemorySink::new());
        let job = Job::new("dead");
        let lines: Vec<String> = (0..1_500).map(|n| if n % 5 == 0 { format!("x{n}") } else { n.to_string() }).collect();
        let lines = job.source("lines", MemorySource::new(lines));
        let (good, bad) = lines.try_map_or_dead_letter(|line| line.parse::<u64>());
        good.key_by(|n| n % 3).fold("count", 0u64, |count, _| *count += 1).sink("numbers", numbers.clone());
        bad.rebalance().sink("dead", dead.clone());
        let test = Test::new(&job).seed(seed).interval(std::time::Duration::from_millis(3));
        test.crash(Crash::AfterCheckpoint(1)).crash(Crash::AtTurn(50 + seed)).run().unwrap();
        assert_eq!(numbers.committed().len(), 1_200, "seed {seed}");
        let mut letters = dead.committed();
        letters.sort_unstable_by(|a: &DeadLetter<String>, b| a.record.cmp(&b.record));
        let mut expected: Vec<DeadLetter<String>> = (0..300)
            .map(|n| DeadLetter {
                record: format!("x{}", n * 5),
                error: "invalid digit found in string".to_owned(),
                operator: "try_map after lines".to_owned(),
                position: None,
            })
            .collect();
        expected.sort_unstable_by(|a, b| a.record.cmp(&b.record));
        assert_eq!(letters, expected, "seed {seed}");
    }
}

#[test]
fn results_are_split_in_two() {
    let (good, bad) = (MemorySink::new(), MemorySink::new());
    let job = Job::new("results");
    let numbers = job.source("numbers", MemorySource::new((0..10u64).collect()));
    let (even, odd) = numbers.map(|n| if n % 2 == 0 { Ok(n) } else { Err(n.to_string()) }).split_results();
    even.sink("even", good.clone());
    odd.sink("odd", bad.clone());
    Test::new(&job).workers(1).run().unwrap();
    assert_eq!(good.committed(), [0, 2, 4, 6, 8]);
    assert_eq!(bad.committed(), ["1", "3", "5", "7", "9"]);
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sale {
    shop: String,
    amount: u64,
}

/// Each fifth line is broken; the broken ones with their numbers.
fn sales(header: &str, good: fn(u64) -> String) -> (String, Vec<(String, u64)>) {
    let (mut text, mut broken) = (header.to_owned(), Vec::new());
    let first = 1 + u64::from(!header.is_empty());
    for n in 0..1_500 {
        if n % 5 == 0 {
            broken.push((format!("broken {n}"), first + n));
            text.push_str(&format!("broken {n}\n"));
        } else {
            text.push_str(&good(n));
        }
    }
    (text, broken)
}

#[test]
fn what_a_source_cannot_read_is_as_exact_through_crashes_as_what_it_can() {
    let csv = sales("shop,amount\n", |n| format!("shop-{},{n}\n", n % 7));
    let json = sales("", |n| format!("{{\"shop\":\"shop-{}\",\"amount\":{n}}}\n", n % 7));
    for seed in 0..10 {
        for (name, (text, broken)) in [("sales.csv", &csv), ("sales.jsonl", &json)] {
            let files = MemoryFiles::new();
            files.put(format!("in/{name}"), text);
            let (job, good, dead) = (Job::new("unreadable"), MemorySink::new(), MemorySink::new());
            let path = format!("in/{name}");
            let (sales, letters) = match name {
                "sales.csv" => job.source_or_dead_letter("sales", FileSource::csv::<Sale>(path)),
                _ => job.source_or_dead_letter("sales", FileSource::json::<Sale>(path)),
            };
            let totals = sales.key_by(|sale| sale.shop.clone()).fold("total", 0u64, |n, sale| *n += sale.amount);
            totals.sink("good", good.clone());
            letters.rebalance().sink("dead", dead.clone());
            let test = Test::new(&job).seed(seed).files(Arc::new(files)).interval(std::time::Duration::from_millis(3));
            let tested = test.crash(Crash::AfterCheckpoint(2)).crash(Crash::AtTurn(70 + seed)).run().unwrap();
            assert_eq!(tested.crashes, 2, "{name}, seed {seed}");
            assert_eq!(good.committed().len(), 1_200, "{name}, seed {seed}");
            let mut letters = dead.committed();
            let line = |letter: &DeadLetter<String>| {
                let position = letter.position.as_deref().unwrap().strip_prefix(&format!("{name}, line ")).unwrap();
                position.split(',').next().unwrap().parse::<u64>().unwrap()
            };
            letters.sort_unstable_by_key(line);
            let seen: Vec<_> = letters.iter().map(|letter| (letter.record.clone(), line(letter))).collect();
            assert_eq!(&seen, broken, "{name}, seed {seed}");
            assert!(tested.report.dead_letters["sales"] >= 300, "{name}, seed {seed}");
        }
    }
}
