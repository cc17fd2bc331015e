//! The store: claims a table for a life of the job, and commits an epoch and its mark in one transaction.
//!
//! The mark of a writer is one row, which only grows: its tokens come in the order of epochs, also from a process that was
//! stopped for long, so that a greater epoch means that this one is in.

use crate::errors::explain;
use crate::row::Layout;
use flott_runtime::connector::staged::{EpochMark, Rows, SinkLife, StagedStore};
use flott_runtime::error::{Error, Result};
use flott_runtime::key::Shape;
use flott_runtime::record::Record;
use postgres::config::{Host, SslMode};
use postgres::{Client, Config, NoTls, Transaction};
use serde::de::DeserializeOwned;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// So long a connection may take to come about, if the connection says nothing else.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Rows are sent in pieces of so many bytes.
const PIECE: usize = 64 << 10;
/// The mark of a life that was overwritten: no commit of it comes later.
const CLOSED: i64 = i64::MAX;
/// Serializes those who make the table of marks: any number that nobody else uses. "flott".
const LOCK: i64 = 0x66_6C6F_7474;

const CREATE: &str = "CREATE TABLE flott_epochs (job text NOT NULL, incarnation text NOT NULL, sink text NOT NULL, \
     writer integer NOT NULL, epoch bigint NOT NULL, PRIMARY KEY (job, sink, incarnation, writer))";
const COLUMNS: &str =
    "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped";
const MARK: &str = "INSERT INTO flott_epochs AS mark (job, incarnation, sink, writer, epoch) VALUES ($1, $2, $3, $4, $5) \
     ON CONFLICT (job, sink, incarnation, writer) DO UPDATE SET epoch = EXCLUDED.epoch WHERE mark.epoch < EXCLUDED.epoch";
const DURABLE: &str =
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'";
const FOREIGN: &str =
    "SELECT incarnation FROM flott_epochs WHERE job = $1 AND sink = $2 AND incarnation <> $3 AND epoch < $4 LIMIT 1";
const CLOSE: &str = "UPDATE flott_epochs SET epoch = $4 WHERE job = $1 AND sink = $2 AND incarnation <> $3";

/// Where rows go.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) connection: String,
    pub(crate) table: String,
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) owns_table: bool,
}

/// See the head of this file.
#[derive(Clone)]
pub(crate) struct PostgresStore {
    target: Arc<Target>,
}

impl PostgresStore {
    pub(crate) fn new(target: Target) -> PostgresStore {
        PostgresStore { target: Arc::new(target) }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// What can be said without the server.
    pub(crate) fn check<T: DeserializeOwned>(&self) -> Result<()> {
        self.config()?;
        self.columns::<T>().map(drop)
    }

    fn config(&self) -> Result<Config> {
        let mut config: Config = self.target.connection.parse().map_err(|error: postgres::Error| {
            let cause = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
            Error::refused(format!("the connection of a PostgreSQL sink cannot be read: {error}{cause}"))
                .hint("write `host=… port=… user=… password=… dbname=…`")
        })?;
        if config.get_ssl_mode() == SslMode::Require {
            return Err(Error::refused("`sslmode=require`: this version speaks to PostgreSQL without TLS only")
                .hint("leave it out, and reach a server elsewhere through a tunnel"));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("flott");
        }
        Ok(config)
    }

    fn columns<T: DeserializeOwned>(&self) -> Result<Vec<String>> {
        if let Some(columns) = &self.target.columns {
            return Ok(columns.clone());
        }
        match Shape::of_type::<T>() {
            Shape::Struct(fields) => Ok(fields.into_iter().map(|(name, _)| name).collect()),
            other => {
                Err(Error::refused(format!("a record of shape {other} does not name the columns of {}", self.name()))
                    .hint("name them with `.columns([…])`, or write structs"))
            }
        }
    }

    /// For messages; the connection may hold a password.
    fn name(&self) -> String {
        let table = &self.target.table;
        let Ok(config) = self.config() else { return format!("table {table} of PostgreSQL") };
        let host = config.get_hosts().first().map_or_else(
            || "?".to_owned(),
            |host| match host {
                Host::Tcp(name) => name.clone(),
                #[cfg(unix)]
                Host::Unix(path) => path.display().to_string(),
            },
        );
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
        format!("table {table} of PostgreSQL database {database} at {host}:{port}")
    }

    fn error(&self, doing: &str, error: &postgres::Error) -> Error {
        explain(&self.name(), doing, error)
    }

    /// Does something on a connection of its own. None is kept between checkpoints: it could break unseen, and closing it blocks,
    /// which whoever drops a job may not.
    fn with<R>(&self, body: impl FnOnce(&mut Client) -> Result<R>) -> Result<R> {
        let mut client = self.config()?.connect(NoTls).map_err(|error| self.error("connect", &error))?;
        body(&mut client)
    }

    fn claim_in(
        &self,
        transaction: &mut Transaction<'_>,
        columns: &[String],
        life: &SinkLife,
        overwrite: bool,
    ) -> Result<()> {
        let failed = |doing: &'static str| move |error: postgres::Error| self.error(doing, &error);
        transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).map_err(failed("take a lock"))?;
        let marks = transaction.query(COLUMNS, &[&"flott_epochs"]).map_err(failed("look for flott_epochs"))?;
        if marks.is_empty() {
            transaction.execute(CREATE, &[]).map_err(failed("create flott_epochs"))?;
        }
        let there = transaction.query(COLUMNS, &[&quoted(&self.target.table)]).map_err(failed("look at the table"))?;
        if there.is_empty() {
            return Err(Error::refused(format!("there is no {}", self.name())).hint("create it, or name the right one"));
        }
        let there: Vec<String> = there.iter().map(|row| row.get(0)).collect();
        if let Some(missing) = columns.iter().find(|name| !there.contains(name)) {
            let known = there.join(", ");
            return Err(Error::refused(format!("{} has no column `{missing}`, only {known}", self.name()))
                .hint("give the record's fields the names of columns, or choose some with `columns`"));
        }
        let SinkLife { job, sink, incarnation } = life;
        let foreign = transaction
            .query_opt(FOREIGN, &[job, sink, incarnation, &CLOSED])
            .map_err(failed("look for earlier output"))?;
        match foreign.map(|row| row.get::<_, String>(0)) {
            None => Ok(()),
            Some(_) if overwrite && self.target.owns_table => {
                let delete = format!("DELETE FROM {}", quoted(&self.target.table));
                transaction.execute(&delete, &[]).map_err(failed("delete the earlier output"))?;
                transaction.execute(CLOSE, &[job, sink, incarnation, &CLOSED]).map_err(failed("close the earlier output"))?;
                Ok(())
            }
            Some(earlier) if overwrite => Err(Error::refused(format!(
                "{} holds output of an earlier life of the job, {earlier}, whose rows cannot be told from others",
                self.name()
            ))
            .hint(format!(
                "delete them by hand, then: UPDATE flott_epochs SET epoch = {CLOSED} WHERE incarnation = '{earlier}'; or \
                 say with `owns_table` that all rows of the table are the sink's"
            ))),
            Some(earlier) => Err(Error::refused(format!("{} holds output of an earlier life of the job, {earlier}", self.name()))
                .hint("choose another table, or replace that output with `--overwrite`")),
        }
    }

