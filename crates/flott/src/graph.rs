//! The graph that a job's closure draws, and how it is frozen into a plan.
//!
//! Chains break where records change their subtask (`key_by`, `rebalance`, `broadcast`) or where streams meet (`union`);
//! everything else runs in the chain of its input. A stream comes from streams that were there before, so the graph is a
//! DAG by construction.

use crate::sides::SideOutputs;
use flott_checkpoint::LiteSet;
use flott_runtime::error::{Error, Result};
use flott_runtime::operator::Next;
use flott_runtime::operator::fan::fan;
use flott_runtime::operator::try_map::Skipped;
use flott_runtime::plan::{BuildChain, Edge, OperatorPlan, Partitioning, Plan, Role, StatePlan, Vertex};
use flott_runtime::record::{Record, TypedCodec};
use flott_runtime::sink::{Committer, SinkContext};
use flott_runtime::subtask::SubtaskBuilder;
use litemap::LiteMap;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(test)]
mod tests;

/// The longest name of a job or an operator, in bytes: names become parts of file names.
const LONGEST_NAME: usize = 64;

/// Makes one consumer of a stream, in the subtask that is being built.
pub(crate) type MakeNext<T> = Arc<dyn Fn(&mut SubtaskBuilder) -> Result<Next<T>> + Send + Sync>;

/// The consumers of a stream, in the order in which they were attached.
pub(crate) struct Output<T>(Mutex<Vec<MakeNext<T>>>);

