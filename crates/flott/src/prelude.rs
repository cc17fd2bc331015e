//! What a job's file needs: `use flott::prelude::*;`.

pub use crate::{Error, Job, Keyed, OnError, Out, Result, Stream, Value};
