//! What is made of the tables of routes: the help of a path (`?help=1`), the OpenAPI document (`sys/internal/specs/openapi`), and the
//! tests that ask every route without a token and with every set of capabilities.
//!
//! The tables lie with their engines. Where a table has no handlers, a new route is a row there and an arm in the engine's dispatch; `tests`
//! ask each row whether a handler answers it, and for every operation a row lacks whether it is refused.
//!
//! Invariants:
//! - An alias takes what its canonical route takes and asks for the same rights.
//! - No two rows of a family match the same path with equally many fixed bytes.

pub(crate) mod help;
pub(crate) mod openapi;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod spelled;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use kallisto_engine::{
    Admits, Field, FieldKind, FieldPlace, Rights, Route, Routes, pattern,
};
