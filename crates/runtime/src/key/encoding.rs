//! The canonical encoding of a key: positional, little endian, without names. It is hashed and never stored or read
//! back; stored keys are MessagePack. Byte by byte in `docs/formats.md`, "Key encoding and hash".
//!
//! What has no canonical form (a map, a float, a field that is sometimes left out) is refused, never guessed.

use serde::Serialize;
use serde::ser;
use smallvec::SmallVec;
use std::fmt;

/// An encoded key; short ones stay on the stack.
pub type KeyBytes = SmallVec<[u8; 64]>;

/// Why a value cannot be a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// It holds something without a canonical encoding; the text names it and what to use instead.
    Unsupported(&'static str),
    /// A string, byte string or sequence in it has more than 2^32 - 1 elements.
    TooLong,
    /// Its own `Serialize` failed.
    Custom(String),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(what) => write!(f, "this value cannot be a key: {what}"),
            Self::TooLong => f.write_str("this value cannot be a key: a string or sequence in it is longer than 4 GiB"),
            Self::Custom(message) => write!(f, "this key cannot be encoded: {message}"),
        }
    }
}

impl std::error::Error for KeyError {}

impl ser::Error for KeyError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Custom(message.to_string())
    }
}

const FLOAT: KeyError = KeyError::Unsupported(
    "it contains a float, which has several encodings of equal numbers; use an integer or a decimal string",
);
const MAP: KeyError = KeyError::Unsupported(
    "it contains a map (or a flattened struct), which has no order; use a struct or a sorted sequence of pairs",
);
const SKIPPED: KeyError =
    KeyError::Unsupported("it contains a field with `skip_serializing_if`, so positions would shift; use an Option");

/// Encodes a key.
///
/// # Errors
/// [`KeyError`] if it holds a float, a map, or a field that is left out at run time, or if its `Serialize` fails.
#[inline]
pub fn encode_key<K: Serialize + ?Sized>(key: &K) -> Result<KeyBytes, KeyError> {
    let mut bytes = KeyBytes::new();
    let mut encoder = Encoder { bytes: &mut bytes, first_text: None };
    key.serialize(&mut encoder)?;
    // A text alone needs no length to be told from others, and without one it can be hashed where it lies.
    let prefix = size_of::<u32>();
    if encoder.first_text.is_some_and(|length| length + prefix == bytes.len()) {
        bytes.drain(..prefix);
    }
    Ok(bytes)
}

struct Encoder<'a> {
    bytes: &'a mut KeyBytes,
    /// The length of the string or byte string that the encoding begins with.
    first_text: Option<usize>,
}

impl Encoder<'_> {
    #[inline]
    fn length(&mut self, length: usize) -> Result<(), KeyError> {
        let length = u32::try_from(length).map_err(|_| KeyError::TooLong)?;
        self.bytes.extend_from_slice(&length.to_le_bytes());
        Ok(())
    }
}

macro_rules! fixed_width {
    ($($method:ident: $type:ty),*) => {
        $(
            #[inline]
            fn $method(self, value: $type) -> Result<(), KeyError> {
                self.bytes.extend_from_slice(&value.to_le_bytes());
                Ok(())
            }
        )*
    };
}

impl<'e, 'a> ser::Serializer for &'e mut Encoder<'a> {
    type Ok = ();
    type Error = KeyError;
    type SerializeSeq = Counted<'e, 'a>;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = ser::Impossible<(), KeyError>;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    fixed_width!(serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128);

    #[inline]
    fn serialize_bool(self, value: bool) -> Result<(), KeyError> {
        self.serialize_u8(u8::from(value))
    }

    #[inline]
    fn serialize_f32(self, _: f32) -> Result<(), KeyError> {
        Err(FLOAT)
    }

    #[inline]
    fn serialize_f64(self, _: f64) -> Result<(), KeyError> {
        Err(FLOAT)
    }

