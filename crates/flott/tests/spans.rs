//! What somebody who listens by `tracing` sees of a job: its attempt, and each subtask's part of each checkpoint, with their
//! places. In a file of its own, because whoever listens does so for the whole process.

use flott::connector::FileSink;
use flott::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A span as it was made.
#[derive(Clone, Debug, Default)]
struct Seen {
    name: &'static str,
    parent: Option<u64>,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

/// Keeps every span of the engine, in the order in which they were made.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<Seen>>>);

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "flott" && metadata.is_span()
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let parent = attributes.parent().map(Id::into_u64);
        let mut seen = Seen { name: attributes.metadata().name(), parent, ..Seen::default() };
        attributes.record(&mut seen);
        let mut all = self.0.lock().expect("nobody panics with it");
        all.push(seen);
        Id::from_u64(all.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn job(out: &std::path::Path, checkpoints: &std::path::Path) -> Job {
    let job = Job::new("traced");
    job.workers(2).checkpoint_dir(checkpoints.display().to_string()).checkpoint_interval(Duration::from_millis(20));
    job.source("numbers", Generator::new(2_000, 1, |n, _| n).splits(2).rate(10_000.0))
        .key_by(|n| n % 10)
        .fold("count", 0u64, |count, _| *count += 1)
        .sink("out", FileSink::csv(out));
    job
}

#[test]
fn every_part_of_a_checkpoint_has_a_span_with_its_place_and_its_stages_and_no_record_has_one() {
    let listener = Listener::default();
    tracing::subscriber::set_global_default(listener.clone()).expect("the first one");
    let place = tempfile::tempdir().expect("a directory");
    let report = job(&place.path().join("out"), &place.path().join("checkpoints")).run().expect("it finishes");
    let last = report.checkpoint.expect("a final checkpoint").to_string();
    let spans = listener.0.lock().expect("nobody panics with it").clone();
    let is = |seen: &Seen, name: &str, fields: &[(&str, &str)]| {
        seen.name == name && fields.iter().all(|(field, value)| seen.fields.get(field).is_some_and(|is| is == value))
    };

    let attempts: Vec<&Seen> = spans.iter().filter(|seen| seen.name == "attempt").collect();
    assert_eq!(attempts.len(), 1);
    assert!(is(attempts[0], "attempt", &[("job", "traced"), ("workers", "2")]), "{attempts:?}");
    for operator in ["numbers", "count"] {
        for subtask in ["0", "1"] {
            let fields = [("job", "traced"), ("subtask", subtask), ("checkpoint", last.as_str()), ("mode", "aligned")];
            let parts = (1u64..).zip(&spans).filter(|(_, seen)| is(seen, "checkpoint", &fields));
            // A chain is named by its operators.
            let mut parts = parts.filter(|(_, seen)| seen.fields["operator"].contains(operator));
            let (id, _) = parts.next().unwrap_or_else(|| panic!("no part of {operator} {subtask}: {spans:#?}"));
            assert!(parts.next().is_none(), "{operator} {subtask} has two parts of checkpoint {last}");
            let stages = spans.iter().filter(|seen| seen.parent == Some(id)).map(|seen| seen.name);
            assert_eq!(stages.collect::<Vec<_>>(), ["cut", "snapshot", "prepare", "upload", "ack"]);
        }
    }
    let commits =
        |id: &str| spans.iter().filter(|seen| is(seen, "commit", &[("operator", "out"), ("checkpoint", id)])).count();
    let with_output = (1..=last.parse::<u64>().expect("a number")).filter(|id| commits(&id.to_string()) > 0).count();
    assert!(with_output >= 1, "{spans:#?}");

    // As many as there are parts and calls, and no more: 2,000 records have none.
    let parts = spans.iter().filter(|seen| seen.name == "checkpoint").count();
    assert!(parts >= 4 && spans.len() <= parts * 6 + commits_in(&spans) + 8, "{} spans for {parts} parts", spans.len());
}

/// Calls of sinks.
fn commits_in(spans: &[Seen]) -> usize {
    spans.iter().filter(|seen| ["commit", "prepare"].contains(&seen.name) && seen.parent.is_none()).count()
}
