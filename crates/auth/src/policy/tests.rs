//! What policy files mean, and what is said of those that mean nothing.

use super::*;
use crate::Capability;

fn parse(text: &str) -> Result<Policy, PolicyError> {
    Policy::parse(PolicyName::parse("t").unwrap(), text)
}

fn refusal(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

/// The first rule's capabilities.
fn held(text: &str) -> Vec<&'static str> {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).rules()[0].capabilities.names()
}

#[test]
fn capabilities_and_the_old_form() {
    for (text, names) in [
        ("path \"s\" { capabilities = [\"read\", \"list\"] }", vec!["list", "read"]),
        ("path \"s\" { policy = \"read\" }", vec!["list", "read"]),
        ("path \"s\" { policy = \"write\" }", vec!["create", "delete", "list", "read", "update"]),
        (
            "path \"s\" { policy = \"sudo\" }",
            vec!["create", "delete", "list", "read", "sudo", "update"],
        ),
        ("path \"s\" { policy = \"deny\" }", vec!["deny"]),
        (
            "path \"s\" { policy = \"read\" capabilities = [\"patch\"] }",
            vec!["list", "patch", "read"],
        ),
        ("path \"s\" { capabilities = [\"deny\", \"read\"] }", vec!["deny"]),
        (
            "path \"s\" { capabilities = [\"read\"] capabilities = [\"scan\"] }",
            vec!["read", "scan"],
        ),
        ("path \"s\" { policy = \"write\" policy = \"read\" }", vec!["list", "read"]),
        ("path \"s\" { }", vec!["deny"]),
        (
            "path \"s\" { capabilities = [\"recover\", \"subscribe\"] }",
            vec!["recover", "subscribe"],
        ),
        ("{\"path\":{\"s\":{\"capabilities\":[\"read\"]}}}", vec!["read"]),
        ("{\"name\":\"x\",\"path\":[{\"s\":{\"policy\":\"read\"}}]}", vec!["list", "read"]),
    ] {
        assert_eq!(held(text), names, "{text}");
    }
}

#[test]
fn stale_reads_are_denied_by_one_word_and_nothing_else_is_taken() {
    for (text, expected) in [
        ("path \"s\" { }", false),
        ("stale_reads = \"deny\"\npath \"s\" { }", true),
        ("stale_reads = \"allow\"", false),
        ("{\"stale_reads\":\"deny\",\"path\":{}}", true),
    ] {
        assert_eq!(parse(text).unwrap().denies_stale_reads(), expected, "{text}");
    }
    for text in ["stale_reads = true", "stale_reads = \"Deny\"", "stale_reads { }"] {
        assert!(refusal(text).contains("stale_reads is not"), "{text}: {}", refusal(text));
    }
    assert!(refusal("path \"s\" { stale_reads = \"deny\" }").contains("stale_reads"));
}

