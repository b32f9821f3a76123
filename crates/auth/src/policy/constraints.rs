//! The fine print of a rule: which parameters, which wrapping, how long a listing.
//!
//! Rules of several policies for one pattern are merged into one ([`PolicyConstraints::merge`]), which
//! then judges a request ([`PolicyConstraints::refuse`]). Names of parameters have no case.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::Capability;
use crate::policy::Literal;
use crate::policy::literal::NumberRule;
use crate::subject::Subject;

/// The name that stands for every parameter.
const EVERY: &str = "*";
/// The one parameter that a listing can be required to have.
const LIMIT: &str = "limit";

/// Parameters by lower-case name, each with the values that it is about; none means any value.
pub(crate) type PolicyParameters = BTreeMap<String, Vec<Literal>>;

/// What a request must hold to besides having the capability.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PolicyConstraints {
    pub(crate) allowed: PolicyParameters,
    pub(crate) denied: PolicyParameters,
    pub(crate) required: BTreeSet<String>,
    pub(crate) wrap_ttl_min: Option<Duration>,
    pub(crate) wrap_ttl_max: Option<Duration>,
    pub(crate) page_entries_max: Option<u64>,
}

/// Which constraint a request did not hold to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintRefusal {
    /// The answer must be wrapped for at least and at most so long.
    WrapTtl,
    /// A page longer than `pagination_limit` was asked for.
    PageTooLong,
    /// The parameters could not be read.
    ParametersUnknown,
    /// A required parameter is missing.
    ParameterMissing,
    /// A denied parameter, or a denied value of one.
    ParameterDenied,
    /// A parameter that is not allowed, or a value of one that is not.
    ParameterNotAllowed,
}

impl PolicyConstraints {
    /// Takes in what another rule says of the same pattern.
    pub(crate) fn merge(&mut self, other: &Self) {
        merge_parameters(&mut self.allowed, &other.allowed);
        merge_parameters(&mut self.denied, &other.denied);
        self.required.extend(other.required.iter().cloned());
        self.wrap_ttl_min = smaller(self.wrap_ttl_min, other.wrap_ttl_min);
        self.wrap_ttl_max = smaller(self.wrap_ttl_max, other.wrap_ttl_max);
        self.page_entries_max = smaller(self.page_entries_max, other.page_entries_max);
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What `request` does not hold to, if anything.
    pub(crate) fn refuse(&self, request: &(impl Subject + ?Sized)) -> Option<ConstraintRefusal> {
        let wrap = request.wrap_ttl();
        let too_short = |least| wrap.is_none_or(|ttl| ttl < least);
        let too_long = |most| wrap.is_none_or(|ttl| ttl > most);
        if self.wrap_ttl_min.is_some_and(too_short) || self.wrap_ttl_max.is_some_and(too_long) {
            return Some(ConstraintRefusal::WrapTtl);
        }
        match request.capability() {
            Capability::List | Capability::Scan => {
                let most = self.page_entries_max?;
                match request.page_entries() {
                    // Who does not ask for pages would take the first one for all there is.
                    None if self.required.contains(LIMIT) => {
                        Some(ConstraintRefusal::ParameterMissing)
                    }
                    Some(asked) if asked > most => Some(ConstraintRefusal::PageTooLong),
                    _ => None,
                }
            }
            Capability::Create | Capability::Update | Capability::Patch | Capability::Read => {
                self.refuse_parameters(request)
            }
            Capability::Delete
            | Capability::Deny
            | Capability::Recover
            | Capability::Subscribe
            | Capability::Sudo => None,
        }
    }

    fn refuse_parameters(&self, request: &(impl Subject + ?Sized)) -> Option<ConstraintRefusal> {
        if self.required.is_empty() && self.denied.is_empty() && self.allowed.is_empty() {
            return None;
        }
        let Some(given) = request.parameters() else {
            return Some(ConstraintRefusal::ParametersUnknown);
        };
        // Routes know their fields by exact names: `TTL` is not the `ttl` that a rule requires.
        let is_given = |wanted: &String| given.iter().any(|(name, _)| *name == *wanted);
        if !self.required.iter().all(is_given) {
            return Some(ConstraintRefusal::ParameterMissing);
        }
        let given: Vec<_> =
            given.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
        if given.is_empty() {
            return None;
        }
        let is_denied = |(name, value): &(String, Literal)| {
            let listed = self.denied.get(name);
            listed.is_some_and(|listed| lists(listed, value, NumberRule::Compare))
        };
        if self.denied.contains_key(EVERY) || given.iter().any(is_denied) {
            return Some(ConstraintRefusal::ParameterDenied);
        }
        let allows_rest = self.allowed.is_empty() || self.allowed.contains_key(EVERY);
        let is_allowed = |(name, value): &(String, Literal)| match self.allowed.get(name) {
            Some(listed) if name != EVERY => lists(listed, value, NumberRule::Differ),
            _ => allows_rest,
        };
        (!given.iter().all(is_allowed)).then_some(ConstraintRefusal::ParameterNotAllowed)
    }
}

/// True when `value` is among `listed`, which is every value when it is empty.
fn lists(listed: &[Literal], value: &Literal, numbers: NumberRule) -> bool {
    listed.is_empty() || listed.iter().any(|rule| rule.covers(value, numbers))
}

/// Values of one parameter add up; a parameter that any rule opens for every value stays so.
fn merge_parameters(into: &mut PolicyParameters, other: &PolicyParameters) {
    for (name, values) in other {
        match into.get_mut(name) {
            Some(kept) if kept.is_empty() || values.is_empty() => kept.clear(),
            Some(kept) => kept.extend(values.iter().cloned()),
            None => {
                into.insert(name.clone(), values.clone());
            }
        }
    }
}

/// The smaller of what is there.
fn smaller<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
