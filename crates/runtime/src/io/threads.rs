//! Threads of the operating system, for connectors that can only block (a socket).
//!
//! Nothing else of floor 1 gets a thread, and nobody is waited for here.

use crate::error::{Error, Result};
use crate::source::Threads;
use std::thread::Builder;

/// Starts real threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsThreads;

impl Threads for OsThreads {
    #[allow(clippy::disallowed_methods)] // this is the place where connectors' threads come from
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Result<()> {
        match Builder::new().name(name.to_owned()).spawn(body) {
            Ok(_detached) => Ok(()),
            Err(error) => Err(Error::failed(format!("cannot start a thread for {name}: {error}"))
                .hint("look at the limits of processes and memory (`ulimit -u`)")),
        }
    }
}
