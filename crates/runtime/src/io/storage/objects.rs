//! What connectors need of a store beside requests: what an object is, a copy within the store, bytes of one that has not changed.

use super::StorageServer;
use super::retry::Failure;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, TryFutureExt};
use object_store::{Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutPayload};
use std::ops::Range;

/// What an object looks like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Looked {
    /// Bytes.
    pub length: u64,
    /// The store's name of its content: it changes with every write.
    pub etag: Option<String>,
}

/// What is said of something that failed for good.
type Said<T> = Result<T, String>;

impl StorageServer {
    /// What an object looks like; `None` if there is none.
    pub fn look<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Said<Option<Looked>>> {
        Box::pin(async move {
            let (store, at) = (&self.store, self.store.at(path)?);
            match store.retry.repeat(|| store.objects.head(&at).boxed()).await {
                Ok(object) => Ok(Some(Looked { length: object.size, etag: object.e_tag })),
                Err(failure) if failure.says_not_found() => Ok(None),
                Err(failure) => Err(format!("cannot look at {path} in {}: {failure}", self.name())),
            }
        })
    }

    /// Makes sure that objects below a prefix can be listed, written, looked at and deleted: writes one of this name there, and
    /// takes it away again.
    pub fn prove<'a>(&'a self, prefix: &'a str, name: &'a str) -> BoxFuture<'a, Said<()>> {
        Box::pin(async move {
            let (store, below) = (&self.store, self.store.at(prefix)?);
            let at = below.clone().join(name);
            let said = |what: &str, failure: &Failure| format!("cannot {what} {at} in {}: {failure}", self.name());
            let whole = (!below.as_ref().is_empty()).then_some(&below);
            let list = || async move { store.objects.list(whole).next().await.transpose() }.boxed();
            let listed = store.retry.repeat(list).await;
            listed.map_err(|failure| format!("cannot list {below} in {}: {failure}", self.name()))?;
            let put = || store.objects.put(&at, PutPayload::from_static(b"probe\n")).boxed();
            store.retry.repeat(put).await.map_err(|failure| said("write", &failure))?;
            let looked = store.retry.repeat(|| store.objects.head(&at).boxed()).await;
            let deleted = store.retry.repeat(|| store.objects.delete(&at).boxed()).await;
            // Gone already: another process has tried the same.
            match (looked, deleted) {
                (Err(failure), _) if !failure.says_not_found() => Err(said("look at", &failure)),
                (_, Err(failure)) if !failure.says_not_found() => Err(said("delete", &failure)),
                _ => Ok(()),
            }
        })
    }

    /// Copies an object to another name, in the store itself, whatever is there. False if there is nothing to copy.
    pub fn copy<'a>(&'a self, from: &'a str, to: &'a str) -> BoxFuture<'a, Said<bool>> {
        Box::pin(async move {
            let (store, from_at, to_at) = (&self.store, self.store.at(from)?, self.store.at(to)?);
            match store.retry.repeat(|| store.objects.copy(&from_at, &to_at).boxed()).await {
                Ok(()) => Ok(true),
                Err(failure) if failure.says_not_found() => Ok(false),
                Err(failure) => Err(format!("cannot copy {from} to {to} in {}: {failure}", self.name())),
            }
        })
    }

    /// Some bytes of an object that must still be the one that was looked at; `None` if it is gone.
    pub fn read_same<'a>(
        &'a self,
        path: &'a str,
        range: Range<u64>,
        looked: &'a Looked,
    ) -> BoxFuture<'a, Said<Option<Bytes>>> {
        Box::pin(async move {
            let (store, at) = (&self.store, self.store.at(path)?);
            let read = || {
                let range = Some(GetRange::Bounded(range.clone()));
                let options = GetOptions { range, if_match: looked.etag.clone(), ..GetOptions::default() };
                store.objects.get_opts(&at, options).and_then(|object| object.bytes()).boxed()
            };
            match store.retry.repeat(read).await {
                Ok(bytes) => Ok(Some(bytes)),
                Err(failure) if failure.says_not_found() => Ok(None),
                Err(failure)
                    if matches!(failure.error(), Some(Error::Precondition { .. } | Error::NotModified { .. })) =>
                {
                    Err(format!(
                        "{path} in {} was changed while it was read; input must not change once it is seen",
                        self.name()
                    ))
                }
                Err(failure) => Err(format!("cannot read {path} in {}: {failure}", self.name())),
            }
        })
    }
}
