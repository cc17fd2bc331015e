//! Copying a savepoint, and finding it again.
