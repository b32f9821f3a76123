//! What an engine keeps decoded in memory, by mount.
//!
//! Most engines read their storage when they are asked. One that is asked for the same records by every request keeps them decoded: the
//! server hands it each committed record of its mount, in order, so that the decoded state is what was committed, on every server and
//! after every start.

use std::any::Any;

/// The decoded state of a mount. Called while others read: it is its own lock.
pub trait Memory: Any + Send + Sync {
    /// Takes a record in; false if it is damaged.
    fn put(&self, name: &str, value: &[u8]) -> bool;

    /// Takes a record out.
    fn remove(&self, name: &str);
}
