//! What is fixed for one exploration: the graph, the checkpoints to try, and how many things may go wrong.

use crate::counts::{Counts, Record};
use crate::mutant::Mutant;
use flott_checkpoint::Mode;

const RECORDS_PER_SOURCE: u8 = 4;
const FIRST_TIMER_RECORD: u8 = 12;

/// An edge into a subtask: the receiver and the number of its channel.
pub type Target = (usize, usize);

#[derive(Clone)]
pub struct Job {
    /// How many records each source has. Sources are the first subtasks, the one sink is the last.
    pub sources: Vec<u8>,
    /// For each subtask the channels that it sends on.
    pub outputs: Vec<Vec<Target>>,
    /// For each subtask the number of its channels; the one of a source is the outside world.
    pub channels: Vec<usize>,
    /// A fork sends every record on all outputs; else record k goes to output k mod n.
    pub fork: bool,
    /// Each worker has one processing-time timer; when it fires, it emits a record.
    pub timers: bool,
    /// The modes of the checkpoints to trigger. The final one follows in the mode of the last.
    pub script: Vec<Mode>,
    pub max_pending: usize,
    pub aborts: u8,
    pub crashes: u8,
    /// How many control messages come twice; if any, they also come in any order.
    pub repeats: u8,
    pub mutant: Option<Mutant>,
}

impl Job {
    /// Every source has its own channel at the sink.
    pub fn fan_in(sources: &[u8]) -> Job {
        let sink = sources.len();
        let outputs = (0..sink).map(|channel| vec![(sink, channel)]).chain([vec![]]).collect();
        Job::new(sources, outputs, false)
    }

    /// All sources to all workers, all workers to one sink.
    pub fn shuffle(sources: &[u8], workers: usize) -> Job {
        let first_worker = sources.len();
        let sink = first_worker + workers;
        let of_source = |source| (0..workers).map(|worker| (first_worker + worker, source)).collect();
        let of_worker = |worker| vec![(sink, worker)];
        let outputs = (0..sources.len()).map(of_source).chain((0..workers).map(of_worker)).chain([vec![]]).collect();
        Job::new(sources, outputs, false)
    }

    /// One source, two branches that both get every record, one sink.
    pub fn diamond(records: u8) -> Job {
        Job { fork: true, ..Job::shuffle(&[records], 2) }
    }

    fn new(sources: &[u8], outputs: Vec<Vec<Target>>, fork: bool) -> Job {
        let mut channels = vec![1; sources.len()];
        channels.resize(outputs.len(), 0);
        for &(to, channel) in outputs.iter().flatten() {
            channels[to] = channels[to].max(channel + 1);
        }
        Job {
            sources: sources.to_vec(),
            outputs,
            channels,
            fork,
            timers: false,
            script: vec![],
            max_pending: 1,
            aborts: 0,
            crashes: 0,
            repeats: 0,
            mutant: None,
        }
    }

    pub fn subtasks(&self) -> usize {
        self.outputs.len()
    }

    pub fn sink(&self) -> usize {
        self.outputs.len() - 1
    }

    pub fn is_source(&self, subtask: usize) -> bool {
        subtask < self.sources.len()
    }

    pub fn record(&self, source: usize, position: u8) -> Record {
        source as u8 * RECORDS_PER_SOURCE + position
    }

    /// The record that the timer of a subtask emits, where there is a timer.
    pub fn timer_record(&self, subtask: usize) -> Option<Record> {
        let is_worker = !self.is_source(subtask) && subtask != self.sink();
        (self.timers && is_worker).then(|| FIRST_TIMER_RECORD + (subtask - self.sources.len()) as u8)
    }

    pub fn targets(&self, subtask: usize, record: Record) -> &[Target] {
        let outputs = &self.outputs[subtask];
        if self.fork || outputs.is_empty() {
            return outputs;
        }
        let chosen = usize::from(record) % outputs.len();
        &outputs[chosen..=chosen]
    }

    /// What the sink must have seen in the end, each record once.
    pub fn expected_output(&self) -> Counts {
        let read = self.sources.iter().enumerate().flat_map(|(source, &records)| {
            (0..records)
                .map(move |position| self.record(source, position))
                .flat_map(move |record| self.targets(source, record).iter().map(move |_| record))
        });
        read.chain((0..self.sink()).filter_map(|subtask| self.timer_record(subtask))).collect()
    }

    /// Where all barriers are obeyed at the head of the queue, their travel time to its tail changes nothing.
    pub fn barriers_travel(&self) -> bool {
        self.script.iter().any(|mode| mode.acts_on_arrival())
    }

    pub fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}
