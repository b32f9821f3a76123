//! Who may do what, as pure functions of (token, policies, request, now).
//!
//! This room owns the words that authorisation is made of: the canonical [`Path`], the
//! [`Operation`] asked for, the [`Token`] that asks, the [`Policy`] that grants, and the decision
//! [`authorize_by`], which turns a request into an [`Authorized`] one or a [`Denied`]. `core` calls
//! it for every request that is not on the short list of unauthenticated ones; handlers accept only
//! `Authorized<_>`, so a handler that forgot to ask cannot be written.
//!
//! How `core` uses it: it keeps one `Arc<Policy>` per stored policy, compiles an [`AclSet`] per
//! (policies, entity) and keeps that by generation until a policy, the entity or a group changes or
//! [`AclSet::stale_at`] comes; then every request costs one [`AclSet::decide`].
//!
//! Invariants:
//! - A path is decoded and checked once, by [`Path::decode`]; the value that was authorised is the
//!   value that is stored and audited. Two readings of one path are how `..`, `%2e` or another case get around a policy.
//! - Nothing here reads a clock, a disk or a socket: time is an argument.
//! - Deny is the default; root is a *kind* of token, never a policy name that could be attached.
#![forbid(unsafe_code)]

pub mod acl;
mod capability;
mod decision;
mod operation;
pub mod password;
mod path;
mod pattern;
pub mod policy;
mod subject;
mod template;
#[cfg(test)]
mod tests;
mod token;

pub use acl::{AclGrant, AclSet};
pub use capability::{Capabilities, Capability};
pub use decision::{Authorized, authorize_by, authorize_noting};
pub use operation::Operation;
pub use password::PasswordPolicy;
pub use path::{PATH_BYTES_MAX, Path, PathError, SEGMENTS_MAX};
pub use pattern::{PATTERN_BYTES_MAX, PATTERN_SEGMENTS_MAX, Precedence, Unresolved, fold_case};
pub use policy::{Literal, Policy, PolicyError, PolicyName};
pub use subject::{Denied, Subject};
pub use template::{NoIdentity, TemplateSubject, Variable};
pub use token::{Token, TokenKind, TokenStanding};

/// A moment, as tokens and rules have them.
pub use jiff::Timestamp;
