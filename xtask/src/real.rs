//! Tests against real components. Each entry installs or starts what it needs, or names what is missing.

/// Components that this version has tests for.
pub(crate) fn all() -> Vec<String> {
    Vec::new()
}

pub(crate) fn run(names: &[String]) -> Result<(), String> {
    match names.first() {
        None => Ok(()),
        Some(name) => Err(format!("there are no tests against `{name}` in this version; known are: {:?}", all())),
    }
}
