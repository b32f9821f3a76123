//! What is wrong with a policy.
//!
//! The text goes back to whoever wrote the policy, so it may name a path, a key and a capability of
//! it. It never repeats a value of a parameter.

use std::fmt;

use kallisto_hcl::{Error as Syntax, Position};

use super::limits::RULES_MAX;
use crate::pattern::{PATTERN_BYTES_MAX, PATTERN_SEGMENTS_MAX};

/// A policy that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The path of the rule at fault, as written; `None` outside of rules.
    pub path: Option<String>,
    /// Where it is.
    pub at: Position,
    /// What it is.
    pub fault: PolicyFault,
}

/// What can be wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyFault {
    /// Neither HCL nor JSON, or not the blocks that a policy is made of.
    Syntax(&'static str),
    /// More than [`RULES_MAX`] rules.
    TooManyRules,
    /// A key that no policy has.
    UnknownKey(String),
    /// A key that other servers know and this one cannot hold to.
    UnsupportedKey(String),
    /// A word that is no capability.
    BadCapability(String),
    /// A word that the old `policy` key does not have.
    BadOldPolicy(String),
    /// Of another type than the key has.
    BadType {
        /// The key.
        key: &'static str,
        /// What it takes.
        expected: &'static str,
    },
    /// A span of time that is none.
    BadDuration(&'static str),
    /// A time that is none.
    BadExpiration,
    /// The most is less than the least.
    WrapTtlOrder,
    /// `+*`.
    MixedWildcards,
    /// A template without its end or start.
    UnbalancedTemplate,
    /// A pattern past its limits.
    PatternTooLong,
}

impl From<Syntax> for PolicyError {
    fn from(error: Syntax) -> Self {
        Self { path: None, at: error.at, fault: PolicyFault::Syntax(error.what) }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.as_deref().unwrap_or_default();
        if self.path.is_some() {
            write!(f, "path \"{path}\": ")?;
        }
        let Position { line, column } = self.at;
        match &self.fault {
            PolicyFault::Syntax(what) => write!(f, "At {}: {what}", self.at),
            PolicyFault::TooManyRules => write!(f, "more than {RULES_MAX} paths"),
            PolicyFault::UnknownKey(key) => {
                write!(f, "invalid key \"{key}\" on line {line}, column {column}")
            }
            PolicyFault::UnsupportedKey(key) => {
                write!(f, "key \"{key}\" on line {line} is not supported by this server")
            }
            // Clients know these with the path twice.
            PolicyFault::BadCapability(word) => {
                write!(f, "path \"{path}\": invalid capability \"{word}\"")
            }
            PolicyFault::BadOldPolicy(word) => {
                write!(f, "path \"{path}\": invalid policy \"{word}\"")
            }
            PolicyFault::BadType { key, expected } => {
                if self.path.is_some() {
                    write!(f, "path \"{path}\": ")?;
                }
                write!(f, "At {}: {key} is not {expected}", self.at)
            }
            PolicyFault::BadDuration(key) => {
                write!(f, "error parsing {key}: time: invalid duration")
            }
            PolicyFault::BadExpiration => write!(f, "path \"{path}\": invalid expiration time"),
            PolicyFault::WrapTtlOrder => {
                f.write_str("max_wrapping_ttl cannot be less than min_wrapping_ttl")
            }
            PolicyFault::MixedWildcards => {
                write!(f, "path \"{path}\": invalid use of wildcards ('+*' is forbidden)")
            }
            PolicyFault::UnbalancedTemplate => f.write_str(
                "failed to validate policy templating: unbalanced templating characters",
            ),
            PolicyFault::PatternTooLong => write!(
                f,
                "the path is longer than {PATTERN_BYTES_MAX} bytes or {PATTERN_SEGMENTS_MAX} \
                 segments"
            ),
        }
    }
}

impl std::error::Error for PolicyError {}