    fn commit_in<T: Record>(
        &self,
        transaction: &mut Transaction<'_>,
        mark: &EpochMark,
        rows: Rows<'_, T>,
    ) -> Result<bool> {
        let failed = |doing: &'static str| move |error: postgres::Error| self.error(doing, &error);
        // A commit that the server may forget again is none.
        transaction.execute(DURABLE, &[]).map_err(failed("make the commit durable"))?;
        let SinkLife { job, sink, incarnation } = &mark.life;
        let epoch = i64::try_from(mark.epoch.0).map_err(|_| Error::failed("an epoch beyond all numbers"))?;
        let marked = transaction
            .execute(MARK, &[job, incarnation, sink, &i32::from(mark.writer), &epoch])
            .map_err(failed("write the mark of an epoch"))?;
        if marked == 0 {
            return Ok(false);
        }
        let columns = self.columns::<T>()?;
        let names: Vec<String> = columns.iter().map(|name| quoted_name(name)).collect();
        let copy = format!("COPY {} ({}) FROM STDIN", quoted(&self.target.table), names.join(", "));
        let mut writer = transaction.copy_in(&copy).map_err(failed("write rows"))?;
        let (mut layout, mut piece) = (Layout::new(columns), Vec::with_capacity(PIECE));
        for row in rows {
            layout.write(&row?, &mut piece)?;
            if piece.len() >= PIECE {
                writer.write_all(&piece).map_err(|error| self.write_error(error))?;
                piece.clear();
            }
        }
        writer.write_all(&piece).map_err(|error| self.write_error(error))?;
        writer.finish().map_err(failed("write rows"))?;
        Ok(true)
    }

    /// The server's answer is inside.
    fn write_error(&self, error: std::io::Error) -> Error {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<postgres::Error>()) {
            Some(answer) => self.error("write rows", answer),
            None => Error::failed(format!("cannot write rows in {}: {error}", self.name())),
        }
    }
}

impl<T: Record> StagedStore<T> for PostgresStore {
    fn claim(&self, life: &SinkLife, overwrite: bool) -> Result<()> {
        let columns = self.columns::<T>()?;
        self.with(|client| {
            let mut transaction = client.transaction().map_err(|error| self.error("begin", &error))?;
            self.claim_in(&mut transaction, &columns, life, overwrite)?;
            transaction.commit().map_err(|error| self.error("commit", &error))
        })
    }

    fn commit(&self, mark: &EpochMark, rows: Rows<'_, T>) -> Result<()> {
        self.with(|client| {
            let mut transaction = client.transaction().map_err(|error| self.error("begin", &error))?;
            let is_new = self.commit_in(&mut transaction, mark, rows)?;
            let end = if is_new { transaction.commit() } else { transaction.rollback() };
            end.map_err(|error| self.error("commit", &error))
        })
    }

    fn place(&self) -> Option<String> {
        Some(self.name())
    }
}

fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A table, perhaps with its schema.
fn quoted(table: &str) -> String {
    table.split('.').map(quoted_name).collect::<Vec<_>>().join(".")
}
