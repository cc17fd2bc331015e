//! A serializer that writes nothing and returns the shape of what it was shown. It accepts all of serde's data model,
//! also what a key may not hold, because values are described with it too.

use super::Shape;
use crate::key::KeyError;
use flott_checkpoint::lite_map;
use serde::Serialize;
use serde::ser;

pub(super) struct Tracer;

type Traced = Result<Shape, KeyError>;

macro_rules! leaves {
    ($($method:ident($type:ty) = $name:literal),* $(,)?) => {
        $(
            fn $method(self, _: $type) -> Traced {
                Ok(Shape::Leaf($name))
            }
        )*
    };
}

fn variant(index: u32, name: &str, content: Shape) -> Shape {
    Shape::Enum(lite_map([(index, (name.to_owned(), content))]))
}

impl ser::Serializer for Tracer {
    type Ok = Shape;
    type Error = KeyError;
    type SerializeSeq = Items;
    type SerializeTuple = Positions;
    type SerializeTupleStruct = Positions;
    type SerializeTupleVariant = Positions;
    type SerializeMap = Pairs;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Fields;

    leaves! {
        serialize_bool(bool) = "bool", serialize_i8(i8) = "i8", serialize_i16(i16) = "i16", serialize_i32(i32) = "i32",
        serialize_i64(i64) = "i64", serialize_i128(i128) = "i128", serialize_u8(u8) = "u8", serialize_u16(u16) = "u16",
        serialize_u32(u32) = "u32", serialize_u64(u64) = "u64", serialize_u128(u128) = "u128", serialize_f32(f32) = "f32",
        serialize_f64(f64) = "f64", serialize_char(char) = "char", serialize_str(&str) = "string",
        serialize_bytes(&[u8]) = "bytes", serialize_unit_struct(&'static str) = "unit",
    }

    fn serialize_unit(self) -> Traced {
        Ok(Shape::Leaf("unit"))
    }

    fn serialize_none(self) -> Traced {
        Ok(Shape::Optional(Box::new(Shape::Unknown)))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Traced {
        Ok(Shape::Optional(Box::new(value.serialize(Self)?)))
    }

    fn serialize_unit_variant(self, _: &'static str, index: u32, name: &'static str) -> Traced {
        Ok(variant(index, name, Shape::Leaf("unit")))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Traced {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        index: u32,
        name: &'static str,
        value: &T,
    ) -> Traced {
        Ok(variant(index, name, value.serialize(self)?))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items, KeyError> {
        Ok(Items(Shape::Unknown))
    }

    fn serialize_tuple(self, _: usize) -> Result<Positions, KeyError> {
        Ok(Positions { variant: None, parts: Vec::new() })
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Positions, KeyError> {
        Ok(Positions { variant: None, parts: Vec::new() })
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        index: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Positions, KeyError> {
        Ok(Positions { variant: Some((index, name)), parts: Vec::new() })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Pairs, KeyError> {
        Ok(Pairs(Shape::Unknown, Shape::Unknown))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields, KeyError> {
        Ok(Fields { variant: None, fields: Vec::new() })
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        index: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Fields, KeyError> {
        Ok(Fields { variant: Some((index, name)), fields: Vec::new() })
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

pub(super) struct Items(Shape);

impl ser::SerializeSeq for Items {
    type Ok = Shape;
    type Error = KeyError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), KeyError> {
        self.0.merge(value.serialize(Tracer)?);
        Ok(())
    }

    fn end(self) -> Traced {
        Ok(Shape::Sequence(Box::new(self.0)))
    }
}

pub(super) struct Pairs(Shape, Shape);

impl ser::SerializeMap for Pairs {
    type Ok = Shape;
    type Error = KeyError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), KeyError> {
        self.0.merge(key.serialize(Tracer)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), KeyError> {
        self.1.merge(value.serialize(Tracer)?);
        Ok(())
    }

    fn end(self) -> Traced {
        Ok(Shape::Map(Box::new((self.0, self.1))))
    }
}

type Variant = Option<(u32, &'static str)>;

fn within(outer: Variant, content: Shape) -> Shape {
    match outer {
        Some((index, name)) => variant(index, name, content),
        None => content,
    }
}

pub(super) struct Positions {
    variant: Variant,
    parts: Vec<Shape>,
}

macro_rules! positions {
    ($($trait:ident::$method:ident),*) => {
        $(
            impl ser::$trait for Positions {
                type Ok = Shape;
                type Error = KeyError;

                fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), KeyError> {
                    self.parts.push(value.serialize(Tracer)?);
                    Ok(())
                }

                fn end(self) -> Traced {
                    Ok(within(self.variant, Shape::Tuple(self.parts)))
                }
            }
        )*
    };
}

positions!(
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

pub(super) struct Fields {
    variant: Variant,
    fields: Vec<(String, Shape)>,
}

macro_rules! fields {
    ($($trait:ident),*) => {
        $(
            impl ser::$trait for Fields {
                type Ok = Shape;
                type Error = KeyError;

                fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), KeyError> {
                    self.fields.push((name.to_owned(), value.serialize(Tracer)?));
                    Ok(())
                }

                fn end(self) -> Traced {
                    Ok(within(self.variant, Shape::Struct(self.fields)))
                }
            }
        )*
    };
}

fields!(SerializeStruct, SerializeStructVariant);
