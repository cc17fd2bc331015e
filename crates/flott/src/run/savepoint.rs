//! Savepoints at the edge: the directory that a user names, as a place to copy a checkpoint to, or to begin from.

use super::store::Store;
use crate::handle::SavepointReport;
use flott_checkpoint::{CheckpointId, Elsewhere};
use flott_runtime::error::{Error, Result};
use flott_runtime::io::storage::{create_savepoint_storage, find_storage};
use flott_runtime::manifest::Manifest;
use flott_runtime::savepoint;

/// What somebody who asked for a savepoint is told.
pub(crate) type Taken = SavepointReport;

/// A directory that is claimed for a savepoint, and empty but for that.
pub(crate) struct Target {
    path: String,
    store: Store,
}

impl Target {
    /// Makes sure that a savepoint can be written there, before the job is asked for one.
    pub(crate) async fn claim(location: &str, own: &Store) -> Result<Target> {
        let (path, server) = create_savepoint_storage(location).await?;
        let store = own.beside(server);
        savepoint::claim(&store).await?;
        Ok(Target { path, store })
    }

    /// Copies a checkpoint of the job. What a failure leaves there is no savepoint, and says so.
    pub(crate) async fn write(self, own: &Store, id: CheckpointId) -> Result<Taken> {
        let path = self.path;
        match savepoint::copy(own, &self.store, id).await {
            Ok(bytes) => Ok(SavepointReport { path, checkpoint: id, bytes }),
            Err(error) => Err(Error::new(error.kind(), format!("no savepoint was written to {path}: {error}"))),
        }
    }

    /// There will be no savepoint, for a reason that is given back.
    pub(crate) async fn given_back(self, error: Error) -> Error {
        savepoint::unclaim(&self.store).await;
        error
    }

    /// There will be no savepoint.
    pub(super) async fn give_back(self, why: &str) -> Error {
        self.given_back(Error::failed(why)).await
    }
}

/// What the directory holds that a user named with `--restore`.
pub(super) async fn find(location: &str, claim: bool) -> Result<(Elsewhere, Manifest)> {
    let (_, server) = find_storage(location, None).await?;
    let path = server.name().to_owned();
    savepoint::find(&server, &path, claim).await
}
