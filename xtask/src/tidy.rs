//! What the compiler does not check: imports go downward only, files and functions fit a sitting, every file says why it is
//! there, every public item has docs, and I/O happens in the I/O module alone, so that injected faults reach every call.

mod floors;
mod source;

use crate::process::root;
use std::fs;
use std::path::{Path, PathBuf};

/// A file may have so many lines of code: neither blank nor comment.
const FILE_LINES: usize = 500;
/// A function may have so many lines.
const FUNCTION_LINES: usize = 70;

pub(crate) fn run() -> Result<(), String> {
    let mut findings = floors::check()?;
    for file in files(&root())? {
        let path = file.strip_prefix(root()).unwrap_or(&file).to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).map_err(|error| format!("cannot read {path}: {error}"))?;
        findings.extend(source::check(&path, &text)?);
    }
    if findings.is_empty() {
        eprintln!("tidy: nothing to mend");
        return Ok(());
    }
    findings.sort();
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    Err(format!("tidy found {} things to mend", findings.len()))
}

/// All Rust files of the repository, outside build output.
fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let entries = fs::read_dir(directory).map_err(|error| format!("cannot list {}: {error}", directory.display()))?;
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            found.extend(files(&path)?);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
