//! What a user's words for a place mean: a local directory, or a bucket and a prefix in it. The one place where they are read.
//!
//! It opens nothing and asks nobody.

use crate::error::{Error, Result};
use object_store::path::Path as ObjectPath;
use std::fmt;
use std::path::PathBuf;

#[cfg(test)]
mod tests;

/// Where objects are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// On this machine.
    Directory(PathBuf),
    /// In an object store.
    Bucket(BucketPlace),
}

/// A prefix in a bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BucketPlace {
    pub(super) provider: Provider,
    /// The bucket; Azure says container.
    pub(super) bucket: String,
    /// In front of all names, without slashes at its ends; may be empty.
    pub(super) prefix: String,
}

/// Whose object store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Provider {
    /// Amazon S3, and what speaks its language.
    S3,
    /// Google Cloud Storage.
    Gs,
    /// Azure Blob Storage.
    Az,
}

impl Provider {
    /// Also the feature that brings it.
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Provider::S3 => "s3",
            Provider::Gs => "gs",
            Provider::Az => "az",
        }
    }
}

impl fmt::Display for BucketPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.provider.scheme(), self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

impl BucketPlace {
    /// A place below this one.
    pub(super) fn join(&self, name: &str) -> BucketPlace {
        let prefix = if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) };
        BucketPlace { prefix, ..self.clone() }
    }

    /// The last part of its name: that of a job, if it is the directory of one.
    pub(super) fn last(&self) -> &str {
        let prefix = if self.prefix.is_empty() { &self.bucket } else { &self.prefix };
        prefix.rsplit('/').next().unwrap_or_default()
    }
}

/// Takes a path, a `file://` URL or the URL of an object store apart.
pub(super) fn parse(location: &str) -> Result<Place> {
    let Some((scheme, rest)) = location.split_once("://") else {
        if location.is_empty() {
            return Err(Error::refused("the checkpoint directory is empty").hint("name one with --checkpoint-dir"));
        }
        return Ok(Place::Directory(PathBuf::from(location)));
    };
    match scheme {
        "file" => {
            let path = rest.strip_prefix("localhost").unwrap_or(rest);
            match percent_decoded(path) {
                Some(path) if path.starts_with('/') => Ok(Place::Directory(PathBuf::from(path))),
                _ => Err(Error::refused(format!("`{location}` is not a file URL"))
                    .hint("write file:///absolute/path, or just the path")),
            }
        }
        "s3" | "s3a" => bucket(location, Provider::S3, rest),
        "gs" | "gcs" => bucket(location, Provider::Gs, rest),
        "az" | "azure" => bucket(location, Provider::Az, rest),
        "abfs" | "abfss" | "adl" | "wasb" | "wasbs" => {
            Err(Error::refused(format!("`{location}` is not how flott names a place in Azure"))
                .hint("write az://container/prefix, and the account's name into AZURE_STORAGE_ACCOUNT_NAME"))
        }
        _ => Err(Error::refused(format!("`{location}` has the unknown scheme `{scheme}`"))
            .hint("use a path, file:///path, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix")),
    }
}

fn bucket(location: &str, provider: Provider, rest: &str) -> Result<Place> {
    let refused = |what: &str| {
        let scheme = provider.scheme();
        Err(Error::refused(format!("`{location}` {what}")).hint(format!("write {scheme}://bucket/prefix")))
    };
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = prefix.trim_matches('/');
    if bucket.is_empty() {
        return refused("names no bucket");
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if !bucket.chars().all(is_name) {
        return refused("holds what cannot be in a bucket's name");
    }
    // `..`, `//` and control characters: one object would have two names.
    if ObjectPath::parse(prefix).is_err() || prefix.contains(['?', '#']) {
        return refused("has a prefix that cannot be in an object's name");
    }
    Ok(Place::Bucket(BucketPlace { provider, bucket: bucket.to_owned(), prefix: prefix.to_owned() }))
}

/// `%20` and the like; `None` if it is not UTF-8 or a digit is missing.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}
