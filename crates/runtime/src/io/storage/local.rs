//! What a local directory can hold besides objects: names that are no text, directories and dangling links in an object's place.
//!
//! The local store's own listing fails as a whole on one such name, and calls an object that cannot be there one that is not
//! there. So a directory is listed here, and what stands in the way of an object is said. Nothing is changed.

use crate::layout::{self, Name};
use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;

/// No object lies deeper (`data/<attempt>/<file>`), and links may lead in a circle.
const DEEPEST: usize = 3;

/// All objects below a prefix, with their lengths, sorted. A foreign name is listed too, as well as it can be written: it is
/// never one of ours. What stands in an object's place is listed with length 0; files that are being written are not.
pub(super) fn list(root: &Path, prefix: &str) -> io::Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    let (prefix, depth) = (prefix.trim_matches('/'), prefix.split('/').filter(|part| !part.is_empty()).count());
    match walk(&root.join(prefix), prefix, depth, &mut found) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        result => result?,
    }
    found.sort_unstable();
    Ok(found)
}

fn walk(directory: &Path, name: &str, depth: usize, found: &mut Vec<(String, u64)>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let last = entry.file_name().to_string_lossy().into_owned();
        let path = if name.is_empty() { last } else { format!("{name}/{last}") };
        if !is_staged(&path) {
            look_at(&entry, path, depth, found)?;
        }
    }
    Ok(())
}

fn look_at(entry: &DirEntry, path: String, depth: usize, found: &mut Vec<(String, u64)>) -> io::Result<()> {
    // Whatever is no file is no pin: nobody has to be told.
    let is_name = layout::parse(&path).is_some_and(|name| !matches!(name, Name::Pin(_)));
    match fs::metadata(entry.path()) {
        Ok(metadata) if metadata.is_dir() && !is_name && depth + 1 < DEEPEST => {
            match walk(&entry.path(), &path, depth + 1, found) {
                // Gone meanwhile, or a foreign one that is not for us to read.
                Err(error) if error.kind() == io::ErrorKind::NotFound || !is_ours(&path) => {}
                result => result?,
            }
        }
        Ok(metadata) if metadata.is_file() => found.push((path, metadata.len())),
        // A directory, or whatever else is no file.
        Ok(_) if is_name => found.push((path, 0)),
        // Listed by name alone: a link that leads nowhere, or in a circle.
        Err(_) if is_name && fs::symlink_metadata(entry.path()).is_ok() => found.push((path, 0)),
        Ok(_) | Err(_) => {}
    }
    Ok(())
}

/// A directory that the job makes.
fn is_ours(path: &str) -> bool {
    let directories = [layout::LOG, layout::MANIFESTS, layout::DATA, layout::HISTORY, layout::PINS];
    let first = path.split('/').next().unwrap_or_default();
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    directories.contains(&path) || (first == layout::DATA && path.split('/').nth(1).is_some_and(is_number))
}

/// The local store writes `name#<n>` first.
fn is_staged(path: &str) -> bool {
    path.rsplit_once('#').is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// What stands where an object, or a directory above it, must be, so that no repetition helps; `None`: nothing does.
pub(super) fn obstruction(root: &Path, object: &str) -> Option<String> {
    let above = object.match_indices('/').filter_map(|(at, _)| object.get(..at));
    for directory in above {
        if let Some(what) = kind(&root.join(directory)).filter(|what| *what != DIRECTORY) {
            return Some(format!("{directory} is {what} where a directory must be"));
        }
    }
    let what = kind(&root.join(object)).filter(|what| *what != FILE)?;
    Some(format!("{object} is {what} where a file must be"))
}

const FILE: &str = "a file";
const DIRECTORY: &str = "a directory";

/// What is there, if anything is and can be told.
fn kind(path: &Path) -> Option<&'static str> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Some(FILE),
        Ok(metadata) if metadata.is_dir() => Some(DIRECTORY),
        Ok(_) => Some("a pipe, a socket or a device"),
        Err(_) if fs::symlink_metadata(path).is_ok_and(|itself| itself.is_symlink()) => {
            Some("a link that leads nowhere")
        }
        Err(_) => None,
    }
}
