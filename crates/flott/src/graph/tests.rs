//! What a graph freezes into: vertices, edges, names, and what is refused before the start. Nothing is run.

use crate::graph::Frozen;
use crate::{Error, Job, Stream};
use flott_runtime::error::ErrorKind;
use flott_runtime::plan::{Partitioning, Plan};
use flott_runtime::sink::{Committer, Sink, SinkContext, SinkWriter};
use flott_runtime::source::{BoxedReader, Source, SourceContext};
use flott_runtime::time::Time;
use std::sync::Arc;

/// A source that is only planned, never opened.
struct Planned;

impl Source for Planned {
    type Item = u64;
    type Position = u64;
    fn splits(&self, _: &SourceContext) -> crate::Result<Vec<String>> {
        Ok(Vec::new())
    }
    fn open(&self, split: &str, _: Option<u64>, _: &SourceContext) -> crate::Result<BoxedReader<u64, u64>> {
        Err(Error::failed(format!("split {split} is only planned")))
    }
    fn is_bounded(&self) -> bool {
        true
    }
}

struct PlannedSink;

struct NoWriter;

impl<T: Send + 'static> Sink<T> for PlannedSink {
    type Writer = NoWriter;
    fn open(&self, _: &SinkContext) -> crate::Result<NoWriter> {
        Ok(NoWriter)
    }
    fn committer(&self, _: &SinkContext) -> Option<Arc<dyn Committer>> {
        None
    }
    fn is_transactional(&self) -> bool {
        false
    }
}

impl<T> SinkWriter<T> for NoWriter {
    fn write(&mut self, _: T, _: Time) -> crate::Result<()> {
        Ok(())
    }
    fn seal(&mut self, _: flott_checkpoint::CheckpointId) -> Option<flott_runtime::sink::Sealed> {
        None
    }
}

fn freeze(build: impl FnOnce(&Job)) -> crate::Result<Frozen> {
    let job = Job::new("planned");
    build(&job);
    job.freeze()
}

fn plan(build: impl FnOnce(&Job)) -> Arc<Plan> {
    freeze(build).unwrap().plan
}

fn refusal(build: impl FnOnce(&Job)) -> String {
    let error = freeze(build).err().expect("the job is refused");
    assert_eq!(error.kind(), ErrorKind::Refused);
    error.to_string()
}

/// From, to, input, partitioning.
type EdgeShape = (u16, u16, u8, Partitioning);

/// Vertices by name, and edges.
fn shape(plan: &Plan) -> (Vec<&str>, Vec<EdgeShape>) {
    let names = plan.vertices.iter().map(|vertex| vertex.name.as_str()).collect();
    (names, plan.edges.iter().map(|edge| (edge.from, edge.to, edge.input, edge.partitioning)).collect())
}

fn source(job: &Job) -> Stream<u64> {
    job.source("in", Planned)
}

#[test]
fn operators_that_keep_their_subtask_are_one_chain() {
    let plan = plan(|job| {
        source(job).map(|n| n + 1).filter(|n| n % 2 == 0).flat_map(|n| [n, n]).inspect(|_| ()).sink("out", PlannedSink);
    });
    assert_eq!(shape(&plan), (vec!["in, out"], vec![]));
    assert!(plan.vertices[0].is_source);
}

#[test]
fn key_by_breaks_the_chain_and_spreads_by_hash() {
    let plan = plan(|job| {
        source(job).key_by(|n| n % 10).fold("count", 0u64, |count, _| *count += 1).sink("out", PlannedSink);
    });
    assert_eq!(shape(&plan), (vec!["in", "count, out"], vec![(0, 1, 0, Partitioning::Hash)]));
    assert_eq!((plan.vertices[0].outputs.as_slice(), plan.vertices[1].inputs.as_slice()), (&[0][..], &[0][..]));
    assert_eq!(plan.operators[1].states[0].name, "fold");
}

#[test]
fn rebalance_and_broadcast_break_the_chain() {
    let plan = plan(|job| {
        source(job).rebalance().map(|n| n).broadcast().sink("out", PlannedSink);
    });
    let edges = vec![(0, 1, 0, Partitioning::Rebalance), (1, 2, 0, Partitioning::Broadcast)];
    assert_eq!(shape(&plan), (vec!["in", "chain 1", "out"], edges));
}

