//! The same work done by others: in this process, and by Flink in one of its own.

pub(crate) mod flink;
pub(crate) mod limit;
pub(crate) mod plain_timely;
