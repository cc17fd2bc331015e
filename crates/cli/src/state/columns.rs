//! The columns of a state in CSV, both ways: a struct has a column for each field, `value.count`; what is neither a struct nor
//! plain is JSON in its cell.
//!
//! An absent option is an empty cell, and an empty text in an option is `""`.

use super::rows::Read;
use crate::json;
use flott_runtime::key::Shape;
use flott_runtime::segment::StateKind;
use flott_runtime::state_reader::{Below, Datum, Entry, Misfit, StateShape, fit, leaf_of_text};

#[cfg(test)]
mod tests;

/// A part of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Key,
    MapKey,
    Position,
    Time,
    Value,
}

impl Part {
    pub(super) fn name(self) -> &'static str {
        match self {
            Part::Key => "key",
            Part::MapKey => "map_key",
            Part::Position => "position",
            Part::Time => "time_ms",
            Part::Value => "value",
        }
    }
}

/// One column: a field of a part, or all of it.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) part: Part,
    pub(super) fields: Vec<String>,
    pub(super) shape: Shape,
}

impl Column {
    pub(super) fn name(&self) -> String {
        let fields = self.fields.iter().flat_map(|field| [".", field.as_str()]);
        [self.part.name()].into_iter().chain(fields).collect()
    }
}

/// The columns of a state.
#[derive(Clone, Debug)]
pub(super) struct Columns(pub(super) Vec<Column>);

/// Whether the key of an entry is one of the job's. That of a broadcast map or a split list only says which worker has it.
pub(super) fn is_keyed(kind: StateKind) -> bool {
    !matches!(kind, StateKind::Broadcast | StateKind::SplitList)
}

/// The parts of an entry and their shapes, in the order of the columns.
pub(super) fn parts(shape: &StateShape) -> Vec<(Part, Shape)> {
    let value = || (Part::Value, if shape.varies { Shape::Any } else { shape.value.clone() });
    let mut parts = Vec::new();
    if is_keyed(shape.kind) {
        parts.push((Part::Key, shape.key.clone()));
    }
    match shape.kind {
        StateKind::Value => parts.push(value()),
        StateKind::Timers => parts.push((Part::Time, Shape::Leaf("i64"))),
        // Who has an element, and where, changes with the number of workers.
        StateKind::SplitList => parts.push(value()),
        StateKind::List => parts.extend([(Part::Position, Shape::Leaf("u64")), value()]),
        StateKind::Map | StateKind::Broadcast => parts.extend([(Part::MapKey, shape.field.clone()), value()]),
    }
    parts
}

impl Columns {
    pub(super) fn of(shape: &StateShape) -> Columns {
        let mut columns = Vec::new();
        for (part, shape) in parts(shape) {
            divide(part, &mut Vec::new(), shape, &mut columns);
        }
        Columns(columns)
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.0.iter().map(Column::name).collect()
    }

    pub(super) fn cells(&self, entry: &Entry<'_>, read: &Read) -> Vec<String> {
        let cell = |column: &Column| {
            let whole = match (column.part, entry.below) {
                (Part::Key, _) => Some(&read.key),
                (Part::MapKey, _) => read.field.as_ref(),
                (Part::Value, _) => read.value.as_ref(),
                (Part::Position, Below::Position(position)) => return position.to_string(),
                (Part::Time, Below::Time(time)) => return time.to_string(),
                (Part::Position | Part::Time, _) => None,
            };
            let found = whole.and_then(|whole| field(whole, &column.fields));
            found.map(|datum| cell(datum, &column.shape)).unwrap_or_default()
        };
        self.0.iter().map(cell).collect()
    }
}

fn divide(part: Part, fields: &mut Vec<String>, shape: Shape, columns: &mut Vec<Column>) {
    match shape {
        Shape::Struct(inner) if !inner.is_empty() => {
            for (name, shape) in inner {
                fields.push(name);
                divide(part, fields, shape, columns);
                fields.pop();
            }
        }
        shape => columns.push(Column { part, fields: fields.clone(), shape }),
    }
}

fn field<'a>(datum: &'a Datum, fields: &[String]) -> Option<&'a Datum> {
    let Some((first, rest)) = fields.split_first() else { return Some(datum) };
    let Datum::Map(entries) = datum else { return None };
    let found = entries.iter().find(|(key, _)| matches!(key, Datum::Text(name) if name == first));
    found.and_then(|(_, value)| field(value, rest))
}

fn cell(datum: &Datum, shape: &Shape) -> String {
    match (shape, datum) {
        (Shape::Optional(_), Datum::Nil) => String::new(),
        (Shape::Optional(inner), Datum::Text(text)) if text.is_empty() && is_leaf(inner) => "\"\"".to_owned(),
        (Shape::Optional(inner), datum) if is_leaf(inner) => cell(datum, inner),
        (Shape::Leaf("unit"), _) => String::new(),
        (Shape::Leaf(_), Datum::Text(text)) => text.clone(),
        (Shape::Leaf(_), Datum::Integer(number)) => number.to_string(),
        (Shape::Leaf(_), Datum::Bool(value)) => value.to_string(),
        (_, datum) => json::text(datum),
    }
}

fn is_leaf(shape: &Shape) -> bool {
    matches!(shape, Shape::Leaf(name) if *name != "unit")
}

/// What a cell means in its column.
pub(super) fn parse(text: &str, shape: &Shape) -> Result<Datum, Misfit> {
    let as_json = |shape: &Shape| {
        let read = json::parse(text).map_err(|error| Misfit {
            place: String::new(),
            wanted: shape.to_string(),
            found: format!("the text `{}`, which is no JSON: {error}", text.chars().take(40).collect::<String>()),
        });
        read.and_then(|datum| fit(datum, shape))
    };
    match shape {
        Shape::Optional(inner) if is_leaf(inner) || matches!(**inner, Shape::Leaf(_)) => match text {
            "" => Ok(Datum::Nil),
            "\"\"" if matches!(**inner, Shape::Leaf("string")) => Ok(Datum::Text(String::new())),
            text => parse(text, inner),
        },
        Shape::Optional(_) if text.is_empty() => Ok(Datum::Nil),
        Shape::Leaf("string" | "char") => fit(Datum::Text(text.to_owned()), shape),
        Shape::Leaf(_) if text.starts_with("{\"$") => as_json(shape),
        Shape::Leaf(_) => match leaf_of_text(text, shape) {
            Some(datum) => Ok(datum),
            // It does not fit: this says why.
            None => fit(text.parse().map_or_else(|_| Datum::Text(text.to_owned()), Datum::Integer), shape),
        },
        shape => as_json(shape),
    }
}
