//! Entries of a few key groups of one state, put together from all segments that hold something of them. Pure.
//!
//! What comes later wins; a list is what its puts and deletes make of it, one after the other, as in a restore. The order
//! is the canonical one: key groups, then keys and what is below them, as the bytes that are stored.

use crate::error::Error;
use crate::messagepack::{self, split};
use crate::segment::{Block, BlockKind, SegmentError, StateKind};
use std::cmp::Ordering;
use std::ops::Range;

/// An entry that is there: the bytes as they are stored, without the type that wrote them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// The key group of its key.
    pub group: u16,
    /// The key, in MessagePack.
    pub key: &'a [u8],
    /// What tells entries of one key apart.
    pub below: Below<'a>,
    /// The value or element, in MessagePack; empty for a timer.
    pub value: &'a [u8],
}

/// What tells entries of one key apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Below<'a> {
    /// A value: there is one.
    Nothing,
    /// A map: the user key, in MessagePack.
    Field(&'a [u8]),
    /// A list: the position.
    Position(u64),
    /// Timers: the time, in milliseconds.
    Time(i64),
}

/// Entries of one state, put into it in the order in which they hold.
#[derive(Debug)]
pub struct Window {
    kind: StateKind,
    bytes: Vec<u8>,
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    start: usize,
    key: u32,
    field: u32,
    value: u32,
    group: u16,
    put: bool,
    /// Position, or time with its order kept; for a list `APPENDED`.
    number: u64,
    /// Which line of a file it comes from.
    line: u64,
}

/// In the place of a position: behind whatever is there.
const APPENDED: u64 = u64::MAX;
/// Moves the times before 1970 below those after it.
const SIGN: u64 = 1 << 63;

/// A place in a text file, and what cannot be there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// The line, 0 if it is from a segment.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

impl Conflict {
    pub(crate) fn into_error(self) -> Error {
        let Conflict { line, what } = self;
        match line {
            0 => Error::failed(what),
            line => Error::refused(format!("line {line}: {what}")),
        }
    }
}

impl Window {
    /// An empty one.
    #[must_use]
    pub fn new(kind: StateKind) -> Window {
        Window { kind, bytes: Vec::new(), rows: Vec::new() }
    }

    /// Bytes of what was put into it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was put into it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Puts an entry, on top of what is there.
    pub fn put(&mut self, group: u16, key: &[u8], below: Below<'_>, value: &[u8], line: u64) {
        self.push((group, true, line), key, below, value);
    }

    /// Puts an element behind those that its key has by then.
    pub fn append(&mut self, group: u16, key: &[u8], value: &[u8], line: u64) {
        self.push((group, true, line), key, Below::Position(APPENDED), value);
    }

    /// Takes an entry away: of a list, all elements of the key.
    pub fn delete(&mut self, group: u16, key: &[u8], below: Below<'_>) {
        self.push((group, false, 0), key, below, &[]);
    }

    fn push(&mut self, (group, put, line): (u16, bool, u64), key: &[u8], below: Below<'_>, value: &[u8]) {
        let start = self.bytes.len();
        let (field, number) = match below {
            Below::Nothing => (&[][..], 0),
            Below::Field(field) => (field, 0),
            Below::Position(position) => (&[][..], position),
            Below::Time(time) => (&[][..], time.cast_unsigned() ^ SIGN),
        };
        // Entries are smaller than 1 GiB.
        let length = |part: &[u8]| part.len() as u32;
        let (key_length, field_length, value_length) = (length(key), length(field), length(value));
        [key, field, value].iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.rows.push(Row {
            start,
            key: key_length,
            field: field_length,
            value: value_length,
            group,
            put,
            number,
            line,
        });
    }

    /// Adds the entries of some key groups in a block, on top of what is there.
    pub(super) fn add(&mut self, block: &Block, groups: &Range<u16>) -> Result<(), SegmentError> {
        for run in block.runs() {
            let (group, mut entries) = run?;
            if !groups.contains(&group.0) {
                continue;
            }
            while !entries.is_empty() {
                entries = self.add_one(group.0, block.kind, entries).ok_or(SegmentError::Malformed {
                    part: "block",
                    reason: "an entry is not what its kind of state is made of",
                })?;
            }
        }
        Ok(())
    }

