//! What patterns say of each other, of folders, and of namespaces below their own.

use jiff::Timestamp;

use super::policies;
use crate::pattern::{Pattern, PatternUse, ResolvedPattern};
use crate::{
    AclSet, Capability, NoIdentity, Operation, Path, PathError, Policy, PolicyName, Subject,
};

fn resolved(text: &str) -> ResolvedPattern {
    Pattern::parse(text).unwrap().resolve(&NoIdentity, PatternUse::Grant).unwrap()
}

/// Every text of up to three segments out of `alphabet`, then with each of `ends`.
fn texts(alphabet: &[&str], ends: &[&str]) -> Vec<String> {
    let mut bodies: Vec<String> = alphabet.iter().map(|&segment| segment.to_owned()).collect();
    let mut longest = bodies.clone();
    for _ in 0..2 {
        let longer = |body: &String| {
            alphabet.iter().map(|next| format!("{body}/{next}")).collect::<Vec<_>>()
        };
        longest = longest.iter().flat_map(longer).collect();
        bodies.extend(longest.iter().cloned());
    }
    bodies.iter().flat_map(|body| ends.iter().map(move |end| format!("{body}{end}"))).collect()
}

/// Read as patterns or tried with every path: one pattern covers another when it matches whatever that one matches.
#[test]
fn a_pattern_covers_another_exactly_when_it_matches_all_its_paths() {
    let patterns: Vec<String> = texts(&["", "a", "ab", "+"], &["", "*"]);
    let patterns: Vec<_> = patterns.iter().filter(|text| !text.contains("+*")).collect();
    let paths = texts(&["", "a", "ab", "abc", "z"], &["", "/z"]);
    let matched: Vec<(ResolvedPattern, Vec<bool>)> = patterns
        .iter()
        .map(|text| {
            let pattern = resolved(text);
            let matched = paths.iter().map(|path| pattern.matches(path)).collect();
            (pattern, matched)
        })
        .collect();
    for (one, ones) in &matched {
        for (other, others) in &matched {
            let all = ones.iter().zip(others).all(|(one, other)| *one || !other);
            assert_eq!(one.covers(other), all, "{one} of {other}");
        }
    }
}

/// A denial of the namespace above reaches into the one below wherever it matches; a grant has to spell its path.
#[test]
fn what_a_rule_says_of_a_namespace_below() {
    let below = |pattern: &str, held: &str| {
        let text = format!("path \"{pattern}\" {{ capabilities = [\"{held}\"] }}");
        let set =
            AclSet::compile_below(&policies(&[text]), &NoIdentity, "ns/a/", Timestamp::UNIX_EPOCH);
        set.rules().next().map(|rule| rule.pattern)
    };
    for (pattern, denied, granted) in [
        ("ns/a/x", Some("x"), Some("x")),
        ("/ns/a/x", Some("x"), Some("x")),
        ("ns/a/*", Some("*"), Some("*")),
        ("ns/a/+/x", Some("+/x"), Some("+/x")),
        ("NS/A/x", Some("x"), None),
        ("ns/+/x", Some("x"), None),
        ("+/+/x*", Some("x*"), None),
        ("ns/+/*", Some("*"), None),
        ("*", Some("*"), None),
        ("n*", Some("*"), None),
        ("ns/*", Some("*"), None),
        ("ns/a*", Some("*"), None),
        ("NS/A*", Some("*"), None),
        ("ns/ab*", None, None),
        ("ns/b*", None, None),
        ("ns/+", None, None),
        ("ns/a", None, None),
        ("ns", None, None),
        ("other/a/x", None, None),
        ("ns/b/x", None, None),
    ] {
        assert_eq!(below(pattern, "deny").as_deref(), denied, "a denial of {pattern}");
        assert_eq!(below(pattern, "read").as_deref(), granted, "a grant of {pattern}");
    }
}

#[test]
fn a_policy_with_a_template_says_so() {
    for (pattern, has_templates) in [
        ("s/a", false),
        ("s/+/a*", false),
        ("s/{{identity.entity.name}}", true),
        ("+/{{identity.entity.id}}/*", true),
    ] {
        let text = format!("path \"{pattern}\" {{ capabilities = [\"read\"] }}");
        let policy = Policy::parse(PolicyName::parse("p").unwrap(), &text).unwrap();
        assert_eq!(policy.has_templates(), has_templates, "{pattern}");
    }
}

