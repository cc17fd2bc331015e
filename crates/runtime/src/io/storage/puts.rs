//! Puts with a second try: when one is slow, the same is sent again, and the better answer counts ([`hedge`] decides both).
//!
//! Whatever is put here may be put twice: blobs and their parts because their bytes are the same and only their owner writes
//! them; objects of the log and manifests because the store creates them once, whoever asks.
//!
//! [`hedge`]: super::hedge

use super::Store;
use super::hedge::{Pace, Said, Verdict, judge};
use super::retry::{Failure, is_certain};
use crate::layout;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, select};
use object_store::path::Path;
use object_store::{PutMode, PutOptions, PutPayload};
use std::sync::{MutexGuard, PoisonError};
#[cfg(test)]
use std::time::Duration;
use tokio::time::Instant;

/// What came of creating an object.
pub(super) enum Tried {
    Created,
    Exists,
    /// Two tries contradict each other, or one of them has no answer.
    Unknown,
    Failed(Failure),
}

/// The answer of one try.
type Answer<T> = Result<T, Failure>;

impl Store {
    /// Something that may be done twice: once, and again if it is slow. The first success counts.
    pub(super) async fn put_again_if_slow<'a, T: Send + 'a>(
        &'a self,
        bytes: usize,
        mut put: impl FnMut() -> BoxFuture<'a, object_store::Result<T>>,
    ) -> Answer<T> {
        let begun = Instant::now();
        let mut first = self.retry.in_time(1, put()).boxed();
        let answer = match self.answer_in_time(bytes, &mut first).await {
            Some(answer) => answer,
            None => {
                let second = self.retry.in_time(1, put()).boxed();
                let (answer, other) = select(first, second).await.factor_first();
                if answer.is_ok() { answer } else { other.await }
            }
        };
        if answer.is_ok() {
            self.pace().took(bytes, begun.elapsed());
        }
        answer
    }

    /// One try to create an object; a second one beside it if it is slow and a checkpoint waits for it.
    pub(super) async fn try_to_create(&self, at: &Path, path: &str, bytes: &Bytes, tries: u32) -> Tried {
        let create = || {
            let put =
                self.objects.put_opts(at, PutPayload::from_bytes(bytes.clone()), PutOptions::from(PutMode::Create));
            self.retry.in_time(tries, put).boxed()
        };
        let hurried = self.parts.is_some() && [layout::LOG, layout::MANIFESTS].iter().any(|dir| path.starts_with(dir));
        if !hurried {
            return of_one(create().await.map(|_| ()));
        }
        let begun = Instant::now();
        let mut first = create();
        let tried = match self.answer_in_time(bytes.len(), &mut first).await {
            Some(answer) => of_one(answer.map(|_| ())),
            None => of_two(first, create()).await,
        };
        if !matches!(tried, Tried::Failed(_)) {
            self.pace().took(bytes.len(), begun.elapsed());
        }
        tried
    }

    /// The answer, if it comes before a second try is due; without one, it is waited for. Books the second try.
    async fn answer_in_time<T>(&self, bytes: usize, first: &mut BoxFuture<'_, Answer<T>>) -> Option<Answer<T>> {
        let delay = self.parts.as_ref().and_then(|_| self.pace().delay(bytes));
        let Some(delay) = delay else { return Some(first.await) };
        match tokio::time::timeout(delay, first).await {
            Ok(answer) => Some(answer),
            Err(_) => {
                self.pace().hedged();
                tracing::debug!(target: "flott", "a put to {} has no answer after {delay:?}: it is sent again", self.name);
                None
            }
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of_one(answer: Answer<()>) -> Tried {
    match answer {
        Ok(()) => Tried::Created,
        Err(failure) if failure.says_exists() => Tried::Exists,
        Err(failure) => Tried::Failed(failure),
    }
}

/// Both are on their way; as many answers are waited for as the verdict needs.
async fn of_two<T>(first: BoxFuture<'_, Answer<T>>, second: BoxFuture<'_, Answer<T>>) -> Tried {
    let (Either::Left((answer, other)) | Either::Right((answer, other))) = select(first, second).await;
    let one = said(&answer);
    match judge(Some(one), None) {
        Verdict::Wait => {}
        verdict => return tried(verdict, answer),
    }
    let last = other.await;
    tried(judge(Some(one), Some(said(&last))), if answer.is_err() { answer } else { last })
}

fn tried<T>(verdict: Verdict, answer: Answer<T>) -> Tried {
    match (verdict, answer) {
        (Verdict::Created, _) => Tried::Created,
        (Verdict::Exists, _) => Tried::Exists,
        (Verdict::Refused, Err(failure)) => Tried::Failed(failure),
        (Verdict::Refused | Verdict::Unknown | Verdict::Wait, _) => Tried::Unknown,
    }
}

fn said<T>(answer: &Answer<T>) -> Said {
    match answer {
        Ok(_) => Said::Created,
        Err(failure) if failure.says_exists() => Said::Exists,
        Err(failure) if failure.error().is_some_and(is_certain) => Said::Refused,
        Err(_) => Said::Open,
    }
}

/// For tests, which wait for no clock.
#[cfg(test)]
impl Store {
    pub(super) fn expect_puts_within(&self, time: Duration) {
        for bytes in [1, 100_000, 10 << 20] {
            (0..20).for_each(|_| self.pace().took(bytes, time));
        }
    }
}