    /// Adds the first of some entries, and gives back the rest.
    fn add_one<'a>(&mut self, group: u16, kind: BlockKind, entries: &'a [u8]) -> Option<&'a [u8]> {
        let is_put = kind == BlockKind::Puts;
        let (key, rest) = split(entries)?;
        let (below, rest) = match self.kind {
            StateKind::Value => (Below::Nothing, rest),
            StateKind::Timers => {
                let (time, rest) = split(rest)?;
                (Below::Time(messagepack::from_slice(time).ok()?), rest)
            }
            StateKind::Map | StateKind::Broadcast => {
                let (field, rest) = split(rest)?;
                (Below::Field(field), rest)
            }
            StateKind::List | StateKind::SplitList if is_put => {
                let (position, rest) = split(rest)?;
                let position = messagepack::from_slice(position).ok().filter(|position| *position != APPENDED)?;
                (Below::Position(position), rest)
            }
            StateKind::List | StateKind::SplitList => (Below::Nothing, rest),
        };
        if !is_put {
            self.delete(group, key, below);
            return Some(rest);
        }
        let (value, rest) = if self.kind == StateKind::Timers { (&[][..], rest) } else { split(rest)? };
        self.put(group, key, below, value, 0);
        Some(rest)
    }

    /// Puts entries over what is there: each over the one of its place, and lists over the lists of their keys. Elements of a
    /// split list come behind those that are there.
    pub(crate) fn overlay(&mut self, over: &Merged) {
        let mut list: Option<(u16, &[u8])> = None;
        for entry in over.entries() {
            if self.kind == StateKind::SplitList {
                self.append(entry.group, entry.key, entry.value, 0);
                continue;
            }
            if self.kind.is_list() && list.replace((entry.group, entry.key)) != Some((entry.group, entry.key)) {
                self.delete(entry.group, entry.key, Below::Nothing);
            }
            self.put(entry.group, entry.key, entry.below, entry.value, 0);
        }
    }

    /// What is there in the end, in canonical order.
    ///
    /// # Errors
    /// [`Conflict`], if an element of a list comes before those in front of it.
    pub fn merge(mut self) -> Result<Merged, Conflict> {
        let mut rows = std::mem::take(&mut self.rows);
        // Stable: what holds later stays later.
        rows.sort_by(|a, b| self.order(a, b));
        let rows = if self.kind.is_list() { self.lists(&rows)? } else { self.newest(rows) };
        Ok(Merged { window: self, rows })
    }

    /// The first two puts of one entry; for a file, in which nothing may come twice.
    #[must_use]
    pub fn doubled(&self) -> Option<(u64, u64)> {
        let mut rows = self.rows.clone();
        rows.sort_by(|a, b| self.order(a, b).then(a.number.cmp(&b.number)));
        let same = |a: &Row, b: &Row| self.same_entry(a, b) && a.number == b.number && a.number != APPENDED;
        let pairs = rows.iter().zip(rows.iter().skip(1));
        pairs.filter(|(a, b)| same(a, b)).map(|(a, b)| (a.line, b.line)).min_by_key(|(_, second)| *second)
    }

    /// The first line without a position of a list that has others with one, or the other way round; for a file, in which
    /// nobody could say which element comes before which.
    #[must_use]
    pub fn mixed(&self) -> Option<(u64, u64)> {
        if !self.kind.is_list() {
            return None;
        }
        let mut rows = self.rows.clone();
        rows.sort_by(|a, b| self.order(a, b));
        let pairs = rows.iter().zip(rows.iter().skip(1));
        let differ = |a: &Row, b: &Row| self.same_entry(a, b) && (a.number == APPENDED) != (b.number == APPENDED);
        pairs.filter(|(a, b)| differ(a, b)).map(|(a, b)| (a.line, b.line)).min_by_key(|(_, second)| *second)
    }

    fn order(&self, a: &Row, b: &Row) -> Ordering {
        let keys = || a.group.cmp(&b.group).then_with(|| self.key(a).cmp(self.key(b)));
        match self.kind {
            // The elements of a list hold in the order in which they came.
            StateKind::List | StateKind::SplitList => keys(),
            _ => keys().then_with(|| self.field(a).cmp(self.field(b))).then(a.number.cmp(&b.number)),
        }
    }

    fn same_entry(&self, a: &Row, b: &Row) -> bool {
        self.order(a, b) == Ordering::Equal
    }

    fn newest(&self, rows: Vec<Row>) -> Vec<Row> {
        let mut newest: Vec<Row> = Vec::with_capacity(rows.len());
        for row in rows {
            match newest.last_mut() {
                Some(last) if self.same_entry(last, &row) => *last = row,
                _ => newest.push(row),
            }
        }
        newest.retain(|row| row.put);
        newest
    }

    /// As a restore: what was there already is skipped, and nothing is left out.
    fn lists(&self, rows: &[Row]) -> Result<Vec<Row>, Conflict> {
        let mut elements: Vec<Row> = Vec::with_capacity(rows.len());
        let mut first = 0;
        for row in rows {
            if elements.get(first).is_some_and(|of_key| !self.same_entry(of_key, row)) {
                first = elements.len();
            }
            let length = (elements.len() - first) as u64;
            match row.number {
                _ if !row.put => elements.truncate(first),
                APPENDED => elements.push(Row { number: length, ..*row }),
                position if position == length => elements.push(*row),
                position if position < length => {}
                position => {
                    let what = format!("element {position} of a list of {length}");
                    return Err(Conflict { line: row.line, what });
                }
            }
        }
        Ok(elements)
    }

    fn part(&self, row: &Row, range: Range<u32>) -> &[u8] {
        let range = row.start + range.start as usize..row.start + range.end as usize;
        self.bytes.get(range).expect("a row lies in the bytes that were pushed with it")
    }

    fn key(&self, row: &Row) -> &[u8] {
        self.part(row, 0..row.key)
    }

    fn field(&self, row: &Row) -> &[u8] {
        self.part(row, row.key..row.key + row.field)
    }
}

/// Entries of some key groups, each once, in canonical order.
#[derive(Debug)]
pub struct Merged {
    window: Window,
    rows: Vec<Row>,
}

impl Merged {
    /// How many entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All entries, in canonical order.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.rows.iter().map(|row| {
            let window = &self.window;
            let before_value = row.key + row.field;
            Entry {
                group: row.group,
                key: window.key(row),
                below: match window.kind {
                    StateKind::Value => Below::Nothing,
                    StateKind::Timers => Below::Time((row.number ^ SIGN).cast_signed()),
                    StateKind::Map | StateKind::Broadcast => Below::Field(window.field(row)),
                    StateKind::List | StateKind::SplitList => Below::Position(row.number),
                },
                value: window.part(row, before_value..before_value + row.value),
            }
        })
    }
}
