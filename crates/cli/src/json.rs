//! Stored values as JSON and back, without loss.
//!
//! What JSON has no form for is an object with one field that begins with `$`: `{"$bytes":"00ff"}`, `{"$f64":"nan"}`,
//! `{"$map":[[key,value],…]}`. Everything else looks as one would write it.

use flott_runtime::state_reader::Datum;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

#[cfg(test)]
mod tests;

/// A value, to be written as JSON.
pub struct Shown<'a>(pub &'a Datum);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Datum::F32(number) if !number.is_finite() => {
                let digits = format!("{:08x}", number.to_bits());
                special(serializer, "$f32", &odd(f64::from(*number), number.to_bits() == f32::NAN.to_bits(), &digits))
            }
            Datum::F64(number) if !number.is_finite() => {
                let digits = format!("{:016x}", number.to_bits());
                special(serializer, "$f64", &odd(*number, number.to_bits() == f64::NAN.to_bits(), &digits))
            }
            Datum::Integer(number) if u64::try_from(*number).is_err() && i64::try_from(*number).is_err() => {
                serializer.serialize_str(&number.to_string())
            }
            Datum::Bytes(bytes) => {
                special(serializer, "$bytes", &bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
            }
            Datum::Sequence(items) => {
                let mut sequence = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| sequence.serialize_element(&Shown(item)))?;
                sequence.end()
            }
            Datum::Map(entries) if entries.iter().all(|(key, _)| is_plain(key)) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                entries.iter().try_for_each(|(key, value)| map.serialize_entry(&Shown(key), &Shown(value)))?;
                map.end()
            }
            Datum::Map(entries) => {
                let pairs: Vec<_> = entries.iter().map(|(key, value)| (Shown(key), Shown(value))).collect();
                special(serializer, "$map", &pairs)
            }
            plain => plain.serialize(serializer),
        }
    }
}

fn special<S: Serializer>(serializer: S, name: &str, content: &impl Serialize) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(name, content)?;
    map.end()
}

fn is_plain(key: &Datum) -> bool {
    matches!(key, Datum::Text(text) if !text.starts_with('$'))
}

fn odd(number: f64, is_usual: bool, digits: &str) -> String {
    match (number.is_nan(), is_usual) {
        (true, true) => "nan".to_owned(),
        (true, false) => format!("nan:{digits}"),
        (false, _) if number > 0.0 => "inf".to_owned(),
        (false, _) => "-inf".to_owned(),
    }
}

/// One value on one line.
pub fn text(datum: &Datum) -> String {
    serde_json::to_string(&Shown(datum)).unwrap_or_else(|error| format!("({error})"))
}

/// Reads a value back.
pub fn parse(text: &str) -> Result<Datum, String> {
    let read: Datum = serde_json::from_str(text).map_err(|error| error.to_string())?;
    plain(read)
}

/// What the objects with a `$` stand for.
pub fn plain(datum: Datum) -> Result<Datum, String> {
    match datum {
        Datum::Sequence(items) => Ok(Datum::Sequence(items.into_iter().map(plain).collect::<Result<_, _>>()?)),
        Datum::Map(entries) => {
            let special = entries.iter().find_map(|(key, _)| match key {
                Datum::Text(name) if name.starts_with('$') => Some(name.clone()),
                _ => None,
            });
            match special {
                None => {
                    let read = entries.into_iter().map(|(key, value)| Ok((key, plain(value)?)));
                    Ok(Datum::Map(read.collect::<Result<_, String>>()?))
                }
                Some(name) => {
                    let mut values = entries.into_iter().map(|(_, value)| value);
                    match (values.next(), values.next()) {
                        (Some(value), None) => meant(&name, value),
                        _ => Err(format!("beside `{name}` there can be nothing")),
                    }
                }
            }
        }
        other => Ok(other),
    }
}

fn meant(name: &str, value: Datum) -> Result<Datum, String> {
    let wrong = || format!("`{name}` holds something that it cannot mean");
    match (name, value) {
        ("$bytes", Datum::Text(digits)) => bytes(&digits).map(Datum::Bytes).ok_or_else(wrong),
        ("$f32", Datum::Text(text)) => match text.strip_prefix("nan:") {
            Some(digits) => u32::from_str_radix(digits, 16).map(f32::from_bits).map(Datum::F32).map_err(|_| wrong()),
            None => text.parse().map(Datum::F32).map_err(|_| wrong()),
        },
        ("$f64", Datum::Text(text)) => match text.strip_prefix("nan:") {
            Some(digits) => u64::from_str_radix(digits, 16).map(f64::from_bits).map(Datum::F64).map_err(|_| wrong()),
            None => text.parse().map(Datum::F64).map_err(|_| wrong()),
        },
        ("$map", Datum::Sequence(pairs)) => {
            let read = pairs.into_iter().map(|pair| match pair {
                Datum::Sequence(pair) => match <[Datum; 2]>::try_from(pair) {
                    Ok([key, value]) => Ok((plain(key)?, plain(value)?)),
                    Err(_) => Err(wrong()),
                },
                _ => Err(wrong()),
            });
            Ok(Datum::Map(read.collect::<Result<_, String>>()?))
        }
        _ => Err(format!("`{name}` is not known, or holds something that it cannot mean")),
    }
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs.collect()
}
