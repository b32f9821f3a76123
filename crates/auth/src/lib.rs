//! Who may do what, as pure functions of (token, request, now).
//!
//! This room owns the words that authorisation is made of: the canonical [`Path`], the
//! [`Operation`] asked for, the [`Token`] that asks, and the decision [`authorize`], which turns a
//! request into an [`Authorized`] one or a [`Denied`]. `core` calls it for every request that is
//! not on the short list of unauthenticated ones; handlers accept only `Authorized<_>`, so a
//! handler that forgot to ask cannot be written.
//!
//! Invariants:
//! - A path is decoded and checked once, by [`Path::decode`]; the value that was authorised is the
//!   value that is stored and audited (lessons 1, 5 and 6 of the design).
//! - Nothing here reads a clock, a disk or a socket: time is an argument.
//! - Deny is the default; root is a *kind* of token, never a policy name that could be attached.
#![forbid(unsafe_code)]

mod decision;
mod operation;
mod path;
mod token;

pub use decision::{Authorized, Denied, Subject, authorize};
pub use operation::Operation;
pub use path::{PATH_BYTES_MAX, Path, PathError, SEGMENTS_MAX};
pub use token::{Kind, Token};
