//! Removes what dead attempts left half written in a local directory (design D7).
//!
//! The local store writes `name#<n>` first and renames it; a killed process leaves such files, and no listing shows them.
//! Only files of attempts below a given one are touched: that attempt has won its Start, so those can record nothing more.

use super::StorageServer;
use crate::error::{Error, Result};
use crate::layout::{self, Name};
use flott_checkpoint::AttemptId;
use futures_util::future::BoxFuture;
use std::fs;
use std::io;
use std::path::Path;

impl StorageServer {
    /// Removes staging files of attempts below `own`, which must have won its Start. Gives back how many there were.
    /// Nothing to do for a store that is no local directory.
    ///
    /// # Errors
    /// If a directory cannot be read or a file not removed; it is tried again at the next start.
    pub fn sweep_staged(&self, own: AttemptId) -> BoxFuture<'_, Result<usize>> {
        Box::pin(self.sweep_below(own))
    }

    async fn sweep_below(&self, own: AttemptId) -> Result<usize> {
        let Some(directory) = self.store.directory.clone() else { return Ok(0) };
        let swept = tokio::task::spawn_blocking(move || {
            let mut removed = 0;
            sweep(&directory, &directory, own, &mut removed).map(|()| removed)
        });
        swept
            .await
            .map_err(io::Error::other)
            .and_then(|result| result)
            .map_err(|error| Error::failed(format!("cannot sweep half-written files in {}: {error}", self.name())))
    }
}

fn sweep(root: &Path, directory: &Path, own: AttemptId, removed: &mut usize) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            match sweep(root, &path, own, removed) {
                // An attempt's directory goes when its last blob does.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result?,
            }
        } else if is_dead(root, &path, own) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => *removed += 1,
            }
        }
    }
    Ok(())
}

/// Whether a file is a staging file of an attempt below `own`.
fn is_dead(root: &Path, path: &Path, own: AttemptId) -> bool {
    let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) else { return false };
    let Some((name, number)) = name.rsplit_once('#') else { return false };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    match layout::parse(&name.replace(std::path::MAIN_SEPARATOR, "/")) {
        // An entry of a slot is written by that attempt or an older one.
        Some(Name::Slot(slot)) => slot.0 < own.0,
        Some(name) => name.attempt().is_some_and(|attempt| attempt < own),
        None => false,
    }
}
