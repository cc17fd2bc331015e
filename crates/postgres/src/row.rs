//! A record as a line of `COPY … FROM STDIN` in its text form: fields in the order of the columns, by their names.
//!
//! Any record that serde can write is taken or refused with a reason; nothing here talks to a server.

mod field;
#[cfg(test)]
mod tests;

use field::{Field, Refused, write_field};
use flott_runtime::error::{Error, Result};
use serde::ser::{self, Impossible, Serialize};

/// Which columns a line has, and where a field goes.
pub(crate) struct Layout {
    columns: Vec<String>,
    /// The text of each column of the line that is being written; reused.
    texts: Vec<Vec<u8>>,
}

impl Layout {
    pub(crate) fn new(columns: Vec<String>) -> Layout {
        Layout { texts: vec![Vec::new(); columns.len()], columns }
    }

    /// Appends one line.
    pub(crate) fn write<T: Serialize>(&mut self, record: &T, line: &mut Vec<u8>) -> Result<()> {
        self.texts.iter_mut().for_each(|text| {
            text.clear();
            text.extend_from_slice(field::NULL);
        });
        record.serialize(Fields { layout: self, next: 0 }).map_err(|Refused(why)| {
            Error::invalid(format!("a record does not fit the columns {}: {why}", self.columns.join(", ")))
                .hint("write structs with the columns' names, or tuples with `.columns([…])`")
        })?;
        for (index, text) in self.texts.iter().enumerate() {
            if index > 0 {
                line.push(b'\t');
            }
            line.extend_from_slice(text);
        }
        line.push(b'\n');
        Ok(())
    }

    fn put<T: Serialize + ?Sized>(&mut self, index: usize, value: &T) -> Result<(), Refused> {
        let text =
            self.texts.get_mut(index).ok_or_else(|| Refused("it has more fields than there are columns".into()))?;
        text.clear();
        write_field(value, text)
    }
}

/// Spreads the fields of a record over the columns.
struct Fields<'a> {
    layout: &'a mut Layout,
    next: usize,
}

impl Fields<'_> {
    fn named<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Refused> {
        // Nearly always the next one.
        let is_here = |index: usize, layout: &Layout| layout.columns.get(index).is_some_and(|column| column == name);
        let found = if is_here(self.next, self.layout) {
            Some(self.next)
        } else {
            self.layout.columns.iter().position(|column| column == name)
        };
        match found {
            Some(index) => {
                self.next = index + 1;
                self.layout.put(index, value)
            }
            // A choice of columns leaves out the others.
            None => Ok(()),
        }
    }

    fn in_order<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        self.next += 1;
        self.layout.put(self.next - 1, value)
    }

    fn all(self) -> Result<(), Refused> {
        if self.next == self.layout.columns.len() {
            return Ok(());
        }
        Err(Refused(format!("it has {} fields", self.next)))
    }
}

impl ser::SerializeStruct for Fields<'_> {
    type Ok = ();
    type Error = Refused;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Refused> {
        self.named(name, value)
    }
    fn end(self) -> Result<(), Refused> {
        Ok(())
    }
}

impl ser::SerializeTuple for Fields<'_> {
    type Ok = ();
    type Error = Refused;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        self.in_order(value)
    }
    fn end(self) -> Result<(), Refused> {
        self.all()
    }
}

impl ser::SerializeTupleStruct for Fields<'_> {
    type Ok = ();
    type Error = Refused;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        self.in_order(value)
    }
    fn end(self) -> Result<(), Refused> {
        self.all()
    }
}

/// A record that is one value fills the one column.
macro_rules! single {
    ($($method:ident: $type:ty,)*) => {
        $(fn $method(self, value: $type) -> Result<(), Refused> {
            self.single(&value)
        })*
    };
}

impl Fields<'_> {
    fn single<T: Serialize + ?Sized>(mut self, value: &T) -> Result<(), Refused> {
        self.in_order(value)?;
        self.all()
    }
}

impl<'a> ser::Serializer for Fields<'a> {
    type Ok = ();
    type Error = Refused;
    type SerializeSeq = Impossible<(), Refused>;
    type SerializeTuple = Fields<'a>;
    type SerializeTupleStruct = Fields<'a>;
    type SerializeTupleVariant = Impossible<(), Refused>;
    type SerializeMap = Impossible<(), Refused>;
    type SerializeStruct = Fields<'a>;
    type SerializeStructVariant = Impossible<(), Refused>;

    single! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128, serialize_f32: f32, serialize_f64: f64, serialize_char: char, serialize_str: &str,
    }

    fn serialize_bytes(mut self, value: &[u8]) -> Result<(), Refused> {
        self.in_order(&Field(value))?;
        self.all()
    }
    fn serialize_none(self) -> Result<(), Refused> {
        self.single(&None::<u8>)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Refused> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), Refused> {
        self.single(&None::<u8>)
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Refused> {
        self.single(&None::<u8>)
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Refused> {
        self.single(variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Refused> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Refused> {
        Err(Refused("an enum with content is no row".into()))
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Refused> {
        Err(Refused("a sequence is no row".into()))
    }
    fn serialize_tuple(self, _: usize) -> Result<Fields<'a>, Refused> {
        Ok(self)
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Fields<'a>, Refused> {
        Ok(self)
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Refused> {
        Err(Refused("an enum with content is no row".into()))
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Refused> {
        Err(Refused("a map is no row".into()))
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields<'a>, Refused> {
        Ok(self)
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Refused> {
        Err(Refused("an enum with content is no row".into()))
    }
}
