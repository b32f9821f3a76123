//! The access decision over a set of policies, compiled once and asked often.
//!
//! `core` compiles an [`AclSet`] per (policies, caller), keeps it by generation, and asks it for
//! every request of a token that is not root. `compile` merges the rules of all
//! policies by pattern and ranks them, `table` finds the highest that matches a path, this file
//! judges a request by it, and `explain` says afterwards why.
//!
//! Which rule speaks, in this order (Vault's rules, and two stricter ones for denials):
//! 1. An exact pattern, else the one with the later first wildcard, else the one without a final
//!    `*`, else the one with fewer `+`, else the longer one.
//! 2. Of rules that are equal so far a denial speaks first, then the greater text.
//! 3. Denials match without regard to case, everything else with: a secret cannot be reached by
//!    another spelling of a path that is denied.
//! 4. Where what a path names is one thing in every case ([`Subject::caseless_path`]), the rule that would speak if no
//!    rule had case has to grant the request, too: a narrower rule is not passed by in another case.
//! 5. A listing of `p` and of `p/` is one question: rules for `p/` are asked first, then those for
//!    `p`, and of either kind the exact ones first; but a denial of the other form that is more
//!    specific than the answer so found is not passed by.
//!
//! Only one rule speaks; capabilities of different patterns are never added up. Without a rule
//! there is no access.

mod compile;
mod explain;
mod table;

use std::sync::Arc;

use jiff::Timestamp;

use crate::pattern::{ResolvedPattern, Unresolved, fold_case};
use crate::policy::{ConstraintRefusal, Policy, PolicyConstraints, PolicyName};
use crate::subject::{Denied, Subject};
use crate::{Capabilities, Capability};
pub use explain::{Dropped, Explanation, LostRule, PolicyRule, Reason, RuleReport};
use table::{PatternTable, Rank};

/// The compiled policies of a caller. Immutable; share it by `Arc`.
#[derive(Debug, Default)]
pub struct AclSet {
    /// By rank.
    rules: Box<[Merged]>,
    /// The ranks from here on are those of exact patterns.
    exact_from: Rank,
    table: PatternTable,
    /// The rules that may match a path that has no case, without case. `None` when there are none.
    caseless: Option<PatternTable>,
    /// The denials, without case. `None` when there are none.
    denials: Option<PatternTable>,
    dropped: Box<[SkippedRule]>,
    stale_at: Option<Timestamp>,
    denies_stale_reads: bool,
}

/// Nodes of a tree of patterns that are visited in some hundred microseconds.
const WIDE_NODES: usize = 4_096;

/// Everything that a set's policies say of one pattern.
#[derive(Debug)]
struct Merged {
    pattern: ResolvedPattern,
    capabilities: Capabilities,
    /// `None` when nothing is asked for beyond a capability.
    constraints: Option<Box<PolicyConstraints>>,
    parts: Box<[PolicyPart]>,
}

/// A rule of a policy.
#[derive(Clone, Debug)]
struct PolicyPart {
    policy: Arc<Policy>,
    rule: usize,
}

/// A rule that says nothing about this caller.
#[derive(Debug)]
struct SkippedRule {
    part: PolicyPart,
    why: SkipReason,
}

/// Why a rule says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// Its template does not resolve for the caller.
    Template(Unresolved),
    /// Its `expiration` has passed.
    Expired,
}

/// A granted request.
#[derive(Clone, Copy, Debug)]
pub struct AclGrant<'a> {
    rule: &'a Merged,
    capability: Capability,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleVerdict {
    Granted(Rank),
    NoRule,
    Denied(Rank),
    Lacks(Rank, Capability),
    Refused(Rank, ConstraintRefusal),
}

/// Which question a path is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathLook {
    /// The path as it is.
    Entry,
    /// The path with and without a slash at its end.
    Folder,
}

impl AclSet {
    /// Whether one of its policies forbids that its bearer is answered from a state of the past.
    pub const fn denies_stale_reads(&self) -> bool {
        self.denies_stale_reads
    }

