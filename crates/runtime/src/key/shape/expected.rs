//! A deserializer that reads nothing: it notes what a type asks for and hands it made-up values. So the shape of a type is
//! known before there is a value, and without its Rust name, which may change when code is moved.
//!
//! What a type does not ask for stays a hole: where its `Deserialize` refuses the made-up value, behind that point, in the
//! variants of an enum, and where the names of fields include other names (`serde(alias)`). Holes agree with everything:
//! an unchanged type is never taken for a changed one. The segments have the shapes of real values, and are checked too.

use super::Shape;
use litemap::LiteMap;
use serde::de::value::U32Deserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};
use std::fmt;

/// How deep a recursive type is followed.
const DEPTH: usize = 16;
/// How many questions of a type are answered, for a tree of types grows faster than its depth.
const QUESTIONS: usize = 1_000;

/// The shape that a type expects.
pub(super) fn shape_of<T: de::DeserializeOwned>() -> Shape {
    let (mut shape, mut left) = (Shape::Unknown, QUESTIONS);
    // An error is a hole.
    let _ = T::deserialize(Asked { shape: &mut shape, left: &mut left, depth: DEPTH });
    shape
}

struct Asked<'a> {
    /// Where to note it.
    shape: &'a mut Shape,
    /// So many more questions.
    left: &'a mut usize,
    depth: usize,
}

impl Asked<'_> {
    fn inner<'b>(shape: &'b mut Shape, left: &'b mut usize, depth: usize) -> Result<Asked<'b>, Hole> {
        *left = left.checked_sub(1).ok_or(Hole)?;
        Ok(Asked { shape, left, depth: depth.checked_sub(1).ok_or(Hole)? })
    }

    fn is_deepest(&self) -> bool {
        self.depth == 0 || *self.left == 0
    }

    /// Positions one after the other, each noted in its own place.
    fn positions<'de, V: Visitor<'de>>(self, count: usize, visitor: V) -> Result<V::Value, Hole> {
        let mut shapes = vec![Shape::Unknown; count.min(*self.left)];
        let value = visitor.visit_seq(Positions { left: self.left, depth: self.depth, shapes: shapes.iter_mut() });
        *self.shape = if shapes.len() == count { Shape::Tuple(shapes) } else { Shape::Unknown };
        value
    }
}

/// Nothing is known from here on; why is of no importance.
#[derive(Debug)]
struct Hole;

impl fmt::Display for Hole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the shape of the type is not followed further")
    }
}

impl std::error::Error for Hole {}

impl de::Error for Hole {
    fn custom<T: fmt::Display>(_: T) -> Hole {
        Hole
    }
}

macro_rules! leaves {
    ($($method:ident = $name:literal: $visit:ident($($value:expr)?)),* $(,)?) => {
        $(
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Hole> {
                *self.shape = Shape::Leaf($name);
                visitor.$visit($($value)?)
            }
        )*
    };
}

impl<'de> Deserializer<'de> for Asked<'_> {
    type Error = Hole;

    // One and not zero: there are types without zero.
    leaves! {
        deserialize_bool = "bool": visit_bool(false), deserialize_char = "char": visit_char('a'),
        deserialize_i8 = "i8": visit_i8(1), deserialize_i16 = "i16": visit_i16(1), deserialize_i32 = "i32": visit_i32(1),
        deserialize_i64 = "i64": visit_i64(1), deserialize_i128 = "i128": visit_i128(1),
        deserialize_u8 = "u8": visit_u8(1), deserialize_u16 = "u16": visit_u16(1), deserialize_u32 = "u32": visit_u32(1),
        deserialize_u64 = "u64": visit_u64(1), deserialize_u128 = "u128": visit_u128(1),
        deserialize_f32 = "f32": visit_f32(1.0), deserialize_f64 = "f64": visit_f64(1.0),
        deserialize_str = "string": visit_str(""), deserialize_string = "string": visit_str(""),
        deserialize_bytes = "bytes": visit_bytes(&[]), deserialize_byte_buf = "bytes": visit_bytes(&[]),
        deserialize_unit = "unit": visit_unit(),
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Hole> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Hole> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Hole> {
        let mut inner = Shape::Unknown;
        let value = if self.is_deepest() {
            visitor.visit_none()
        } else {
            visitor.visit_some(Asked::inner(&mut inner, self.left, self.depth)?)
        };
        *self.shape = Shape::Optional(Box::new(inner));
        value
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Hole> {
        let mut one = [Shape::Unknown];
        let shapes = if self.is_deepest() { Default::default() } else { one.iter_mut() };
        let value = visitor.visit_seq(Positions { left: self.left, depth: self.depth, shapes });
        let [element] = one;
        *self.shape = Shape::Sequence(Box::new(element));
        value
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Hole> {
        self.positions(len, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Hole> {
        self.positions(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Hole> {
        // One entry is not made up: whoever reads a map may want certain keys.
        *self.shape = Shape::Map(Box::default());
        visitor.visit_map(de::value::MapDeserializer::<_, Hole>::new(std::iter::empty::<((), ())>()))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Hole> {
        let mut shapes = vec![Shape::Unknown; fields.len()];
        let mut positions = Positions { left: self.left, depth: self.depth, shapes: shapes.iter_mut() };
        let value = visitor.visit_seq(&mut positions)?;
        // Fewer positions than names: some names are aliases, and which is not known.
        if positions.shapes.len() == 0 {
            *self.shape = Shape::Struct(fields.iter().map(|name| (*name).to_owned()).zip(shapes).collect());
        }
        Ok(value)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Hole> {
        *self.shape = Shape::Enum(LiteMap::new_vec());
        let mut content = Shape::Unknown;
        visitor.visit_enum(First(Asked::inner(&mut content, self.left, self.depth)?))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Hole> {
        Err(Hole)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Hole> {
        Err(Hole)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Hole> {
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The positions of a sequence, tuple or struct.
struct Positions<'a> {
    left: &'a mut usize,
    depth: usize,
    shapes: std::slice::IterMut<'a, Shape>,
}

impl<'de> de::SeqAccess<'de> for Positions<'_> {
    type Error = Hole;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Hole> {
        let Some(shape) = self.shapes.next() else { return Ok(None) };
        seed.deserialize(Asked::inner(shape, self.left, self.depth)?).map(Some)
    }
}

/// The first variant of an enum.
struct First<'a>(Asked<'a>);

impl<'de, 'a> de::EnumAccess<'de> for First<'a> {
    type Error = Hole;
    type Variant = First<'a>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, First<'a>), Hole> {
        let first: U32Deserializer<Hole> = 0u32.into_deserializer();
        Ok((seed.deserialize(first)?, self))
    }
}

impl<'de> de::VariantAccess<'de> for First<'_> {
    type Error = Hole;

    fn unit_variant(self) -> Result<(), Hole> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Hole> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Hole> {
        self.0.positions(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Hole> {
        self.0.positions(fields.len(), visitor)
    }
}
