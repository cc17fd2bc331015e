//! Writes records into a table of PostgreSQL, exactly once: each epoch in one transaction, together with its mark.
//!
//! A floor-2 crate: the one that knows the server's protocol. What makes it exact is `flott_runtime::connector::staged`; here is
//! a store for it. It never creates, alters or drops a table of the user's; its own is `flott_epochs`. No TLS in this version.
//!
//! ```no_run
//! use flott_postgres::PostgresSink;
//!
//! let sink = PostgresSink::new("host=localhost user=flott dbname=shop", "counts");
//! ```

#![forbid(unsafe_code)]

mod errors;
mod row;
mod sink;
mod store;

pub use sink::PostgresSink;
