//! A text file as entries of a state: each line is fitted to the types of the state, or is an error with line and column.

use super::spill::{Row, Spill};
use crate::json;
use crate::state::Format;
use crate::state::columns::{Column, Columns, Part, is_keyed, parse, parts};
use flott_runtime::Error;
use flott_runtime::convert::Incoming;
use flott_runtime::key::{KeySpace, Shape};
use flott_runtime::segment::{StateKind, StateName};
use flott_runtime::state_reader::{Below, Checkpoint, Datum, Misfit, StateInfo, StateShape, Window, fit, group_of};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use tokio::sync::oneshot;

/// A file whose lines are all right.
pub(super) struct Imported {
    path: PathBuf,
    format: Format,
    merge: bool,
    name: StateName,
    shape: StateShape,
    seed: u64,
    groups: u16,
    /// Of a state that is not divided by keys: under which key each worker has its own.
    own: Vec<(u16, Vec<u8>)>,
    weights: Vec<u64>,
    rows: u64,
    spill: Spill,
}

/// Parts of an entry, as far as a line has them.
type Found = Vec<(Part, Datum)>;

impl Imported {
    /// Reads the file through, on a thread of its own: a signal is seen meanwhile, and ends the wait.
    #[expect(
        clippy::disallowed_methods,
        reason = "a command has no host, and must not wait for this thread when it ends"
    )]
    pub(super) async fn check(
        path: &Path,
        format: Format,
        merge: bool,
        checkpoint: &Checkpoint,
        info: &StateInfo,
    ) -> Result<Imported, Error> {
        let manifest = checkpoint.manifest();
        let workers = (0..manifest.workers).filter(|_| !is_keyed(info.shape.kind));
        let own = workers.filter_map(|worker| {
            let space =
                KeySpace::of_worker(manifest.key_seed.0, manifest.key_groups, manifest.workers.into(), worker.into());
            let (hash, key) = space.own_key()?;
            Some((space.group(hash).0, Datum::Integer(key.into()).stored()))
        });
        let mut file = Imported {
            path: path.to_owned(),
            format,
            merge,
            name: info.name.clone(),
            // What comes in is of the type that the job has now.
            shape: StateShape { varies: false, ..info.shape.clone() },
            seed: manifest.key_seed.0,
            groups: manifest.key_groups,
            own: own.collect(),
            weights: vec![0; usize::from(manifest.key_groups)],
            rows: 0,
            spill: Spill::new(manifest.key_groups),
        };
        let (tell, told) = oneshot::channel();
        std::thread::spawn(move || {
            let read = file.read_through();
            // Nobody listens any more if the command was interrupted.
            let _ = tell.send(read.map(|()| file));
        });
        told.await.map_err(|_| Error::failed(format!("{} was not read to its end", path.display())))?
    }

    /// How many entries the file has.
    pub(super) fn entries(&self) -> u64 {
        self.rows
    }

    fn read_through(&mut self) -> Result<(), Error> {
        let mut weights = std::mem::take(&mut self.weights);
        let mut spill = std::mem::replace(&mut self.spill, Spill::new(self.groups));
        let mut dealt = self.own.iter().cycle();
        let mut keep = |mut row: Row| -> io::Result<()> {
            let places = match self.shape.kind {
                // One copy for each worker.
                StateKind::Broadcast => self.own.clone(),
                // Any worker can have it: they take turns.
                StateKind::SplitList => dealt.next().cloned().into_iter().collect(),
                _ => vec![(row.group, std::mem::take(&mut row.key))],
            };
            for (group, key) in places {
                (row.group, row.key) = (group, key);
                if let Some(weight) = weights.get_mut(usize::from(row.group)) {
                    *weight += (row.key.len() + row.field.len() + row.value.len()) as u64;
                }
                spill.push(&row)?;
            }
            Ok(())
        };
        let opened: io::Result<Box<dyn Read>> = match self.path.to_str() {
            Some("-") => Ok(Box::new(io::stdin())),
            _ => File::open(&self.path).map(|file| Box::new(file) as Box<dyn Read>),
        };
        let file = opened.map_err(|error| self.unreadable(&error.to_string()))?;
        self.rows = match self.format {
            Format::Json => self.json_lines(BufReader::new(file), &mut keep)?,
            Format::Csv => self.csv_lines(file, &mut keep)?,
        };
        (self.weights, self.spill) = (weights, spill);
        Ok(())
    }

    fn spilled(&self, error: &io::Error) -> Error {
        Error::failed(format!("cannot keep the lines of {} in a temporary file: {error}", self.path.display()))
            .hint("set TMPDIR to a directory with room for the file")
    }

    fn unreadable(&self, why: &str) -> Error {
        Error::refused(format!("cannot read {}: {why}", self.path.display()))
    }

    fn wrong(&self, line: u64, column: &str, what: &str) -> Error {
        let column = if column.is_empty() { String::new() } else { format!(", column `{column}`") };
        let place = format!("{} line {line}{column}", self.path.display());
        let StateShape { key, .. } = &self.shape;
        Error::refused(format!("{place}: {what}")).hint(format!(
            "state {} is a {} with keys {key} and values {}",
            self.name,
            self.shape.word,
            self.shape.value_text()
        ))
    }

    fn misfit(&self, line: u64, part: Part, misfit: &Misfit) -> Error {
        self.wrong(line, &format!("{}{}", part.name(), misfit.place), &misfit.to_string())
    }

    fn json_lines(&self, mut file: impl BufRead, keep: &mut dyn FnMut(Row) -> io::Result<()>) -> Result<u64, Error> {
        let (mut line, mut rows, mut text) = (0, 0, String::new());
        loop {
            text.clear();
            line += 1;
            if file.read_line(&mut text).map_err(|error| self.unreadable(&format!("line {line}: {error}")))? == 0 {
                break;
            }
            if text.trim().is_empty() {
                continue;
            }
            let read = json::parse(&text).map_err(|error| self.wrong(line, "", &format!("it is no JSON: {error}")))?;
            if let Some(found) = self.parts_of_object(line, read)? {
                keep(self.row(line, found)?).map_err(|error| self.spilled(&error))?;
                rows += 1;
            }
        }
        if rows == 0 && line > 1 {
            return Err(Error::refused(format!("no line of {} is of state {}", self.path.display(), self.name)));
        }
        Ok(rows)
    }

    /// `None` if the line is of another state.
    fn parts_of_object(&self, line: u64, read: Datum) -> Result<Option<Found>, Error> {
        let Datum::Map(entries) = read else {
            return Err(self.wrong(line, "", &format!("it must be an object, and is {}", read.kind())));
        };
        let wanted = parts(&self.shape);
        let mut found = Found::new();
        for (name, value) in entries {
            let Datum::Text(name) = name else { continue };
            let part = wanted.iter().find(|(part, _)| part.name() == name);
            match (name.as_str(), &value, part) {
                ("operator", Datum::Text(operator), _) if *operator != self.name.operator => return Ok(None),
                ("state", Datum::Text(state), _) if *state != self.name.state => return Ok(None),
                ("operator" | "state" | "group", ..) => {}
                (_, _, Some((part, shape))) => {
                    let fitted = fit(value, shape).map_err(|misfit| self.misfit(line, *part, &misfit))?;
                    found.push((*part, fitted));
                }
                (name, ..) => return Err(self.wrong(line, name, "an entry of this state has no such part")),
            }
        }
        Ok(Some(found))
    }

    fn csv_lines(&self, file: impl Read, keep: &mut dyn FnMut(Row) -> io::Result<()>) -> Result<u64, Error> {
        let mut reader = csv::ReaderBuilder::new().flexible(false).from_reader(file);
        let header = reader.headers().map_err(|error| self.unreadable(&error.to_string()))?.clone();
        let columns = self.columns_of(&header)?;
        let (mut rows, mut record) = (0, csv::StringRecord::new());
        while reader.read_record(&mut record).map_err(|error| self.unreadable(&error.to_string()))? {
            let line = record.position().map_or(0, csv::Position::line);
            let row = self.row(line, self.parts_of_record(line, &record, &columns)?)?;
            keep(row).map_err(|error| self.spilled(&error))?;
            rows += 1;
        }
        Ok(rows)
    }

    /// What each column of the file is. A part may also be one column of JSON.
    fn columns_of(&self, header: &csv::StringRecord) -> Result<Vec<Column>, Error> {
        let mut known = Columns::of(&self.shape).0;
        known.extend(parts(&self.shape).into_iter().map(|(part, shape)| Column { part, fields: Vec::new(), shape }));
        let columns = header.iter().map(|name| {
            known.iter().find(|column| column.name() == name).cloned().ok_or_else(|| {
                let names = Columns::of(&self.shape).names().join(",");
                self.wrong(1, name, &format!("there is no such column; a header is `{names}`"))
            })
        });
        columns.collect()
    }

    fn parts_of_record(&self, line: u64, record: &csv::StringRecord, columns: &[Column]) -> Result<Found, Error> {
        let mut found = Found::new();
        for (cell, column) in record.iter().zip(columns) {
            if column.part == Part::Position && cell.is_empty() {
                continue;
            }
            let datum = parse(cell, &column.shape).map_err(|misfit| {
                self.wrong(line, &format!("{}{}", column.name(), misfit.place), &misfit.to_string())
            })?;
            match found.iter_mut().find(|(part, _)| *part == column.part) {
                Some((_, whole)) => insert(whole, &column.fields, datum),
                None if column.fields.is_empty() => found.push((column.part, datum)),
                None => {
                    let mut whole = Datum::Map(Vec::new());
                    insert(&mut whole, &column.fields, datum);
                    found.push((column.part, whole));
                }
            }
        }
        let wanted = parts(&self.shape);
        let fitted = found.into_iter().map(|(part, datum)| {
            let shape = wanted.iter().find(|(wanted, _)| *wanted == part).map_or(&Shape::Any, |(_, shape)| shape);
            Ok((part, fit(datum, shape).map_err(|misfit| self.misfit(line, part, &misfit))?))
        });
        fitted.collect()
    }

    fn row(&self, line: u64, found: Found) -> Result<Row, Error> {
        let mut row = Row { line, ..Row::default() };
        for (part, _) in parts(&self.shape) {
            match (part, found.iter().find(|(has, _)| *has == part).map(|(_, datum)| datum)) {
                (Part::Position, None) => {}
                (part, None) => return Err(self.wrong(line, part.name(), "it is missing")),
                (Part::Key, Some(key)) => {
                    let group = group_of(key, &self.shape.key, self.seed, self.groups)
                        .map_err(|error| self.wrong(line, part.name(), &error.to_string()))?;
                    (row.group, row.key) = (group, key.stored());
                }
                (Part::MapKey, Some(field)) => row.field = field.stored(),
                (Part::Value, Some(value)) => row.value = value.stored(),
                (Part::Position, Some(Datum::Integer(position))) => row.position = u64::try_from(*position).ok(),
                (Part::Time, Some(Datum::Integer(time))) => row.time = i64::try_from(*time).unwrap_or_default(),
                (Part::Position | Part::Time, Some(_)) => {}
            }
        }
        Ok(row)
    }
}

