//! The columns of a record's type, known before the first record.

use arrow_schema::{Field, FieldRef, Schema, SchemaRef};
use flott_runtime::error::{Error, Result};
use flott_runtime::record::Record;
use serde_arrow::schema::{SchemaLike, TracingOptions};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What records are collected by, and what stands in the file.
#[derive(Clone)]
pub(crate) struct Columns {
    /// By the names of the record's fields.
    pub(crate) fields: Vec<FieldRef>,
    /// By the names of the columns.
    pub(crate) schema: SchemaRef,
}

/// The columns of `T`, renamed if there are names.
pub(crate) fn of<T: Record>(names: Option<&[String]>) -> Result<Columns> {
    let type_name = std::any::type_name::<T>();
    let options = TracingOptions::default().strings_as_large_utf8(false).sequence_as_large_list(false);
    let fields = Vec::<FieldRef>::from_type::<T>(options).map_err(|error| {
        Error::refused(format!("{type_name} has no Parquet schema: {}", error.message()))
            .hint("map the stream to a struct or tuple of numbers, texts, options, lists and structs")
    })?;
    let columns = match names {
        None => fields.clone(),
        Some(names) => renamed(&fields, names)?,
    };
    Ok(Columns { fields, schema: Arc::new(Schema::new(columns)) })
}

fn renamed(fields: &[FieldRef], names: &[String]) -> Result<Vec<FieldRef>> {
    let distinct: BTreeSet<&String> = names.iter().collect();
    if names.len() != fields.len() || distinct.len() != names.len() {
        let there: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        return Err(Error::refused(format!(
            "`columns` gives {} names, {} of them distinct, to the {} fields `{}`",
            names.len(),
            distinct.len(),
            fields.len(),
            there.join("`, `")
        ))
        .hint("give each field a name of its own, in the order of the fields"));
    }
    let rename = |(field, name): (&FieldRef, &String)| Arc::new(Field::clone(field).with_name(name.clone()));
    Ok(fields.iter().zip(names).map(rename).collect())
}
