//! The access decision: (token, policies, request, now) -> authorised request or denial.
//!
//! [`Authorized`] is a proof: its only constructor is [`authorize_noting`], so whoever
//! holds one was let in.

use std::ops::Deref;

use jiff::Timestamp;

use crate::acl::AclGrant;
use crate::subject::{Denied, Subject};
use crate::{AclSet, TokenKind, TokenStanding};

/// A request that passed the decision. Nothing else can make one.
#[derive(Debug)]
pub struct Authorized<R> {
    request: R,
    page_entries_max: Option<u64>,
}

/// Decides whether `token`, whose policies are compiled in `acl`, may do `request` at `now`.
///
/// # Errors
/// [`Denied`] when the token has expired, nothing grants the request, or `acl` is stale.
pub fn authorize_by<R: Subject>(
    token: impl Into<TokenStanding>,
    acl: &AclSet,
    request: R,
    now: Timestamp,
) -> Result<Authorized<R>, Denied> {
    authorize_noting(token, acl, request, now, |_| ())
}

/// The same. If the request is let in, `note` is told by which grant: `None` for a root token, which needs none.
///
/// # Errors
/// Those of [`authorize_by`].
pub fn authorize_noting<R: Subject>(
    token: impl Into<TokenStanding>,
    acl: &AclSet,
    request: R,
    now: Timestamp,
    note: impl FnOnce(Option<AclGrant<'_>>),
) -> Result<Authorized<R>, Denied> {
    let token = token.into();
    if token.is_expired(now) {
        return Err(Denied);
    }
    match token.kind {
        TokenKind::Root => {
            note(None);
            Ok(Authorized { request, page_entries_max: None })
        }
        TokenKind::Service | TokenKind::Batch if acl.stale_at().is_some_and(|end| end <= now) => {
            Err(Denied)
        }
        TokenKind::Service | TokenKind::Batch => {
            let grant = acl.decide(&request)?;
            note(Some(grant));
            let page_entries_max = grant.page_entries_max();
            Ok(Authorized { request, page_entries_max })
        }
    }
}

impl<R> Authorized<R> {
    /// Most entries that a page of a listing may have, when a rule says so. It binds a request that
    /// names no number too.
    pub const fn page_entries_max(&self) -> Option<u64> {
        self.page_entries_max
    }
}

impl<R> Deref for Authorized<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.request
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Token;
    use crate::{Operation, Path};

    #[derive(Debug)]
    struct Ask(Path<'static>);

    impl Subject for Ask {
        fn operation(&self) -> Operation {
            Operation::Read
        }

        fn path(&self) -> &Path<'_> {
            &self.0
        }

        fn needs_sudo(&self) -> bool {
            false
        }
    }

    fn token(kind: TokenKind, expires_at: Option<Timestamp>) -> Token {
        Token {
            accessor: "a".into(),
            kind,
            policies: vec!["root".into()],
            display_name: "t".into(),
            path: "auth/token/create".into(),
            created_at: Timestamp::UNIX_EPOCH,
            expires_at,
            orphan: true,
        }
    }

    fn allow(token: &Token, now: Timestamp) -> Result<(), Denied> {
        let ask = Ask(Path::decode("secret/data/a").unwrap());
        authorize_by(token, &AclSet::default(), ask, now).map(|_| ())
    }

    #[test]
    fn root_is_a_kind_and_not_a_policy_name() {
        let now = Timestamp::from_second(10).unwrap();
        assert!(allow(&token(TokenKind::Root, None), now).is_ok());
        assert_eq!(allow(&token(TokenKind::Service, None), now).unwrap_err(), Denied);
    }

    #[test]
    fn expiry_ends_a_token_at_its_instant() {
        let end = Timestamp::from_second(10).unwrap();
        let root = token(TokenKind::Root, Some(end));
        assert!(allow(&root, Timestamp::from_second(9).unwrap()).is_ok());
        assert!(allow(&root, end).is_err());
    }
}
