//! What was revoked stays so: once somebody was told that a token is gone, no server whose view holds that lets anybody in by it
//! or by one below it; neither the one that told it, nor any that a client asks who shows how far it has seen.

use super::{InvariantViolation, violated};
use crate::estate::Estate;

/// A server whose view holds everything up to `held` let somebody in by `token`.
pub(crate) fn used(
    estate: &Estate,
    token: usize,
    server: u64,
    held: u64,
) -> Result<(), InvariantViolation> {
    let Some(gone_at) = estate.gone_at(token).filter(|gone_at| *gone_at <= held) else {
        return Ok(());
    };
    Err(violated("what was revoked stays so")(format!(
        "server {server}, which holds {held}, lets token {token} in: it was revoked by {gone_at}"
    )))
}
