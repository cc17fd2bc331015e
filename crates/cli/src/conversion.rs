//! A savepoint that is being made of a checkpoint: its progress is shown, and an interrupt leaves nothing of it.

use crate::output::Failure;
use crate::progress::Meter;
use crate::reading::{Which, reading};
use flott_checkpoint::AttemptId;
use flott_runtime::convert::{Converted, Incoming, abandon, convert};
use flott_runtime::io::storage::{StorageServer, create_savepoint_storage};
use flott_runtime::state_reader::Checkpoint;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Conversion {
    to: Option<(StorageServer, AttemptId)>,
    /// The place is this conversion's own.
    claimed: bool,
}

impl Conversion {
    /// Holds a checkpoint for `work`, which may convert it. `command` says to others who holds it.
    pub(crate) async fn of<T>(
        which: Which<'_>,
        command: &str,
        work: impl AsyncFnOnce(&Checkpoint, &mut Conversion) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut conversion = Conversion::default();
        let result =
            reading(which, command, async |checkpoint: &Checkpoint| work(checkpoint, &mut conversion).await).await;
        // After any other failure it has cleared its place itself.
        if let (Err(Failure::Interrupted), Some((to, attempt)), true) = (&result, &conversion.to, conversion.claimed) {
            abandon(to, *attempt).await;
        }
        result
    }

    /// Writes the savepoint, and says where that is.
    pub(crate) async fn write<'a>(
        &'a mut self,
        checkpoint: &'a Checkpoint,
        target: &str,
        what: &'static str,
        incoming: Option<&'a mut dyn Incoming>,
    ) -> Result<(String, Converted), Failure> {
        let (path, to) = create_savepoint_storage(target).await?;
        let (to, _) = self.to.insert((to, checkpoint.entry().attempt));
        let there: u64 = checkpoint.states()?.iter().map(|info| info.bytes).sum();
        let more: u64 = incoming.as_ref().map_or(0, |incoming| incoming.weights().iter().sum());
        let mut meter = Meter::new(what, there + more);
        let converted = convert(checkpoint, to, incoming, &mut self.claimed, &mut |bytes| meter.add(bytes)).await?;
        Ok((path, converted))
    }
}
