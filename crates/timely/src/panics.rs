//! Panics of user code become errors: caught before timely sees them, with their text and place, and without the standard
//! hook's noise on stderr. Threads that are not ours keep the hook they had.

use flott_runtime::Error;
use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

thread_local! {
    /// This thread is a worker of ours.
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
    /// Where the newest panic of this thread happened: file, line, column.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Makes panics of the calling thread quiet; they are told by [`guard`].
pub(crate) fn be_quiet() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if IS_OURS.try_with(Cell::get).unwrap_or(false) { remember(info) } else { previous(info) }
        }));
    });
    IS_OURS.set(true);
}

fn remember(info: &PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string);
    let _ = PLACE.try_with(|cell| cell.replace(place));
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        tracing::error!(target: "flott", "{info}\n{backtrace}");
    }
}

/// Runs `body` for a worker; a panic in it becomes an error. What `body` worked on must be dropped after that.
pub(crate) fn guard<T>(worker: u16, body: impl FnOnce() -> T) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let place = PLACE.take().map(|place| format!(" ({place})")).unwrap_or_default();
        let error = Error::failed(format!("worker {worker} panicked: {}{place}", text(&*payload)));
        // A payload may panic in its own drop.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        error
    })
}

fn text(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "(no text)"
    }
}
