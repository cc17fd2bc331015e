//! The same work done by others, in this process.

pub(crate) mod limit;
pub(crate) mod plain_timely;
