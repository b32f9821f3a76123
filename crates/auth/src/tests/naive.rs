//! The decision the plain way: the contract's sentences one after another, over the texts of
//! patterns, with none of the crate's own types. Slow, and easy to check by reading.

use std::collections::{BTreeMap, BTreeSet};

/// A rule as a policy writes it, its template replaced.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) pattern: String,
    pub(crate) capabilities: BTreeSet<&'static str>,
    pub(crate) parameters: Parameters,
}

/// What all rules say of one pattern.
#[derive(Clone, Debug)]
pub(crate) struct Spoken {
    pub(crate) pattern: String,
    pub(crate) capabilities: BTreeSet<&'static str>,
    /// Those of each rule.
    parameters: Vec<Parameters>,
}

/// A name of a parameter and its values; none stand for any value.
pub(crate) type ListedParameter = (&'static str, Vec<&'static str>);

/// What a rule says of parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    pub(crate) allowed: Vec<ListedParameter>,
    pub(crate) denied: Vec<ListedParameter>,
    pub(crate) required: Vec<&'static str>,
}

impl Spoken {
    /// Whether it takes a request with these parameters.
    pub(crate) fn takes(&self, given: &[(&str, &str)]) -> bool {
        let all = |kind: fn(&Parameters) -> &Vec<ListedParameter>| {
            self.parameters.iter().flat_map(move |parameters| kind(parameters).iter())
        };
        let required = self.parameters.iter().flat_map(|parameters| &parameters.required);
        for wanted in required {
            if !given.iter().any(|(name, _)| name == wanted) {
                return false;
            }
        }
        let denied = || all(|parameters| &parameters.denied);
        let allowed = || all(|parameters| &parameters.allowed);
        given.iter().all(|(name, value)| {
            let is_listed = |listed: &[&(&str, Vec<&str>)]| {
                let is_any = listed.iter().any(|(_, values)| values.is_empty());
                let mut values = listed.iter().flat_map(|(_, values)| values);
                is_any || values.any(|glob| covers(glob, value))
            };
            let denials: Vec<_> = denied().filter(|(of, _)| same_name(of, name)).collect();
            if denied().any(|(of, _)| *of == "*") || (!denials.is_empty() && is_listed(&denials)) {
                return false;
            }
            let grants: Vec<_> =
                allowed().filter(|(of, _)| *of != "*" && same_name(of, name)).collect();
            if grants.is_empty() {
                allowed().next().is_none() || allowed().any(|(of, _)| *of == "*")
            } else {
                is_listed(&grants)
            }
        })
    }
}

