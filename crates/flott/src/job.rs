//! The job: a name, a graph, and the settings that its program gives it.

use crate::graph::{Frozen, Graph, Output};
use crate::settings::Settings;
use crate::stream::Stream;
use flott_runtime::error::Result;
use flott_runtime::operator::Head;
use flott_runtime::plan::{BuildChain, Role};
use flott_runtime::record::Record;
use flott_runtime::source::Source;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// A job under construction. A clone is the same job.
///
/// A job is described once per process and then frozen; what is added afterwards is in no run.
#[derive(Clone)]
pub struct Job {
    name: Rc<str>,
    graph: Rc<RefCell<Graph>>,
    pub(crate) settings: Rc<RefCell<Settings>>,
}

impl Job {
    /// An empty job. Its name is its directory in the checkpoint storage.
    #[must_use]
    pub fn new(name: &str) -> Job {
        Job { name: name.into(), graph: Rc::default(), settings: Rc::default() }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The stream of a source, whose name must be unique in the job: checkpoints keep its positions under it.
    pub fn source<S: Source>(&self, name: &str, source: S) -> Stream<S::Item> {
        let role = Role::Source { replayable: source.is_replayable(), bounded: source.is_bounded() };
        let source = Arc::new(source);
        let output = Output::<S::Item>::new();
        let (next, operator) = (Arc::clone(&output), name.to_owned());
        let build: BuildChain = Arc::new(move |builder| {
            let next = next.make(builder)?;
            Ok(builder.source(&operator, Arc::clone(&source), next))
        });
        let vertex = self.graph(|graph| graph.vertex(true, build));
        let operator = self.graph(|graph| graph.operator(name, vertex, role, Vec::new()));
        Stream::named(self, vertex, output, name, operator)
    }

    /// A chain of its own whose inputs all carry `T`.
    pub(crate) fn chain<T: Record>(&self) -> (u16, Arc<Output<T>>) {
        let output = Output::<T>::new();
        let next = Arc::clone(&output);
        let build: BuildChain = Arc::new(move |builder| Ok(Box::new(Head::new(next.make(builder)?))));
        (self.graph(|graph| graph.vertex(false, build)), output)
    }

    pub(crate) fn graph<R>(&self, with: impl FnOnce(&mut Graph) -> R) -> R {
        with(&mut self.graph.borrow_mut())
    }

    pub(crate) fn is_same(&self, other: &Job) -> bool {
        Rc::ptr_eq(&self.graph, &other.graph)
    }

    pub(crate) fn freeze(&self) -> Result<Frozen> {
        self.graph(|graph| graph.freeze(&self.name))
    }
}
