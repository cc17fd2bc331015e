//! The graphs of the simulated jobs.

use super::input::{Mended, Paced, pattern};
use super::operators::{Count, KeyBy, KeyedRow, Replica, by_key_and_origin, by_serial, by_text};
use super::output::Output;
use super::source::Rows;
use super::{Input, Job, OUTPUT, Row, Shape, SinkKind, process};
use flott_runtime::connector::{FileSink, FileSource, StagedSink};
use flott_runtime::error::Result;
use flott_runtime::key::Key;
use flott_runtime::operator::{Chain, Head, Next};
use flott_runtime::plan::{Edge, OperatorPlan, Partitioning, Plan, Role, StatePlan, Vertex};
use flott_runtime::record::{BatchCodec, TypedCodec};
use flott_runtime::source::DeadLetters;
use flott_runtime::subtask::{Partitioner, SubtaskBuilder};
use std::sync::Arc;

type Build = Box<dyn Fn(&mut SubtaskBuilder) -> Result<Box<dyn Chain>> + Send + Sync>;
type StreamKey = (u64, u32);
/// Makes a chain whose tally is user code.
type Tallying = fn(&Arc<Job>, &mut SubtaskBuilder, Next<Row>) -> Result<Box<dyn Chain>>;

struct Sketch {
    job: Arc<Job>,
    output: Output,
    vertices: Vec<Vertex>,
    edges: Vec<Edge>,
    operators: Vec<OperatorPlan>,
}

/// The plan of a job; what it does not write into files is in `output`.
#[must_use]
pub fn plan(job: &Arc<Job>, output: &Output) -> Plan {
    let (job, output) = (job.clone(), output.clone());
    let mut sketch = Sketch { job, output, vertices: vec![], edges: vec![], operators: vec![] };
    match sketch.job.shape {
        Shape::Count => {
            let from = sketch.keyed_source(0, 0, by_key_and_origin);
            sketch.tally_and_sink::<StreamKey>(&[from]);
        }
        Shape::Union => {
            let from = [sketch.keyed_source(0, 0, by_key_and_origin), sketch.keyed_source(1, 1, by_key_and_origin)];
            sketch.tally_and_sink::<StreamKey>(&from);
        }
        Shape::TwoShuffles => sketch.two_shuffles(),
        Shape::Rebalance => sketch.rebalance(),
        Shape::Broadcast => sketch.broadcast(),
        Shape::Timers => sketch.timers(),
        Shape::Maps => {
            let from = sketch.keyed_source(0, 0, |row| row.key);
            sketch.process::<u64>(&[from], "map", process::maps);
        }
        Shape::Lists => {
            let from = sketch.keyed_source(0, 0, by_key_and_origin);
            sketch.process::<StreamKey>(&[from], "list", process::lists);
        }
        Shape::TwoInputs => {
            let from = [sketch.keyed_source(0, 0, by_key_and_origin), sketch.keyed_source(1, 1, by_key_and_origin)];
            sketch.process::<StreamKey>(&from, "value", process::two_inputs);
        }
        Shape::Gather => sketch.gather(),
        Shape::Expiring => {
            let from = sketch.keyed_source(0, 0, by_key_and_origin);
            sketch.process::<StreamKey>(&[from], "value-ttl", process::expiring);
        }
        Shape::Rules => sketch.rules(),
        Shape::Folds => {
            let from = sketch.keyed_source(0, 0, by_key_and_origin);
            sketch.process::<StreamKey>(&[from], "aggregating", process::folds);
        }
        Shape::Waiting => sketch.waiting(),
    }
    let Sketch { vertices, edges, operators, .. } = sketch;
    Plan { job: "simulated".into(), vertices, edges, operators }
}

fn codec<T: flott_runtime::record::Record>() -> Arc<dyn BatchCodec> {
    Arc::new(TypedCodec::<T>::default())
}

fn sink(builder: &mut SubtaskBuilder, job: &Job, output: &Output) -> Result<Next<Row>> {
    match job.sink {
        SinkKind::Files { part_size, part_age } => {
            builder.sink("out", &FileSink::lines(OUTPUT).max_part_size(part_size).max_part_age(part_age))
        }
        SinkKind::Memory => builder.sink("out", &output.memory),
        SinkKind::Staged => builder.sink("out", &StagedSink::new(output.store.clone())),
    }
}

/// A source of files; if some lines cannot be read, their dead letters go the way of all rows.
fn from_files<S: DeadLetters<Item = Row>>(
    builder: &mut SubtaskBuilder,
    name: &str,
    source: Paced<S>,
    next: Next<Row>,
) -> Box<dyn Chain> {
    if source.job.broken_every == 0 {
        return builder.source(name, Arc::new(source), next);
    }
    let (next, beside) = process::doors(next);
    let mended = Mended { job: source.job.clone(), next: beside };
    builder.source_with_dead_letters(name, Arc::new(source.with_dead_letters()), next, Box::new(mended), Arc::default())
}

