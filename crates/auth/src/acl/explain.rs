//! Why a decision fell as it did: the rule that spoke, the rules that lost, the rules left out.
//!
//! For people, not for the path of a request: it looks at every rule. The verdict comes from the
//! same function that decides, so an explanation cannot contradict the decision.

use super::{AclSet, Capability, Merged, PolicyPart, Rank, RuleVerdict, SkipReason, SkippedRule};
use crate::Capabilities;
use crate::pattern::{Precedence, fold_case};
use crate::policy::ConstraintRefusal;
use crate::subject::Subject;

/// A decision and its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The reason of the decision, which says whether the request is granted.
    pub reason: Reason,
    /// The rule that spoke.
    pub decided_by: Option<RuleReport>,
    /// The rules that match too and were not asked, the most specific first.
    pub lost: Vec<LostRule>,
    /// The rules that say nothing about this caller, whatever their pattern.
    pub dropped: Vec<Dropped>,
}

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The rule grants what was asked.
    Granted,
    /// No rule matches the path.
    NoRule,
    /// The rule denies everything.
    Denied,
    /// As [`Reason::Denied`], by a pattern that differs from the path in case.
    DeniedWithoutCase,
    /// The rule does not have this capability.
    Lacks(Capability),
    /// The rule asks for something besides the capability.
    Refused(ConstraintRefusal),
}

/// A rule of the set, merged from every policy that has its pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleReport {
    /// The pattern, with the caller's values in it.
    pub pattern: String,
    /// True when the pattern has no wildcard.
    pub is_exact: bool,
    /// What it grants.
    pub capabilities: Capabilities,
    /// True when it asks for more than a capability.
    pub is_constrained: bool,
    /// Where it comes from.
    pub sources: Vec<PolicyRule>,
}

/// A rule as a policy has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// The policy.
    pub policy: String,
    /// The line of the policy's text on which the rule's pattern stands.
    pub line: u32,
    /// The pattern, as written.
    pub pattern: String,
    /// What this rule alone grants.
    pub capabilities: Capabilities,
}

/// A rule that matches and was not asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRule {
    /// The rule.
    pub rule: RuleReport,
    /// In what the rule that spoke was ahead of it.
    pub to: Precedence,
}

/// A rule that was left out of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The rule.
    pub source: PolicyRule,
    /// Why.
    pub why: SkipReason,
}

impl Explanation {
    /// True when the request is granted.
    pub fn is_granted(&self) -> bool {
        self.reason == Reason::Granted
    }
}

impl AclSet {
    /// Decides about `request` and says why.
    pub fn explain(&self, request: &(impl Subject + ?Sized)) -> Explanation {
        let (spoke, reason) = match self.judge(request) {
            RuleVerdict::Granted(rank) => (Some(rank), Reason::Granted),
            RuleVerdict::NoRule => (None, Reason::NoRule),
            RuleVerdict::Denied(rank) if self.matches(rank, request, Case::Kept) => {
                (Some(rank), Reason::Denied)
            }
            RuleVerdict::Denied(rank) => (Some(rank), Reason::DeniedWithoutCase),
            RuleVerdict::Lacks(rank, capability) => (Some(rank), Reason::Lacks(capability)),
            RuleVerdict::Refused(rank, refusal) => (Some(rank), Reason::Refused(refusal)),
        };
        let winner = spoke.map(|rank| &self.rules[rank as usize]);
        let count = Rank::try_from(self.rules.len()).expect("ranks number the rules");
        let others = (0..count).rev().filter(|rank| Some(*rank) != spoke);
        let matching = others.filter(|rank| {
            self.matches(*rank, request, Case::Kept) || self.matches(*rank, request, Case::Folded)
        });
        let lost = matching.filter_map(|rank| {
            let rule = &self.rules[rank as usize];
            Some(LostRule { rule: RuleReport::of(rule), to: precedence(winner?, rule) })
        });
        Explanation {
            reason,
            decided_by: winner.map(RuleReport::of),
            lost: lost.collect(),
            dropped: self.dropped.iter().map(Dropped::of).collect(),
        }
    }

    /// True when a rule matches the path of `request`; only denials match without case, and of an
    /// entry whose path ends in a slash only denials match it without.
    fn matches(&self, rank: Rank, request: &(impl Subject + ?Sized), case: Case) -> bool {
        let rule = &self.rules[rank as usize];
        let is_denial = rule.capabilities.is_denial();
        let path = request.path().as_str();
        let is_listing = matches!(request.capability(), Capability::List | Capability::Scan);
        let mut asked = vec![path.to_owned()];
        match path.strip_suffix('/') {
            Some(bare) if is_listing || is_denial => asked.push(bare.to_owned()),
            None if is_listing && !path.is_empty() => asked.push(format!("{path}/")),
            _ => {}
        }
        match case {
            Case::Kept => asked.iter().any(|path| rule.pattern.matches(path)),
            Case::Folded => {
                let pattern = rule.pattern.folded();
                is_denial && asked.iter().any(|path| pattern.matches(&fold_case(path)))
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Case {
    Kept,
    Folded,
}

/// In what `winner` is ahead of `loser`.
fn precedence(winner: &Merged, loser: &Merged) -> Precedence {
    let (ahead, behind) = (winner.pattern.specificity(), loser.pattern.specificity());
    match ahead.over(&behind) {
        // Only the form of a listing's path puts a rule before a more specific one.
        Some(_) if ahead < behind => Precedence::WithSlash,
        Some(by_pattern) => by_pattern,
        None if winner.capabilities.is_denial() != loser.capabilities.is_denial() => {
            Precedence::Denial
        }
        None => Precedence::GreaterText,
    }
}

impl RuleReport {
    pub(super) fn of(rule: &Merged) -> Self {
        Self {
            pattern: rule.pattern.to_string(),
            is_exact: !rule.pattern.is_prefix && !rule.pattern.has_any(),
            capabilities: rule.capabilities,
            is_constrained: rule.constraints.is_some(),
            sources: rule.parts.iter().map(PolicyRule::of).collect(),
        }
    }
}

impl PolicyRule {
    fn of(part: &PolicyPart) -> Self {
        let rule = &part.policy.rules()[part.rule];
        Self {
            policy: part.policy.name().to_string(),
            line: rule.at.line,
            pattern: rule.pattern.text.clone(),
            capabilities: rule.capabilities,
        }
    }
}

impl Dropped {
    pub(super) fn of(skipped: &SkippedRule) -> Self {
        Self { source: PolicyRule::of(&skipped.part), why: skipped.why }
    }
}
