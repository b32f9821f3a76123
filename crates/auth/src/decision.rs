//! The access decision: (token, request, now) -> authorised request or denial.
//!
//! [`Authorized`] is a proof: its only constructor is [`authorize`], so whoever holds one was let
//! in. Policies beyond root are decided here too once a policy language exists; until then every
//! token that is not root is denied, which is the default the language starts from.

use std::ops::Deref;

use jiff::Timestamp;

use crate::{Kind, Operation, Path, Token};

/// A request as the decision sees it.
pub trait Subject {
    /// What is asked.
    fn operation(&self) -> Operation;
    /// Where; the same value is acted on afterwards.
    fn path(&self) -> &Path<'_>;
}

/// A request that passed the decision. Nothing else can make one.
#[derive(Debug)]
pub struct Authorized<R>(R);

/// The refusal. It carries no reason on purpose: a reason would tell what exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied;

/// Decides whether `token` may do `request` at `now`.
///
/// # Errors
/// [`Denied`] when the token has expired or nothing grants the request.
pub fn authorize<R: Subject>(
    token: &Token,
    request: R,
    now: Timestamp,
) -> Result<Authorized<R>, Denied> {
    if token.is_expired(now) {
        return Err(Denied);
    }
    match token.kind {
        Kind::Root => Ok(Authorized(request)),
        Kind::Service => Err(Denied),
    }
}

impl<R> Deref for Authorized<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Ask(Path<'static>);

    impl Subject for Ask {
        fn operation(&self) -> Operation {
            Operation::Read
        }

        fn path(&self) -> &Path<'_> {
            &self.0
        }
    }

    fn token(kind: Kind, expires_at: Option<Timestamp>) -> Token {
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

    fn ask() -> Ask {
        Ask(Path::decode("secret/data/a").unwrap())
    }

    #[test]
    fn root_is_a_kind_and_not_a_policy_name() {
        let now = Timestamp::from_second(10).unwrap();
        assert!(authorize(&token(Kind::Root, None), ask(), now).is_ok());
        assert_eq!(authorize(&token(Kind::Service, None), ask(), now).unwrap_err(), Denied);
    }

    #[test]
    fn expiry_ends_a_token_at_its_instant() {
        let end = Timestamp::from_second(10).unwrap();
        let root = token(Kind::Root, Some(end));
        assert!(authorize(&root, ask(), Timestamp::from_second(9).unwrap()).is_ok());
        assert!(authorize(&root, ask(), end).is_err());
    }
}
