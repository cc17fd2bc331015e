//! Repeating what failed (L8): how often, after which pauses, and what is hopeless.
//!
//! It repeats only what its caller says may be repeated; it never decides whether a create may.

use super::refusal::Refusal;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use object_store::Error;
use std::fmt;
use std::time::Duration;

/// How requests are repeated. The pause doubles from one try to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryOptions {
    /// All tries together, the first one included (5).
    pub tries: u32,
    /// The pause after the first failure (50 ms).
    pub first_pause: Duration,
    /// No pause is longer (5 s).
    pub longest_pause: Duration,
    /// One try that takes longer has failed, with an unknown outcome (30 s).
    pub timeout: Duration,
}

impl Default for RetryOptions {
    fn default() -> RetryOptions {
        RetryOptions {
            tries: 5,
            first_pause: Duration::from_millis(50),
            longest_pause: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
        }
    }
}

impl RetryOptions {
    /// Tries until it works, is hopeless, or was tried often enough.
    pub(super) async fn repeat<'a, T: Send + 'a>(
        &'a self,
        mut call: impl FnMut() -> BoxFuture<'a, object_store::Result<T>>,
    ) -> Result<T, Failure> {
        self.until(|| self.in_time(1, call()).boxed()).await
    }

    /// The same for tries that keep to the time themselves.
    pub(super) async fn until<'a, T>(
        &self,
        mut call: impl FnMut() -> BoxFuture<'a, Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut tries = 1;
        loop {
            match call().await {
                Ok(value) => return Ok(value),
                Err(failure) if failure.is_permanent() || tries >= self.tries => {
                    return Err(Failure { tries, ..failure });
                }
                Err(_) => self.pause(tries).await,
            }
            tries += 1;
        }
    }

    /// One try.
    pub(super) async fn in_time<T>(
        &self,
        tries: u32,
        call: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(self.timeout, call).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Failure { tries, cause: Cause::Error(error) }),
            Err(_) => Err(Failure { tries, cause: Cause::Late(self.timeout) }),
        }
    }

    /// The pause after so many failures.
    pub(crate) async fn pause(&self, failures: u32) {
        let doubled = 2u32.saturating_pow(failures.saturating_sub(1));
        tokio::time::sleep(self.first_pause.saturating_mul(doubled).min(self.longest_pause)).await;
    }
}

/// Why a request failed for good.
#[derive(Debug)]
pub(super) struct Failure {
    tries: u32,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Error(Error),
    Late(Duration),
}

impl Failure {
    /// What the store said; `None` if it said nothing in time.
    pub(super) fn error(&self) -> Option<&Error> {
        match &self.cause {
            Cause::Error(error) => Some(error),
            Cause::Late(_) => None,
        }
    }

    pub(super) fn says_not_found(&self) -> bool {
        let missing = |error: &Error| !Refusal::of(error).names_missing_bucket();
        self.error().is_some_and(|error| matches!(error, Error::NotFound { .. }) && missing(error))
    }

    pub(super) fn says_exists(&self) -> bool {
        let said = |error: &Error| matches!(error, Error::AlreadyExists { .. } | Error::Precondition { .. });
        self.error().is_some_and(|error| said(error) && !Refusal::of(error).is_conflict())
    }

    /// Of an upload in parts: see [`Refusal::says_used_up`].
    pub(super) fn says_used_up(&self) -> bool {
        self.error().is_some_and(|error| Refusal::of(error).says_used_up())
    }

    /// Whether another try would fail as well.
    pub(super) fn is_permanent(&self) -> bool {
        let missing = |error: &Error| matches!(error, Error::NotFound { .. });
        self.says_exists() || self.error().is_some_and(|error| is_certain(error) || missing(error))
    }
}

/// Whether the store refused the request without doing any of it.
pub(super) fn is_certain(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidPath { .. }
            | Error::NotSupported { .. }
            | Error::NotImplemented { .. }
            | Error::PermissionDenied { .. }
            | Error::Unauthenticated { .. }
            | Error::UnknownConfigurationKey { .. }
    ) || Refusal::of(error).is_final()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Error(error) => f.write_str(&Refusal::of(error).describe(error))?,
            Cause::Late(timeout) => write!(f, "no answer within {timeout:?}")?,
        }
        if self.tries > 1 { write!(f, " (tried {} times)", self.tries) } else { Ok(()) }
    }
}
