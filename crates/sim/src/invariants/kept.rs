//! What was given out is kept: a token that somebody was told of, and nobody set out to end, lets him in until its time is up, on
//! every server whose view holds it.

use jiff::Timestamp;

use super::{InvariantViolation, violated};
use crate::estate::Estate;

/// A server whose view holds everything up to `held`, and whose clock shows `now`, refused `token`.
pub(crate) fn refused(
    estate: &Estate,
    token: usize,
    server: u64,
    held: u64,
    now: Timestamp,
) -> Result<(), InvariantViolation> {
    if !estate.is_sure(token, held, now) {
        return Ok(());
    }
    let known = &estate.tokens[token];
    Err(violated("what was given out is kept")(format!(
        "server {server}, at {held} and {now} by its clock, refuses token {token}: {known:?}"
    )))
}