    #[inline]
    fn serialize_char(self, value: char) -> Result<(), KeyError> {
        self.serialize_u32(value.into())
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<(), KeyError> {
        self.serialize_bytes(value.as_bytes())
    }

    #[inline]
    fn serialize_bytes(self, value: &[u8]) -> Result<(), KeyError> {
        if self.bytes.is_empty() {
            self.first_text = Some(value.len());
        }
        self.length(value.len())?;
        self.bytes.extend_from_slice(value);
        Ok(())
    }

    #[inline]
    fn serialize_none(self) -> Result<(), KeyError> {
        self.serialize_u8(0)
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), KeyError> {
        self.bytes.push(1);
        value.serialize(self)
    }

    #[inline]
    fn serialize_unit(self) -> Result<(), KeyError> {
        Ok(())
    }

    #[inline]
    fn serialize_unit_struct(self, _: &'static str) -> Result<(), KeyError> {
        Ok(())
    }

    #[inline]
    fn serialize_unit_variant(self, _: &'static str, index: u32, _: &'static str) -> Result<(), KeyError> {
        self.serialize_u32(index)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), KeyError> {
        value.serialize(self)
    }

    #[inline]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), KeyError> {
        self.bytes.extend_from_slice(&index.to_le_bytes());
        value.serialize(self)
    }

    #[inline]
    fn serialize_seq(self, _: Option<usize>) -> Result<Counted<'e, 'a>, KeyError> {
        let start = self.bytes.len();
        self.length(0)?;
        Ok(Counted { encoder: self, start, count: 0 })
    }

    #[inline]
    fn serialize_tuple(self, _: usize) -> Result<Self, KeyError> {
        Ok(self)
    }

    #[inline]
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, KeyError> {
        Ok(self)
    }

    #[inline]
    fn serialize_tuple_variant(self, _: &'static str, index: u32, _: &'static str, _: usize) -> Result<Self, KeyError> {
        self.bytes.extend_from_slice(&index.to_le_bytes());
        Ok(self)
    }

    #[inline]
    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, KeyError> {
        Err(MAP)
    }

    #[inline]
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, KeyError> {
        Ok(self)
    }

    #[inline]
    fn serialize_struct_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, KeyError> {
        self.bytes.extend_from_slice(&index.to_le_bytes());
        Ok(self)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// A sequence: its length is known at its end and written at its start.
struct Counted<'e, 'a> {
    encoder: &'e mut Encoder<'a>,
    start: usize,
    count: usize,
}

impl ser::SerializeSeq for Counted<'_, '_> {
    type Ok = ();
    type Error = KeyError;

    #[inline]
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), KeyError> {
        self.count += 1;
        value.serialize(&mut *self.encoder)
    }

    #[inline]
    fn end(self) -> Result<(), KeyError> {
        let count = u32::try_from(self.count).map_err(|_| KeyError::TooLong)?.to_le_bytes();
        let place = self.encoder.bytes.get_mut(self.start..self.start + count.len()).expect("written at the start");
        place.copy_from_slice(&count);
        Ok(())
    }
}

macro_rules! positional {
    ($($trait:ident::$method:ident),*) => {
        $(
            impl ser::$trait for &mut Encoder<'_> {
                type Ok = ();
                type Error = KeyError;


                #[inline]
                fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), KeyError> {
                    value.serialize(&mut **self)
                }


                #[inline]
                fn end(self) -> Result<(), KeyError> {
                    Ok(())
                }
            }
        )*
    };
}

macro_rules! named {
    ($($trait:ident),*) => {
        $(
            impl ser::$trait for &mut Encoder<'_> {
                type Ok = ();
                type Error = KeyError;


                #[inline]
                fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Result<(), KeyError> {
                    value.serialize(&mut **self)
                }


                #[inline]
                fn skip_field(&mut self, _: &'static str) -> Result<(), KeyError> {
                    Err(SKIPPED)
                }


                #[inline]
                fn end(self) -> Result<(), KeyError> {
                    Ok(())
                }
            }
        )*
    };
}

positional!(
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);
named!(SerializeStruct, SerializeStructVariant);
