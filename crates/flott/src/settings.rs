//! What can be set about a run, from the builder, the environment and the command line alike.
//!
//! Only values, their forms and their limits; who overrules whom is in [`Settings::over`], what they mean is the
//! runner's business.

use flott_checkpoint::{CheckpointId, Guarantee, Mode, Restore};
use std::path::PathBuf;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Every setting of a run; `None` where nobody has said anything.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// Workers; default: the restored checkpoint's, else the machine's cores.
    pub workers: Option<u16>,
    /// Where checkpoints go; without it checkpoints are off.
    pub checkpoint_dir: Option<String>,
    /// How checkpoints are taken; default aligned.
    pub checkpoint_mode: Option<Mode>,
    /// How long after its trigger a checkpoint of mode aligned-then-unaligned stays aligned; default 200 ms.
    pub alignment_timeout: Option<Duration>,
    /// Bytes of records that may be under way on each channel.
    pub credit_window: Option<usize>,
    /// Time between two checkpoints; default 1 s.
    pub checkpoint_interval: Option<Duration>,
    /// What to restore; default the latest checkpoint.
    pub restore: Option<Restore>,
    /// The directory of a savepoint, or of a job, to begin a new incarnation from; instead of `restore`.
    pub restore_from: Option<String>,
    /// Go on with the output of the incarnation that `restore_from` is of.
    pub claim: Option<bool>,
    /// Check what would be restored, and start nothing.
    pub dry_run: Option<bool>,
    /// Refuse to run with less.
    pub require: Option<Guarantee>,
    /// A damaged checkpoint ends the job instead of falling back to an older one.
    pub no_fallback: Option<bool>,
    /// A fallback may pass output that is already committed.
    pub allow_duplicates: Option<bool>,
    /// State in the checkpoint that no operator claims is left behind.
    pub allow_unclaimed_state: Option<bool>,
    /// Take over output directories that hold foreign output, and remove it after the first commit.
    pub overwrite: Option<bool>,
    /// How long a stop may take; default 30 s.
    pub stop_timeout: Option<Duration>,
    /// The longest pause before a restart in the process; default 60 s.
    pub longest_restart_delay: Option<Duration>,
    /// Sample records for hot keys; default off.
    pub hot_keys: Option<bool>,
    /// Local working files.
    pub work_dir: Option<PathBuf>,
    /// Where keyed state lies; default the heap.
    pub state_backend: Option<StateBackend>,
    /// Bytes of memory for state that is not on the heap, of all workers together; default 256 MiB.
    pub state_memory: Option<usize>,
    /// Events as JSON lines on stdout.
    pub json: Option<bool>,
    /// Serve metrics at this address.
    pub metrics: Option<String>,
}

/// Where keyed state lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateBackend {
    /// In memory: fast, and as large as memory allows.
    #[default]
    Heap,
    /// In RocksDB on a local disk, in a fixed amount of memory; only in a build with the feature `rocksdb`.
    RocksDb,
}

pub(crate) fn parse_state_backend(text: &str) -> Result<StateBackend, String> {
    match text {
        "heap" => Ok(StateBackend::Heap),
        "rocksdb" if cfg!(feature = "rocksdb") => Ok(StateBackend::RocksDb),
        "rocksdb" => {
            Err("this program is built without RocksDB: build it with the feature `rocksdb` of flott".to_owned())
        }
        _ => Err(format!("`{text}` is not one of heap, rocksdb")),
    }
}

/// A number of bytes, as 64MiB.
pub(crate) fn parse_state_memory(text: &str) -> Result<usize, String> {
    let wrong = || format!("`{text}` is not a size such as 64MiB or 2GiB, of at least 8MiB");
    let (number, shift) = match (text.strip_suffix("MiB"), text.strip_suffix("GiB")) {
        (Some(number), _) => (number, 20),
        (_, Some(number)) => (number, 30),
        _ => return Err(wrong()),
    };
    let bytes = number.trim().parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes.filter(|bytes| *bytes >= 8 << 20).ok_or_else(wrong)
}

