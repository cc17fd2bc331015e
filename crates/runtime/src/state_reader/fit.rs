//! Makes a value what a shape says, as far as that changes nothing of its meaning; what does not fit is said with its place.
//!
//! A text file knows neither the width of a number nor the order of fields, and the hash of a key is over both. So what
//! comes from outside is fitted first: then it is stored as the job's own type would have stored it.

use super::Datum;
use crate::key::{KeyError, Shape, encode_key, key_group};
use litemap::LiteMap;
use serde::ser::{self, Serialize, SerializeSeq, SerializeStruct, SerializeTuple, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A value that is not of the type that is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misfit {
    /// Where inside the value, as `.field` or `[2]`; empty for the value itself.
    pub place: String,
    /// The shape that is wanted there.
    pub wanted: String,
    /// What is there.
    pub found: String,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it must be {}, and is {}", self.wanted, self.found)
    }
}

impl Misfit {
    fn new(wanted: &Shape, found: impl Into<String>) -> Misfit {
        Misfit { place: String::new(), wanted: wanted.to_string(), found: found.into() }
    }

    fn of(wanted: &Shape, found: &Datum) -> Misfit {
        let shown = match found {
            Datum::Integer(number) => format!("the number {number}"),
            Datum::F32(number) => format!("the number {number}"),
            Datum::F64(number) => format!("the number {number}"),
            Datum::Text(text) => format!("the text `{}`", text.chars().take(40).collect::<String>()),
            Datum::Bool(value) => value.to_string(),
            other => other.kind().to_owned(),
        };
        Misfit::new(wanted, shown)
    }

    fn inside(mut self, place: &str) -> Misfit {
        self.place.insert_str(0, place);
        self
    }
}

/// The value as a type of this shape would hold it. Holes of the shape take anything, and so does a variant that it does
/// not know: a shape has the variants of the values that were looked at, which are a few of those that are stored, and the type itself
/// says of an enum only that it is one.
///
/// # Errors
/// [`Misfit`], with the place inside the value.
pub fn fit(datum: Datum, shape: &Shape) -> Result<Datum, Misfit> {
    match (shape, datum) {
        (Shape::Unknown | Shape::Any, datum) => Ok(datum),
        (Shape::Leaf(name), datum) => leaf(datum, name).map_err(|datum| Misfit::of(shape, &datum)),
        (Shape::Optional(_), Datum::Nil) => Ok(Datum::Nil),
        (Shape::Optional(inner), datum) => fit(datum, inner),
        (Shape::Sequence(inner), Datum::Sequence(items)) => {
            let fitted = items.into_iter().zip(0usize..).map(|(item, index)| at_index(fit(item, inner), index));
            Ok(Datum::Sequence(fitted.collect::<Result<_, _>>()?))
        }
        (Shape::Tuple(parts), Datum::Sequence(items)) if parts.len() == items.len() => {
            let pairs = items.into_iter().zip(parts).zip(0usize..);
            let fitted = pairs.map(|((item, part), index)| at_index(fit(item, part), index));
            Ok(Datum::Sequence(fitted.collect::<Result<_, _>>()?))
        }
        (Shape::Tuple(parts), Datum::Sequence(items)) => {
            Err(Misfit::new(shape, format!("a sequence of {} and not of {}", items.len(), parts.len())))
        }
        (Shape::Map(inner), Datum::Map(entries)) => {
            let fitted = entries.into_iter().map(|(key, value)| {
                let place = format!(".{}", text_of(&key));
                let key = map_key(key, &inner.0).map_err(|misfit| misfit.inside(&place))?;
                Ok((key, fit(value, &inner.1).map_err(|misfit| misfit.inside(&place))?))
            });
            Ok(Datum::Map(fitted.collect::<Result<_, Misfit>>()?))
        }
        (Shape::Struct(fields), Datum::Map(entries)) => structure(entries, fields, shape),
        (Shape::Enum(variants), datum) => variant(datum, variants, shape),
        (_, datum) => Err(Misfit::of(shape, &datum)),
    }
}

/// What a text means where a leaf of this shape is wanted; `None` if nothing, or if the shape is no leaf.
#[must_use]
pub fn leaf_of_text(text: &str, shape: &Shape) -> Option<Datum> {
    let Shape::Leaf(name) = shape else { return None };
    let datum = match *name {
        "string" | "char" => Datum::Text(text.to_owned()),
        "bool" => Datum::Bool(text.parse().ok()?),
        "f32" => Datum::F32(text.parse().ok()?),
        "f64" => Datum::F64(text.parse().ok()?),
        "unit" if text.is_empty() => Datum::Nil,
        "u128" | "i128" => Datum::Text(text.to_owned()),
        "bytes" | "unit" => return None,
        _ => Datum::Integer(text.parse().ok()?),
    };
    leaf(datum, name).ok()
}

fn at_index(fitted: Result<Datum, Misfit>, index: usize) -> Result<Datum, Misfit> {
    fitted.map_err(|misfit| misfit.inside(&format!("[{index}]")))
}

