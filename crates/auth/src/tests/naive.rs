//! The decision the plain way: the contract's sentences one after another, over the texts of
//! patterns, with none of the crate's own types. Slow, and easy to check by reading.

use std::collections::{BTreeMap, BTreeSet};

/// A rule as a policy writes it, its template replaced.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) pattern: String,
    pub(crate) capabilities: BTreeSet<&'static str>,
}

/// What all rules say of one pattern.
#[derive(Clone, Debug)]
pub(crate) struct Spoken {
    pub(crate) pattern: String,
    pub(crate) capabilities: BTreeSet<&'static str>,
}

/// The rule that speaks for `path`. Listings ask with and without a slash at the end.
pub(crate) fn speaker(rules: &[Rule], path: &str, is_listing: bool) -> Option<Spoken> {
    candidates(rules, path, is_listing)
        .into_iter()
        .reduce(|best, other| if is_ahead(&other, &best) { other } else { best })
}

/// Every rule that matches, merged by pattern.
pub(crate) fn candidates(rules: &[Rule], path: &str, is_listing: bool) -> Vec<Spoken> {
    let mut merged: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    for rule in rules {
        let pattern = rule.pattern.strip_prefix('/').unwrap_or(&rule.pattern);
        merged.entry(pattern.to_owned()).or_default().extend(&rule.capabilities);
    }
    let entry = path.strip_suffix('/').unwrap_or(path);
    let asked = if is_listing {
        vec![entry.to_owned(), format!("{entry}/")]
    } else {
        vec![path.to_owned()]
    };
    let mut found = Vec::new();
    for (pattern, mut capabilities) in merged {
        let is_denial = capabilities.contains("deny");
        if is_denial {
            capabilities = ["deny"].into();
        }
        let speaks = asked.iter().any(|path| {
            matches(&pattern, path)
                || (is_denial && matches(&pattern.to_lowercase(), &path.to_lowercase()))
        });
        if speaks {
            found.push(Spoken { pattern, capabilities });
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
        (None, true) => {
            is_like(pattern, path)
                || path.strip_suffix('/').is_some_and(|path| is_like(pattern, path))
        }
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
    let mut place = 0;
    let mut first_wildcard = pattern.len() - usize::from(ends_in_star);
    let mut pluses = 0;
    for segment in pattern.split('/') {
        if segment == "+" {
            pluses += 1;
            first_wildcard = first_wildcard.min(place);
        }
        place += segment.len() + 1;
    }
    Shape {
        is_exact: pluses == 0 && !ends_in_star,
        first_wildcard,
        ends_in_star,
        pluses,
        length: pattern.len() - usize::from(ends_in_star),
    }
}
