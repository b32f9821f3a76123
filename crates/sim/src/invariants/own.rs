//! A cubbyhole is its token's own: what is found there was put there by the same token.

use super::{InvariantViolation, violated};

/// A server showed a token what lies in its cubbyhole: something that the token of number `of` put there.
pub(crate) fn fetched(
    token: usize,
    server: u64,
    of: Option<u64>,
) -> Result<(), InvariantViolation> {
    if of == Some(token as u64) {
        return Ok(());
    }
    Err(violated("a cubbyhole is its token's own")(format!(
        "server {server} shows token {token} what {of:?} put away"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_put_away_is_seen() {
        assert_eq!(fetched(3, 1, Some(3)), Ok(()));
        assert!(fetched(3, 1, Some(4)).is_err() && fetched(3, 1, None).is_err());
    }
}
