//! Namespaces: worlds of their own behind one pipeline (`docs/decisions/0072-namespaces.md`).
//!
//! A namespace has a view of its own (mounts, tokens, policies, identity) over a store that puts the
//! namespace's number in front of every key ([`crate::storage::barrier_store`]). A handler that runs for one gets an
//! [`crate::view::NamespaceContext`] made of those two, so there is nothing of another it could name, find or list. What
//! goes from one namespace to another is here and in two other files:
//!
//! - `place`: whose token asks, its own namespace's or that of one above;
//! - `sweep`: what a deleted namespace leaves, cleared in bounded steps;
//! - [`crate::pipeline::resolve_namespace`]: which namespace a request is for, settled once, before it is audited or judged;
//! - [`crate::view::namespaces`]: what namespaces there are.
//!
//! Invariants:
//! - A token is of use in its own namespace and in those below, by policies that spell the way there.
//! - Nothing is written inside a namespace but while its life record is what it was when it was made.
//! - Numbers and ids are given once.
//! - While there are none, a request pays one look at a counter.

mod place;
mod sweep;
#[cfg(test)]
mod tests;

pub(crate) use place::TokenHome;
pub(crate) use sweep::sweep;
