//! The shape of a key or value type, found by watching one value being serialized, or the type being deserialized.
//!
//! A manifest holds the shape of each key type, and a restore compares: a key type cannot change, because its hash
//! decides where its state lies (design D9). One value may not show everything (an absent option, an unused variant),
//! so shapes have holes, merge, and agree if nothing in them contradicts.

mod expected;
mod text;
mod trace;

use litemap::LiteMap;

/// What a serialized value looks like. Its text form (`u64`, `(string,u32)`, `{day:u32,carrier:string}`) parses back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Not seen yet; text `?`.
    #[default]
    Unknown,
    /// Seen in contradicting forms (an untagged enum); text `any`. Agrees with everything.
    Any,
    /// One of the data model's leaves: `bool`, `i8` to `u128`, `f32`, `f64`, `char`, `string`, `bytes`, `unit`.
    Leaf(&'static str),
    /// `option<…>`
    Optional(Box<Shape>),
    /// `seq<…>`
    Sequence(Box<Shape>),
    /// `map<…,…>`
    Map(Box<(Shape, Shape)>),
    /// `(…,…)`: a tuple, tuple struct or fixed array.
    Tuple(Vec<Shape>),
    /// `{name:…,…}`
    Struct(Vec<(String, Shape)>),
    /// `[index name=…|…]`: the variants seen so far.
    Enum(LiteMap<u32, (String, Shape)>),
}

impl Shape {
    /// The shape that one value shows; `Any` if its `Serialize` fails.
    #[must_use]
    pub fn of<T: serde::Serialize + ?Sized>(value: &T) -> Self {
        value.serialize(trace::Tracer).unwrap_or(Self::Any)
    }

    /// The shape that a type expects, before there is a value of it. Rust names are not in it, so it stays the same when the
    /// type is moved or renamed. It has holes where its `Deserialize` does not say what it wants, and for an enum it says no
    /// more than that.
    #[must_use]
    pub fn of_type<T: serde::de::DeserializeOwned>() -> Self {
        expected::shape_of::<T>()
    }

    /// Adds what another value of the same type showed.
    pub fn merge(&mut self, other: Shape) {
        match (self, other) {
            (_, Self::Unknown) | (Self::Any, _) => {}
            (mine @ Self::Unknown, theirs) => *mine = theirs,
            (Self::Leaf(mine), Self::Leaf(theirs)) if *mine == theirs => {}
            (Self::Optional(mine), Self::Optional(theirs)) => mine.merge(*theirs),
            (Self::Sequence(mine), Self::Sequence(theirs)) => mine.merge(*theirs),
            (Self::Map(mine), Self::Map(theirs)) => {
                mine.0.merge(theirs.0);
                mine.1.merge(theirs.1);
            }
            (Self::Tuple(mine), Self::Tuple(theirs)) if mine.len() == theirs.len() => {
                mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| mine.merge(theirs));
            }
            (Self::Struct(mine), Self::Struct(theirs)) if same_names(mine, &theirs) => {
                mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| mine.1.merge(theirs.1));
            }
            (Self::Enum(mine), Self::Enum(theirs)) => {
                for (index, (name, shape)) in theirs {
                    let variant = mine.entry(index).or_insert_with(|| (name, Self::Unknown));
                    variant.1.merge(shape);
                }
            }
            (mine, _) => *mine = Self::Any,
        }
    }

    /// Whether both can be shapes of one type. For structs and enums, names and positions must be the same.
    #[must_use]
    pub fn agrees_with(&self, other: &Shape) -> bool {
        match (self, other) {
            (Self::Unknown | Self::Any, _) | (_, Self::Unknown | Self::Any) => true,
            (Self::Leaf(a), Self::Leaf(b)) => a == b,
            (Self::Optional(a), Self::Optional(b)) | (Self::Sequence(a), Self::Sequence(b)) => a.agrees_with(b),
            (Self::Map(a), Self::Map(b)) => a.0.agrees_with(&b.0) && a.1.agrees_with(&b.1),
            (Self::Tuple(a), Self::Tuple(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.agrees_with(b)),
            (Self::Struct(a), Self::Struct(b)) => {
                same_names(a, b) && a.iter().zip(b).all(|(a, b)| a.1.agrees_with(&b.1))
            }
            (Self::Enum(a), Self::Enum(b)) => {
                a.iter().all(|(index, mine)| b.get(index).is_none_or(|b| mine.0 == b.0 && mine.1.agrees_with(&b.1)))
            }
            _ => false,
        }
    }
}

fn same_names(a: &[(String, Shape)], b: &[(String, Shape)]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0)
}