fn same_name(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

/// A value of a rule may be open at either end.
fn covers(glob: &str, value: &str) -> bool {
    let (starts_open, ends_open) = (glob.starts_with('*'), glob.ends_with('*'));
    let fixed = glob.trim_matches('*');
    match (starts_open, ends_open) {
        (false, false) => value == fixed,
        (true, false) => value.ends_with(fixed),
        (false, true) => value.starts_with(fixed),
        (true, true) => value.contains(fixed),
    }
}

/// The rule that speaks for `path`.
///
/// A listing asks for the path with a slash, then for it without; exact rules of either first. A
/// denial for the path without its slash that is ahead of the rule so found takes its place.
pub(crate) fn speaker(rules: &[Rule], path: &str, is_listing: bool) -> Option<Spoken> {
    let bare = path.strip_suffix('/').unwrap_or(path);
    let slashed = slashed(bare);
    let found = if is_listing {
        let exact = |path: &str| {
            first(&candidates(rules, path)).filter(|rule| shape(&rule.pattern).is_exact)
        };
        exact(&slashed)
            .or_else(|| exact(bare))
            .or_else(|| first(&candidates(rules, &slashed)))
            .or_else(|| first(&candidates(rules, bare)))
    } else {
        first(&candidates(rules, path))
    }?;
    let mut rivals = candidates(rules, bare);
    if is_listing {
        rivals.extend(candidates(rules, &slashed));
    }
    let denial = first(&rivals).filter(|rule| rule.capabilities.contains("deny"));
    let is_ahead = |denial: &Spoken| is_ahead(denial, &found) && (is_listing || path != bare);
    Some(denial.filter(is_ahead).unwrap_or(found))
}

/// The path as a folder; what is above all mounts is one as it is.
fn slashed(bare: &str) -> String {
    if bare.is_empty() { String::new() } else { format!("{bare}/") }
}

fn first(rules: &[Spoken]) -> Option<Spoken> {
    let best = rules.iter().reduce(|best, other| if is_ahead(other, best) { other } else { best });
    best.cloned()
}

/// The patterns that an explanation lists: those that match one of the forms that were asked.
pub(crate) fn explained(rules: &[Rule], path: &str, is_listing: bool) -> BTreeSet<String> {
    let bare = path.strip_suffix('/').unwrap_or(path);
    let mut found = candidates(rules, path);
    if is_listing {
        found.extend(candidates(rules, &slashed(bare)));
        found.extend(candidates(rules, bare));
    } else {
        let denials = candidates(rules, bare).into_iter();
        found.extend(denials.filter(|rule| rule.capabilities.contains("deny")));
    }
    found.into_iter().map(|rule| rule.pattern).collect()
}

/// Every rule that matches, merged by pattern.
fn candidates(rules: &[Rule], path: &str) -> Vec<Spoken> {
    let mut merged: BTreeMap<String, (BTreeSet<&'static str>, Vec<Parameters>)> = BTreeMap::new();
    for rule in rules {
        let pattern = rule.pattern.strip_prefix('/').unwrap_or(&rule.pattern);
        let (capabilities, parameters) = merged.entry(pattern.to_owned()).or_default();
        capabilities.extend(&rule.capabilities);
        parameters.push(rule.parameters.clone());
    }
    let mut found = Vec::new();
    for (pattern, (mut capabilities, parameters)) in merged {
        let is_denial = capabilities.contains("deny");
        if is_denial {
            capabilities = ["deny"].into();
        }
        let folds = || matches(&pattern.to_lowercase(), &path.to_lowercase());
        if matches(&pattern, path) || (is_denial && folds()) {
            found.push(Spoken { pattern, capabilities, parameters });
        }
    }
    found
}

fn matches(pattern: &str, path: &str) -> bool {
    let has_plus = pattern.split('/').any(|segment| segment == "+");
    match (pattern.strip_suffix('*'), has_plus) {
        (Some(start), false) => path.starts_with(start),
        (None, false) => path == pattern,
        (Some(start), true) => starts_like(start, path),
        (None, true) => is_like(pattern, path),
    }
}

/// Segment by segment, from the left, `+` standing for any one.
fn is_like(pattern: &str, path: &str) -> bool {
    match (pattern.split_once('/'), path.split_once('/')) {
        (None, None) => pattern == "+" || pattern == path,
        (Some((wanted, pattern)), Some((segment, path))) => {
            (wanted == "+" || wanted == segment) && is_like(pattern, path)
        }
        _ => false,
    }
}

/// As [`is_like`], but the last segment need only start so, and more may follow.
fn starts_like(pattern: &str, path: &str) -> bool {
    match (pattern.split_once('/'), path.split_once('/')) {
        (None, _) => path.starts_with(pattern),
        (Some((wanted, pattern)), Some((segment, path))) => {
            (wanted == "+" || wanted == segment) && starts_like(pattern, path)
        }
        _ => false,
    }
}

/// True when `one` is asked before `other`.
fn is_ahead(one: &Spoken, other: &Spoken) -> bool {
    let (a, b) = (shape(&one.pattern), shape(&other.pattern));
    if a.is_exact != b.is_exact {
        return a.is_exact;
    }
    if !a.is_exact {
        if a.first_wildcard != b.first_wildcard {
            return a.first_wildcard > b.first_wildcard;
        }
        if a.ends_in_star != b.ends_in_star {
            return b.ends_in_star;
        }
        if a.pluses != b.pluses {
            return a.pluses < b.pluses;
        }
        if a.length != b.length {
            return a.length > b.length;
        }
    }
    let (a_denies, b_denies) =
        (one.capabilities.contains("deny"), other.capabilities.contains("deny"));
    if a_denies != b_denies {
        return a_denies;
    }
    one.pattern > other.pattern
}

struct Shape {
    is_exact: bool,
    first_wildcard: usize,
    ends_in_star: bool,
    pluses: usize,
    length: usize,
}

fn shape(pattern: &str) -> Shape {
    let ends_in_star = pattern.ends_with('*');
    let pluses = pattern.split('/').filter(|segment| *segment == "+").count();
    let first_wildcard = match (pluses, pattern.find('+')) {
        (1.., Some(plus)) => plus,
        _ => pattern.len() - usize::from(ends_in_star),
    };
    Shape {
        is_exact: pluses == 0 && !ends_in_star,
        first_wildcard,
        ends_in_star,
        pluses,
        length: pattern.len() - usize::from(ends_in_star),
    }
}