impl Settings {
    /// These settings, and where they are silent, those of `other`.
    #[must_use]
    pub fn over(self, other: Settings) -> Settings {
        // One wish: whoever says either overrules both.
        let (restore, restore_from) = match (self.restore, self.restore_from) {
            (None, None) => (other.restore, other.restore_from),
            own => own,
        };
        Settings {
            workers: self.workers.or(other.workers),
            checkpoint_dir: self.checkpoint_dir.or(other.checkpoint_dir),
            checkpoint_mode: self.checkpoint_mode.or(other.checkpoint_mode),
            alignment_timeout: self.alignment_timeout.or(other.alignment_timeout),
            credit_window: self.credit_window.or(other.credit_window),
            checkpoint_interval: self.checkpoint_interval.or(other.checkpoint_interval),
            restore,
            restore_from,
            claim: self.claim.or(other.claim),
            dry_run: self.dry_run.or(other.dry_run),
            require: self.require.or(other.require),
            no_fallback: self.no_fallback.or(other.no_fallback),
            allow_duplicates: self.allow_duplicates.or(other.allow_duplicates),
            allow_unclaimed_state: self.allow_unclaimed_state.or(other.allow_unclaimed_state),
            overwrite: self.overwrite.or(other.overwrite),
            stop_timeout: self.stop_timeout.or(other.stop_timeout),
            longest_restart_delay: self.longest_restart_delay.or(other.longest_restart_delay),
            hot_keys: self.hot_keys.or(other.hot_keys),
            work_dir: self.work_dir.or(other.work_dir),
            state_backend: self.state_backend.or(other.state_backend),
            state_memory: self.state_memory.or(other.state_memory),
            json: self.json.or(other.json),
            metrics: self.metrics.or(other.metrics),
        }
    }

    /// What is out of its limits, in the words of whoever set it.
    pub(crate) fn errors(&self) -> Vec<String> {
        let workers = self.workers.and_then(|workers| check_workers(workers).err());
        let interval = self.checkpoint_interval.and_then(|interval| check_interval(interval).err());
        let timeout = self.stop_timeout.and_then(|timeout| check_stop_timeout(timeout).err());
        let alignment = self.alignment_timeout.and_then(|timeout| check_alignment_timeout(timeout).err());
        let directory = self.checkpoint_dir.as_deref().filter(|directory| directory.is_empty());
        let directory = directory.map(|_| "the checkpoint directory is empty".to_owned());
        let window = self.credit_window.filter(|window| *window == 0);
        let window = window.map(|_| "a credit window of 0 bytes lets no record through; use at least 1".to_owned());
        let homeless = self.restore_from.is_some() && self.checkpoint_dir.is_none();
        let homeless = homeless.then(|| "--restore PATH needs a checkpoint directory: add --checkpoint-dir".to_owned());
        let idle = self.claim == Some(true) && self.restore_from.is_none();
        let idle = idle.then(|| "--claim goes with --restore PATH alone".to_owned());
        let both = self.claim == Some(true) && self.overwrite == Some(true);
        let both =
            both.then(|| "--claim goes on with earlier output and --overwrite removes it: choose one".to_owned());
        let delay = self.longest_restart_delay.and_then(|delay| check_restart_delay(delay).err());
        let directories = [directory, homeless, idle, both];
        [workers, interval, timeout, alignment, window, delay].into_iter().chain(directories).flatten().collect()
    }
}

/// More workers than this is a slip of the finger: there are 128 key groups.
pub(crate) const MOST_WORKERS: u16 = 128;

/// Nothing is sensibly longer.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

pub(crate) fn parse_workers(text: &str) -> Result<u16, String> {
    let number: u64 = text.parse().map_err(|_| "the number of workers is a whole number, 1 to 128".to_owned())?;
    let workers = u16::try_from(number).unwrap_or(u16::MAX);
    check_workers(workers).map(|()| workers)
}

