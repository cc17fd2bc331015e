//! The checkpoint storage of a run, or nothing at all.

use flott_runtime::error::Result;
use flott_runtime::io::storage::{StorageServer, open_storage};
use flott_runtime::io::{StorageReply, StorageRequest};
use std::future::Future;
use std::pin::Pin;

/// Where requests go.
#[derive(Clone)]
pub(super) enum Store {
    /// A job's directory.
    At(StorageServer),
    /// Checkpoints are off: what is written is dropped.
    Nowhere,
}

impl Store {
    /// Opens the storage of a job.
    ///
    /// # Errors
    /// `Refused`, saying what is wrong with the location.
    pub(super) fn open(location: Option<&str>, job: &str) -> Result<Store> {
        location.map_or(Ok(Store::Nowhere), |location| Ok(Store::At(open_storage(location, job)?)))
    }

    /// Makes sure that it can hold a log (L8).
    pub(super) async fn probe(&self) -> Result<()> {
        match self {
            Store::At(server) => server.probe().await,
            Store::Nowhere => Ok(()),
        }
    }

    /// Serves a request; requests take their turn when this is called, not when it is awaited. Call it inside a runtime.
    pub(super) fn serve(&self, request: StorageRequest) -> Pin<Box<dyn Future<Output = StorageReply> + Send>> {
        match self {
            Store::At(server) => Box::pin(server.serve(request)),
            Store::Nowhere => Box::pin(std::future::ready(dropped(&request))),
        }
    }
}

fn dropped(request: &StorageRequest) -> StorageReply {
    match request {
        StorageRequest::Create { .. } => StorageReply::Created,
        StorageRequest::Read { .. } => StorageReply::NotFound,
        StorageRequest::List { .. } => StorageReply::Listed(Vec::new()),
        StorageRequest::Delete { .. }
        | StorageRequest::Append { .. }
        | StorageRequest::Finish { .. }
        | StorageRequest::Discard { .. } => StorageReply::Done,
    }
}
