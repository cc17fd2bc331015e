//! State in a store of bytes: the same handles and the same snapshots as on the heap, over anything that is a
//! [`Store`](super::store::Store).
//!
//! What is shared by all kinds is not generic ([`rows`]): entries as bytes, the log of changed keys, cuts and scans. The
//! handles encode and decode.

mod backend;
mod cache;
mod change_log;
mod failure;
mod list;
mod load;
mod map;
mod open_cut;
mod recent;
mod rows;
#[cfg(test)]
mod tests;
mod timers;
mod value;

pub use backend::StoredBackend;
pub use failure::Failure;
pub use list::StoredList;
pub use map::StoredMap;
pub use timers::StoredTimers;
pub use value::StoredValue;
