//! The text form of a shape: written into manifests and segments, and read back by a restore.
//!
//! The parser takes any text: it never panics, recurses at most to a fixed depth, and allocates no more than it read.

use super::Shape;
use flott_checkpoint::lite_map;
use std::fmt::{self, Write as _};
use std::str::FromStr;

const LEAVES: [&str; 17] = [
    "bool", "i8", "i16", "i32", "i64", "i128", "u8", "u16", "u32", "u64", "u128", "f32", "f64", "char", "string",
    "bytes", "unit",
];
const MAX_DEPTH: usize = 64;

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_char('?'),
            Self::Any => f.write_str("any"),
            Self::Leaf(name) => f.write_str(name),
            Self::Optional(inner) => write!(f, "option<{inner}>"),
            Self::Sequence(inner) => write!(f, "seq<{inner}>"),
            Self::Map(inner) => write!(f, "map<{},{}>", inner.0, inner.1),
            Self::Tuple(parts) => separated(f, ('(', ',', ')'), parts, |f, part| write!(f, "{part}")),
            Self::Struct(fields) => separated(f, ('{', ',', '}'), fields, |f, (name, shape)| {
                escape(f, name)?;
                write!(f, ":{shape}")
            }),
            Self::Enum(variants) => separated(f, ('[', '|', ']'), variants, |f, (index, (name, shape))| {
                write!(f, "{index} ")?;
                escape(f, name)?;
                write!(f, "={shape}")
            }),
        }
    }
}

fn separated<T>(
    f: &mut fmt::Formatter<'_>,
    (open, separator, close): (char, char, char),
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    f.write_char(open)?;
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            f.write_char(separator)?;
        }
        write(f, item)?;
    }
    f.write_char(close)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Names may hold anything; what is not plain becomes `%XX`.
fn escape(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    name.bytes().try_for_each(|byte| if is_plain(byte) { f.write_char(byte.into()) } else { write!(f, "%{byte:02X}") })
}

/// A text that is not a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAShape;

impl fmt::Display for NotAShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the text of a shape")
    }
}

impl std::error::Error for NotAShape {}

impl FromStr for Shape {
    type Err = NotAShape;

    fn from_str(text: &str) -> Result<Self, NotAShape> {
        let mut parser = Parser { rest: text };
        let shape = parser.shape(MAX_DEPTH).ok_or(NotAShape)?;
        if parser.rest.is_empty() { Ok(shape) } else { Err(NotAShape) }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn eat(&mut self, token: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(token)?;
        Some(())
    }

    fn word(&mut self) -> &'a str {
        let end = self.rest.bytes().position(|byte| !is_plain(byte) && byte != b'%').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn name(&mut self) -> Option<String> {
        let mut pieces = self.word().split('%');
        let mut bytes = pieces.next()?.as_bytes().to_vec();
        for piece in pieces {
            bytes.push(u8::from_str_radix(piece.get(..2)?, 16).ok()?);
            bytes.extend_from_slice(piece.get(2..)?.as_bytes());
        }
        String::from_utf8(bytes).ok()
    }

    fn shape(&mut self, depth: usize) -> Option<Shape> {
        let depth = depth.checked_sub(1)?;
        match self.rest.bytes().next()? {
            b'?' => self.eat('?').map(|()| Shape::Unknown),
            b'(' => self.list(('(', ',', ')'), |parser| parser.shape(depth)).map(Shape::Tuple),
            b'{' => {
                let field = |parser: &mut Self| {
                    let name = parser.name()?;
                    parser.eat(':')?;
                    Some((name, parser.shape(depth)?))
                };
                self.list(('{', ',', '}'), field).map(Shape::Struct)
            }
            b'[' => {
                let variant = |parser: &mut Self| {
                    let index = parser.word().parse().ok()?;
                    parser.eat(' ')?;
                    let name = parser.name()?;
                    parser.eat('=')?;
                    Some((index, (name, parser.shape(depth)?)))
                };
                let variants = self.list(('[', '|', ']'), variant)?;
                Some(Shape::Enum(lite_map(variants)))
            }
            _ => self.named(depth),
        }
    }

    fn named(&mut self, depth: usize) -> Option<Shape> {
        let word = self.word();
        let shape = match word {
            "any" => return Some(Shape::Any),
            "option" | "seq" => {
                self.eat('<')?;
                let inner = Box::new(self.shape(depth)?);
                if word == "seq" { Shape::Sequence(inner) } else { Shape::Optional(inner) }
            }
            "map" => {
                self.eat('<')?;
                let key = self.shape(depth)?;
                self.eat(',')?;
                Shape::Map(Box::new((key, self.shape(depth)?)))
            }
            _ => return LEAVES.into_iter().find(|leaf| *leaf == word).map(Shape::Leaf),
        };
        self.eat('>')?;
        Some(shape)
    }

    fn list<T>(
        &mut self,
        (open, separator, close): (char, char, char),
        item: impl Fn(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        self.eat(open)?;
        let mut items = Vec::new();
        if self.eat(close).is_some() {
            return Some(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(close).is_some() {
                return Some(items);
            }
            self.eat(separator)?;
        }
    }
}
