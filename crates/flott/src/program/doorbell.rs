//! The local socket of a program: there from its start to its end, or a warning why it is not. It never stops a job.

#[cfg(unix)]
use crate::console::write_log;
use crate::handle::JobHandle;
#[cfg(unix)]
use flott_runtime::io::local_socket::{LocalSocket, socket_directory};
#[cfg(unix)]
use std::sync::Arc;

/// See the head of this file.
#[cfg(unix)]
#[derive(Clone)]
pub(super) struct Doorbell(Arc<std::io::Result<LocalSocket>>);

#[cfg(unix)]
impl Doorbell {
    pub(super) fn hang(job: &str) -> Doorbell {
        Doorbell(Arc::new(LocalSocket::bind(&socket_directory(), job)))
    }

    /// Where it is, if it is.
    pub(super) fn path(&self) -> Option<String> {
        self.0.as_ref().as_ref().ok().map(|socket| socket.path().display().to_string())
    }

    /// Why there is none.
    pub(super) fn warning(&self) -> Option<String> {
        let directory = socket_directory();
        let error = self.0.as_ref().as_ref().err()?;
        Some(format!(
            "the job has no local socket, so `flott status` and `flott set` cannot reach it: {}: {error}",
            directory.display()
        ))
    }

    pub(super) fn listen(&self, handle: &JobHandle, job: &str) {
        if let Ok(socket) = self.0.as_ref()
            && let Err(error) = handle.listen(socket, job)
        {
            write_log(&format!("warning: nobody answers at the local socket: {error}"));
        }
    }

    /// A process may end without dropping it.
    pub(super) fn remove(&self) {
        if let Ok(socket) = self.0.as_ref() {
            socket.remove();
        }
    }
}

/// There are no local sockets here.
#[cfg(not(unix))]
#[derive(Clone)]
pub(super) struct Doorbell;

#[cfg(not(unix))]
impl Doorbell {
    pub(super) fn hang(_: &str) -> Doorbell {
        Doorbell
    }

    pub(super) fn path(&self) -> Option<String> {
        None
    }

    pub(super) fn warning(&self) -> Option<String> {
        None
    }

    pub(super) fn listen(&self, _: &JobHandle, _: &str) {}

    pub(super) fn remove(&self) {}
}
