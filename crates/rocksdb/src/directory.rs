//! Where databases lie: `<work dir>/attempt-<number>-<process>/<vertex>-<subtask>`. One process and attempt never meets the
//! databases of another one, and those that a killed process left behind are cleared.
//!
//! Nothing is ever deleted but what RocksDB knows as its own, in directories with such names, while nobody has it open.

use flott_checkpoint::{AttemptId, SubtaskId};
use rocksdb::{DB, Options};
use std::fs;
use std::path::{Path, PathBuf};

const ATTEMPT: &str = "attempt-";

/// The directory of a subtask's database.
pub(crate) fn of(work_dir: &Path, attempt: AttemptId, subtask: SubtaskId) -> PathBuf {
    let attempt = format!("{ATTEMPT}{}-{}", attempt.0, std::process::id());
    work_dir.join(attempt).join(format!("{}-{}", subtask.vertex, subtask.index))
}

/// Removes the databases of processes that are no more. What is in use, is no database or cannot be removed stays.
pub(crate) fn clear_left_behind(work_dir: &Path) {
    for attempt in directories(work_dir) {
        let name = attempt.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let numbers = name.strip_prefix(ATTEMPT).and_then(|rest| rest.split_once('-'));
        let is_ours = numbers.is_some_and(|(number, process)| is_number(number) && is_number(process));
        if is_ours {
            directories(&attempt).iter().for_each(|database| remove(database));
            // Only if it is empty.
            let _ = fs::remove_dir(&attempt);
        }
    }
}

/// Removes a database that is closed, and its directory and that of its attempt if nothing else is in them.
pub(crate) fn remove(database: &Path) {
    // It takes the lock, so it fails while a living process has the database open.
    if database.join("CURRENT").exists() && DB::destroy(&Options::default(), database).is_ok() {
        let _ = fs::remove_dir(database);
        let _ = database.parent().map(fs::remove_dir);
    }
}

fn directories(of: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    // A link is not followed: it may lead anywhere.
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
