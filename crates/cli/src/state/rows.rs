//! Entries as lines: JSON objects, or CSV with a column for each field.

use super::columns::{Columns, is_keyed};
use crate::json::{self, Shown};
use crate::output::{Failure, json_line};
use flott_runtime::Error;
use flott_runtime::state_reader::{Below, Datum, Entry, StateInfo};
use serde::Serialize;
use std::io::{self, Write};

/// An entry as an object.
#[derive(Serialize)]
struct Line<'a> {
    operator: &'a str,
    state: &'a str,
    group: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Shown<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    map_key: Option<Shown<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Shown<'a>>,
}

/// Prints one entry as an object on one line.
pub(crate) fn json(out: &mut impl Write, info: &StateInfo, entry: &Entry<'_>) -> Result<(), Failure> {
    let read = Read::of(entry)?;
    json_line(
        out,
        &Line {
            operator: &info.name.operator,
            state: &info.name.state,
            group: entry.group,
            key: Some(Shown(&read.key)).filter(|_| is_keyed(info.shape.kind)),
            map_key: read.field.as_ref().map(Shown),
            position: match entry.below {
                Below::Position(position) if is_keyed(info.shape.kind) => Some(position),
                _ => None,
            },
            time_ms: if let Below::Time(time) = entry.below { Some(time) } else { None },
            value: read.value.as_ref().map(Shown),
        },
    )?;
    Ok(())
}

/// What tells an entry from others of its key, and its value, for a table.
pub(super) fn texts(entry: &Entry<'_>) -> Result<(String, String), Error> {
    let read = Read::of(entry)?;
    let below = match entry.below {
        Below::Nothing => String::new(),
        Below::Field(_) => read.field.as_ref().map(json::text).unwrap_or_default(),
        Below::Position(position) => position.to_string(),
        Below::Time(time) => format!("timer at {time} ms"),
    };
    Ok((below, read.value.as_ref().map(json::text).unwrap_or_default()))
}

/// An entry whose parts are read.
pub(super) struct Read {
    pub(super) key: Datum,
    pub(super) field: Option<Datum>,
    pub(super) value: Option<Datum>,
}

impl Read {
    pub(super) fn of(entry: &Entry<'_>) -> Result<Read, Error> {
        let field = if let Below::Field(field) = entry.below { Some(Datum::read(field)?) } else { None };
        let value = if matches!(entry.below, Below::Time(_)) { None } else { Some(Datum::read(entry.value)?) };
        Ok(Read { key: Datum::read(entry.key)?, field, value })
    }
}

/// Lines in one of the formats.
pub(super) enum Rows<'a, W: Write> {
    Json(&'a mut W, u64),
    Csv(Box<csv::Writer<&'a mut W>>, Columns, u64),
}

impl<'a, W: Write> Rows<'a, W> {
    /// CSV of this state, or JSON lines of any. The header of CSV comes at once.
    pub(super) fn new(out: &'a mut W, csv: Option<&StateInfo>) -> Result<Rows<'a, W>, Failure> {
        let Some(info) = csv else { return Ok(Rows::Json(out, 0)) };
        let columns = Columns::of(&info.shape);
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(columns.names()).map_err(io::Error::from)?;
        Ok(Rows::Csv(Box::new(writer), columns, 0))
    }

    pub(super) fn row(&mut self, info: &StateInfo, entry: &Entry<'_>) -> Result<(), Failure> {
        match self {
            Rows::Json(out, count) => {
                *count += 1;
                json(*out, info, entry)
            }
            Rows::Csv(writer, columns, count) => {
                *count += 1;
                let cells = columns.cells(entry, &Read::of(entry)?);
                Ok(writer.write_record(cells).map_err(io::Error::from)?)
            }
        }
    }

    /// How many there were.
    pub(super) fn end(self) -> Result<u64, Failure> {
        match self {
            Rows::Json(_, count) => Ok(count),
            Rows::Csv(mut writer, _, count) => {
                writer.flush()?;
                Ok(count)
            }
        }
    }
}
