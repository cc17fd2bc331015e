//! A store in memory that fails as it is told to.

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use object_store::memory::InMemory;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartId, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Which call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    Create,
    Overwrite,
    Get,
    Head,
    List,
    Delete,
    Part,
    Complete,
    Abort,
}

/// What happens to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    None,
    /// An error, and nothing is done.
    Error,
    /// It is done, and the answer is an error.
    Lost,
    /// No answer, ever.
    Hang,
    /// It is done, and there is no answer, ever.
    Vanished,
    /// It is done when the next call of its kind has begun, or not before it.
    Late,
    /// It is done, and the answer comes after the next call of its kind.
    LateAnswer,
    /// Somebody has taken away what it is about.
    Gone,
    /// The store says no.
    Denied,
    /// Others are at it, and nothing is done.
    Conflict,
    /// What is gone is told as Azure tells it.
    UsedUp,
    /// No room.
    Full,
    /// The condition of a create is ignored.
    Overwrites,
}

/// The system's words for a full disk.
pub(super) fn full_disk() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

/// See the head of this file. Faults of one kind of call are used up in order.
#[derive(Debug)]
pub(super) struct Faulty {
    inner: InMemory,
    faults: Arc<Mutex<Vec<(Kind, Fault)>>>,
    calls: Arc<Mutex<BTreeMap<Kind, usize>>>,
    pub(super) aborted: Arc<AtomicUsize>,
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

impl Faulty {
    pub(super) fn new(faults: Vec<(Kind, Fault)>) -> Faulty {
        Faulty {
            inner: InMemory::new(),
            faults: Arc::new(Mutex::new(faults)),
            calls: Arc::default(),
            aborted: Arc::default(),
        }
    }

    pub(super) fn calls(&self, kind: Kind) -> usize {
        self.calls.lock().expect("sound").get(&kind).copied().unwrap_or(0)
    }

    /// Waits for another call of the kind.
    async fn another(&self, kind: Kind) {
        let before = self.calls(kind);
        while self.calls(kind) == before {
            tokio::task::yield_now().await;
        }
    }

    async fn meet(&self, kind: Kind) -> Result<Fault> {
        let fault = next(&self.faults, &self.calls, kind);
        if fault == Fault::Hang {
            std::future::pending::<()>().await;
        }
        as_result(fault)
    }
}

fn next(faults: &Mutex<Vec<(Kind, Fault)>>, calls: &Mutex<BTreeMap<Kind, usize>>, kind: Kind) -> Fault {
    *calls.lock().expect("sound").entry(kind).or_default() += 1;
    let mut faults = faults.lock().expect("sound");
    match faults.iter().position(|(of, _)| *of == kind) {
        Some(at) => faults.remove(at).1,
        None => Fault::None,
    }
}

fn passing() -> Error {
    Error::Generic { store: "faulty", source: "a passing fault".into() }
}

/// An answer of a store, as the client gives it.
fn answer(status: u16, code: &str) -> Box<dyn std::error::Error + Send + Sync> {
    format!("Server returned non-2xx status code: {status} X: <Error><Code>{code}</Code><Message>So.</Message></Error>")
        .into()
}

fn as_result(fault: Fault) -> Result<Fault> {
    match fault {
        // The client's word for the status 409.
        Fault::Conflict => {
            Err(Error::AlreadyExists { path: String::new(), source: answer(409, "ConditionalRequestConflict") })
        }
        Fault::Error => Err(passing()),
        Fault::Denied => Err(Error::PermissionDenied { path: String::new(), source: "not yours".into() }),
        Fault::Full => Err(Error::Generic { store: "faulty", source: full_disk().into() }),
        other => Ok(other),
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, at: &Path, payload: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        let kind = if matches!(options.mode, PutMode::Create) { Kind::Create } else { Kind::Overwrite };
        let fault = self.meet(kind).await?;
        if fault == Fault::Overwrites {
            options.mode = PutMode::Overwrite;
        }
        if fault == Fault::Late {
            self.another(kind).await;
        }
        let result = self.inner.put_opts(at, payload, options).await;
        match fault {
            Fault::Vanished => std::future::pending().await,
            Fault::LateAnswer => self.another(kind).await,
            _ => {}
        }
        if fault == Fault::Lost { Err(passing()) } else { result }
    }

    async fn put_multipart_opts(&self, at: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.inner.put_multipart_opts(at, options).await?;
        let (faults, calls, aborted) = (self.faults.clone(), self.calls.clone(), self.aborted.clone());
        Ok(Box::new(Upload { inner, faults, calls, aborted }))
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.meet(if options.head { Kind::Head } else { Kind::Get }).await?;
        self.inner.get_opts(at, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match as_result(next(&self.faults, &self.calls, Kind::Delete)) {
            Ok(_) => self.inner.delete_stream(locations),
            Err(error) => futures_util::stream::once(async { Err(error) }).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match as_result(next(&self.faults, &self.calls, Kind::List)) {
            Ok(_) => self.inner.list(prefix),
            Err(error) => futures_util::stream::once(async { Err(error) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct Upload {
    inner: Box<dyn MultipartUpload>,
    faults: Arc<Mutex<Vec<(Kind, Fault)>>>,
    calls: Arc<Mutex<BTreeMap<Kind, usize>>>,
    aborted: Arc<AtomicUsize>,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        match as_result(next(&self.faults, &self.calls, Kind::Part)) {
            Ok(_) => self.inner.put_part(data),
            Err(error) => async { Err(error) }.boxed(),
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        if next(&self.faults, &self.calls, Kind::Abort) == Fault::Hang {
            std::future::pending::<()>().await;
        }
        self.aborted.fetch_add(1, Ordering::SeqCst);
        self.inner.abort().await
    }
}

#[async_trait]
impl MultipartStore for Faulty {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        self.inner.create_multipart(path).await
    }

    async fn put_part(&self, path: &Path, id: &MultipartId, number: usize, data: PutPayload) -> Result<PartId> {
        let fault = self.meet(Kind::Part).await?;
        let result = self.inner.put_part(path, id, number, data).await;
        if fault == Fault::Lost { Err(passing()) } else { result }
    }

    async fn complete_multipart(&self, path: &Path, id: &MultipartId, parts: Vec<PartId>) -> Result<PutResult> {
        let fault = self.meet(Kind::Complete).await?;
        if fault == Fault::Gone {
            self.inner.abort_multipart(path, id).await?;
        }
        // As stores do: an upload that was completed is not there any more.
        let missing = |error| match error {
            Error::Generic { store, .. } if fault == Fault::UsedUp => {
                Error::Generic { store, source: answer(400, "InvalidBlockList") }
            }
            Error::Generic { source, .. } => Error::NotFound { path: path.to_string(), source },
            other => other,
        };
        let result = self.inner.complete_multipart(path, id, parts).await.map_err(missing);
        if fault == Fault::Lost { Err(passing()) } else { result }
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        self.meet(Kind::Abort).await?;
        self.aborted.fetch_add(1, Ordering::SeqCst);
        self.inner.abort_multipart(path, id).await
    }
}
