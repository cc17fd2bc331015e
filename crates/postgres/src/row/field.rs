//! One value as the text of a column, escaped as `COPY` wants it. What is nested becomes JSON.

use serde::ser::{self, Impossible, Serialize, Serializer};
use std::fmt::{self, Display};
use std::io::Write;

/// How NULL is written.
pub(super) const NULL: &[u8] = b"\\N";

/// Why a record is no row.
#[derive(Debug)]
pub(super) struct Refused(pub(super) String);

impl Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl ser::Error for Refused {
    fn custom<T: Display>(message: T) -> Refused {
        Refused(message.to_string())
    }
}

/// Bytes that are a value of their own, not a sequence of numbers.
pub(super) struct Field<'a>(pub(super) &'a [u8]);

impl Serialize for Field<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

/// Appends the text of a value.
pub(super) fn write_field<T: Serialize + ?Sized>(value: &T, text: &mut Vec<u8>) -> Result<(), Refused> {
    match value.serialize(Text(text)) {
        Ok(()) => Ok(()),
        Err(Stop::Refused(why)) => Err(why),
        Err(Stop::Nested) => {
            let json = serde_json::to_string(value).map_err(|error| Refused(format!("a nested value: {error}")))?;
            escape(&json, text);
            Ok(())
        }
    }
}

fn escape(value: &str, text: &mut Vec<u8>) {
    for byte in value.bytes() {
        match byte {
            b'\\' => text.extend_from_slice(b"\\\\"),
            b'\t' => text.extend_from_slice(b"\\t"),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            other => text.push(other),
        }
    }
}

/// Why no text came.
#[derive(Debug)]
enum Stop {
    /// It holds other values.
    Nested,
    Refused(Refused),
}

impl Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Nested => f.write_str("nested"),
            Stop::Refused(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for Stop {}

impl ser::Error for Stop {
    fn custom<T: Display>(message: T) -> Stop {
        Stop::Refused(Refused(message.to_string()))
    }
}

struct Text<'a>(&'a mut Vec<u8>);

impl Text<'_> {
    fn plain(self, value: impl Display) -> Result<(), Stop> {
        write!(self.0, "{value}").map_err(ser::Error::custom)
    }

    fn float(self, value: f64, text: impl Display) -> Result<(), Stop> {
        if value.is_infinite() {
            return self.plain(if value > 0.0 { "Infinity" } else { "-Infinity" });
        }
        // NaN is called so by both.
        self.plain(text)
    }
}

macro_rules! plain {
    ($($method:ident: $type:ty,)*) => {
        $(fn $method(self, value: $type) -> Result<(), Stop> {
            self.plain(value)
        })*
    };
}

type Never = Impossible<(), Stop>;

impl Serializer for Text<'_> {
    type Ok = ();
    type Error = Stop;
    type SerializeSeq = Never;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Never;
    type SerializeMap = Never;
    type SerializeStruct = Never;
    type SerializeStructVariant = Never;

    plain! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128,
    }

    fn serialize_f32(self, value: f32) -> Result<(), Stop> {
        self.float(value.into(), value)
    }
    fn serialize_f64(self, value: f64) -> Result<(), Stop> {
        self.float(value, value)
    }
    fn serialize_char(self, value: char) -> Result<(), Stop> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }
    fn serialize_str(self, value: &str) -> Result<(), Stop> {
        escape(value, self.0);
        Ok(())
    }
    fn serialize_bytes(self, value: &[u8]) -> Result<(), Stop> {
        self.0.extend_from_slice(b"\\\\x");
        value.iter().try_for_each(|byte| write!(self.0, "{byte:02x}")).map_err(ser::Error::custom)
    }
    fn serialize_none(self) -> Result<(), Stop> {
        self.0.extend_from_slice(NULL);
        Ok(())
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Stop> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), Stop> {
        self.serialize_none()
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Stop> {
        self.serialize_none()
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Stop> {
        self.serialize_str(variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Stop> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Stop> {
        Err(Stop::Nested)
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Never, Stop> {
        Err(Stop::Nested)
    }
    fn serialize_tuple(self, _: usize) -> Result<Never, Stop> {
        Err(Stop::Nested)
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Never, Stop> {
        Err(Stop::Nested)
    }
    fn serialize_tuple_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Never, Stop> {
        Err(Stop::Nested)
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Never, Stop> {
        Err(Stop::Nested)
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Never, Stop> {
        Err(Stop::Nested)
    }
    fn serialize_struct_variant(self, _: &'static str, _: u32, _: &'static str, _: usize) -> Result<Never, Stop> {
        Err(Stop::Nested)
    }
}
