//! Tokens: who asks, for how long, and what ends with whom (API.md A12).
//!
//! The text of a token exists in the request that carries it and in the reply that first hands it
//! out, nowhere else: records and view are addressed by HMAC-SHA-256 of the text under the cluster's
//! token key (LESSONS, Tokens).
//!
//! Invariants:
//! - An expiry is an absolute instant, bounded at every write by the token's own maximum and the
//!   server's (lesson 31).
//! - A token that is not an orphan ends with its parent, and so do all below it.
//! - `root` is a kind of token; no list of policies can make one except by a root token's own hand
//!   (lesson 6).

mod batch;
mod create;
mod entry;
mod expire;
mod kind;
mod leases;
mod lookup;
mod marks;
mod renew;
mod revoke;
mod roles;
mod routes;
mod spend;

pub(crate) use batch::open as open_batch;
pub(crate) use create::{Times, TokenSpec, capped, clean_names, issue};
pub use entry::TOKEN_BYTES_MAX;
pub(crate) use entry::{
    Hash, ROOT_PATH, TEXT_CHARS, TokenEntry, find, make_accessor, make_root, make_text,
    make_text_in,
};
pub(crate) use kind::TokenType;
pub(crate) use leases::handle as handle_leases;
pub(crate) use lookup::auth_object;
pub(crate) use marks::TimeMarks;
pub(crate) use revoke::{revoke_made_below, revoke_tree};
pub(crate) use routes::handle;
pub(crate) use spend::{Left, spend};
