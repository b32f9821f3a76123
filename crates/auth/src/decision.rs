//! The access decision: (token, policies, request, now) -> authorised request or denial.
//!
//! [`Authorized`] is a proof: its only constructor is [`authorize_noting`], so whoever
//! holds one was let in. A [`Subject`] is what the decision wants to know of a request. What
//! it is not told counts against it: a rule that limits parameters refuses a request whose
//! parameters are unknown.

use std::ops::Deref;
use std::time::Duration;

use jiff::Timestamp;

use crate::acl::AclGrant;
use crate::policy::Literal;
use crate::{AclSet, Capability, Operation, Path, TokenKind, TokenStanding};

/// A request as the decision sees it.
pub trait Subject {
    /// What is asked.
    fn operation(&self) -> Operation;

    /// Where; the same value is acted on afterwards.
    fn path(&self) -> &Path<'_>;

    /// The path as one that says the same whatever the case of its letters, where what it names is one thing in every case;
    /// `None` for paths that name another thing by another case. Such a request has to be granted by the most specific rule that
    /// matches without case, too.
    fn caseless_path(&self) -> Option<&str> {
        None
    }

    /// The capability it takes. An endpoint that can tell whether the entry exists answers
    /// [`Capability::Create`] for a write of one that does not.
    fn capability(&self) -> Capability {
        self.operation().capability()
    }

    /// True when it takes [`Capability::Sudo`] as well.
    fn needs_sudo(&self) -> bool;

    /// How long the answer is to be wrapped; `None` for an open one.
    fn wrap_ttl(&self) -> Option<Duration> {
        None
    }

    /// How many entries of a listing are asked for at most; `None` when the request does not say. A
    /// number that is none counts as the largest.
    fn page_entries(&self) -> Option<u64> {
        None
    }

    /// The parameters: the top level of a body, or the query of a read. `None` when they cannot be
    /// read. Asked only when a rule limits them.
    fn parameters(&self) -> Option<Vec<(String, Literal)>> {
        None
    }
}

/// A request that passed the decision. Nothing else can make one.
#[derive(Debug)]
pub struct Authorized<R> {
    request: R,
    page_entries_max: Option<u64>,
}

/// The refusal. It carries no reason on purpose: a reason would tell what exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied;

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
