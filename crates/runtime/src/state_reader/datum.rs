//! A stored key or value without the type that wrote it: what MessagePack says of itself.
//!
//! Lossless for all that this program stores: order of fields, width of floats and the bits of a NaN stay what they are.

use crate::error::{Error, Result};
use crate::messagepack;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use std::fmt;

/// A value of any type.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// Nothing: an absent option, or a unit.
    Nil,
    /// A truth value.
    Bool(bool),
    /// A whole number; those that need more than 64 bits are stored as bytes.
    Integer(i128),
    /// A number with a fraction, of 32 bits.
    F32(f32),
    /// A number with a fraction, of 64 bits.
    F64(f64),
    /// A text; also a `char`, and the name of a variant without content.
    Text(String),
    /// A byte string.
    Bytes(Vec<u8>),
    /// A sequence, tuple or tuple struct.
    Sequence(Vec<Datum>),
    /// A map, a struct by its fields, or a variant by its name; in the order in which it is stored.
    Map(Vec<(Datum, Datum)>),
}

impl Datum {
    /// Reads stored bytes, which must be one value.
    ///
    /// # Errors
    /// `Failed`, if they are none.
    pub fn read(stored: &[u8]) -> Result<Datum> {
        messagepack::from_slice(stored).map_err(|error| Error::failed(format!("a stored value is malformed: {error}")))
    }

    /// The bytes to store.
    #[must_use]
    pub fn stored(&self) -> Vec<u8> {
        rmp_serde::to_vec(self).expect("every kind of value has a form in MessagePack")
    }

    /// What it is, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Datum::Nil => "nothing",
            Datum::Bool(_) => "a truth value",
            Datum::Integer(_) => "a whole number",
            Datum::F32(_) | Datum::F64(_) => "a number with a fraction",
            Datum::Text(_) => "a text",
            Datum::Bytes(_) => "a byte string",
            Datum::Sequence(_) => "a sequence",
            Datum::Map(_) => "a map",
        }
    }
}

impl Serialize for Datum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Datum::Nil => serializer.serialize_unit(),
            Datum::Bool(value) => serializer.serialize_bool(*value),
            Datum::Integer(value) => match (u64::try_from(*value), i64::try_from(*value)) {
                (Ok(value), _) => serializer.serialize_u64(value),
                (_, Ok(value)) => serializer.serialize_i64(value),
                _ => serializer.serialize_i128(*value),
            },
            Datum::F32(value) => serializer.serialize_f32(*value),
            Datum::F64(value) => serializer.serialize_f64(*value),
            Datum::Text(value) => serializer.serialize_str(value),
            Datum::Bytes(value) => serializer.serialize_bytes(value),
            Datum::Sequence(items) => {
                let mut sequence = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| sequence.serialize_element(item))?;
                sequence.end()
            }
            Datum::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                entries.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Datum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Datum, D::Error> {
        deserializer.deserialize_any(AnyDatum)
    }
}

struct AnyDatum;

impl<'de> Visitor<'de> for AnyDatum {
    type Value = Datum;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a kind that state is made of")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Datum, E> {
        Ok(Datum::Nil)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Datum, E> {
        Ok(Datum::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Datum, E> {
        Ok(Datum::Integer(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Datum, E> {
        Ok(Datum::Integer(value.into()))
    }

    fn visit_f32<E: de::Error>(self, value: f32) -> Result<Datum, E> {
        Ok(Datum::F32(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Datum, E> {
        Ok(Datum::F64(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Datum, E> {
        Ok(Datum::Text(value.to_owned()))
    }

    fn visit_bytes<E: de::Error>(self, value: &[u8]) -> Result<Datum, E> {
        Ok(Datum::Bytes(value.to_vec()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Datum, A::Error> {
        let mut sequence = Vec::new();
        while let Some(item) = items.next_element()? {
            sequence.push(item);
        }
        Ok(Datum::Sequence(sequence))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Datum, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Datum::Map(map))
    }
}
