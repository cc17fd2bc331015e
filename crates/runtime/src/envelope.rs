//! The envelope of manifests and history entries: one JSON object on one line, its format version first, the xxh3 of all
//! bytes before that field last. All versions keep these two fields, so an older program can tell "newer" from "damaged".
//!
//! It knows bytes and serde only: no storage, and nothing of what is inside.

use crate::error::{Error, Result};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

#[cfg(test)]
mod tests;

const TAIL: &[u8] = b",\"xxh3\":\"";
const END: &[u8] = b"\"}\n";
const HASH_DIGITS: usize = 16;

/// A kind of object that travels in an envelope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    /// The name of the field with the content, and of the object in messages.
    pub(crate) kind: &'static str,
    /// The version that is written, and the newest one that is read.
    pub(crate) format: u32,
}

impl Envelope {
    /// The bytes of an object.
    pub(crate) fn seal<T: Serialize>(self, content: &T) -> Bytes {
        let content = serde_json::to_string(content).expect("plain structs with string keys always serialise");
        let mut bytes = format!("{{\"format\":{},\"{}\":{content}", self.format, self.kind).into_bytes();
        let hash = xxh3_64(&bytes);
        bytes.extend_from_slice(TAIL);
        bytes.extend_from_slice(hex(hash).as_bytes());
        bytes.extend_from_slice(END);
        bytes.into()
    }

    /// Reads an object back. Never panics; every flipped bit is an error.
    ///
    /// # Errors
    /// `Unusable`, without the path: the caller knows it.
    pub(crate) fn open<T: DeserializeOwned>(self, bytes: &[u8]) -> Result<T> {
        let mut json = self.checked_body(bytes)?.to_vec();
        json.push(b'}');
        serde_json::from_str(self.content(&json)?.get())
            .map_err(|error| Error::unusable(format!("the {} has a sound checksum but no sense: {error}", self.kind)))
    }

    /// What it holds, if it is of this kind and of a format that is known.
    fn content(self, json: &[u8]) -> Result<&RawValue> {
        let kind = self.kind;
        let mut fields: BTreeMap<String, &RawValue> =
            serde_json::from_slice(json).map_err(|error| Error::unusable(format!("this is no {kind}: {error}")))?;
        let format = fields.remove("format").and_then(|raw| raw.get().parse::<u32>().ok());
        match format {
            Some(found) if found > self.format => {
                return Err(Error::unusable(format!(
                    "the {kind} was written in format {found}, but this program reads formats up to {}",
                    self.format
                ))
                .hint("use a newer version of the program"));
            }
            Some(_) => {}
            None => return Err(Error::unusable(format!("this is no {kind}: it names no format"))),
        }
        let content = fields.remove(kind);
        content.ok_or_else(|| Error::unusable(format!("this is no {kind}: it has no field `{kind}`")))
    }

    /// Everything before the checksum field, if the checksum is right.
    fn checked_body(self, bytes: &[u8]) -> Result<&[u8]> {
        let kind = self.kind;
        let parts = bytes.strip_suffix(END).and_then(|rest| rest.split_last_chunk::<HASH_DIGITS>());
        let body = parts.and_then(|(rest, digits)| Some((rest.strip_suffix(TAIL)?, digits)));
        match body {
            Some((body, digits)) if hex(xxh3_64(body)).as_bytes() == digits => Ok(body),
            Some(_) => {
                Err(Error::unusable(format!("the {kind} was changed after it was written: its checksum is wrong")))
            }
            None => Err(Error::unusable(format!(
                "{} bytes that do not end with the checksum of a {kind}: truncated, or something else",
                bytes.len()
            ))),
        }
    }
}

/// 16 hexadecimal digits: how a checksum stands in JSON, where numbers above 2^53 do not survive every reader.
#[must_use]
pub fn hex(value: u64) -> String {
    format!("{value:016x}")
}

/// Reads [`hex`] back; lower case and 16 digits only.
#[must_use]
pub fn from_hex(text: &str) -> Option<u64> {
    let plain = text.len() == HASH_DIGITS && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if plain { u64::from_str_radix(text, 16).ok() } else { None }
}

/// For serde: a number as 16 hexadecimal digits.
pub(crate) mod hex_u64 {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::hex(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::from_hex(&text).ok_or_else(|| de::Error::custom("expected 16 lower-case hexadecimal digits"))
    }
}
