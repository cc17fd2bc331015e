//! Where the state lies that is measured.

use clap::ValueEnum;
use flott::StateBackend;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Backend {
    Heap,
    Rocksdb,
}

/// What is missing without the feature.
pub(crate) const NOT_BUILT: &str = "this is built without RocksDB: build flott-bench with `--features rocksdb`";

impl Backend {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Backend::Heap => "heap",
            Backend::Rocksdb => "RocksDB",
        }
    }

    /// The word of the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Backend::Heap => "heap",
            Backend::Rocksdb => "rocksdb",
        }
    }

    pub(crate) fn of(word: &str) -> Result<Backend, String> {
        <Backend as ValueEnum>::from_str(word, false)
    }

    /// Refused if this program is built without it.
    pub(crate) fn built(self) -> Result<Backend, String> {
        if self == Backend::Rocksdb && !cfg!(feature = "rocksdb") { Err(NOT_BUILT.to_owned()) } else { Ok(self) }
    }

    pub(crate) fn of_jobs(self) -> StateBackend {
        match self {
            Backend::Heap => StateBackend::Heap,
            Backend::Rocksdb => StateBackend::RocksDb,
        }
    }
}