#[test]
fn a_path_is_a_folder_when_it_ends_in_a_slash_or_is_empty() {
    for (text, is_folder) in
        [("", true), ("a/", true), ("a/b/", true), ("a", false), ("a/b", false)]
    {
        assert_eq!(Path::literal(text).unwrap().is_folder(), is_folder, "{text}");
    }
}

#[test]
fn a_fault_of_a_path_is_told_with_its_place() {
    for (raw, text) in [
        ("a%2", "path has a malformed percent escape at byte 1"),
        ("%ff", "path is not valid UTF-8 at byte 0"),
        ("a%00", "path has a control character at byte 1"),
        ("a\\", "path has a backslash at byte 1"),
        ("a/..", "path has a '.' or '..' segment at byte 2"),
        ("a//b", "path has an empty segment at byte 2"),
    ] {
        assert_eq!(Path::decode(raw).unwrap_err().to_string(), text);
    }
    assert_eq!(PathError::TooLong.to_string(), "path is longer than 1024 bytes");
    assert_eq!(PathError::TooDeep.to_string(), "path has more than 32 segments");
}

#[test]
fn four_letters_of_another_script_are_a_name_and_root_in_disguise_is_none() {
    for name in ["абвг", "aооb", "rооts", "rоо", "root-cause", "ρυθμ"] {
        assert!(PolicyName::parse(name).is_ok(), "{name}");
    }
    for name in ["rооt", "rоot", "r-о-о-t"] {
        assert!(PolicyName::parse(name).is_err(), "{name}");
    }
}

#[test]
fn a_fault_of_a_policys_name_is_told() {
    let told = |name: &str| PolicyName::parse(name).unwrap_err().to_string();
    assert_eq!(told(""), "policy name is empty");
    assert_eq!(told(" a"), "policy name begins or ends with a space");
    assert_eq!(told("rооt"), "policy name looks like root");
    assert_eq!(told(&"a".repeat(257)), "policy name is longer than 256 bytes");
    assert_eq!(told("a//b"), "policy name has an empty or dot segment");
}

#[test]
fn the_spans_of_a_wrapping_may_be_one_and_maps_may_stand_in_lists() {
    let parse = |rule: &str| {
        let text = format!("path \"s\" {{ capabilities = [\"update\"] {rule} }}");
        Policy::parse(PolicyName::parse("p").unwrap(), &text)
    };
    assert!(parse("min_wrapping_ttl = 10 max_wrapping_ttl = 10").is_ok());
    assert!(parse("min_wrapping_ttl = 10 max_wrapping_ttl = 11").is_ok());
    assert!(parse("min_wrapping_ttl = 11 max_wrapping_ttl = 10").is_err());
    for key in ["allowed_parameters", "denied_parameters"] {
        assert!(parse(&format!("{key} = [{{ \"a\" = [1] }}, {{ \"b\" = [] }}]")).is_ok(), "{key}");
        assert!(parse(&format!("{key} = [{{ \"a\" = [1] }}, 1]")).is_err(), "{key}");
        assert!(parse(&format!("{key} = 1")).is_err(), "{key}");
    }
}

/// A request of which nothing but its operation and path is known.
struct Bare(Path<'static>);

impl Subject for Bare {
    fn operation(&self) -> Operation {
        Operation::Read
    }

    fn path(&self) -> &Path<'_> {
        &self.0
    }

    fn needs_sudo(&self) -> bool {
        false
    }
}

/// What a request does not say is asked of no rule, and meets none that asks for it.
#[test]
fn a_request_says_nothing_by_itself() {
    let bare = Bare(Path::literal("s/p").unwrap());
    assert_eq!(bare.capability(), Capability::Read);
    assert_eq!((bare.caseless_path(), bare.wrap_ttl(), bare.page_entries()), (None, None, None));
    assert_eq!(bare.parameters(), None);
}
