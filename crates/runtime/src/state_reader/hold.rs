//! A reader's hold on a checkpoint while it is read: a pin, so that a collector beside it takes nothing away.
//!
//! A savepoint has no collector, and needs no pin. A directory that cannot be written has no collector of this user either:
//! it is read without a hold, and whoever asked can say so.

use crate::error::{Error, Result};
use crate::io::entropy::random_u64;
use crate::io::storage::StorageServer;
use crate::io::{StorageReply, StorageRequest};
use crate::layout;
use crate::pin::Pin;
use crate::savepoint;
use flott_checkpoint::{CheckpointEntry, CheckpointId};

/// Checkpoints of a busy job come and go: so many times another one is looked for.
const TRIES: usize = 16;

/// A checkpoint that stays as long as this is not released. A process that is killed leaves its pin behind.
#[derive(Debug)]
pub struct Hold {
    storage: StorageServer,
    path: Option<String>,
    refused: Option<String>,
}

impl Hold {
    /// Finds a checkpoint, the newest if none is named, and holds it. `holder` says who and what for.
    ///
    /// # Errors
    /// `Refused` if there is none, `Failed` if the log is damaged.
    pub async fn take(
        storage: &StorageServer,
        location: &str,
        id: Option<CheckpointId>,
        holder: &str,
    ) -> Result<(Hold, CheckpointEntry)> {
        let mut last = None;
        for _ in 0..TRIES {
            let found = savepoint::recorded(storage, location, id).await.map_err(super::damage);
            let (entry, is_savepoint) = match (found, last) {
                (Ok(found), _) => found,
                // It was there a moment ago.
                (Err(error), Some(id)) => return Err(error.hint(format!("checkpoint {id} was collected meanwhile"))),
                (Err(error), None) => return Err(error),
            };
            if is_savepoint {
                return Ok((Hold { storage: storage.clone(), path: None, refused: None }, entry));
            }
            let hold = Hold::pin(storage, entry.id, holder).await?;
            if hold.path.is_none() || savepoint::is_recorded(storage, &entry).await? {
                return Ok((hold, entry));
            }
            // The slot went before the pin came.
            last = Some(entry.id);
            hold.release().await?;
        }
        Err(Error::failed("the job collects its checkpoints faster than one can be held")
            .hint("take a savepoint, and read that"))
    }

    async fn pin(storage: &StorageServer, checkpoint: CheckpointId, holder: &str) -> Result<Hold> {
        let path = Pin::path(&format!("reader-{:016x}", random_u64()?));
        let bytes = Pin { checkpoint, holder: holder.to_owned() }.encode();
        let (path, refused) = match savepoint::create(storage, &path, bytes).await {
            Ok(()) => (Some(path), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Ok(Hold { storage: storage.clone(), path, refused })
    }

    /// Why there is no pin, if there should be one.
    #[must_use]
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Lets the checkpoint go.
    ///
    /// # Errors
    /// `Failed`, naming the pin that is left behind.
    pub async fn release(self) -> Result<()> {
        let Some(path) = self.path else { return Ok(()) };
        match self.storage.serve(StorageRequest::Delete { path: path.clone() }).await {
            StorageReply::Done => Ok(()),
            other => Err(Error::failed(format!("cannot remove {path}: {}", savepoint::why(other)))
                .hint(format!("while it is in `{}`, its checkpoint is not collected: delete it", layout::PINS))),
        }
    }
}