fn check_workers(workers: u16) -> Result<(), String> {
    match workers {
        0 => Err("a job with 0 workers does nothing; use at least 1".to_owned()),
        1..=MOST_WORKERS => Ok(()),
        _ => Err(format!(
            "more than {MOST_WORKERS} workers cannot be used: state is divided into {MOST_WORKERS} key groups"
        )),
    }
}

pub(crate) fn parse_mode(text: &str) -> Result<Mode, String> {
    let mode = Mode::ALL.into_iter().find(|mode| mode.to_string() == text);
    mode.ok_or_else(|| {
        let all = Mode::ALL.map(|mode| mode.to_string()).join(", ");
        format!("`{text}` is not one of {all}")
    })
}

pub(crate) fn parse_alignment_timeout(text: &str) -> Result<Duration, String> {
    let timeout = parse_duration(text)?;
    check_alignment_timeout(timeout).map(|()| timeout)
}

/// 0 is no slip: nothing is aligned then.
fn check_alignment_timeout(timeout: Duration) -> Result<(), String> {
    if timeout > LONGEST {
        return Err("an alignment timeout of more than a year is surely not meant; mode aligned has none".to_owned());
    }
    Ok(())
}

pub(crate) fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    check_interval(interval).map(|()| interval)
}

pub(crate) fn check_interval(interval: Duration) -> Result<(), String> {
    flott_checkpoint::check_interval(interval).map_err(|error| error.to_string())
}

pub(crate) fn parse_stop_timeout(text: &str) -> Result<Duration, String> {
    let timeout = parse_duration(text)?;
    check_stop_timeout(timeout).map(|()| timeout)
}

fn check_stop_timeout(timeout: Duration) -> Result<(), String> {
    if timeout.is_zero() {
        return Err("a stop timeout of 0 leaves no time for the final checkpoint; press Ctrl-C twice to stop at once"
            .to_owned());
    }
    if timeout > LONGEST {
        return Err("a stop timeout of more than a year is surely not meant".to_owned());
    }
    Ok(())
}

pub(crate) fn parse_restart_delay(text: &str) -> Result<Duration, String> {
    let delay = parse_duration(text)?;
    check_restart_delay(delay).map(|()| delay)
}

fn check_restart_delay(delay: Duration) -> Result<(), String> {
    if delay < Duration::from_millis(1) {
        return Err("a restart delay of less than 1ms would keep the machine busy with a lasting failure".to_owned());
    }
    if delay > LONGEST {
        return Err("a restart delay of more than a year is surely not meant".to_owned());
    }
    Ok(())
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("`{text}` is no duration ({error}); write it as 500ms or 30s"))
}

/// What `--restore` names.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Wanted {
    /// Something of the job's own log.
    Own(Restore),
    /// A directory.
    From(String),
}

pub(crate) fn parse_restore(text: &str) -> Result<Wanted, String> {
    match text {
        "latest" => Ok(Wanted::Own(Restore::Latest)),
        "none" => Ok(Wanted::Own(Restore::None)),
        _ if text.contains('/') => Ok(Wanted::From(text.to_owned())),
        _ => match text.parse() {
            Ok(id @ 1..) => Ok(Wanted::Own(Restore::Id(CheckpointId(id)))),
            _ => Err(format!(
                "`{text}` is neither `latest`, `none`, nor the number of a checkpoint (1 or more), nor the path of a savepoint, \
                 which has a `/` in it, as ./savepoint"
            )),
        },
    }
}

pub(crate) fn parse_require(text: &str) -> Result<Guarantee, String> {
    match text {
        "exactly-once" => Ok(Guarantee::ExactlyOnce),
        "at-least-once" => Ok(Guarantee::AtLeastOnce),
        _ => Err(format!("`{text}` is not one of exactly-once, at-least-once")),
    }
}

pub(crate) fn parse_directory(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("the checkpoint directory is empty".to_owned()) } else { Ok(text.to_owned()) }
}
