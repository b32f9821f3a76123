//! What is wrong with a policy.
//!
//! The text goes back to whoever wrote the policy, so it may name a path, a key and a capability of
//! it. It never repeats a value of a parameter.

use std::fmt;

use kallisto_hcl::{Error as Syntax, TextPosition};

use super::limits::RULES_MAX;
use crate::pattern::{PATTERN_BYTES_MAX, PATTERN_SEGMENTS_MAX};

/// A policy that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The path of the rule at fault, as written; `None` outside of rules.
    pub path: Option<String>,
    /// Where it is.
    pub at: TextPosition,
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

impl PolicyError {
    /// What is wrong, with the path of the rule and without the place in the text.
    pub fn message(&self) -> String {
        match &self.path {
            Some(path) => format!("path \"{path}\": {}", self.fault),
            None => self.fault.to_string(),
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TextPosition { line, column } = self.at;
        match &self.fault {
            // As other servers say it.
            PolicyFault::Syntax(what) => {
                if let Some(path) = &self.path {
                    write!(f, "path \"{path}\": ")?;
                }
                write!(f, "At {}: {what}", self.at)
            }
            _ => write!(f, "{} on line {line}, column {column}", self.message()),
        }
    }
}

impl fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(what) => f.write_str(what),
            Self::TooManyRules => write!(f, "more than {RULES_MAX} paths"),
            Self::UnknownKey(key) => write!(f, "invalid key \"{key}\""),
            Self::UnsupportedKey(key) => {
                write!(f, "key \"{key}\" is not supported by this server")
            }
            Self::BadCapability(word) => write!(f, "invalid capability \"{word}\""),
            Self::BadOldPolicy(word) => write!(f, "invalid policy \"{word}\""),
            Self::BadType { key, expected } => write!(f, "{key} is not {expected}"),
            Self::BadDuration(key) => write!(f, "error parsing {key}: time: invalid duration"),
            Self::BadExpiration => f.write_str("invalid expiration time"),
            Self::WrapTtlOrder => {
                f.write_str("max_wrapping_ttl cannot be less than min_wrapping_ttl")
            }
            Self::MixedWildcards => f.write_str("invalid use of wildcards ('+*' is forbidden)"),
            Self::UnbalancedTemplate => f.write_str(
                "failed to validate policy templating: unbalanced templating characters",
            ),
            Self::PatternTooLong => write!(
                f,
                "the path is longer than {PATTERN_BYTES_MAX} bytes or {PATTERN_SEGMENTS_MAX} \
                 segments"
            ),
        }
    }
}

impl std::error::Error for PolicyError {}