#[test]
fn a_union_has_one_input_a_side_and_stays_on_its_worker() {
    let plan = plan(|job| {
        let other = job.source("other", Planned);
        source(job).union(other).sink("out", PlannedSink);
    });
    let edges = vec![(1, 2, 0, Partitioning::Forward), (0, 2, 1, Partitioning::Forward)];
    assert_eq!(shape(&plan), (vec!["other", "in", "out"], edges));
}

#[test]
fn a_clone_is_a_fork_and_both_ends_are_in_the_plan() {
    let plan = plan(|job| {
        let stream = source(job).map(|n| n);
        stream.clone().key_by(|n| *n).reduce("last", |last, n| *last = n).sink("keyed", PlannedSink);
        stream.sink("plain", PlannedSink);
    });
    assert_eq!(shape(&plan), (vec!["in, plain", "last, keyed"], vec![(0, 1, 0, Partitioning::Hash)]));
}

#[test]
fn the_same_stream_twice_in_a_union_is_two_channels() {
    let plan = plan(|job| {
        let stream = source(job);
        stream.clone().union(stream).sink("out", PlannedSink);
    });
    assert_eq!(plan.vertices[1].inputs, [0, 1]);
}

#[test]
fn a_duplicate_name_is_refused_and_named() {
    let error = refusal(|job| {
        let stream = source(job).key_by(|n| *n).fold("in", 0u64, |sum, n| *sum += n);
        stream.sink("out", PlannedSink);
    });
    assert!(error.contains("two operators are called `in`"), "{error}");
}

#[test]
fn names_that_no_file_can_have_are_refused() {
    for name in ["", ".hidden", "a/b", "new\nline", "back`tick", &"x".repeat(65)] {
        let error = refusal(|job| drop(source(job).sink(name, PlannedSink)));
        assert!(error.contains("name"), "{name}: {error}");
    }
}

#[test]
fn a_job_without_a_source_and_a_source_without_a_consumer_are_refused() {
    assert!(refusal(|_| ()).contains("no source"));
    assert!(refusal(|job| drop(source(job))).contains("nothing consumes the source `in`"));
}

#[test]
fn a_stream_without_a_consumer_is_a_warning() {
    let frozen = freeze(|job| drop(source(job).inspect(|_| ()))).unwrap();
    assert_eq!(frozen.warnings, ["nothing consumes the stream of `inspect after in`: its records are dropped"]);
}

#[test]
fn renamed_from_goes_to_the_operator_before_it_and_nowhere_else() {
    let plan = plan(|job| {
        let stream = source(job).renamed_from("old-in").key_by(|n| *n).fold("sum", 0, |sum, n| *sum += n);
        stream.renamed_from("old-sum").sink("out", PlannedSink).renamed_from("old-out");
    });
    let old: Vec<_> = plan.operators.iter().map(|operator| operator.renamed_from.as_deref()).collect();
    assert_eq!(old, [Some("old-in"), Some("old-sum"), Some("old-out")]);
    let error = refusal(|job| drop(source(job).map(|n| n).renamed_from("x").sink("out", PlannedSink)));
    assert!(error.contains("map after in"), "{error}");
    let error = refusal(|job| drop(source(job).sink("out", PlannedSink).renamed_from("in")));
    assert!(error.contains("still has that name"), "{error}");
}

#[test]
fn a_throttle_outside_of_its_limits_is_refused() {
    for rate in [0, 1_000_000_001] {
        let error = refusal(|job| drop(source(job).throttle(rate).sink("out", PlannedSink)));
        assert!(error.contains("throttle"), "{error}");
    }
}

#[test]
fn a_union_of_two_jobs_is_refused() {
    let other = Job::new("other");
    let error = refusal(|job| drop(source(job).union(source(&other)).sink("out", PlannedSink)));
    assert!(error.contains("two jobs"), "{error}");
}

#[test]
fn skipped_records_are_counted_under_the_operator_s_label() {
    let frozen = freeze(|job| {
        let parse = |n: u64| u8::try_from(n);
        source(job)
            .try_map(crate::OnError::Skip, parse)
            .try_map(crate::OnError::Fail, |n| if n > 0 { Ok(n) } else { Err("none") })
            .sink("out", PlannedSink);
    });
    let labels: Vec<_> = frozen.unwrap().skipped.into_iter().map(|skipped| skipped.operator).collect();
    assert_eq!(labels, ["try_map after in"]);
}
