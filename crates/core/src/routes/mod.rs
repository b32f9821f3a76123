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
mod spelled;
#[cfg(test)]
pub(crate) mod tests;

use kallisto_auth::Operation;
pub(crate) use kallisto_engine::{
    Admits, Field, FieldKind, FieldPlace, Rights, Route, Routes, pattern,
};

use crate::api::error::Error;
use crate::engines::mount::EngineKind;

pub(crate) use crate::engines::sys::routes::SYSTEM;

/// Tells apart, for a request that no handler took, a path that does not exist from an operation
/// that it does not take. A list is of the folder at its path: it is an operation of routes that list
/// and of paths of open length, and no other path has a folder.
pub(crate) fn sort_refusal(
    kind: EngineKind,
    path: &str,
    operation: Operation,
    error: Error,
) -> Error {
    if !matches!(error, Error::UnsupportedPath | Error::UnsupportedOperation) {
        return error;
    }
    let routes = kind.engine().routes();
    match routes.find(path.strip_suffix('/').unwrap_or(path)) {
        Some(route) if !route.takes(operation) => routes.refusal(path, operation),
        Some(_) | None => error,
    }
}
