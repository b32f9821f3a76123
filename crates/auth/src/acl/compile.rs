//! From the policies of a caller to a set that answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::table::{PatternTable, Rank};
use super::{AclSet, Merged, PolicyPart, SkipReason, SkippedRule};
use crate::Capabilities;
use crate::pattern::{PatternUse, ResolvedPattern};
use crate::policy::{Policy, PolicyConstraints};
use crate::template::TemplateSubject;

impl AclSet {
    /// Compiles `policies` for the caller that `identity` describes, as of `now`.
    ///
    /// The order of the policies means nothing. The set is valid until [`AclSet::stale_at`].
    pub fn compile(
        policies: &[Arc<Policy>],
        identity: &dyn TemplateSubject,
        now: Timestamp,
    ) -> Self {
        Self::compile_below(policies, identity, "", now)
    }

    /// The same, for requests in a namespace below that of the policies: `below` is its path from
    /// there, whole segments with an ending slash, and the set speaks of paths inside it.
    ///
    /// What a grant says of another namespace it has to spell: only one that is written with `below`
    /// in front counts, and counts without it. So no wildcard and no template reaches into a namespace
    /// that was made later. A denial counts wherever it matches, since it can only take away.
    pub fn compile_below(
        policies: &[Arc<Policy>],
        identity: &dyn TemplateSubject,
        below: &str,
        now: Timestamp,
    ) -> Self {
        let mut draft = AclDraft { below, ..AclDraft::default() };
        for policy in policies {
            for rule in 0..policy.rules().len() {
                draft.take(PolicyPart { policy: Arc::clone(policy), rule }, identity, now);
            }
        }
        let denied = |policy: &Arc<Policy>| policy.denies_stale_reads();
        Self { denies_stale_reads: policies.iter().any(denied), ..draft.finish() }
    }
}

/// Below which paths may have no case. What is elsewhere, secrets above all, needs no second table.
const CASELESS: [&str; 3] = ["auth/", "identity/", "sys/"];

/// A set in the making.
#[derive(Default)]
struct AclDraft<'b> {
    /// The path from the policies' namespace to the request's.
    below: &'b str,
    merged: BTreeMap<ResolvedPattern, Vec<PolicyPart>>,
    skipped: Vec<SkippedRule>,
    stale_at: Option<Timestamp>,
}

impl AclDraft<'_> {
    fn take(&mut self, part: PolicyPart, identity: &dyn TemplateSubject, now: Timestamp) {
        let rule = &part.policy.rules()[part.rule];
        if let Some(end) = rule.expires_at {
            if end <= now {
                self.skipped.push(SkippedRule { part, why: SkipReason::Expired });
                return;
            }
            self.stale_at = Some(self.stale_at.map_or(end, |soonest| soonest.min(end)));
        }
        let use_of =
            if rule.capabilities.is_denial() { PatternUse::Denial } else { PatternUse::Grant };
        if use_of == PatternUse::Grant && !rule.pattern.spells(self.below) {
            return;
        }
        let resolved = rule.pattern.resolve(identity, use_of);
        match resolved.map(|pattern| pattern.below(self.below, use_of)) {
            Ok(Some(pattern)) => self.merged.entry(pattern).or_default().push(part),
            // It speaks of other namespaces.
            Ok(None) => {}
            Err(why) => self.skipped.push(SkippedRule { part, why: SkipReason::Template(why) }),
        }
    }

    fn finish(self) -> AclSet {
        let mut rules: Vec<Merged> =
            self.merged.into_iter().map(|(pattern, parts)| merge(pattern, parts)).collect();
        rules.sort_by_cached_key(|rule| {
            let is_denial = rule.capabilities.is_denial();
            (rule.pattern.specificity(), is_denial, rule.pattern.to_string(), rule.pattern.clone())
        });
        let ranked = || rules.iter().zip(0 as Rank..);
        let all: Vec<_> = ranked().map(|(rule, rank)| (rule.pattern.clone(), rank)).collect();
        let denials: Vec<_> = ranked()
            .filter(|(rule, _)| rule.capabilities.is_denial())
            .map(|(rule, rank)| (rule.pattern.folded(), rank))
            .collect();
        let caseless: Vec<_> = ranked()
            .filter(|(rule, _)| CASELESS.iter().any(|folder| rule.pattern.reaches(folder)))
            .map(|(rule, rank)| (rule.pattern.folded(), rank))
            .collect();
        let wild = |rule: &&Merged| rule.pattern.is_prefix || rule.pattern.has_any();
        let exact_from = rules.iter().take_while(wild).count();
        AclSet {
            exact_from: Rank::try_from(exact_from).expect("ranks number the rules"),
            table: PatternTable::new(&all),
            caseless: if caseless.is_empty() { None } else { Some(PatternTable::new(&caseless)) },
            denials: if denials.is_empty() { None } else { Some(PatternTable::new(&denials)) },
            rules: rules.into(),
            dropped: self.skipped.into(),
            stale_at: self.stale_at,
            denies_stale_reads: false,
        }
    }
}

/// Adds up what the parts say. A denial leaves nothing to constrain.
fn merge(pattern: ResolvedPattern, parts: Vec<PolicyPart>) -> Merged {
    let mut capabilities = Capabilities::NONE;
    let mut constraints = PolicyConstraints::default();
    for part in &parts {
        let rule = &part.policy.rules()[part.rule];
        capabilities = capabilities.union(rule.capabilities);
        constraints.merge(&rule.constraints);
    }
    let is_bare = constraints.is_empty() || capabilities.is_denial();
    let constraints = if is_bare { None } else { Some(Box::new(constraints)) };
    Merged { pattern, capabilities, constraints, parts: parts.into() }
}
