//! Tests of stored state that its suite cannot ask for: stores that fail, logs that are trimmed.
