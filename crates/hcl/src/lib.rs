//! Reads the configuration language of policies and server files: HCL's first version, or JSON.
//!
//! `auth` reads policies with it, the `server` command its configuration. Both languages end in one
//! tree, [`BlockBody`], in which every key and value knows where it stood, so that whoever gives the
//! words a meaning can say which line is wrong. This room knows syntax only.
//!
//! Invariants:
//! - [`parse`] is total: any bytes are a tree or an [`Error`] with a position, within the limits of
//!   [`limits`]. Nesting is counted, so neither reading nor dropping a tree can exhaust the stack.
//! - An error never repeats the text it complains about: files hold secrets.
//! - Repeated keys are kept, in order. What they mean is for the reader of the tree.
//! - `${...}` is text. Nothing is interpolated, no function is called, no other file is read.
//!
//! Why not a crate: see decision 0040.
#![forbid(unsafe_code)]

mod cursor;
mod error;
mod hcl;
mod json;
pub mod limits;
mod text;
mod tree;

pub use error::{Error, TextPosition};
pub use tree::{BlockBody, HclValue, NameKey, TreeItem, ValueKind};

use cursor::TextCursor;

/// Reads a file: JSON when its first character is `{`, HCL otherwise.
///
/// # Errors
/// [`Error`] with the position of the first thing that is neither.
pub fn parse(bytes: &[u8]) -> Result<BlockBody, Error> {
    let text = text::checked(bytes)?;
    let mut cursor = TextCursor::new(text);
    if text.trim_start().starts_with('{') {
        json::document(&mut cursor)
    } else {
        hcl::document(&mut cursor)
    }
}

#[cfg(test)]
mod tests;