fn text_of(key: &Datum) -> String {
    match key {
        Datum::Text(text) => text.clone(),
        Datum::Integer(number) => number.to_string(),
        other => other.kind().to_owned(),
    }
}

/// In JSON the keys of a map are texts, whatever they are.
fn map_key(key: Datum, shape: &Shape) -> Result<Datum, Misfit> {
    match (&key, shape) {
        (Datum::Text(text), Shape::Leaf(_)) => leaf_of_text(text, shape).ok_or_else(|| Misfit::of(shape, &key)),
        _ => fit(key, shape),
    }
}

fn leaf(datum: Datum, name: &str) -> Result<Datum, Datum> {
    let fits = match (name, &datum) {
        ("bool", Datum::Bool(_)) | ("string", Datum::Text(_)) | ("bytes", Datum::Bytes(_)) => true,
        ("char", Datum::Text(text)) => text.chars().count() == 1,
        ("unit", Datum::Nil) => true,
        ("unit", Datum::Sequence(items)) => items.is_empty(),
        ("f32" | "f64" | "i128" | "u128", _) => return wide(datum, name),
        (_, Datum::Integer(number)) => in_range(*number, name),
        _ => false,
    };
    if fits { Ok(datum) } else { Err(datum) }
}

fn in_range(number: i128, name: &str) -> bool {
    match name {
        "i8" => i8::try_from(number).is_ok(),
        "i16" => i16::try_from(number).is_ok(),
        "i32" => i32::try_from(number).is_ok(),
        "i64" => i64::try_from(number).is_ok(),
        "u8" => u8::try_from(number).is_ok(),
        "u16" => u16::try_from(number).is_ok(),
        "u32" => u32::try_from(number).is_ok(),
        "u64" => u64::try_from(number).is_ok(),
        _ => false,
    }
}

/// Floats, and the integers that MessagePack has no form for: those are stored as sixteen bytes, the greatest first.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "what a float field makes of a number"
)]
fn wide(datum: Datum, name: &str) -> Result<Datum, Datum> {
    match (name, &datum) {
        ("f32", Datum::F32(_)) | ("f64", Datum::F64(_)) => Ok(datum),
        ("f32", Datum::F64(number)) => Ok(Datum::F32(*number as f32)),
        ("f64", Datum::F32(number)) => Ok(Datum::F64((*number).into())),
        ("f32", Datum::Integer(number)) => Ok(Datum::F32(*number as f32)),
        ("f64", Datum::Integer(number)) => Ok(Datum::F64(*number as f64)),
        ("i128" | "u128", Datum::Bytes(bytes)) if bytes.len() == size_of::<u128>() => Ok(datum),
        ("i128", Datum::Integer(number)) => Ok(Datum::Bytes(number.to_be_bytes().to_vec())),
        ("u128", Datum::Integer(number)) => match u128::try_from(*number) {
            Ok(number) => Ok(Datum::Bytes(number.to_be_bytes().to_vec())),
            Err(_) => Err(datum),
        },
        ("i128", Datum::Text(text)) => match text.parse::<i128>() {
            Ok(number) => Ok(Datum::Bytes(number.to_be_bytes().to_vec())),
            Err(_) => Err(datum),
        },
        ("u128", Datum::Text(text)) => match text.parse::<u128>() {
            Ok(number) => Ok(Datum::Bytes(number.to_be_bytes().to_vec())),
            Err(_) => Err(datum),
        },
        _ => Err(datum),
    }
}

/// The fields in the order of the type. A field that is not there is nothing, if it may be.
fn structure(entries: Vec<(Datum, Datum)>, fields: &[(String, Shape)], shape: &Shape) -> Result<Datum, Misfit> {
    let mut values: BTreeMap<String, Datum> = BTreeMap::new();
    for (key, value) in entries {
        let Datum::Text(name) = key else { return Err(Misfit::of(shape, &key)) };
        if !fields.iter().any(|(field, _)| *field == name) {
            return Err(Misfit::new(shape, format!("something with a field `{name}`")).inside(&format!(".{name}")));
        }
        values.insert(name, value);
    }
    let fitted = fields.iter().map(|(name, inner)| {
        let place = format!(".{name}");
        let value = match values.remove(name) {
            Some(value) => fit(value, inner),
            None if matches!(inner, Shape::Optional(_) | Shape::Leaf("unit")) => Ok(Datum::Nil),
            None => Err(Misfit::new(inner, "missing")),
        };
        Ok((Datum::Text(name.clone()), value.map_err(|misfit| misfit.inside(&place))?))
    });
    Ok(Datum::Map(fitted.collect::<Result<_, Misfit>>()?))
}

