//! Input and output of the job that has one of each kind (`crates/flott/tests/jobs/everything.rs`).
//!
//! Rows in which clocks or the order of two streams have a say are compared as far as they do not; the tests of that job judge
//! the rest of them.

use super::output::Rows;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What the command line calls it.
pub(super) const NAME: &str = "everything";
/// Its program.
pub(super) const BINARY: &str = "flott-everything-job";

const FILES: u32 = 3;
const LINES: u32 = 9_000;
/// One line in so many is broken.
const BROKEN: u32 = 450;

/// Each sink, and how many columns of its rows are the same in every run; `None`: all.
const SINKS: [(&str, Option<usize>); 6] =
    [("users", None), ("odd", None), ("fired", None), ("dead", None), ("ruled", Some(2)), ("lives", Some(2))];

/// Writes compressed files of JSON lines; each user is in one of them.
pub(super) fn write_input(directory: &Path) -> Result<(), String> {
    fs::create_dir_all(directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    for file in 0..FILES {
        let line = |line: u32| {
            if line % BROKEN == BROKEN - 1 {
                return format!("broken {file} {line}\n");
            }
            let (user, number) = (file * 100 + line.wrapping_mul(line) % 40, file * LINES + line);
            let page = if line.is_multiple_of(3) { 1 } else { line % 17 };
            format!("{{\"user\":{user},\"page\":{page},\"number\":{number}}}\n")
        };
        let path = directory.join(format!("visits-{file}.jsonl"));
        fs::write(&path, (0..LINES).map(line).collect::<String>())
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        let zipped = Command::new("gzip").arg("--force").arg(&path).status();
        if !zipped.is_ok_and(|status| status.success()) {
            return Err(format!("`gzip {}` failed: it is needed to make the input", path.display()));
        }
    }
    Ok(())
}

/// What it committed, each row behind the name of its sink. Of counts that grow in parts the last one of each page, and those that
/// came twice, which none may.
pub(super) fn read(directory: &Path) -> Result<Rows, String> {
    let mut all = Vec::new();
    for (sink, columns) in SINKS {
        let same = |row: &String| row.split(',').take(columns.unwrap_or(usize::MAX)).collect::<Vec<_>>().join(",");
        all.extend(lines(&directory.join(sink))?.iter().map(|row| format!("{sink}: {}", same(row))));
    }
    let (mut last, mut seen) = (BTreeMap::new(), BTreeMap::new());
    for row in lines(&directory.join("pages"))? {
        let (page, count) = row.split_once(',').ok_or_else(|| format!("`{row}` is no page and its count"))?;
        let count: u64 = count.parse().map_err(|_| format!("`{row}` has no count"))?;
        let most = last.entry(page.to_owned()).or_insert(0);
        *most = count.max(*most);
        *seen.entry(row).or_insert(0u32) += 1;
    }
    all.extend(last.iter().map(|(page, count)| format!("pages: {page},{count}")));
    all.extend(seen.iter().filter(|(_, times)| **times > 1).map(|(row, _)| format!("pages: twice {row}")));
    Ok(Rows::of(all))
}

fn lines(directory: &Path) -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", directory.display());
    let mut lines = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)?.flatten() {
        if !entry.file_name().to_string_lossy().starts_with('.') {
            let text = fs::read_to_string(entry.path()).map_err(failed)?;
            lines.extend(text.lines().map(str::to_owned));
        }
    }
    Ok(lines)
}