/// The texts in the contract, which clients look for, and ours.
#[test]
fn refusals_say_what_and_where() {
    for (text, says) in [
        (
            "path \"a\" { capabilities = [\"bogus\"] }",
            "path \"a\": invalid capability \"bogus\" on line 1, column 28",
        ),
        (
            "path \"a\" { capabilities = [\"READ\"] }",
            "path \"a\": invalid capability \"READ\" on line 1, column 28",
        ),
        (
            "path \"a\" { capabilities = [1] }",
            "path \"a\": invalid capability \"1\" on line 1, column 28",
        ),
        ("path \"a\" {\n  foo = 1 }", "path \"a\": invalid key \"foo\" on line 2, column 3"),
        ("foo \"a\" { }", "invalid key \"foo\" on line 1, column 1"),
        (
            "path \"s/+*\" { }",
            "path \"s/+*\": invalid use of wildcards ('+*' is forbidden) on line 1, column 6",
        ),
        ("path \"a\" { capabilities = [\"read\" }", "At 1:35: expected ',' or ']' in a list"),
        (
            "path \"a\" { capabilities = \"read\" }",
            "path \"a\": capabilities is not a list on line 1, column 27",
        ),
        (
            "path \"a\" { policy = \"bogus\" }",
            "path \"a\": invalid policy \"bogus\" on line 1, column 21",
        ),
        ("path \"a\" { policy = [] }", "path \"a\": policy is not a string on line 1, column 21"),
        (
            "path \"a\" { min_wrapping_ttl = \"x\" }",
            "path \"a\": error parsing min_wrapping_ttl: time: invalid duration on line 1, column 31",
        ),
        (
            "path \"a\" { min_wrapping_ttl = \"10s\" max_wrapping_ttl = 5 }",
            "path \"a\": max_wrapping_ttl cannot be less than min_wrapping_ttl on line 1, column 6",
        ),
        (
            "path \"a\" { allowed_parameters = [1] }",
            "path \"a\": allowed_parameters is not a map on line 1, column 33",
        ),
        (
            "path \"a\" { denied_parameters = { x = 1 } }",
            "path \"a\": denied_parameters is not a map of lists on line 1, column 38",
        ),
        (
            "path \"a\" { required_parameters = \"x\" }",
            "path \"a\": required_parameters is not a list on line 1, column 34",
        ),
        (
            "path \"a\" { pagination_limit = -1 }",
            "path \"a\": pagination_limit is not a whole number on line 1, column 31",
        ),
        (
            "path \"a\" { expiration = \"soon\" }",
            "path \"a\": invalid expiration time on line 1, column 25",
        ),
        (
            "path \"a\" { mfa_methods = [\"m\"] }",
            "path \"a\": key \"mfa_methods\" is not supported by this server on line 1, column 12",
        ),
        (
            "path \"a/{{x\" { }",
            "path \"a/{{x\": failed to validate policy templating: unbalanced templating characters on line 1, column 6",
        ),
        (
            "path \"a/x}}\" { }",
            "path \"a/x}}\": failed to validate policy templating: unbalanced templating characters on line 1, column 6",
        ),
        ("path \"a\" \"b\" { }", "At 1:10: this block takes one label"),
        ("path { capabilities = [\"read\"] }", "At 1:24: expected a block"),
        ("path \"a\" { x \"y\" { } }", "path \"a\": At 1:14: a rule holds no blocks with labels"),
    ] {
        assert_eq!(refusal(text), says, "{text}");
    }
}

#[test]
fn limits_hold_at_their_edges() {
    let many = |count: usize| "path a {}\n".repeat(count);
    assert_eq!(parse(&many(limits::RULES_MAX)).unwrap().rule_count(), limits::RULES_MAX);
    assert_eq!(
        refusal(&many(limits::RULES_MAX + 1)),
        "more than 16384 paths on line 16385, column 6"
    );
    let long = |bytes: usize| format!("path \"{}\" {{}}", "a".repeat(bytes));
    assert!(parse(&long(crate::pattern::PATTERN_BYTES_MAX)).is_ok());
    assert!(refusal(&long(crate::pattern::PATTERN_BYTES_MAX + 1)).contains("longer than"));
    let deep = |segments: usize| format!("path \"{}\" {{}}", vec!["a"; segments].join("/"));
    assert!(parse(&deep(crate::pattern::PATTERN_SEGMENTS_MAX)).is_ok());
    assert!(refusal(&deep(crate::pattern::PATTERN_SEGMENTS_MAX + 1)).contains("longer than"));
}

#[test]
fn builtin_policies_are_policies_and_warn_of_nothing() {
    for (name, text) in
        [(DEFAULT_NAME, DEFAULT_TEXT), (RESPONSE_WRAPPING_NAME, RESPONSE_WRAPPING_TEXT)]
    {
        let policy = Policy::parse(PolicyName::parse(name).unwrap(), text).unwrap();
        assert!(policy.rule_count() > 1);
        assert!(policy.warnings().is_empty());
        let sudo = |rule: &PatternRule| rule.capabilities.has(Capability::Sudo);
        assert!(!policy.rules().iter().any(sudo), "no builtin policy holds sudo");
    }
    let typo = parse("path \"a/{{identity.entity.ID}}\" {}").unwrap();
    assert_eq!(
        typo.warnings(),
        [
            "path \"a/{{identity.entity.ID}}\" never applies: unknown template {{identity.entity.ID}}"
        ]
    );
}

#[test]
fn a_canary_in_a_parameter_is_in_no_error() {
    for text in [
        "path \"a\" { allowed_parameters = { x = \"CANARY\" } }",
        "path \"a\" { denied_parameters = \"CANARY\" }",
        "path \"a\" { min_wrapping_ttl = \"CANARY\" }",
        "path \"a\" { allowed_parameters = { x = [CANARY] } }",
    ] {
        assert!(!refusal(text).contains("CANARY"), "{text}");
    }
}
