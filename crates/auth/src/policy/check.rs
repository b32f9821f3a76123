//! A look at a policy before it is used: all that is wrong with its text, and the rules of it that nothing ever reaches.
//!
//! For editors, at `sys/policies/check`. [`Policy::parse`](super::Policy::parse) stops at the first error; [`check`] goes on with the
//! next rule, so that an author sees all of them. It says nothing of mounts, which only `core` knows.
//!
//! A rule is reached when there is a path for which the decision asks it, as far as the same policy says. It is not when
//! - another rule of the same pattern denies, since a denial takes what the others grant;
//! - another pattern matches every path that it matches, and comes first. Of two patterns such that one matches whatever the
//!   other does, the narrower one comes first in every case but one: of `a/*` and `a/+/b*` the order of precedence asks the former,
//!   which has fewer `+`.

use jiff::Timestamp;

use super::PatternRule;
use super::error::PolicyError;
use super::read::{PolicyReading, read_all};
use crate::pattern::{PatternUse, ResolvedPattern, Specificity};
use crate::{Capabilities, NoIdentity};

/// Most pairs of patterns that are compared. Only those with `+` and a final `*` have to be compared with others.
const PAIRS_MAX: usize = 4_000_000;

/// What was found.
#[derive(Debug)]
pub struct Checked {
    /// What is wrong, one error for a rule; empty for a policy that can be stored.
    pub errors: Vec<PolicyError>,
    /// The rules that can be read, in the order of the text.
    pub rules: Vec<CheckedRule>,
}

/// A rule of the text.
#[derive(Debug)]
pub struct CheckedRule {
    /// The line on which its pattern stands, from 1.
    pub line: u32,
    /// Its pattern, as written.
    pub pattern: String,
    /// What it grants.
    pub capabilities: Capabilities,
    /// Why no request ever meets it; `None` when one may.
    pub unreached: Option<Unreached>,
    /// That it has a template which nothing can ever resolve, if so.
    pub unknown_template: Option<String>,
}

/// Why no request ever meets a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreached {
    /// It has expired.
    Expired,
    /// The rule of the same pattern on this line denies everything.
    Denied {
        /// The line of the denial.
        by_line: u32,
    },
    /// A pattern that comes first matches every path that it matches.
    Covered {
        /// The line of the other rule.
        by_line: u32,
        /// The other pattern, as written.
        by: String,
    },
}

/// Looks at `text`, in HCL or JSON.
pub fn check(text: &str, now: Timestamp) -> Checked {
    let PolicyReading { rules, errors, .. } = read_all(text);
    let unreached = unreached(&rules, now);
    let rules = rules.iter().zip(unreached).map(|(rule, unreached)| CheckedRule {
        line: rule.at.line,
        pattern: rule.pattern.text.clone(),
        capabilities: rule.capabilities,
        unreached,
        unknown_template: rule.warning(),
    });
    Checked { errors, rules: rules.collect() }
}

/// A rule whose pattern has no template: only of those it can be said without a caller.
struct PlainRule<'r> {
    rule: &'r PatternRule,
    at: usize,
    pattern: ResolvedPattern,
    specificity: Specificity,
}

