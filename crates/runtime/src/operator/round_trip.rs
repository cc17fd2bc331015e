//! In debug builds the first records of every edge are encoded and decoded again: a type that cannot cross a network, or
//! be captured in a checkpoint, is found on a laptop and not in production (design D8). Release builds add nothing.

use super::{Context, Next, Operator, Signal};
use crate::error::{Error, Result};
use crate::record::AnyBatch;
use crate::record::{Batch, BatchCodec, Record, TypedCodec};
use crate::time::Timestamp;

#[cfg(test)]
mod tests;

/// How many records of an edge each subtask checks.
const RECORDS_CHECKED: u32 = 16;

/// Puts the check in front of an edge, in debug builds.
#[must_use]
pub fn checked<T: Record>(next: Next<T>) -> Next<T> {
    if cfg!(debug_assertions) { Box::new(RoundTrip { left: RECORDS_CHECKED, next }) } else { next }
}

struct RoundTrip<T> {
    left: u32,
    next: Next<T>,
}

impl<T: Record> Operator<T> for RoundTrip<T> {
    fn on_record(&mut self, record: T, at: Option<Timestamp>, cx: &mut Context<'_>) -> Result<()> {
        if self.left > 0 {
            self.left -= 1;
            round_trip(&record)?;
        }
        self.next.on_record(record, at, cx)
    }

    fn on_signal(&mut self, signal: Signal, cx: &mut Context<'_>) -> Result<()> {
        self.next.on_signal(signal, cx)
    }
}

/// The length is compared, not the bytes: the order of a hash map is not stable, its length is.
fn round_trip<T: Record>(record: &T) -> Result<()> {
    let kind = std::any::type_name::<T>();
    let encode = |batch: &dyn AnyBatch| {
        let mut bytes = Vec::new();
        batch.encode(&mut bytes).map(|()| bytes)
    };
    let sent = encode(&Batch::new(vec![record.clone()], None))?;
    let received = TypedCodec::<T>::default().decode(&sent).map_err(|error| {
        error.hint("a record must survive MessagePack with field names: look at its serde attributes")
    })?;
    let again = encode(&*received)?;
    if again.len() == sent.len() {
        return Ok(());
    }
    Err(Error::failed(format!("a record of type {kind} is not the same after it was encoded and decoded"))
        .hint("its `Serialize` and `Deserialize` disagree: look at its serde attributes"))
}
