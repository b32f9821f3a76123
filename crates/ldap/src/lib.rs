//! What directories are asked with, for the login method and the secrets engine: no sockets, no storage, no time.
//!
//! ```text
//! filter   filters (RFC 4515) and their templates
//! dn       names of entries (RFC 4514)
//! url      where directories are
//! ldif     records of entries and changes (RFC 2849), and their templates
//! reach    the settings that say which directory, and as whom
//! fuzz     the body of the fuzz target
//! text     names as people type them and as directories compare them
//! ```
//!
//! Invariants:
//! - No value reaches a filter but by [`filter::escape`], none a name of an entry but by [`dn::escape`], and none a record of LDIF but as a
//!   value of its own.
//! - A template is read whole when it is stored.
#![forbid(unsafe_code)]

pub mod dn;
pub mod filter;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod ldif;
pub mod reach;
mod template;
pub mod text;
mod url;

pub use reach::DirectoryReach;