fn unreached(rules: &[PatternRule], now: Timestamp) -> Vec<Option<Unreached>> {
    let mut found: Vec<Option<Unreached>> = rules
        .iter()
        .map(|rule| rule.expires_at.filter(|end| *end <= now).map(|_| Unreached::Expired))
        .collect();
    let plain: Vec<PlainRule<'_>> = rules
        .iter()
        .enumerate()
        .filter(|(at, _)| found[*at].is_none())
        .filter_map(|(at, rule)| {
            let pattern = rule.pattern.resolve(&NoIdentity, PatternUse::Grant).ok()?;
            let specificity = pattern.specificity();
            Some(PlainRule { rule, at, pattern, specificity })
        })
        .collect();
    let mut denials = std::collections::HashMap::new();
    for denial in plain.iter().filter(|plain| plain.rule.capabilities.is_denial()) {
        denials.entry(&denial.pattern).or_insert(denial.rule.at.line);
    }
    let globs: Vec<&PlainRule<'_>> = plain.iter().filter(|plain| plain.pattern.is_prefix).collect();
    let mut pairs = 0;
    for plain in &plain {
        if !plain.rule.capabilities.is_denial()
            && let Some(&by_line) = denials.get(&plain.pattern)
        {
            found[plain.at] = Some(Unreached::Denied { by_line });
            continue;
        }
        if !plain.pattern.is_prefix || !plain.pattern.has_any() {
            continue;
        }
        pairs += globs.len();
        if pairs > PAIRS_MAX {
            break;
        }
        let cover = globs.iter().find(|other| {
            other.specificity > plain.specificity && other.pattern.covers(&plain.pattern)
        });
        if let Some(cover) = cover {
            let (by_line, by) = (cover.rule.at.line, cover.rule.pattern.text.clone());
            found[plain.at] = Some(Unreached::Covered { by_line, by });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Checked {
        check(text, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn every_rule_that_is_wrong_is_told_with_its_place() {
        let text = "path \"a\" {\n  capabilities = [\"conquer\"]\n}\npath \"b\" { capabilities = [\"read\"] }\n\
                    path \"c/+*\" { }\nfoo = 1\n";
        let found = checked(text);
        let places: Vec<_> = found
            .errors
            .iter()
            .map(|error| (error.at.line, error.at.column, error.message()))
            .collect();
        let says = |line, column, text: &str| (line, column, text.to_owned());
        assert_eq!(
            places,
            [
                says(6, 1, "invalid key \"foo\""),
                says(2, 19, "path \"a\": invalid capability \"conquer\""),
                says(5, 6, "path \"c/+*\": invalid use of wildcards ('+*' is forbidden)"),
            ]
        );
        assert_eq!(found.rules.len(), 1);
        assert_eq!((found.rules[0].line, found.rules[0].pattern.as_str()), (4, "b"));
        let broken = checked("path \"a\" {");
        assert!(broken.errors.len() == 1 && broken.rules.is_empty());
        let many: String = (0..500).map(|at| format!("path \"{at}\" {{ x = 1 }}\n")).collect();
        assert_eq!(checked(&many).errors.len(), 100);
    }

    /// What the check says of each of two rules, by line.
    fn unreached_lines(patterns: [&str; 2]) -> Vec<u32> {
        let text: String = patterns
            .iter()
            .map(|pattern| format!("path \"{pattern}\" {{ capabilities = [\"read\"] }}\n"))
            .collect();
        let found = checked(&text);
        assert!(found.errors.is_empty(), "{text}");
        let rules = found.rules.iter().filter(|rule| rule.unreached.is_some());
        rules.map(|rule| rule.line).collect()
    }

    /// Every path of some segments over a small alphabet, asked of the decision itself.
    #[test]
    fn a_rule_is_unreached_exactly_when_no_path_is_decided_by_it() {
        use crate::{AclSet, Policy, PolicyName};
        use std::sync::Arc;
        let parts = ["a", "b", "+", "ab"];
        let mut patterns = Vec::new();
        for first in parts {
            for second in parts {
                for glob in ["", "*", "/*", "/a*", "/+/a*"] {
                    patterns.push(format!("{first}/{second}{glob}"));
                }
                patterns.push(format!("{first}/*"));
            }
        }
        patterns.retain(|pattern| !pattern.contains("+*"));
        patterns.sort();
        patterns.dedup();
        let words = ["a", "b", "ab", "aba", "c", "abb"];
        let mut paths = Vec::new();
        for one in words {
            for two in words {
                paths.push(format!("{one}/{two}"));
                for three in words {
                    paths.push(format!("{one}/{two}/{three}"));
                    for four in words {
                        paths.push(format!("{one}/{two}/{three}/{four}"));
                        paths.push(format!("{one}/{two}/{three}/{four}/a"));
                        paths.push(format!("{one}/{two}/{three}/{four}/ab"));
                    }
                }
            }
        }
        let mut hits = 0;
        let count = patterns.len();
        let pairs = (0..count * count).step_by(23).map(|at| [at / count, at % count]);
        for pair in pairs.filter(|[one, other]| one != other) {
            let pair = pair.map(|at| patterns[at].as_str());
            let text: String = pair
                .iter()
                .zip(["read", "list"])
                .map(|(pattern, can)| {
                    format!("path \"{pattern}\" {{ capabilities = [\"{can}\"] }}\n")
                })
                .collect();
            let policy = Policy::parse(PolicyName::parse("t").unwrap(), &text).unwrap();
            let acl = AclSet::compile(&[Arc::new(policy)], &NoIdentity, Timestamp::UNIX_EPOCH);
            let speaks =
                |name: &str| paths.iter().any(|path| acl.capabilities(path).names() == [name]);
            let expected: Vec<u32> = [(1, "read"), (2, "list")]
                .into_iter()
                .filter(|(_, name)| !speaks(name))
                .map(|(line, _)| line)
                .collect();
            hits += usize::from(!expected.is_empty());
            assert_eq!(unreached_lines(pair), expected, "{pair:?}");
        }
        assert!(hits > 0, "some pair shadows");
        assert_eq!(unreached_lines(["a/*", "a/+/b*"]), [2]);
    }

    /// 2,500 patterns end in `*`, so that of the 2,499 that are covered 1,600 are compared before the four millionth pair.
    #[test]
    fn a_look_at_a_policy_compares_no_more_pairs_than_its_limit() {
        let covered = (1..2_500).map(|at| format!("a/+/k{at}*"));
        let text: String = std::iter::once("a/*".to_owned())
            .chain(covered)
            .map(|pattern| format!("path \"{pattern}\" {{ capabilities = [\"read\"] }}\n"))
            .collect();
        let found = checked(&text);
        assert_eq!((found.errors.len(), found.rules.len()), (0, 2_500));
        assert_eq!(found.rules.iter().filter(|rule| rule.unreached.is_some()).count(), 1_600);
    }

    #[test]
    fn a_rule_is_told_to_be_over_from_the_second_of_its_expiration_on() {
        let text = "path \"a\" { capabilities = [\"read\"] expiration = 60 }";
        for (second, told) in
            [(59, None), (60, Some(Unreached::Expired)), (61, Some(Unreached::Expired))]
        {
            let found = check(text, Timestamp::from_second(second).unwrap());
            assert_eq!(found.rules[0].unreached, told, "{second}");
        }
    }

    #[test]
    fn a_rule_beside_a_denial_of_the_same_pattern_and_one_that_expired_are_told() {
        let text = "path \"a\" { capabilities = [\"read\"] }\npath \"a\" { capabilities = [\"deny\"] }\n\
                    path \"b\" { capabilities = [\"read\"] expiration = \"1969-01-01T00:00:00Z\" }\n\
                    path \"{{identity.nothing}}\" { capabilities = [\"read\"] }\n";
        let found = checked(text);
        let told: Vec<_> = found.rules.iter().map(|rule| rule.unreached.clone()).collect();
        let denied = Unreached::Denied { by_line: 2 };
        assert_eq!(told, [Some(denied), None, Some(Unreached::Expired), None]);
        assert!(found.rules[3].unknown_template.is_some());
    }
}
