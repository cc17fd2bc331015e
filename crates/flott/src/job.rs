//! The job: a name, a graph, and the settings that its program gives it.

use crate::graph::{Frozen, Graph, Output};
use crate::settings::{Settings, StateBackend};
use crate::stream::Stream;
use flott_checkpoint::{Guarantee, Mode, Restore};
use flott_runtime::error::Result;
use flott_runtime::operator::Head;
use flott_runtime::operator::part::DeadLetter;
use flott_runtime::operator::try_map::Skipped;
use flott_runtime::plan::{BuildChain, Role};
use flott_runtime::record::Record;
use flott_runtime::source::{DeadLetters, Source};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

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
        if let Some(count) = source.skipped() {
            self.graph(|graph| graph.skipped(Skipped { operator: name.to_owned(), count }));
        }
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

    /// The stream of a source, and beside it the records that it cannot read: as text, with their position (file and line), the
    /// reason and the source's name. For CSV records and JSON lines; it takes the place of `on_error`. A dead letter is as exact
    /// as a record: it is in the same checkpoint as the position behind it. Sink the dead letters, or count them.
    ///
    /// ```
    /// # use flott::prelude::*;
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Clone, Serialize, Deserialize)]
    /// # struct Sale { shop: String, amount: u64 }
    /// # fn sales(job: &Job) -> Stream<Sale> {
    /// let (sales, dead) = job.source_or_dead_letter("sales", FileSource::json::<Sale>("sales/*.jsonl"));
    /// dead.map(|letter| (letter.position, letter.error, letter.record))
    ///     .sink("dead", FileSink::csv("dead-letters").header(["position", "error", "record"]));
    /// # sales
    /// # }
    /// ```
    pub fn source_or_dead_letter<S: DeadLetters>(
        &self,
        name: &str,
        source: S,
    ) -> (Stream<S::Item>, Stream<DeadLetter<String>>) {
        let role = Role::Source { replayable: source.is_replayable(), bounded: source.is_bounded() };
        let (count, source) = (Arc::default(), Arc::new(source.with_dead_letters()));
        self.graph(|graph| graph.dead_letters(Skipped { operator: name.to_owned(), count: Arc::clone(&count) }));
        let (output, beside) = (Output::<S::Item>::new(), Output::<DeadLetter<String>>::new());
        let (next, dead, operator) = (Arc::clone(&output), Arc::clone(&beside), name.to_owned());
        let build: BuildChain = Arc::new(move |builder| {
            let (next, dead) = (next.make(builder)?, dead.make(builder)?);
            let (source, count) = (Arc::clone(&source), Arc::clone(&count));
            Ok(builder.source_with_dead_letters(&operator, source, next, dead, count))
        });
        let vertex = self.graph(|graph| graph.vertex(true, build));
        let operator = self.graph(|graph| graph.operator(name, vertex, role, Vec::new()));
        let label = format!("the rest of {name}");
        let dead = Stream::unnamed(self, vertex, beside, name, label);
        (Stream::named(self, vertex, output, name, operator), dead)
    }

    /// Refuses to run, with a message: for what the program itself finds wrong with its arguments (exit code 2).
    pub fn refuse(&self, message: impl Into<String>) {
        let message = message.into();
        self.graph(|graph| graph.error(message));
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

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($type:ty) $(, $convert:ident)?;)*) => {
        /// Settings of the program. A `FLOTT_*` variable overrules them, and a flag overrules both.
        impl Job {
            $($(#[$doc])*
            pub fn $name(&self, value: $type) -> &Job {
                self.settings.borrow_mut().$name = Some(value $(.$convert())?);
                self
            })*
        }
    };
}

setters! {
    /// Workers: threads, each with one subtask of every chain. 1 to 128; as `--workers`.
    workers(u16);
    /// Where checkpoints go, a path or URL; as `--checkpoint-dir`. Without it checkpoints are off.
    checkpoint_dir(impl Into<String>), into;
    /// How checkpoints are taken; as `--checkpoint-mode`. Default [`Mode::Aligned`].
    checkpoint_mode(Mode);
    /// How long after its trigger a checkpoint in mode [`Mode::AlignedThenUnaligned`] stays aligned; as `--alignment-timeout`.
    /// Default 200 ms.
    alignment_timeout(Duration);
    /// The most bytes of records that may be under way on each channel. A channel whose receiver is slow uses less, so that
    /// aligned checkpoints are fast under back-pressure. Default 256 KiB. There is no flag for it.
    credit_window(usize);
    /// Time between two checkpoints; as `--checkpoint-interval`. Default 1 s.
    checkpoint_interval(Duration);
    /// What to restore; as `--restore`. Default [`Restore::Latest`].
    restore(Restore);
    /// The directory of a savepoint, or of a job, to begin a new incarnation from; as `--restore PATH`.
    restore_from(impl Into<String>), into;
    /// Goes on with the output of the incarnation that [`Job::restore_from`] names; as `--claim`.
    claim(bool);
    /// Refuses to run with a lesser guarantee; as `--require`.
    require(Guarantee);
    /// A damaged checkpoint ends the job instead of falling back to an older one; as `--no-fallback`.
    no_fallback(bool);
    /// A fallback may pass output that is already committed; as `--allow-duplicates`.
    allow_duplicates(bool);
    /// State in the checkpoint that no operator claims is left behind; as `--allow-unclaimed-state`.
    allow_unclaimed_state(bool);
    /// Takes over output directories that hold foreign output; as `--overwrite`.
    overwrite(bool);
    /// How long a stop may take; as `--stop-timeout`. Default 30 s.
    stop_timeout(Duration);
    /// The longest pause before a restart in the process; as `--longest-restart-delay`. Pauses begin with 50 ms and double.
    /// Default 60 s.
    longest_restart_delay(Duration);
    /// Samples records for hot keys; as `--hot-keys`. Default off.
    hot_keys(bool);
    /// Local working files, which are those of RocksDB; as `--work-dir`.
    work_dir(impl Into<PathBuf>), into;
    /// Where keyed state lies; as `--state-backend`. Default [`StateBackend::Heap`].
    state_backend(StateBackend);
    /// Bytes of memory for state that is not on the heap, of all workers together; as `--state-memory`. Default 256 MiB.
    state_memory(usize);
    /// Events as JSON lines on stdout; as `--json`.
    json(bool);
    /// Serves metrics for Prometheus at this address; as `--metrics`.
    metrics(impl Into<String>), into;
}
