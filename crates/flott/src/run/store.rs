//! The checkpoint storage of a run, or nothing at all.

use flott_checkpoint::AttemptId;
use flott_runtime::error::Result;
use flott_runtime::io::storage::{StorageServer, open_storage};
use flott_runtime::io::{StorageReply, StorageRequest};
use flott_runtime::savepoint::Serve;
use std::future::Future;
use std::pin::Pin;

/// Where requests go, and who watches them go.
#[derive(Clone)]
pub(crate) struct Store {
    place: Place,
    /// It is that of a savepoint.
    #[cfg(feature = "testing")]
    beside: bool,
    #[cfg(feature = "testing")]
    crash: Option<std::sync::Arc<super::crash::Crash>>,
}

#[derive(Clone)]
enum Place {
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
        let place = location.map_or(Ok(Place::Nowhere), |location| Ok(Place::At(open_storage(location, job)?)))?;
        Ok(Store {
            place,
            #[cfg(feature = "testing")]
            beside: false,
            #[cfg(feature = "testing")]
            crash: None,
        })
    }

    /// The storage of a savepoint, under the same eyes.
    pub(super) fn beside(&self, server: StorageServer) -> Store {
        Store {
            place: Place::At(server),
            #[cfg(feature = "testing")]
            beside: true,
            #[cfg(feature = "testing")]
            crash: self.crash.clone(),
        }
    }

    /// Lets crash points see what passes by.
    #[cfg(feature = "testing")]
    pub(super) fn watch(&mut self, crash: std::sync::Arc<super::crash::Crash>) {
        self.crash = Some(crash);
    }

    /// Makes the storage a bad one.
    #[cfg(feature = "testing")]
    pub(super) fn trouble(&mut self, trouble: flott_runtime::io::storage::Trouble) {
        if let Place::At(server) = &self.place {
            self.place = Place::At(server.troubled(trouble));
        }
    }

    /// Lets crash points see a report.
    pub(super) fn before_report(&self, report: &flott_runtime::control::Report) {
        #[cfg(feature = "testing")]
        if let Some(crash) = &self.crash {
            crash.before_report(report);
        }
        let _ = report;
    }

    /// Itself, unless checkpoints are off.
    pub(super) fn server(&self) -> Option<&StorageServer> {
        match &self.place {
            Place::At(server) => Some(server),
            Place::Nowhere => None,
        }
    }

    /// Makes sure that it can hold a log (L8).
    pub(super) async fn probe(&self) -> Result<()> {
        match &self.place {
            Place::At(server) => server.probe().await,
            Place::Nowhere => Ok(()),
        }
    }

    /// Removes staging files of attempts below `own`, which has won its Start.
    pub(super) async fn sweep_staged(&self, own: AttemptId) -> Result<usize> {
        match &self.place {
            Place::At(server) => server.sweep_staged(own).await,
            Place::Nowhere => Ok(0),
        }
    }

    /// Gives up what an attempt that has ended was writing.
    pub(super) async fn forget(&self, attempt: AttemptId) {
        match &self.place {
            Place::At(server) => server.forget(attempt).await,
            Place::Nowhere => {}
        }
    }

    /// Serves a request; requests take their turn when this is called, not when it is awaited. Call it inside a runtime.
    pub(super) fn serve(&self, request: StorageRequest) -> Pin<Box<dyn Future<Output = StorageReply> + Send>> {
        #[cfg(feature = "testing")]
        if let Some(crash) = self.crash.clone() {
            let beside = self.beside;
            if beside {
                crash.before_copying(&request)
            } else {
                crash.before_request(&request)
            }
            let reply = self.serve_unwatched(request.clone());
            return Box::pin(async move {
                let reply = reply.await;
                if beside {
                    crash.after_copying(&request)
                } else {
                    crash.after_request(&request, &reply)
                }
                reply
            });
        }
        self.serve_unwatched(request)
    }

    fn serve_unwatched(&self, request: StorageRequest) -> Pin<Box<dyn Future<Output = StorageReply> + Send>> {
        match &self.place {
            Place::At(server) => server.serve(request),
            Place::Nowhere => Box::pin(std::future::ready(dropped(&request))),
        }
    }
}

impl Serve for Store {
    fn serve(&self, request: StorageRequest) -> impl Future<Output = StorageReply> + Send {
        Store::serve(self, request)
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
