//! How blocking calls are made: on the I/O runtime's pool of threads for such calls, never on a worker's thread.
//!
//! Calls run side by side here; that one owner makes one call at a time is the owner's business, and it is: a sink asks for
//! the next call when the last one is answered.

use crate::error::{Error, Result};
use crate::io::{Answer, BlockingCall};
use futures_util::future::BoxFuture;

#[cfg(test)]
mod tests;

/// Makes a call off the caller's thread. The call begins when this function is called, inside a tokio runtime, and goes on
/// even if the future is dropped.
///
/// # Errors
/// If the call panicked: user code or a connector did. The answer is lost, so the attempt is over.
pub fn make(call: BlockingCall) -> BoxFuture<'static, Result<Answer>> {
    let running = tokio::task::spawn_blocking(call.0);
    Box::pin(async move {
        running.await.map_err(|gone| match gone.try_into_panic() {
            Ok(panic) => Error::failed(format!("a call to a connector panicked: {}", text_of(&*panic))),
            Err(_) => Error::failed("a call to a connector was given up because the process ends"),
        })
    })
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
