//! The sink as a job names it: a connection, a table, its columns.

use crate::store::{PostgresStore, Target};
use flott_runtime::connector::staged::{StagedSink, StagedStore, StagedWriter};
use flott_runtime::error::Result;
use flott_runtime::record::Record;
use flott_runtime::sink::{Committer, Sink, SinkContext};
use std::sync::Arc;

/// Inserts records into a table, exactly once. Transactional.
///
/// A record is a struct whose fields have the names of the table's columns; columns without a field get their defaults. With
/// [`PostgresSink::columns`] it may be a tuple. Text, numbers, booleans and bytes are written as such, `None` as NULL, a variant
/// without content as its name, anything nested as JSON; the server turns each into the column's type.
///
/// For each writing subtask one row of the table `flott_epochs` says which epoch is in. It is made if it is absent.
#[derive(Clone)]
pub struct PostgresSink {
    store: PostgresStore,
    max_staged: Option<u64>,
}

impl PostgresSink {
    /// A sink into `table`, named as in the database, in its own case, or as `schema.table`. The connection is given as
    /// `host=… port=… user=… password=… dbname=…` or as `postgresql://user:password@host:port/dbname`.
    pub fn new(connection: impl Into<String>, table: impl Into<String>) -> PostgresSink {
        let target = Target { connection: connection.into(), table: table.into(), columns: None, owns_table: false };
        PostgresSink { store: PostgresStore::new(target), max_staged: None }
    }

    /// Names the columns: in the order of a tuple's fields, or as a choice among a struct's.
    #[must_use]
    pub fn columns<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        let columns = names.into_iter().map(Into::into).collect();
        self.store = PostgresStore::new(Target { columns: Some(columns), ..self.store.target().clone() });
        self
    }

    /// All rows of the table are this sink's. Only then may `--overwrite` delete the rows of an earlier life of the job, which
    /// cannot be told from anybody else's.
    #[must_use]
    pub fn owns_table(mut self) -> Self {
        self.store = PostgresStore::new(Target { owns_table: true, ..self.store.target().clone() });
        self
    }

    /// See [`StagedSink::max_staged_bytes`].
    #[must_use]
    pub fn max_staged_bytes(mut self, bytes: u64) -> Self {
        self.max_staged = Some(bytes);
        self
    }

    fn staged<T: Record>(&self) -> StagedSink<T, PostgresStore> {
        let sink = StagedSink::new(self.store.clone());
        match self.max_staged {
            Some(bytes) => sink.max_staged_bytes(bytes),
            None => sink,
        }
    }
}

impl<T: Record> Sink<T> for PostgresSink {
    type Writer = StagedWriter<T>;

    fn open(&self, cx: &SinkContext) -> Result<StagedWriter<T>> {
        self.store.check::<T>()?;
        self.staged().open(cx)
    }

    fn committer(&self, cx: &SinkContext) -> Option<Arc<dyn Committer>> {
        self.staged::<T>().committer(cx)
    }

    fn is_transactional(&self) -> bool {
        true
    }

    fn place(&self) -> Option<String> {
        StagedStore::<()>::place(&self.store)
    }
}
