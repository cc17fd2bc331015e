//! A store that is slow, fails now and then, is full, or denies writing, around any other: for tests of whole jobs, also in
//! processes of their own (feature `testing`).
//!
//! What goes wrong is decided by a seed and by files that a test puts somewhere and takes away; objects are never damaged.

use super::{StorageServer, Store};
use crate::testing::Random;
use async_trait::async_trait;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What goes wrong with a store.
#[derive(Clone, Debug, Default)]
pub struct Trouble {
    /// Each request takes so much longer.
    pub latency: Duration,
    /// One request in so many fails; half of these are done all the same, and only their answer is lost. 0: none fails.
    pub errors: u64,
    /// Decides which requests fail.
    pub seed: u64,
    /// While this file is there, the store is full.
    pub full_while: Option<PathBuf>,
    /// While this file is there, writing is not permitted.
    pub denied_while: Option<PathBuf>,
}

impl Trouble {
    /// Whether only a store on the other end of a line can have it: then even an error leaves open what was done.
    fn is_remote(&self) -> bool {
        !self.latency.is_zero() || self.errors > 0
    }
}

impl StorageServer {
    /// The same objects, with trouble. A slow or failing store is treated as one that is remote, whatever it is.
    #[must_use]
    pub fn troubled(&self, trouble: Trouble) -> StorageServer {
        let inner = Arc::clone(&self.store.objects);
        let directory = self.store.directory.clone().filter(|_| !trouble.is_remote());
        let random = Mutex::new(Random::new(trouble.seed));
        let source = Arc::new(Source { trouble, random });
        let (prefix, name) = (self.store.prefix.clone(), self.store.name.clone());
        let store = Store::new(Arc::new(Troubled { inner, source }), prefix, name, self.store.retry);
        StorageServer::of(Store { directory, ..store })
    }
}

/// What all requests share.
#[derive(Debug)]
struct Source {
    trouble: Trouble,
    random: Mutex<Random>,
}

/// What happens to one request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Good,
    /// Nothing is done.
    Fails,
    /// It is done, and nobody hears of it.
    LosesItsAnswer,
}

impl Source {
    fn fate(&self) -> Fate {
        if self.trouble.errors == 0 {
            return Fate::Good;
        }
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        match (random.one_in(self.trouble.errors), random.one_in(2)) {
            (false, _) => Fate::Good,
            (true, false) => Fate::Fails,
            (true, true) => Fate::LosesItsAnswer,
        }
    }

    /// Whether anything may be written now.
    fn permits(&self, at: &Path) -> Result<()> {
        let is_there = |file: &Option<PathBuf>| file.as_ref().is_some_and(|file| file.exists());
        if is_there(&self.trouble.full_while) {
            let source = io::Error::from(io::ErrorKind::StorageFull);
            return Err(Error::Generic { store: "troubled", source: source.into() });
        }
        if is_there(&self.trouble.denied_while) {
            let source = io::Error::from(io::ErrorKind::PermissionDenied);
            return Err(Error::PermissionDenied { path: at.to_string(), source: source.into() });
        }
        Ok(())
    }

    async fn around<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let fate = self.fate();
        tokio::time::sleep(self.trouble.latency).await;
        let failure = || Error::Generic { store: "troubled", source: "503 Service Unavailable, by plan".into() };
        match fate {
            Fate::Good => request.await,
            Fate::Fails => Err(failure()),
            Fate::LosesItsAnswer => {
                let _ = request.await;
                Err(failure())
            }
        }
    }
}

#[derive(Debug)]
struct Troubled {
    inner: Arc<dyn ObjectStore>,
    source: Arc<Source>,
}

impl fmt::Display for Troubled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Troubled {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.source.permits(at)?;
        self.source.around(self.inner.put_opts(at, payload, options)).await
    }

    async fn put_multipart_opts(&self, at: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.source.permits(at)?;
        let inner = self.source.around(self.inner.put_multipart_opts(at, options)).await?;
        Ok(Box::new(Upload { inner, source: Arc::clone(&self.source), at: at.clone() }))
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.source.around(self.inner.get_opts(at, options)).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (inner, source) = (Arc::clone(&self.inner), Arc::clone(&self.source));
        let delete = move |at: Result<Path>| {
            let (inner, source) = (Arc::clone(&inner), Arc::clone(&source));
            async move {
                let at = at?;
                source.permits(&at)?;
                let one = futures_util::stream::once(std::future::ready(Ok(at.clone()))).boxed();
                source.around(inner.delete_stream(one).try_collect::<Vec<_>>()).await.map(|_| at)
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (inner, source, prefix) = (Arc::clone(&self.inner), Arc::clone(&self.source), prefix.cloned());
        let listed = async move { source.around(inner.list(prefix.as_ref()).try_collect::<Vec<_>>()).await };
        let objects = listed.map(|listed| match listed {
            Ok(objects) => futures_util::stream::iter(objects.into_iter().map(Ok)).boxed(),
            Err(error) => futures_util::stream::once(std::future::ready(Err(error))).boxed(),
        });
        objects.flatten_stream().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.source.around(self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.source.permits(to)?;
        self.source.around(self.inner.copy_opts(from, to, options)).await
    }
}

#[derive(Debug)]
struct Upload {
    inner: Box<dyn MultipartUpload>,
    source: Arc<Source>,
    at: Path,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (part, source, at) = (self.inner.put_part(data), Arc::clone(&self.source), self.at.clone());
        async move {
            source.permits(&at)?;
            source.around(part).await
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.source.permits(&self.at)?;
        let source = Arc::clone(&self.source);
        source.around(self.inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}