impl Sketch {
    fn two_shuffles(&mut self) {
        let from = self.keyed_source(0, 0, by_key_and_origin);
        let job = self.job.clone();
        let first = self.vertex("first", false, move |builder| {
            let next = builder.outlet(1, Partitioner::Hash(|row: &KeyedRow<String>| row.hash));
            let next = Box::new(KeyBy { seed: builder.key_seed(), key: by_text, next });
            let state = builder.value("first", "tally")?;
            let count = Count::<StreamKey> { job: job.clone(), state, next };
            Ok(Box::new(Head::new(Box::new(count) as Next<KeyedRow<StreamKey>>)))
        });
        self.operator("first", first, Role::Stateful, &[("tally", "value")]);
        self.edge(from, first, 0, Partitioning::Hash, codec::<KeyedRow<StreamKey>>());
        self.tally_and_sink::<String>(&[first]);
    }

    fn rebalance(&mut self) {
        let from = self.source(0, |builder| Ok(builder.outlet(0, Partitioner::Rebalance)));
        let spread = self.vertex("spread", false, |builder| {
            let next = builder.outlet(1, Partitioner::Hash(|row: &KeyedRow<StreamKey>| row.hash));
            let keyed = KeyBy { seed: builder.key_seed(), key: by_key_and_origin, next };
            Ok(Box::new(Head::new(Box::new(keyed) as Next<Row>)))
        });
        self.edge(from, spread, 0, Partitioning::Rebalance, codec::<Row>());
        self.tally_and_sink::<StreamKey>(&[spread]);
    }

    fn broadcast(&mut self) {
        let from = self.source(0, |builder| Ok(builder.outlet(0, Partitioner::Broadcast)));
        let (job, output) = (self.job.clone(), self.output.clone());
        let last = self.last("tally", &[("tally", "value")], move |builder| {
            let next = sink(builder, &job, &output)?;
            let state = builder.value("tally", "tally")?;
            let (seed, index, workers) = (builder.key_seed(), builder.id().index, builder.parallelism());
            let replica = Replica { job: job.clone(), seed, index, workers, state, next };
            Ok(Box::new(Head::new(Box::new(replica) as Next<Row>)))
        });
        self.edge(from, last, 0, Partitioning::Broadcast, codec::<Row>());
    }

    fn rules(&mut self) {
        let keyed = self.keyed_source(0, 0, by_key_and_origin);
        let everywhere = self.source(1, |builder| Ok(builder.outlet(1, Partitioner::Broadcast)));
        let (job, output) = (self.job.clone(), self.output.clone());
        let last = self.last("tally", &[("tally", "value"), ("rules", "broadcast")], move |builder| {
            let next = sink(builder, &job, &output)?;
            process::rules(&job, builder, next)
        });
        self.edge(keyed, last, 0, Partitioning::Hash, codec::<KeyedRow<StreamKey>>());
        self.edge(everywhere, last, 1, Partitioning::Broadcast, codec::<Row>());
    }

    fn timers(&mut self) {
        let from = self.keyed_source(0, 0, by_serial);
        let (job, output) = (self.job.clone(), self.output.clone());
        let states = [("waiting", "value"), ("timers", "timers")];
        let last = self.last("delay", &states, move |builder| {
            let next = sink(builder, &job, &output)?;
            process::delay(&job, builder, next)
        });
        self.edge(from, last, 0, Partitioning::Hash, codec::<KeyedRow<StreamKey>>());
    }

    /// A tally that is user code, and the sink, in one chain.
    fn process<K: Key>(&mut self, from: &[u16], kind: &str, chain: Tallying) {
        let (job, output) = (self.job.clone(), self.output.clone());
        let last = self.last("tally", &[("tally", kind)], move |builder| {
            let next = sink(builder, &job, &output)?;
            chain(&job, builder, next)
        });
        for (&from, input) in from.iter().zip(0u8..) {
            self.edge(from, last, input, Partitioning::Hash, codec::<KeyedRow<K>>());
        }
    }

    fn gather(&mut self) {
        let from = self.source(0, |builder| {
            let outlet = builder.outlet(0, Partitioner::Hash(|rows: &process::Rows| rows.hash));
            let next = process::gather(builder, outlet);
            Ok(Box::new(KeyBy { seed: builder.key_seed(), key: by_key_and_origin, next }))
        });
        let (job, output) = (self.job.clone(), self.output.clone());
        let last = self.last("tally", &[("tally", "value")], move |builder| {
            let next = sink(builder, &job, &output)?;
            let state = builder.value("tally", "tally")?;
            let unpack = process::Unpack(Count { job: job.clone(), state, next });
            Ok(Box::new(Head::new(Box::new(unpack) as Next<process::Rows>)))
        });
        self.edge(from, last, 0, Partitioning::Hash, codec::<process::Rows>());
    }

