//! Policies: named lists of rules, read once from what their authors wrote.
//!
//! `core` stores the text and keeps the [`Policy`] beside it; [`crate::AclSet::compile`] turns the
//! policies of a caller into decisions. `name` says what a policy may be called, `read` gives
//! the words of a file their meaning, `constraints` are the fine print of a rule, `builtin` the
//! texts that a new cluster starts with.
//!
//! Invariants:
//! - A rule that this server cannot hold to (multi-factor methods, control groups, filters of
//!   listings) is refused when the policy is written, not ignored when it is used.
//! - Nothing can be called `root` and attached to a token: root is a kind of token.

mod builtin;
mod check;
mod constraints;
mod error;
pub mod limits;
mod literal;
mod name;
mod read;

use std::fmt;

use jiff::Timestamp;
use kallisto_hcl::TextPosition;

use crate::Capabilities;
use crate::pattern::Pattern;

pub use builtin::{DEFAULT_NAME, DEFAULT_TEXT, RESPONSE_WRAPPING_NAME, RESPONSE_WRAPPING_TEXT};
pub use check::{Checked, CheckedRule, Unreached, check};
pub use constraints::ConstraintRefusal;
pub(crate) use constraints::PolicyConstraints;
pub use error::PolicyError;
pub use literal::Literal;
pub use name::{NameError, PolicyName};

/// A policy as it was read.
#[derive(Clone)]
pub struct Policy {
    name: PolicyName,
    rules: Vec<PatternRule>,
    denies_stale_reads: bool,
}

/// What a policy says about one pattern.
#[derive(Clone, Debug)]
pub(crate) struct PatternRule {
    pub(crate) pattern: Pattern,
    pub(crate) at: TextPosition,
    pub(crate) capabilities: Capabilities,
    pub(crate) constraints: PolicyConstraints,
    /// From then on the rule says nothing.
    pub(crate) expires_at: Option<Timestamp>,
}

impl Policy {
    /// Reads `text`, in HCL or JSON, as the policy called `name`.
    ///
    /// # Errors
    /// [`PolicyError`], whose text names the path and what is wrong with it.
    pub fn parse(name: PolicyName, text: &str) -> Result<Self, PolicyError> {
        let (rules, denies_stale_reads) = read::read(text)?;
        Ok(Self { name, rules, denies_stale_reads })
    }

    /// What the policy is called.
    pub const fn name(&self) -> &PolicyName {
        &self.name
    }

    /// How many rules it has.
    pub const fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// Whether what it grants hangs on who has it: whether a pattern has a template.
    pub fn has_templates(&self) -> bool {
        self.rules.iter().any(|rule| rule.pattern.has_variables())
    }

    pub(crate) fn rules(&self) -> &[PatternRule] {
        &self.rules
    }

    /// Whether those who have it are never answered from a state of the past, whatever their other policies say.
    pub(crate) const fn denies_stale_reads(&self) -> bool {
        self.denies_stale_reads
    }

    /// What its author may want to know: rules with a template that nothing can ever resolve.
    pub fn warnings(&self) -> Vec<String> {
        self.rules.iter().filter_map(PatternRule::warning).collect()
    }
}

impl PatternRule {
    /// That it has a template which nothing can ever resolve, if so.
    fn warning(&self) -> Option<String> {
        let unknown: Vec<&str> = self.pattern.unknown_variables().collect();
        (!unknown.is_empty()).then(|| {
            let (path, names) = (&self.pattern.text, unknown.join("}}, {{"));
            format!("path \"{path}\" never applies: unknown template {{{{{names}}}}}")
        })
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