    /// Decides about `request`.
    ///
    /// # Errors
    /// [`Denied`] unless a rule grants it; why, only [`AclSet::explain`] says.
    pub fn decide(&self, request: &(impl Subject + ?Sized)) -> Result<AclGrant<'_>, Denied> {
        match self.judge(request) {
            RuleVerdict::Granted(rank) => {
                let rule = &self.rules[rank as usize];
                Ok(AclGrant { rule, capability: request.capability() })
            }
            RuleVerdict::NoRule
            | RuleVerdict::Denied(_)
            | RuleVerdict::Lacks(..)
            | RuleVerdict::Refused(..) => Err(Denied),
        }
    }

    /// What the caller may do at `path`, as `sys/capabilities` answers: a path that ends in a slash
    /// also takes what a rule says of it without.
    pub fn capabilities(&self, path: &str) -> Capabilities {
        let look = if path.ends_with('/') { PathLook::Folder } else { PathLook::Entry };
        let rank = self.rank(path, look);
        rank.map_or(Capabilities::NONE, |rank| self.rules[rank as usize].capabilities)
    }

    /// The same at a path with names that have no case ([`Subject::caseless_path`]): what both rules grant that are asked.
    pub fn capabilities_caseless(&self, path: &str, caseless: &str) -> Capabilities {
        let own = self.capabilities(path);
        let look = if path.ends_with('/') { PathLook::Folder } else { PathLook::Entry };
        match (self.rank(path, look), self.caseless_rank(caseless, look)) {
            (Some(rank), Some(other)) if other > rank => {
                own.common(self.rules[other as usize].capabilities)
            }
            _ => own,
        }
    }

    /// True when some rule grants something at or below `folder`, such as a mount's path. One broad
    /// denial hides nothing here: a narrower rule may still grant.
    pub fn reaches(&self, folder: &str) -> bool {
        let reaches =
            |rule: &Merged| !rule.capabilities.grants_nothing() && rule.pattern.reaches(folder);
        self.rules.iter().any(reaches)
    }

    /// Whether a decision may look at thousands of patterns: those with `+` are tried side by side, and a path may fit the
    /// beginnings of many.
    pub fn is_wide(&self) -> bool {
        let denials = self.denials.as_ref().map_or(0, PatternTable::nodes);
        self.table.nodes().max(denials) > WIDE_NODES
    }

    /// From when on the set must be compiled anew, because a rule expires.
    pub const fn stale_at(&self) -> Option<Timestamp> {
        self.stale_at
    }

    /// Every rule of the set, the most specific last.
    pub fn rules(&self) -> impl Iterator<Item = RuleReport> {
        self.rules.iter().map(RuleReport::of)
    }

    /// How many rules it has.
    pub const fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// The rules that say nothing about its caller, whatever their pattern.
    pub fn dropped(&self) -> impl Iterator<Item = Dropped> {
        self.dropped.iter().map(Dropped::of)
    }

    fn judge(&self, request: &(impl Subject + ?Sized)) -> RuleVerdict {
        let capability = request.capability();
        let look = match capability {
            Capability::List | Capability::Scan => PathLook::Folder,
            Capability::Create
            | Capability::Delete
            | Capability::Deny
            | Capability::Patch
            | Capability::Read
            | Capability::Recover
            | Capability::Subscribe
            | Capability::Sudo
            | Capability::Update => PathLook::Entry,
        };
        let Some(rank) = self.rank(request.path().as_str(), look) else {
            return RuleVerdict::NoRule;
        };
        let verdict = self.judge_by(rank, request);
        let caseless = request.caseless_path().filter(|_| verdict == RuleVerdict::Granted(rank));
        match caseless.and_then(|path| self.caseless_rank(path, look)) {
            Some(other) if other > rank => self.judge_by(other, request),
            _ => verdict,
        }
    }

    /// What a rule says of a request.
    fn judge_by(&self, rank: Rank, request: &(impl Subject + ?Sized)) -> RuleVerdict {
        let capability = request.capability();
        let rule = &self.rules[rank as usize];
        let held = rule.capabilities;
        if held.is_denial() {
            RuleVerdict::Denied(rank)
        } else if !held.has(capability) {
            RuleVerdict::Lacks(rank, capability)
        } else if request.needs_sudo() && !held.has(Capability::Sudo) {
            RuleVerdict::Lacks(rank, Capability::Sudo)
        } else if let Some(refusal) = rule.constraints.as_ref().and_then(|c| c.refuse(request)) {
            RuleVerdict::Refused(rank, refusal)
        } else {
            RuleVerdict::Granted(rank)
        }
    }

    /// The rule that speaks for `path`.
    fn rank(&self, path: &str, look: PathLook) -> Option<Rank> {
        self.rank_by(path, look, &|path| self.rank_of(path))
    }

    /// The rule that would speak if none had case.
    fn caseless_rank(&self, path: &str, look: PathLook) -> Option<Rank> {
        let table = self.caseless.as_ref()?;
        self.rank_by(&fold_case(path), look, &|path| table.best(path))
    }

    fn rank_by(
        &self,
        path: &str,
        look: PathLook,
        rank_of: &dyn Fn(&str) -> Option<Rank>,
    ) -> Option<Rank> {
        if path.is_empty() {
            // What is above all mounts has one spelling: `/` would be a folder with an empty name.
            return rank_of(path);
        }
        let bare = path.strip_suffix('/');
        let (bare, with_slash) = match (look, bare) {
            (PathLook::Entry, None) => return rank_of(path),
            (PathLook::Entry, Some(bare)) => {
                let found = rank_of(path)?;
                return Some(self.unless_denied(found, rank_of(bare)));
            }
            (PathLook::Folder, None) => (path, rank_of(&format!("{path}/"))),
            (PathLook::Folder, Some(bare)) => (bare, rank_of(path)),
        };
        let without = rank_of(bare);
        let is_exact = |rank: &Rank| *rank >= self.exact_from;
        let exact = with_slash.filter(is_exact).or(without.filter(is_exact));
        let found = exact.or(with_slash).or(without)?;
        Some(self.unless_denied(found, with_slash.max(without)))
    }

    /// `found`, unless `other` is a denial and more specific.
    fn unless_denied(&self, found: Rank, other: Option<Rank>) -> Rank {
        let is_denial = |rank: &Rank| self.rules[*rank as usize].capabilities.is_denial();
        other.filter(is_denial).map_or(found, |other| found.max(other))
    }

    fn rank_of(&self, path: &str) -> Option<Rank> {
        let found = self.table.best(path);
        match &self.denials {
            None => found,
            Some(denials) => found.max(denials.best(&fold_case(path))),
        }
    }
}

impl AclGrant<'_> {
    /// Everything that the rule grants at the path.
    pub const fn capabilities(&self) -> Capabilities {
        self.rule.capabilities
    }

    /// Most entries on a page of a listing.
    pub fn page_entries_max(&self) -> Option<u64> {
        self.rule.constraints.as_ref().and_then(|constraints| constraints.page_entries_max)
    }

    /// The policies that grant it, for the audit record: sorted, each once.
    pub fn policies(&self) -> Vec<&PolicyName> {
        let grants =
            |part: &&PolicyPart| part.policy.rules()[part.rule].capabilities.has(self.capability);
        let mut names: Vec<_> =
            self.rule.parts.iter().filter(grants).map(|part| part.policy.name()).collect();
        names.sort();
        names.dedup();
        names
    }
}
