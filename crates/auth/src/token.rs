//! The decoded token: what a bearer is, without the bearer's secret.
//!
//! `core` keeps one decoded [`Token`] per live token in its view, keyed by a keyed hash of the
//! token text; the text itself is nowhere in this type. Invariant: [`TokenKind::Root`] is set when the
//! token is made and is not a policy: no list of names can attach it.

use jiff::Timestamp;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Passes every check.
    Root,
    /// Judged by its policies.
    Service,
    /// The same, and stored nowhere: the token's text holds all there is to know of it.
    Batch,
}

/// A decoded token entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The public handle of the token; it authorises nothing.
    pub accessor: String,
    /// What the token is.
    pub kind: TokenKind,
    /// Names of the policies attached, sorted.
    pub policies: Vec<String>,
    /// Name shown to people and auditors.
    pub display_name: String,
    /// The route that created it, such as `auth/token/root`.
    pub path: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working; `None` means never.
    pub expires_at: Option<Timestamp>,
    /// True when no parent's end ends it.
    pub orphan: bool,
}

/// The part of a token that the decision asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenStanding {
    /// What the token is.
    pub kind: TokenKind,
    /// When it stops working; `None` means never.
    pub expires_at: Option<Timestamp>,
}

impl TokenStanding {
    /// True once `now` has reached the expiry.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expiry| expiry <= now)
    }
}

impl From<&Token> for TokenStanding {
    fn from(token: &Token) -> Self {
        Self { kind: token.kind, expires_at: token.expires_at }
    }
}

impl Token {
    /// True once `now` has reached the expiry.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expiry| expiry <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_over_from_the_moment_of_its_expiry_on() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let token = |expires_at| Token {
            accessor: String::new(),
            kind: TokenKind::Service,
            policies: Vec::new(),
            display_name: String::new(),
            path: String::new(),
            created_at: at(0),
            expires_at,
            orphan: false,
        };
        for (expires_at, now, expired) in
            [(Some(60), 59, false), (Some(60), 60, true), (Some(60), 61, true), (None, 60, false)]
        {
            let token = token(expires_at.map(at));
            assert_eq!(token.is_expired(at(now)), expired, "{expires_at:?} at {now}");
            assert_eq!(TokenStanding::from(&token).is_expired(at(now)), expired);
        }
    }
}