/// Puts a value where its fields lead to.
fn insert(whole: &mut Datum, fields: &[String], value: Datum) {
    let (Some((first, rest)), Datum::Map(entries)) = (fields.split_first(), whole) else { return };
    let is_it = |(key, _): &(Datum, Datum)| matches!(key, Datum::Text(name) if name == first);
    match entries.iter().position(is_it) {
        Some(place) => {
            if let Some((_, inner)) = entries.get_mut(place) {
                insert(inner, rest, value);
            }
        }
        None if rest.is_empty() => entries.push((Datum::Text(first.clone()), value)),
        None => {
            let mut inner = Datum::Map(Vec::new());
            insert(&mut inner, rest, value);
            entries.push((Datum::Text(first.clone()), inner));
        }
    }
}

impl Incoming for Imported {
    fn name(&self) -> &StateName {
        &self.name
    }

    fn replaces(&self) -> bool {
        !self.merge
    }

    fn weights(&self) -> &[u64] {
        &self.weights
    }

    fn rows(&mut self, groups: Range<u16>) -> Result<Window, Error> {
        let mut window = Window::new(self.shape.kind);
        let kind = self.shape.kind;
        let read = self.spill.each(&groups, &mut |row| {
            let Row { line, group, key, field, position, time, value } = row;
            let below = match (kind, position) {
                (StateKind::List | StateKind::SplitList, None) => return window.append(*group, key, value, *line),
                (StateKind::List | StateKind::SplitList, Some(position)) => Below::Position(*position),
                (StateKind::Value, _) => Below::Nothing,
                (StateKind::Timers, _) => Below::Time(*time),
                (StateKind::Map | StateKind::Broadcast, _) => Below::Field(field),
            };
            window.put(*group, key, below, value, *line);
        });
        read.map_err(|error| self.spilled(&error))?;
        if let Some((first, second)) = window.mixed() {
            let what = format!("of line {first} and this one, which are of the same list, only one has a position");
            return Err(self.wrong(second, "position", &what));
        }
        match window.doubled() {
            Some((first, second)) => Err(self.wrong(second, "", &format!("line {first} has the same entry"))),
            None => Ok(window),
        }
    }
}