impl<T: Clone + 'static> Output<T> {
    pub(crate) fn new() -> Arc<Output<T>> {
        Arc::new(Output(Mutex::new(Vec::new())))
    }

    pub(crate) fn attach(&self, consumer: MakeNext<T>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(consumer);
    }

    pub(crate) fn is_dangling(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Instantiates all consumers in a subtask.
    pub(crate) fn make(&self, builder: &mut SubtaskBuilder) -> Result<Next<T>> {
        let consumers = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(fan(consumers.iter().map(|make| make(builder)).collect::<Result<_>>()?))
    }
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Graph {
    vertices: Vec<VertexDraft>,
    edges: Vec<Edge>,
    operators: Vec<OperatorPlan>,
    /// Asked when the graph is frozen: does anybody consume this stream?
    streams: Vec<StreamDraft>,
    skipped: Vec<Skipped>,
    dead_letters: Vec<Skipped>,
    /// By the operator that has them.
    sides: LiteMap<usize, Arc<SideOutputs>>,
    labels: LiteSet<String>,
    outputs: Vec<String>,
    committers: Vec<(String, MakeCommitter)>,
    errors: Vec<String>,
}

struct VertexDraft {
    names: Vec<String>,
    is_source: bool,
    inputs: Vec<u16>,
    outputs: Vec<u16>,
    build: BuildChain,
}

struct StreamDraft {
    label: String,
    from_source: bool,
    is_dangling: Box<dyn Fn() -> bool>,
}

/// A frozen graph.
pub(crate) struct Frozen {
    pub(crate) plan: Arc<Plan>,
    /// What is odd and stops nothing.
    pub(crate) warnings: Vec<String>,
    /// The counters of `OnError::Skip`.
    pub(crate) skipped: Vec<Skipped>,
    /// The counters of dead letters.
    pub(crate) dead_letters: Vec<Skipped>,
    /// Where sinks put their output, as far as they say.
    pub(crate) outputs: Vec<String>,
    /// By the name of the sink: how its committer is made.
    pub(crate) committers: Vec<(String, MakeCommitter)>,
}

/// Makes the committer of a sink, if it has one.
pub(crate) type MakeCommitter = Arc<dyn Fn(&SinkContext) -> Option<Arc<dyn Committer>> + Send + Sync>;

impl Graph {
    /// A new chain; its factory may name edges that are added later.
    pub(crate) fn vertex(&mut self, is_source: bool, build: BuildChain) -> u16 {
        self.vertices.push(VertexDraft {
            names: Vec::new(),
            is_source,
            inputs: Vec::new(),
            outputs: Vec::new(),
            build,
        });
        index(self.vertices.len() - 1, &mut self.errors)
    }

    /// An edge into the next free input of a chain.
    pub(crate) fn edge<T: Record>(&mut self, from: u16, to: u16, partitioning: Partitioning) -> u16 {
        let edge = index(self.edges.len(), &mut self.errors);
        let receiver = self.vertices.get_mut(usize::from(to)).expect("a stream's chain is in its graph");
        let input = u8::try_from(receiver.inputs.len()).unwrap_or_else(|_| {
            self.errors.push("a chain has more than 256 inputs".to_owned());
            u8::MAX
        });
        receiver.inputs.push(edge);
        self.vertices.get_mut(usize::from(from)).expect("a stream's chain is in its graph").outputs.push(edge);
        self.edges.push(Edge { from, to, input, partitioning, codec: Arc::new(TypedCodec::<T>::default()) });
        edge
    }

    /// A named operator in a chain.
    pub(crate) fn operator(&mut self, name: &str, vertex: u16, role: Role, states: Vec<StatePlan>) -> usize {
        self.vertices
            .get_mut(usize::from(vertex))
            .expect("an operator's chain is in its graph")
            .names
            .push(name.to_owned());
        self.operators.push(OperatorPlan { name: name.to_owned(), renamed_from: None, vertex, role, states });
        self.operators.len() - 1
    }

    pub(crate) fn rename(&mut self, operator: Option<usize>, old: &str, label: &str) {
        match operator.and_then(|place| self.operators.get_mut(place)) {
            Some(operator) => operator.renamed_from = Some(old.to_owned()),
            None => self.errors.push(format!(
                "`.renamed_from({old:?})` stands behind `{label}`, which has no name; put it right behind a source, a \
                 stateful operator or a sink"
            )),
        }
    }

    /// Tells the graph of a stream, so that it can say that nobody consumes it.
    pub(crate) fn stream<T: Clone + Send + 'static>(
        &mut self,
        label: &str,
        operator: Option<usize>,
        output: &Arc<Output<T>>,
    ) {
        let operator = operator.and_then(|place| self.operators.get(place));
        let from_source = operator.is_some_and(|operator| matches!(operator.role, Role::Source { .. }));
        let output = Arc::clone(output);
        self.streams.push(StreamDraft {
            label: label.to_owned(),
            from_source,
            is_dangling: Box::new(move || output.is_dangling()),
        });
    }

    /// The operator can have side outputs.
    pub(crate) fn has_sides(&mut self, operator: usize, sides: Arc<SideOutputs>) {
        self.sides.insert(operator, sides);
    }

    /// The side outputs of the operator that gives out the stream called `label`.
    pub(crate) fn sides(&mut self, operator: Option<usize>, side: &str, label: &str) -> Option<Arc<SideOutputs>> {
        let sides = operator.and_then(|operator| self.sides.get(&operator)).cloned();
        if sides.is_none() {
            self.errors.push(format!(
                "the side output `{side}` is taken of `{label}`, which has none; take it right behind a `process`"
            ));
        }
        sides
    }

    pub(crate) fn skipped(&mut self, skipped: Skipped) {
        self.skipped.push(skipped);
    }

    pub(crate) fn dead_letters(&mut self, dead_letters: Skipped) {
        self.dead_letters.push(dead_letters);
    }

    /// How the committer of a sink is made.
    pub(crate) fn committer(&mut self, sink: &str, make: MakeCommitter) {
        self.committers.push((sink.to_owned(), make));
    }

    pub(crate) fn output(&mut self, place: Option<String>) {
        // Several sinks may share a place.
        self.outputs.extend(place.filter(|place| !self.outputs.contains(place)));
    }

    pub(crate) fn error(&mut self, error: String) {
        self.errors.push(error);
    }

    /// A label for an operator without a name, unique in the job.
    pub(crate) fn label(&mut self, kind: &str, after: &str) -> String {
        let plain = format!("{kind} after {after}");
        let numbered = (2..).map(|number| format!("{kind} {number} after {after}"));
        let label = std::iter::once(plain).chain(numbered).find(|label| !self.labels.contains(label));
        let label = label.expect("there are more numbers than operators");
        self.labels.insert(label.clone());
        label
    }

    /// Checks the graph and freezes it.
    pub(crate) fn freeze(&self, job: &str) -> Result<Frozen> {
        let mut errors = self.errors.clone();
        errors.extend(check_name("job", job));
        self.check_operators(&mut errors);
        let mut warnings = Vec::new();
        for stream in self.streams.iter().filter(|stream| (stream.is_dangling)()) {
            if stream.from_source {
                errors.push(format!("nothing consumes the source `{}`; give it a consumer or remove it", stream.label));
            } else {
                warnings.push(format!("nothing consumes the stream of `{}`: its records are dropped", stream.label));
            }
        }
        if errors.is_empty() {
            let (vertices, edges) = (self.plan_vertices(), self.edges.clone());
            let plan = Plan { job: job.to_owned(), vertices, edges, operators: self.operators.clone() };
            return Ok(Frozen {
                plan: Arc::new(plan),
                warnings,
                skipped: self.skipped.clone(),
                dead_letters: self.dead_letters.clone(),
                outputs: self.outputs.clone(),
                committers: self.committers.clone(),
            });
        }
        Err(Error::refused(format!("the job `{job}` cannot be built: {}", errors.join("; "))))
    }

    fn check_operators(&self, errors: &mut Vec<String>) {
        if !self.operators.iter().any(|operator| matches!(operator.role, Role::Source { .. })) {
            errors.push("it has no source; begin with `job.source(name, source)`".to_owned());
        }
        let mut names = LiteSet::new();
        let mut old_names = LiteSet::new();
        for operator in &self.operators {
            errors.extend(check_name("operator", &operator.name));
            if !names.insert(&operator.name) {
                errors.push(format!(
                    "two operators are called `{}`; every name of a source, stateful operator or sink must be unique",
                    operator.name
                ));
            }
            let mut states = LiteSet::new();
            for state in operator.states.iter().filter(|state| !states.insert(&state.name)) {
                errors.push(format!("operator `{}` declares two states called `{}`", operator.name, state.name));
            }
            if let Some(old) = &operator.renamed_from
                && !old_names.insert(old)
            {
                errors.push(format!("two operators are renamed from `{old}`"));
            }
        }
        for old in old_names.iter().filter(|old| names.contains(*old)) {
            errors.push(format!("an operator is renamed from `{old}`, but another one still has that name"));
        }
    }

    fn plan_vertices(&self) -> Vec<Vertex> {
        let name = |(place, vertex): (usize, &VertexDraft)| {
            if vertex.names.is_empty() { format!("chain {place}") } else { vertex.names.join(", ") }
        };
        let plan = |(place, vertex): (usize, &VertexDraft)| Vertex {
            name: name((place, vertex)),
            is_source: vertex.is_source,
            inputs: vertex.inputs.clone(),
            outputs: vertex.outputs.clone(),
            build: Arc::clone(&vertex.build),
        };
        self.vertices.iter().enumerate().map(plan).collect()
    }
}

/// Names become parts of paths and messages.
fn check_name(what: &str, name: &str) -> Option<String> {
    let odd = |letter: char| letter.is_control() || "/\\:*?\"<>|`".contains(letter);
    if name.is_empty() {
        return Some(format!("a name of the {what} is empty"));
    }
    if name.len() > LONGEST_NAME {
        return Some(format!("the {what} name `{name}` is longer than {LONGEST_NAME} bytes"));
    }
    if name.starts_with('.') || name.contains(odd) {
        return Some(format!(
            "the {what} name {name:?} begins with a dot or holds a letter that a file name cannot hold"
        ));
    }
    None
}

fn index(place: usize, errors: &mut Vec<String>) -> u16 {
    u16::try_from(place).unwrap_or_else(|_| {
        errors.push("it has more than 65,536 chains or edges".to_owned());
        u16::MAX
    })
}
