//! The records of one epoch of a staged sink, packed in chunks: as they are collected, as a token, and unpacked again. Byte by
//! byte in `docs/formats.md`, "Staged sink tokens".

use super::EpochMark;
use crate::error::{Error, Result};
use crate::record::Record;
use crate::sink::Token;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;

/// The version of the format that this build writes, and the newest it reads.
const VERSION: u8 = 1;
/// A chunk is closed at so many bytes before compression.
const CHUNK: usize = 256 << 10;
/// No lz4 block grows by more when it is unpacked.
const MOST_COMPRESSED: usize = 255;

/// Rows, before compression its length, and the bytes.
struct Chunk {
    rows: u32,
    raw_length: u32,
    bytes: Vec<u8>,
}

/// Records that wait for their epoch to end.
#[derive(Default)]
pub(super) struct EpochBuffer {
    chunks: Vec<Chunk>,
    packed: u64,
    rows: u64,
    raw: Vec<u8>,
    raw_rows: u32,
}

impl EpochBuffer {
    /// Adds a record; a full chunk is packed.
    pub(super) fn push<T: Record>(&mut self, record: &T) -> Result<()> {
        let before = self.raw.len();
        if let Err(error) = rmp_serde::encode::write_named(&mut self.raw, record) {
            self.raw.truncate(before);
            return Err(Error::invalid(format!("cannot encode a record: {error}")));
        }
        self.rows += 1;
        self.raw_rows += 1;
        if self.raw.len() >= CHUNK {
            let chunk = pack(&self.raw, self.raw_rows)?;
            self.packed += chunk.bytes.len() as u64;
            self.chunks.push(chunk);
            self.raw.clear();
            self.raw_rows = 0;
        }
        Ok(())
    }

    /// How many records.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// What they take in memory.
    pub(super) fn bytes(&self) -> u64 {
        self.packed + self.raw.len() as u64
    }

    /// The payload of the epoch's token.
    pub(super) fn encode(&self, mark: &EpochMark) -> Result<Vec<u8>> {
        let last = if self.raw_rows == 0 { None } else { Some(pack(&self.raw, self.raw_rows)?) };
        let header = rmp_serde::to_vec_named(mark)
            .map_err(|error| Error::failed(format!("cannot encode the mark of an epoch: {error}")))?;
        let length = u32::try_from(header.len()).map_err(|_| Error::failed("the mark of an epoch is too long"))?;
        let mut payload = Vec::with_capacity(self.packed as usize + self.raw.len() + header.len() + 64);
        payload.push(VERSION);
        payload.extend_from_slice(&length.to_le_bytes());
        payload.extend_from_slice(&header);
        payload.extend_from_slice(&self.rows.to_le_bytes());
        for Chunk { rows, raw_length, bytes } in self.chunks.iter().chain(&last) {
            payload.extend_from_slice(&rows.to_le_bytes());
            payload.extend_from_slice(&raw_length.to_le_bytes());
            payload.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            payload.extend_from_slice(bytes);
        }
        Ok(payload)
    }
}

fn pack(raw: &[u8], rows: u32) -> Result<Chunk> {
    let raw_length = u32::try_from(raw.len()).ok().filter(|length| *length < u32::MAX / 2);
    let raw_length = raw_length.ok_or_else(|| Error::invalid("a record has 2 GiB or more when encoded"))?;
    Ok(Chunk { rows, raw_length, bytes: lz4_flex::block::compress(raw) })
}

/// The mark and the records of a token.
pub(super) fn decode<T: DeserializeOwned>(token: &Token) -> Result<(EpochMark, Rows<'_, T>)> {
    let damaged = |cause: &str| damaged(&token.name, cause);
    let mut rest = token.payload.as_slice();
    match take(&mut rest, 1) {
        Some([VERSION]) => {}
        Some([version]) if *version > VERSION => {
            return Err(damaged("it was written by a newer build"));
        }
        _ => return Err(damaged("it does not begin as one")),
    }
    let length = number(&mut rest).ok_or_else(|| damaged("its mark is cut short"))?;
    let header = take(&mut rest, length as usize).ok_or_else(|| damaged("its mark is cut short"))?;
    let mark: EpochMark = crate::messagepack::from_slice(header).map_err(|error| damaged(&error.to_string()))?;
    let count = take(&mut rest, 8).and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
    let left = count.ok_or_else(|| damaged("it is cut short"))?;
    Ok((mark, Rows { name: &token.name, rest, left, chunk: Vec::new(), at: 0, in_chunk: 0, of: PhantomData }))
}

fn damaged(name: &str, cause: &str) -> Error {
    Error::unusable(format!("token `{name}` of a staged sink cannot be read: {cause}"))
        .hint("choose an older checkpoint with `--restore ID`")
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(take(rest, 4)?.try_into().ok()?))
}

/// The records of an epoch in the order in which they were written, unpacked as they are asked for. Ends after the first error.
pub struct Rows<'a, T> {
    name: &'a str,
    rest: &'a [u8],
    /// Records that are not given out.
    left: u64,
    /// The chunk that is being read, how far, and how many records are left in it.
    chunk: Vec<u8>,
    at: usize,
    in_chunk: u32,
    of: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Rows<'_, T> {
    /// How many are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    fn unpack(&mut self) -> Option<()> {
        let rest = &mut self.rest;
        let (rows, raw_length, length) = (number(rest)?, number(rest)? as usize, number(rest)? as usize);
        let bytes = take(rest, length)?;
        if rows == 0 || raw_length > length.saturating_mul(MOST_COMPRESSED) {
            return None;
        }
        self.chunk = lz4_flex::block::decompress(bytes, raw_length).ok()?;
        (self.at, self.in_chunk) = (0, rows);
        Some(())
    }

    fn read(&mut self) -> Result<T> {
        if self.in_chunk == 0 && self.unpack().is_none() {
            return Err(damaged(self.name, "its chunks are malformed"));
        }
        let bytes = self.chunk.get(self.at..).unwrap_or_default();
        let mut source = rmp_serde::Deserializer::new(bytes);
        let record = T::deserialize(&mut source)
            .map_err(|error| damaged(self.name, &format!("a record does not fit its type: {error}")))?;
        self.at += bytes.len() - source.get_ref().len();
        self.in_chunk -= 1;
        let is_over = self.in_chunk == 0;
        if is_over && self.at != self.chunk.len() || self.left == 1 && !(is_over && self.rest.is_empty()) {
            return Err(damaged(self.name, "bytes are left over"));
        }
        Ok(record)
    }
}

impl<T: DeserializeOwned> Iterator for Rows<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        if self.left == 0 {
            return None;
        }
        let read = self.read();
        self.left = if read.is_ok() { self.left - 1 } else { 0 };
        Some(read)
    }
}