    fn waiting(&mut self) {
        let from = self.source(0, |builder| {
            let next = builder.outlet(0, Partitioner::Hash(|row: &KeyedRow<StreamKey>| row.hash));
            let next = Box::new(KeyBy { seed: builder.key_seed(), key: by_key_and_origin, next });
            process::wait(builder, next)
        });
        self.operator("wait", from, Role::Stateful, &[("waiting", "split-list")]);
        self.tally_and_sink::<StreamKey>(&[from]);
    }

    /// The last vertex of most jobs: a tally and the sink, in one chain.
    fn tally_and_sink<K: Key>(&mut self, from: &[u16]) {
        let (job, output) = (self.job.clone(), self.output.clone());
        let last = self.last("tally", &[("tally", "value")], move |builder| {
            let next = sink(builder, &job, &output)?;
            let state = builder.value("tally", "tally")?;
            let count = Count::<K> { job: job.clone(), state, next };
            Ok(Box::new(Head::new(Box::new(count) as Next<KeyedRow<K>>)))
        });
        for (&from, input) in from.iter().zip(0u8..) {
            self.edge(from, last, input, Partitioning::Hash, codec::<KeyedRow<K>>());
        }
    }

    fn keyed_source<K: Key>(&mut self, source: u32, edge: u16, key: fn(&Row) -> K) -> u16 {
        self.source(source, move |builder| {
            let next = builder.outlet(edge, Partitioner::Hash(|row: &KeyedRow<K>| row.hash));
            Ok(Box::new(KeyBy { seed: builder.key_seed(), key, next }))
        })
    }

    fn source(
        &mut self,
        source: u32,
        next: impl Fn(&mut SubtaskBuilder) -> Result<Next<Row>> + Send + Sync + 'static,
    ) -> u16 {
        let (name, job) = (format!("rows-{source}"), self.job.clone());
        let own = name.clone();
        let vertex = self.vertex(&name, true, move |builder| {
            let next = next(builder)?;
            let (job, files) = (job.clone(), FileSource::json::<Row>(pattern(source)));
            Ok(match job.input {
                Input::Made => builder.source(&own, Arc::new(Rows { job, source }), next),
                Input::Files { watched: None, .. } => from_files(builder, &own, Paced { job, source: files }, next),
                Input::Files { .. } => from_files(builder, &own, Paced { job, source: files.watch() }, next),
            })
        });
        self.operator(&name, vertex, Role::Source { replayable: true, bounded: true }, &[]);
        vertex
    }

    fn last(
        &mut self,
        operator: &str,
        states: &[(&str, &str)],
        build: impl Fn(&mut SubtaskBuilder) -> Result<Box<dyn Chain>> + Send + Sync + 'static,
    ) -> u16 {
        let last = self.vertex("last", false, build);
        self.operator(operator, last, Role::Stateful, states);
        self.operator("out", last, Role::Sink { transactional: true }, &[]);
        last
    }

    fn vertex(
        &mut self,
        name: &str,
        is_source: bool,
        build: impl Fn(&mut SubtaskBuilder) -> Result<Box<dyn Chain>> + Send + Sync + 'static,
    ) -> u16 {
        let build: Build = Box::new(build);
        let (name, build) = (name.to_owned(), Arc::new(build));
        self.vertices.push(Vertex { name, is_source, inputs: vec![], outputs: vec![], build });
        u16::try_from(self.vertices.len() - 1).expect("a handful of vertices")
    }

    fn operator(&mut self, name: &str, vertex: u16, role: Role, states: &[(&str, &str)]) {
        let state = |&(name, kind): &(&str, &str)| StatePlan {
            name: name.to_owned(),
            kind: kind.to_owned(),
            key: String::new(),
            value: String::new(),
        };
        let states = states.iter().map(state).collect();
        self.operators.push(OperatorPlan { name: name.to_owned(), renamed_from: None, vertex, role, states });
    }

    fn edge(&mut self, from: u16, to: u16, input: u8, partitioning: Partitioning, codec: Arc<dyn BatchCodec>) {
        let edge = u16::try_from(self.edges.len()).expect("a handful of edges");
        self.edges.push(Edge { from, to, input, partitioning, codec });
        if let Some(vertex) = self.vertices.get_mut(usize::from(from)) {
            vertex.outputs.push(edge);
        }
        if let Some(vertex) = self.vertices.get_mut(usize::from(to)) {
            vertex.inputs.push(edge);
        }
    }
}
