//! Looks at the header of a CSV file before any record is read: does it name every column that a record cannot do without,
//! and each only once?
//!
//! Serde does not say which fields may be absent. So the record type is read once from a made-up row that has just the
//! header's columns, and what it misses is what the file lacks. A type that cannot be read that way (its fields are
//! texts of a certain form, say) is not judged here: its first record will.

use csv::ByteRecord;
use flott_checkpoint::LiteSet;
use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[cfg(test)]
mod tests;

/// What is wrong with a header for records of a type, in words; `None` if nothing is known to be wrong.
pub(super) fn fault_of<T: DeserializeOwned>(header: &ByteRecord) -> Option<String> {
    let columns: Option<Vec<&str>> = header.iter().map(|name| std::str::from_utf8(name).ok()).collect();
    // What is no text has no field either: the first record says so.
    let mut columns = columns?;
    let names = Cell::new(Names::Unused);
    let _ = T::deserialize(Looker(&names));
    let (Names::Fields(_) | Names::Any) = names.get() else { return None };
    let twice = twice(&columns);
    if !twice.is_empty() {
        return Some(format!("the CSV header names {} more than once", quoted(twice)));
    }
    let missing = match names.get() {
        Names::Fields(fields) if fields.iter().any(|field| !columns.contains(field)) => missing::<T>(&mut columns),
        _ => Vec::new(),
    };
    let present = || quoted(header.iter().map(|name| std::str::from_utf8(name).unwrap_or_default()));
    (!missing.is_empty())
        .then(|| format!("the CSV header lacks {}; its columns are {}", quoted(missing.iter().copied()), present()))
}

/// How a record type uses the names of the columns.
#[derive(Clone, Copy)]
enum Names {
    /// It takes the columns in order.
    Unused,
    /// It has these fields.
    Fields(&'static [&'static str]),
    /// It takes whatever there is, by name.
    Any,
}

fn twice<'a>(columns: &[&'a str]) -> LiteSet<&'a str> {
    let mut seen = LiteSet::new();
    // Columns without a name, which some programs leave at the end of a line, are nobody's.
    columns.iter().copied().filter(|name| !name.is_empty() && !seen.insert(*name)).collect()
}

fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// The columns without which no record can be read, as far as the type shows them.
fn missing<T: DeserializeOwned>(columns: &mut Vec<&str>) -> Vec<&'static str> {
    let mut missing = Vec::new();
    // A panic of the type's own code about made-up values is no reason to end a job that may be in order.
    while cfg!(panic = "unwind")
        && let Ok(Err(Fault::Missing(field))) = catch_unwind(AssertUnwindSafe(|| T::deserialize(Row(columns))))
        && !missing.contains(&field)
    {
        missing.push(field);
        columns.push(field);
    }
    missing
}

#[derive(Debug)]
enum Fault {
    Missing(&'static str),
    Other,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Missing(field) => write!(f, "missing field `{field}`"),
            Fault::Other => f.write_str("not known"),
        }
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(_: T) -> Fault {
        Fault::Other
    }

    fn missing_field(field: &'static str) -> Fault {
        Fault::Missing(field)
    }
}

/// Learns how a type uses names, and reads nothing.
struct Looker<'a>(&'a Cell<Names>);

impl<'de> Deserializer<'de> for Looker<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fault> {
        Err(Fault::Other)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Fault> {
        self.0.set(Names::Fields(fields));
        Err(Fault::Other)
    }

    fn deserialize_map<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fault> {
        self.0.set(Names::Any);
        Err(Fault::Other)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq
        tuple tuple_struct enum identifier ignored_any
    }
}

/// A made-up row with these columns.
struct Row<'a>(&'a [&'a str]);

impl<'de> Deserializer<'de> for Row<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_map(Columns(self.0.iter()))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq
        tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Columns<'a>(std::slice::Iter<'a, &'a str>);

impl<'de> MapAccess<'de> for Columns<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some(name) = self.0.next() else { return Ok(None) };
        let name: StrDeserializer<'_, Fault> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        seed.deserialize(MadeUp)
    }
}

/// A value that most types can be read from.
struct MadeUp;

macro_rules! numbers {
    ($($method:ident $visit:ident $value:expr;)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            visitor.$visit($value)
        })*
    };
}

impl<'de> Deserializer<'de> for MadeUp {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fault> {
        Err(Fault::Other)
    }

    numbers! {
        deserialize_bool visit_bool true;
        deserialize_i8 visit_i8 1;
        deserialize_i16 visit_i16 1;
        deserialize_i32 visit_i32 1;
        deserialize_i64 visit_i64 1;
        deserialize_i128 visit_i128 1;
        deserialize_u8 visit_u8 1;
        deserialize_u16 visit_u16 1;
        deserialize_u32 visit_u32 1;
        deserialize_u64 visit_u64 1;
        deserialize_u128 visit_u128 1;
        deserialize_f32 visit_f32 1.0;
        deserialize_f64 visit_f64 1.0;
        deserialize_char visit_char '1';
        deserialize_str visit_str "1";
        deserialize_string visit_str "1";
        deserialize_bytes visit_bytes b"1";
        deserialize_byte_buf visit_bytes b"1";
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_none()
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let first: StrDeserializer<'_, Fault> = variants.first().ok_or(Fault::Other)?.into_deserializer();
        visitor.visit_enum(first)
    }

    serde::forward_to_deserialize_any! { seq tuple tuple_struct map struct identifier }
}