fn variant(datum: Datum, variants: &LiteMap<u32, (String, Shape)>, shape: &Shape) -> Result<Datum, Misfit> {
    let known = |name: &str| variants.values().find(|(known, _)| known == name).map(|(_, content)| content);
    match datum {
        Datum::Text(name) => match known(&name) {
            None | Some(Shape::Leaf("unit") | Shape::Unknown | Shape::Any) => Ok(Datum::Text(name)),
            Some(content) => Err(Misfit::new(content, "missing").inside(&format!(".{name}"))),
        },
        Datum::Map(mut entries) if entries.len() == 1 => match entries.pop() {
            Some((Datum::Text(name), content)) => {
                let fitted = match known(&name) {
                    Some(inner) => fit(content, inner).map_err(|misfit| misfit.inside(&format!(".{name}")))?,
                    None => content,
                };
                Ok(Datum::Map(vec![(Datum::Text(name), fitted)]))
            }
            _ => Err(Misfit::new(shape, "a map whose key is no text")),
        },
        other => Err(Misfit::of(shape, &other)),
    }
}

/// The key group of a key that [`fit`]s a shape.
///
/// # Errors
/// [`KeyError`], if the shape has a hole where the encoding needs to know more, or the key is none.
pub fn group_of(key: &Datum, shape: &Shape, seed: u64, groups: u16) -> Result<u16, KeyError> {
    let encoded = encode_key(&Shaped(key, shape))?;
    Ok(key_group(xxh3_64_with_seed(&encoded, seed), groups).0)
}

/// Serialises a value as a type of its shape would, for the encoding of keys, which looks at no names.
struct Shaped<'a>(&'a Datum, &'a Shape);

impl Serialize for Shaped<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Shaped(datum, shape) = self;
        match (shape, datum) {
            (Shape::Leaf(name), datum) => shaped_leaf(name, datum, serializer),
            (Shape::Optional(_), Datum::Nil) => serializer.serialize_none(),
            (Shape::Optional(inner), datum) => serializer.serialize_some(&Shaped(datum, inner)),
            (Shape::Sequence(inner), Datum::Sequence(items)) => {
                let mut sequence = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| sequence.serialize_element(&Shaped(item, inner)))?;
                sequence.end()
            }
            (Shape::Tuple(parts), Datum::Sequence(items)) => {
                let mut tuple = serializer.serialize_tuple(items.len())?;
                items.iter().zip(parts).try_for_each(|(item, part)| tuple.serialize_element(&Shaped(item, part)))?;
                tuple.end()
            }
            (Shape::Struct(fields), Datum::Map(entries)) => {
                let mut structure = serializer.serialize_struct("", fields.len())?;
                let pairs = entries.iter().zip(fields);
                pairs
                    .map(|((_, value), (_, inner))| Shaped(value, inner))
                    .try_for_each(|v| structure.serialize_field("", &v))?;
                structure.end()
            }
            (Shape::Enum(variants), datum) => {
                let (name, content) = match datum {
                    Datum::Map(entries) => match entries.first() {
                        Some((Datum::Text(name), content)) => (name, content),
                        _ => return Err(hole(datum)),
                    },
                    Datum::Text(name) => (name, &Datum::Nil),
                    _ => return Err(hole(datum)),
                };
                let found = variants.iter().find(|(_, (known, _))| known == name);
                let Some((index, (_, inner))) = found else {
                    return Err(ser::Error::custom(format!(
                        "the place of the variant `{name}` in its type is not known"
                    )));
                };
                serializer.serialize_newtype_variant("", *index, "", &Shaped(content, inner))
            }
            _ => Err(hole(datum)),
        }
    }
}

fn hole<E: ser::Error>(datum: &Datum) -> E {
    E::custom(format!("the type of {} in it is not known", datum.kind()))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it fits: that was checked")]
fn shaped_leaf<S: Serializer>(name: &str, datum: &Datum, serializer: S) -> Result<S::Ok, S::Error> {
    match (name, datum) {
        ("bool", Datum::Bool(value)) => serializer.serialize_bool(*value),
        ("i8", Datum::Integer(value)) => serializer.serialize_i8(*value as i8),
        ("i16", Datum::Integer(value)) => serializer.serialize_i16(*value as i16),
        ("i32", Datum::Integer(value)) => serializer.serialize_i32(*value as i32),
        ("i64", Datum::Integer(value)) => serializer.serialize_i64(*value as i64),
        ("u8", Datum::Integer(value)) => serializer.serialize_u8(*value as u8),
        ("u16", Datum::Integer(value)) => serializer.serialize_u16(*value as u16),
        ("u32", Datum::Integer(value)) => serializer.serialize_u32(*value as u32),
        ("u64", Datum::Integer(value)) => serializer.serialize_u64(*value as u64),
        ("i128" | "u128", Datum::Bytes(bytes)) => match <[u8; 16]>::try_from(bytes.as_slice()) {
            Ok(bytes) => serializer.serialize_u128(u128::from_be_bytes(bytes)),
            Err(_) => Err(hole(datum)),
        },
        ("char", Datum::Text(text)) => match text.chars().next() {
            Some(value) => serializer.serialize_char(value),
            None => Err(hole(datum)),
        },
        ("string", Datum::Text(text)) => serializer.serialize_str(text),
        ("bytes", Datum::Bytes(bytes)) => serializer.serialize_bytes(bytes),
        ("unit", _) => serializer.serialize_unit(),
        ("f32" | "f64", _) => serializer.serialize_f64(0.0),
        _ => Err(hole(datum)),
    }
}
