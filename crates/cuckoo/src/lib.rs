//! The hot half of the view: an own SipHash-2-4 and a concurrent cuckoo hash table.
//!
//! A [`Table`] maps byte keys to immutable entries (a header of the caller's type, the key, the
//! value). `core` keeps encrypted records, decoded tokens and compiled policies in such tables;
//! nothing here knows of HTTP, JSON or cryptography. Readers take no lock, never wait and never
//! miss a key that is being moved; one writer at a time works behind an internal mutex.
//!
//! The rooms: `siphash` (the keyed hash), `entry` (header, key and value in one allocation),
//! `arena` (where entries live), `bucket` and `array` (one cache line of eight tagged slots, and
//! a power of two of them), `path` (eviction), `growth` (a bigger array under a fresh key, moved
//! to bit by bit), `reclaim` (when freed memory may be used again), `table` (the operations).
//!
//! This is the only crate of the workspace with `unsafe`. What its soundness rests on:
//! 1. An entry reachable from a slot is live; it is unlinked before it is retired.
//! 2. A retired thing is freed only when every pin that could have seen it has gone.
//! 3. An entry is never written after it became reachable.
//! 4. A pin counts for every table of the process, so no guard can be the wrong one.

#![cfg_attr(not(target_pointer_width = "64"), allow(unused, reason = "refused just below"))]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a slot packs a 48-bit address and a 16-bit tag into one 64-bit word");

mod arena;
mod array;
mod bucket;
mod check;
mod entry;
mod error;
mod evict;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod growth;
mod iter;
pub mod limits;
mod pages;
mod path;
mod prefetch;
mod primitive;
mod reclaim;
mod region;
pub mod siphash;
mod stats;
mod table;
#[cfg(test)]
mod tests;
mod writer;

pub use check::TableViolation;
pub use entry::Entry;
pub use error::Error;
pub use evict::Hand;
pub use iter::Iter;
pub use reclaim::Guard;
pub use stats::{TableMemory, TableStats};
pub use table::{Gated, Inserted, Table, Upserted};
