//! Leases: how credentials that a far end made are handed out, and how they end.
//!
//! An engine names what it would take to revoke a credential *before* the credential is made: names are drawn first. The server
//! stores that, lets the engine make the credential, and stores that it was made. Whatever fails or crashes in between
//! is rolled back by [`EngineLeases::revoke`], which is called again until it succeeds or an operator is needed.

use std::fmt;
use std::ops::Deref;

use jiff::Timestamp;
use kallisto_api::{BoxFuture, Error, Json, Response};

use crate::context::EngineContext;

/// A lease that a handler asks for. Times are in seconds; 0 leaves them to the mount and the server.
#[derive(Clone, Default)]
pub struct NewLease {
    /// What the request asks for.
    pub ttl_secs: u64,
    /// What the role says when the request asks for nothing.
    pub role_default_secs: u64,
    /// The most that the role gives, from the issue time.
    pub role_max_secs: u64,
    /// Whether it may be renewed.
    pub renewable: bool,
    /// What [`EngineLeases::revoke`] needs, whatever becomes of the role and the configuration.
    pub revocation: Vec<u8>,
}

/// A credential that was made.
#[derive(Clone)]
pub struct MadeCredential {
    /// The data of the answer.
    pub data: Json,
    /// When it ends, where that is before its lease was to end: the lease ends then.
    pub ends: Option<Timestamp>,
    /// What [`EngineLeases::revoke`] needs from now on, where that is not what [`NewLease::revocation`] said.
    pub revocation: Option<Vec<u8>>,
    /// What the caller should know besides.
    pub warnings: Vec<String>,
}

/// Why no credential was made.
#[derive(Debug, PartialEq, Eq)]
pub struct MakeFailure {
    /// What a client hears.
    pub error: Error,
    /// What there is to take back all the same.
    pub left: Leftover,
}

/// What there is to take back of a credential that was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// What [`NewLease::revocation`] says, or a part of it: how far the far end came is not known.
    AsPlanned,
    /// Nothing: the far end is known to have made none. Nothing is revoked then: what has the name of the credential is somebody else's.
    Nothing,
    /// What this takes back, in place of [`NewLease::revocation`].
    Only(Vec<u8>),
}

/// Makes a credential that lives until the given time.
pub type Make<'a> =
    Box<dyn FnOnce(Timestamp) -> BoxFuture<'a, Result<MadeCredential, MakeFailure>> + Send + 'a>;

/// Whether a [`NewLease::revocation`] is one that is looked for.
pub type IsRevocation<'a> = Box<dyn Fn(&[u8]) -> bool + Send + Sync + 'a>;

/// Hands out credentials with leases, which belong to the caller's token.
pub trait Leases: Sync {
    /// Makes a credential with a lease, and the answer with both. What `make` calls ends in less than a minute.
    ///
    /// # Errors
    /// What `make` says; the credential is taken back then, unless it is known that there is none.
    fn issue<'a>(
        &'a self,
        lease: NewLease,
        make: Make<'a>,
    ) -> BoxFuture<'a, Result<Response, Error>>;

    /// Whether the mount has a lease for whose revocation `is_it` is true. All of its leases may be looked at.
    ///
    /// # Errors
    /// When a lease cannot be read.
    fn any<'a>(&'a self, is_it: IsRevocation<'a>) -> BoxFuture<'a, Result<bool, Error>>;
}

/// How the leases of an engine end, and are renewed.
#[derive(Clone, Copy)]
pub struct EngineLeases {
    /// Takes a credential back. One that is not there (any more) is a success: it is called for credentials that were never made,
    /// and again after a crash. [`Error::Unavailable`] says that the far end was not asked or not heard: it is called again until it is. Of any
    /// other error there are a few, then the lease is irrevocable.
    pub revoke: for<'a> fn(LeaseCall<'a>) -> BoxFuture<'a, Result<(), Error>>,
    /// Lets a credential live until the given time, or refuses.
    pub renew: for<'a> fn(LeaseCall<'a>, Timestamp) -> BoxFuture<'a, Result<(), Error>>,
    /// What the role of a lease says of lifetimes by now, which bounds a renewal.
    pub role_ttl: for<'a> fn(LeaseCall<'a>) -> Result<RoleTtl, Error>,
}

/// What a role says of the lifetimes of its leases, in seconds; 0 leaves them to the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleTtl {
    /// What is given to a request that asks for nothing.
    pub default_secs: u64,
    /// The most, from the issue time.
    pub max_secs: u64,
}

/// A lease, and what the engine may use.
#[derive(Clone, Copy)]
pub struct LeaseCall<'a> {
    /// What the engine may use at any time.
    pub context: EngineContext<'a>,
    /// The path that the lease was asked for at, with that of its mount then.
    pub path: &'a str,
    /// As in [`NewLease::revocation`].
    pub revocation: &'a [u8],
}

impl LeaseCall<'_> {
    /// Logs that what the lease keeps is damaged: where it was asked for, and nothing of what it says.
    pub fn damaged(&self) -> Error {
        let (path, mount) = (self.path, self.mount.path);
        Error::internal(&format_args!("a lease of {mount} is damaged, which {path:?} gave"))
    }
}

impl<'a> Deref for LeaseCall<'a> {
    type Target = EngineContext<'a>;

    fn deref(&self) -> &Self::Target {
        &self.context
    }
}

impl From<Json> for MadeCredential {
    fn from(data: Json) -> Self {
        Self { data, ends: None, revocation: None, warnings: Vec::new() }
    }
}

impl From<Error> for MakeFailure {
    fn from(error: Error) -> Self {
        Self { error, left: Leftover::AsPlanned }
    }
}

impl fmt::Debug for MadeCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MadeCredential").field("ends", &self.ends).finish_non_exhaustive()
    }
}

impl fmt::Debug for NewLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewLease").field("ttl_secs", &self.ttl_secs).finish_non_exhaustive()
    }
}

impl fmt::Debug for EngineLeases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineLeases")
    }
}

impl fmt::Debug for LeaseCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseCall").field("path", &self.path).finish_non_exhaustive()
    }
}
