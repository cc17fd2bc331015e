//! Clients of object stores, with credentials by the usual variables.
//!
//! The clients repeat nothing themselves: what is repeated, after which pause and how often is decided in one place, [`retry`].
//!
//! [`retry`]: super::retry

use super::place::{BucketPlace, Provider};
use super::{Objects, RetryOptions};
use crate::error::{Error, Result};
use std::sync::Arc;

/// How object stores are spoken to.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StoreOptions {
    /// How requests are repeated.
    pub retry: RetryOptions,
    /// Variables that overrule those of the environment, as `AWS_ENDPOINT_URL`.
    pub variables: Vec<(String, String)>,
}

/// A client for the bucket of a place.
///
/// # Errors
/// `Refused`: the program is built without it, or what the variables say cannot be.
pub(super) fn connect(place: &BucketPlace, options: &StoreOptions) -> Result<Arc<dyn Objects>> {
    match place.provider {
        Provider::S3 => s3(place, options),
        Provider::Gs => gs(place, options),
        Provider::Az => az(place, options),
    }
}

#[cfg(feature = "s3")]
fn s3(place: &BucketPlace, options: &StoreOptions) -> Result<Arc<dyn Objects>> {
    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key, S3ConditionalPut};
    let mut builder = AmazonS3Builder::from_env();
    for (key, value) in client::options(options) {
        builder = builder.with_config(Key::Client(key), value);
    }
    for (key, value) in client::overruled::<Key>(options) {
        builder = builder.with_config(key, value);
    }
    let builder = builder
        .with_bucket_name(&place.bucket)
        .with_retry(client::no_retries())
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        // One object is deleted at a time, and not every store that speaks S3 has the other call.
        .with_disable_bulk_delete(true);
    client::built(place, builder.build())
}

#[cfg(feature = "gs")]
fn gs(place: &BucketPlace, options: &StoreOptions) -> Result<Arc<dyn Objects>> {
    use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey as Key};
    let mut builder = GoogleCloudStorageBuilder::from_env();
    for (key, value) in client::options(options) {
        builder = builder.with_config(Key::Client(key), value);
    }
    for (key, value) in client::overruled::<Key>(options) {
        builder = builder.with_config(key, value);
    }
    let builder = builder.with_bucket_name(&place.bucket).with_retry(client::no_retries());
    client::built(place, builder.build())
}

#[cfg(feature = "az")]
fn az(place: &BucketPlace, options: &StoreOptions) -> Result<Arc<dyn Objects>> {
    use object_store::azure::{AzureConfigKey as Key, MicrosoftAzureBuilder};
    let mut builder = MicrosoftAzureBuilder::from_env();
    for (key, value) in client::options(options) {
        builder = builder.with_config(Key::Client(key), value);
    }
    for (key, value) in client::overruled::<Key>(options) {
        builder = builder.with_config(key, value);
    }
    let builder = builder.with_container_name(&place.bucket).with_retry(client::no_retries());
    client::built(place, builder.build())
}

#[cfg(not(feature = "s3"))]
use absent as s3;

#[cfg(not(feature = "gs"))]
use absent as gs;

#[cfg(not(feature = "az"))]
use absent as az;

#[cfg(not(all(feature = "s3", feature = "gs", feature = "az")))]
fn absent(place: &BucketPlace, _: &StoreOptions) -> Result<Arc<dyn Objects>> {
    let feature = place.provider.scheme();
    Err(Error::refused(format!("this program is built without the feature `{feature}`, which `{place}` needs")).hint(
        format!("build it with the feature `{feature}` of `flott` (or of `flott-cli`), or use a path or file:///path"),
    ))
}

/// What the clients share.
#[cfg(feature = "remote")]
mod client {
    use super::{BucketPlace, Error, Objects, Result, StoreOptions};
    use object_store::{ClientConfigKey, RetryConfig};
    use std::str::FromStr;
    use std::sync::Arc;
    use std::time::Duration;

    /// A connection that is not there by then will not come.
    const CONNECT: Duration = Duration::from_secs(5);

    /// Called before a client is built. The limit of a request, that of each page of a listing too; it lies just behind that of the tries, which names it.
    pub(super) fn options(options: &StoreOptions) -> [(ClientConfigKey, String); 2] {
        let retry = options.retry;
        // A client panics without one. If the program has chosen one itself, that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let millis = |time: Duration| format!("{}ms", time.as_millis());
        [
            (ClientConfigKey::Timeout, millis(retry.timeout + Duration::from_secs(1))),
            (ClientConfigKey::ConnectTimeout, millis(CONNECT.min(retry.timeout))),
        ]
    }

    /// What is said in place of the environment, as far as the provider knows it.
    pub(super) fn overruled<K: FromStr>(options: &StoreOptions) -> impl Iterator<Item = (K, &str)> {
        let known = |name: &str| name.to_ascii_lowercase().parse().ok();
        options.variables.iter().filter_map(move |(name, value)| Some((known(name)?, value.as_str())))
    }

    pub(super) fn no_retries() -> RetryConfig {
        RetryConfig { max_retries: 0, ..RetryConfig::default() }
    }

    pub(super) fn built<T: Objects>(place: &BucketPlace, built: object_store::Result<T>) -> Result<Arc<dyn Objects>> {
        match built {
            Ok(objects) => Ok(Arc::new(objects)),
            Err(error) => Err(Error::refused(format!("`{place}` cannot be opened: {error}"))
                .hint("the variables that begin with AWS_, GOOGLE_ or AZURE_ say who you are and where the store is")),
        }
    }
}
