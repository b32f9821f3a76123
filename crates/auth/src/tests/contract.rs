//! The rows of the contract's section on policies, one test each.

use jiff::Timestamp;

use super::{Ask, policies, set};
use crate::acl::{Reason, SkipReason};
use crate::policy::ConstraintRefusal;
use crate::{AclSet, Capability, Literal, NoIdentity, Precedence};

const READ: Capability = Capability::Read;
const UPDATE: Capability = Capability::Update;

/// One rule `pattern` that reads.
fn reading(pattern: &str) -> AclSet {
    set(&[format!("path \"{pattern}\" {{ capabilities = [\"read\"] }}")])
}

#[test]
fn row_1_kinds_of_patterns() {
    for (pattern, matching, other) in [
        ("s/+", vec!["s/", "s/a"], vec!["s", "s/a/b", "s/a/b/"]),
        ("s/+/b", vec!["s/a/b"], vec!["s/a/", "s/a/bc", "s/b"]),
        ("s/+/", vec!["s/a/"], vec!["s/a", "s/", "s/a/b"]),
        ("+/*", vec!["s/", "s/a", "s/a/b"], vec!["s"]),
        ("s/+/b*", vec!["s/a/b", "s/a/bc", "s/a/b/", "s/a/b/c"], vec!["s/a/", "s/a", "s/a/c"]),
        ("+", vec!["s"], vec!["s/a"]),
        ("s/a/", vec!["s/a/"], vec!["s/a"]),
        ("/s/a", vec!["s/a"], vec!["s/b"]),
        ("//s/a", vec![], vec!["s/a"]),
        ("s/*/b", vec!["s/*/b"], vec!["s/a/b"]),
        ("s/a+", vec!["s/a+"], vec!["s/ab"]),
        ("s/+a", vec!["s/+a"], vec!["s/ba"]),
        ("*", vec!["s", "s/a/b/"], vec![]),
        ("s*", vec!["s", "s/a", "st"], vec!["t"]),
        ("", vec![], vec!["s"]),
    ] {
        let acl = reading(pattern);
        for path in matching {
            assert!(acl.decide(&Ask::new(READ, path)).is_ok(), "{pattern} {path}");
        }
        for path in other {
            assert!(acl.decide(&Ask::new(READ, path)).is_err(), "{pattern} {path}");
        }
    }
}

/// The slash at the end that a `+` tolerates is that of a folder: as a listing asks for it, and as
/// `sys/capabilities` answers.
#[test]
fn row_1_a_segment_wildcard_tolerates_the_slash_of_a_folder() {
    let acl = set(&["path \"s/+\" { capabilities = [\"list\", \"read\"] }"]);
    assert_eq!(acl.capabilities("s/a/").names(), ["list", "read"]);
    assert!(acl.decide(&Ask::new(Capability::List, "s/a/")).is_ok());
    assert!(acl.decide(&Ask::new(Capability::List, "s/a")).is_ok());
    assert!(acl.decide(&Ask::new(READ, "s/a/")).is_err());
    for path in ["s/a/b/", "s/a/b"] {
        assert!(acl.decide(&Ask::new(Capability::List, path)).is_err());
    }
}

#[test]
fn row_3_one_pattern_speaks() {
    for (winner, loser, path, by) in [
        ("s/a", "s/*", "s/a", Precedence::Exact),
        ("s/a", "s/+", "s/a", Precedence::Exact),
        ("s/a*", "s/*", "s/ab", Precedence::LaterWildcard),
        ("s/a/+", "s/+/b", "s/a/b", Precedence::LaterWildcard),
        ("s/+", "s/*", "s/a", Precedence::NoFinalGlob),
        ("s/+/b/*", "s/+/+/*", "s/a/b/c", Precedence::FewerSegmentWildcards),
        ("s/+/bc*", "s/+/b*", "s/a/bcd", Precedence::Longer),
        ("s/+/b/+", "s/+/+/c", "s/a/b/c", Precedence::GreaterText),
    ] {
        let text = |winner_has: &str, loser_has: &str| {
            format!(
                "path \"{loser}\" {{ capabilities = [\"{loser_has}\"] }}
                 path \"{winner}\" {{ capabilities = [\"{winner_has}\"] }}"
            )
        };
        let acl = set(&[text("read", "update")]);
        assert!(acl.decide(&Ask::new(READ, path)).is_ok(), "{winner} {loser}");
        assert!(acl.decide(&Ask::new(UPDATE, path)).is_err(), "{winner} {loser}");
        let explanation = acl.explain(&Ask::new(UPDATE, path));
        assert_eq!(explanation.reason, Reason::Lacks(UPDATE));
        assert_eq!(explanation.decided_by.unwrap().pattern, winner);
        assert_eq!(explanation.lost.len(), 1);
        assert_eq!(
            (explanation.lost[0].rule.pattern.as_str(), explanation.lost[0].to),
            (loser, by)
        );
        // A denial decides a tie of everything but the text, whichever text is greater.
        let acl = set(&[text("read", "deny")]);
        let is_tie = by == Precedence::GreaterText;
        assert_eq!(acl.decide(&Ask::new(READ, path)).is_err(), is_tie, "{winner} {loser}");
    }
}

#[test]
fn row_4_the_same_pattern_adds_up_and_a_denial_wins() {
    let read = "path \"s/*\" { capabilities = [\"read\"] }";
    let list = "path \"s/*\" { capabilities = [\"list\"] }";
    let deny = "path \"s/*\" { capabilities = [\"deny\"] }";
    assert_eq!(set(&[read, list]).capabilities("s/a").names(), ["list", "read"]);
    assert_eq!(set(&[format!("{read}\n{list}")]).capabilities("s/a").names(), ["list", "read"]);
    assert_eq!(set(&[read, deny, list]).capabilities("s/a").names(), ["deny"]);
    let acl = set(&[read, list]);
    let grant = acl.decide(&Ask::new(READ, "s/a")).unwrap();
    assert_eq!(grant.policies().iter().map(|name| name.to_string()).collect::<Vec<_>>(), ["p0"]);
    assert_eq!(grant.capabilities().names(), ["list", "read"]);
}

#[test]
fn row_5_a_broad_denial_does_not_beat_an_exact_grant() {
    let acl = set(&["path \"s/a*\" { policy = \"deny\" } path \"s/ab\" { policy = \"read\" }"]);
    assert!(acl.decide(&Ask::new(READ, "s/ab")).is_ok());
    assert!(acl.decide(&Ask::new(READ, "s/ac")).is_err());
}

#[test]
fn row_8_sudo_is_asked_for_besides() {
    let ask = || Ask { needs_sudo: true, ..Ask::new(UPDATE, "s/a") };
    let acl = |held: &str| set(&[format!("path \"s/a\" {{ capabilities = [{held}] }}")]);
    assert!(acl("\"update\", \"sudo\"").decide(&ask()).is_ok());
    let bare = acl("\"update\"");
    assert!(bare.decide(&ask()).is_err());
    assert_eq!(bare.explain(&ask()).reason, Reason::Lacks(Capability::Sudo));
    assert!(acl("\"sudo\"").decide(&ask()).is_err());
}

fn text(text: &str) -> Literal {
    Literal::Text(text.to_owned())
}

fn number(text: &str) -> Literal {
    Literal::Number(text.to_owned())
}

/// What a rule with `parameters` says to a request with each body.
fn refusals(parameters: &str, bodies: &[Ask]) -> Vec<Option<ConstraintRefusal>> {
    let acl =
        set(&[format!("path \"s/p\" {{ capabilities = [\"update\", \"read\"] {parameters} }}")]);
    let refusal = |ask: &Ask| match acl.explain(ask).reason {
        Reason::Granted => None,
        Reason::Refused(refusal) => Some(refusal),
        other => panic!("{other:?}"),
    };
    bodies.iter().map(refusal).collect()
}

fn body(pairs: &[(&str, Literal)]) -> Ask {
    let ask = Ask { parameters: Some(Vec::new()), ..Ask::new(UPDATE, "s/p") };
    pairs.iter().fold(ask, |ask, (name, value)| ask.with(name, value.clone()))
}

#[test]
fn row_9_allowed_parameters() {
    let no = Some(ConstraintRefusal::ParameterNotAllowed);
    let rule =
        "allowed_parameters = { \"n\" = [1] \"s\" = [\"a*\", \"*z\"] \"b\" = [true] \"any\" = [] }";
    for (given, expected) in [
        (body(&[("n", number("1"))]), no),
        (body(&[("n", text("1"))]), no),
        (body(&[("s", text("abc"))]), None),
        (body(&[("s", text("xyz"))]), None),
        (body(&[("s", text("m"))]), no),
        (body(&[("S", text("abc"))]), None),
        (body(&[("b", Literal::Bool(true))]), None),
        (body(&[("b", text("true"))]), no),
        (body(&[("any", Literal::List(vec![number("1")]))]), None),
        (body(&[("other", number("1"))]), no),
        (body(&[("s", text("abc")), ("other", number("1"))]), no),
        (body(&[]), None),
        (Ask::new(UPDATE, "s/p"), Some(ConstraintRefusal::ParametersUnknown)),
    ] {
        assert_eq!(refusals(rule, std::slice::from_ref(&given)), [expected], "{given:?}");
    }
    let open = "allowed_parameters = { \"*\" = [] \"a\" = [\"x\"] }";
    let bodies =
        [body(&[("n", number("1"))]), body(&[("a", text("x"))]), body(&[("a", text("y"))])];
    assert_eq!(refusals(open, &bodies), [None, None, no]);
    assert_eq!(refusals("allowed_parameters = { \"*\" = [\"q\"] }", &bodies), [None; 3]);
    // Also one that is called `*`.
    let star = [body(&[("*", text("other"))])];
    assert_eq!(refusals("allowed_parameters = { \"*\" = [\"q\"] }", &star), [None]);
}

#[test]
fn row_9_denied_and_required_parameters() {
    let denied = Some(ConstraintRefusal::ParameterDenied);
    let rule = "denied_parameters { n = [1] s = [\"a*\"] } allowed_parameters { s = [] n = [] }";
    let bodies = [
        body(&[("s", text("abc"))]),
        body(&[("s", text("b"))]),
        // Elsewhere a denied number denies nothing; here it denies that number.
        body(&[("n", number("1.0"))]),
        body(&[("N", number("1"))]),
        body(&[("n", text("1"))]),
    ];
    let allowed = Some(ConstraintRefusal::ParameterNotAllowed);
    assert_eq!(refusals(rule, &bodies), [denied, None, denied, denied, None]);
    assert_eq!(refusals("denied_parameters = { \"*\" = [] }", &bodies), [denied; 5]);
    assert_eq!(
        refusals("denied_parameters = { x = [] } allowed_parameters = { y = [] }", &bodies),
        [allowed; 5]
    );
    let missing = Some(ConstraintRefusal::ParameterMissing);
    // A parameter of another case is not the one that the route reads.
    let bodies = [body(&[("r", number("1"))]), body(&[("R", number("1"))]), body(&[])];
    assert_eq!(refusals("required_parameters = [\"r\"]", &bodies), [None, missing, missing]);
    // A read is judged by its query; other operations have no parameters to judge.
    let read = Ask { capability: READ, ..body(&[]) };
    assert_eq!(refusals("required_parameters = [\"r\"]", &[read]), [missing]);
}

#[test]
fn row_9_parameters_of_one_pattern_are_merged() {
    let rule =
        |parameters: &str| format!("path \"s/p\" {{ capabilities = [\"update\"] {parameters} }}");
    let acl = set(&[
        rule("allowed_parameters = { a = [\"x\"] }"),
        rule("allowed_parameters = { a = [\"y\"] b = [] } denied_parameters = { c = [\"z\"] }"),
        rule("required_parameters = [\"a\"]"),
    ]);
    let granted = |pairs: &[(&str, Literal)]| acl.decide(&body(pairs)).is_ok();
    assert!(granted(&[("a", text("x"))]));
    assert!(granted(&[("a", text("y")), ("b", number("1"))]));
    assert!(!granted(&[("a", text("z"))]));
    assert!(!granted(&[("b", number("1"))]));
    assert!(!granted(&[("a", text("x")), ("c", text("z"))]));
}

/// An empty list is every value: it swallows the values that another rule lists.
#[test]
fn row_9_an_empty_list_of_one_rule_opens_or_closes_the_parameter() {
    let rule =
        |parameters: &str| format!("path \"s/p\" {{ capabilities = [\"update\"] {parameters} }}");
    for (one, other) in [("[]", "[\"x\"]"), ("[\"x\"]", "[]")] {
        let texts = |key: &str| {
            [rule(&format!("{key} = {{ a = {one} }}")), rule(&format!("{key} = {{ a = {other} }}"))]
        };
        let ask = body(&[("a", text("y"))]);
        assert!(set(&texts("allowed_parameters")).decide(&ask).is_ok());
        assert!(set(&texts("denied_parameters")).decide(&ask).is_err());
    }
}

#[test]
fn row_10_wrapping() {
    let acl = set(&[
        "path \"s/p\" { capabilities = [\"read\"] min_wrapping_ttl = \"10s\" max_wrapping_ttl = 120 }",
        "path \"s/p\" { capabilities = [\"list\"] max_wrapping_ttl = \"1m\" }",
    ]);
    for (wrap_secs, granted) in
        [(None, false), (Some(9), false), (Some(10), true), (Some(60), true), (Some(61), false)]
    {
        let ask = Ask { wrap_secs, ..Ask::new(READ, "s/p") };
        assert_eq!(acl.decide(&ask).is_ok(), granted, "{wrap_secs:?}");
    }
    // Either bound alone wants an answer to be wrapped at all.
    for (bound, good, bad) in [("min_wrapping_ttl = 10", 10, 9), ("max_wrapping_ttl = 10", 10, 11)]
    {
        let acl = set(&[format!("path \"s/p\" {{ capabilities = [\"read\"] {bound} }}")]);
        for (wrap_secs, granted) in [(None, false), (Some(good), true), (Some(bad), false)] {
            let ask = Ask { wrap_secs, ..Ask::new(READ, "s/p") };
            assert_eq!(acl.decide(&ask).is_ok(), granted, "{bound} {wrap_secs:?}");
        }
    }
}

#[test]
fn pages_of_listings_are_limited() {
    let rule = |limit: &str| format!("path \"s/*\" {{ capabilities = [\"list\"] {limit} }}");
    let acl = set(&[rule("pagination_limit = 3"), rule("pagination_limit = \"2\""), rule("")]);
    let ask = |page| Ask { page, ..Ask::new(Capability::List, "s/") };
    assert_eq!(acl.decide(&ask(None)).unwrap().page_entries_max(), Some(2));
    assert!(acl.decide(&ask(Some(2))).is_ok());
    assert_eq!(acl.explain(&ask(Some(3))).reason, Reason::Refused(ConstraintRefusal::PageTooLong));
}

#[test]
fn a_page_may_be_as_long_as_its_rule_says_and_a_limit_of_zero_is_none() {
    for capability in [Capability::List, Capability::Scan] {
        for (written, most) in [("0", None), ("1", Some(1)), ("1000", Some(1_000))] {
            let name = capability.name();
            let text = format!(
                "path \"s/*\" {{ capabilities = [\"{name}\"] pagination_limit = {written} }}"
            );
            let acl = set(&[text]);
            let ask = |page| Ask { page: Some(page), ..Ask::new(capability, "s/") };
            for asked in [0, 1, 2, 999, 1_000, 1_001, u64::MAX] {
                let fits = most.is_none_or(|most| asked <= most);
                assert_eq!(acl.decide(&ask(asked)).is_ok(), fits, "{name}, {asked} of {written}");
            }
            assert_eq!(acl.decide(&ask(0)).unwrap().page_entries_max(), most);
        }
    }
}

/// A tree of patterns with `+` has a node for its root, for the `+`, and for each name behind it.
#[test]
fn a_set_is_wide_from_4097_nodes_on() {
    let patterns = |names: usize, held: &str| -> String {
        let rule = |n| format!("path \"+/k{n}\" {{ capabilities = [\"{held}\"] }}\n");
        (0..names).map(rule).collect()
    };
    for held in ["read", "deny"] {
        assert!(!set(&[patterns(4_094, held)]).is_wide(), "{held}");
        assert!(set(&[patterns(4_095, held)]).is_wide(), "{held}");
    }
    assert!(!reading("s/*").is_wide());
}

#[test]
fn a_report_says_what_a_rule_is() {
    let acl = set(&["path \"a\" { capabilities = [\"read\"] }
         path \"a/*\" { capabilities = [\"list\"] pagination_limit = 2 }
         path \"+/a\" { capabilities = [\"read\"] }
         path \"+/b*\" { capabilities = [\"read\"] }
         path \"d\" { capabilities = [\"deny\"] pagination_limit = 2 }"]);
    let mut reports: Vec<_> =
        acl.rules().map(|rule| (rule.pattern, rule.is_exact, rule.is_constrained)).collect();
    reports.sort();
    let wanted = [("+/a", false, false), ("+/b*", false, false), ("a", true, false)];
    // A denial leaves nothing to constrain.
    let wanted = wanted.into_iter().chain([("a/*", false, true), ("d", true, false)]);
    assert_eq!(reports, wanted.map(|(p, e, c)| (p.to_owned(), e, c)).collect::<Vec<_>>());
}

#[test]
fn a_denial_says_whether_it_met_the_path_in_its_own_case_and_what_it_was_ahead_of() {
    let acl = set(&["path \"s/+/+/c\" { capabilities = [\"deny\"] }
                     path \"s/+/b/+\" { capabilities = [\"read\"] }"]);
    let told = acl.explain(&Ask::new(READ, "s/a/b/c"));
    assert_eq!((told.reason, told.lost[0].to), (Reason::Denied, Precedence::Denial));
    assert_eq!(acl.explain(&Ask::new(READ, "s/a/b/C")).reason, Reason::DeniedWithoutCase);
}

#[test]
fn a_rule_ends_at_its_expiration() {
    let texts = ["path \"s/a\" { capabilities = [\"read\"] expiration = \"1970-01-01T00:01:00Z\" }
                  path \"s/b\" { capabilities = [\"read\"] expiration = \"120\" }
                  path \"s/d\" { capabilities = [\"read\"] expiration = 120 }
                  path \"s/c\" { capabilities = [\"read\"] }"];
    let at = |second| {
        AclSet::compile(&policies(&texts), &NoIdentity, Timestamp::from_second(second).unwrap())
    };
    assert_eq!(at(0).stale_at(), Some(Timestamp::from_second(60).unwrap()));
    assert_eq!(at(60).stale_at(), Some(Timestamp::from_second(120).unwrap()));
    assert_eq!(at(120).stale_at(), None);
    assert!(at(59).decide(&Ask::new(READ, "s/a")).is_ok());
    let late = at(60);
    let explanation = late.explain(&Ask::new(READ, "s/a"));
    assert_eq!(
        (explanation.reason, explanation.dropped[0].why),
        (Reason::NoRule, SkipReason::Expired)
    );
}

#[test]
fn a_mount_is_reached_by_any_grant_below_it() {
    for (pattern, reached) in [
        ("secret/data/a", true),
        ("secret/*", true),
        ("s*", true),
        ("+/data/a", true),
        ("secret/+/a", true),
        ("secret", true),
        ("secrets/*", false),
        ("other/*", false),
        ("secre", false),
    ] {
        assert_eq!(reading(pattern).reaches("secret/"), reached, "{pattern}");
    }
    assert!(!set(&["path \"secret/*\" { policy = \"deny\" }"]).reaches("secret/"));
    assert!(!set(&["path \"secret/*\" { }"]).reaches("secret/"));
    assert!(reading("a/b/c").reaches("a/b/"));
    assert!(!reading("a/c/c").reaches("a/b/"));
}

#[test]
fn an_explanation_says_where_every_rule_stands() {
    let acl = set(&[
        "\npath \"s/*\" { policy = \"read\" }\npath \"s/{{identity.entity.id}}\" { policy = \"read\" }",
        "path \"S/Key\" { policy = \"deny\" }",
    ]);
    let explanation = acl.explain(&Ask::new(READ, "s/key"));
    assert_eq!(explanation.reason, Reason::DeniedWithoutCase);
    let winner = explanation.decided_by.unwrap();
    assert_eq!((winner.pattern.as_str(), winner.is_exact), ("S/Key", true));
    assert_eq!((winner.sources[0].policy.as_str(), winner.sources[0].line), ("p1", 1));
    assert_eq!(explanation.lost[0].rule.sources[0].line, 2);
    assert_eq!(explanation.lost[0].to, Precedence::Exact);
    assert_eq!(explanation.dropped[0].source.pattern, "s/{{identity.entity.id}}");
    assert_eq!(explanation.dropped[0].source.line, 3);
}

/// Found by fuzzing with coverage: a listing of the empty path asked for `/` too, which `+/` matches.
#[test]
fn the_empty_path_has_one_spelling() {
    let all = Capability::ALL.map(Capability::name);
    let all = all.into_iter().filter(|name| *name != "deny").map(|name| format!("\"{name}\""));
    let all = all.collect::<Vec<_>>().join(", ");
    for (pattern, is_matched) in [
        ("+/", false),
        ("+/*", false),
        ("+/+", false),
        ("a/", false),
        ("+", true),
        ("*", true),
        ("", true),
        ("/", true),
    ] {
        let acl = set(&[format!("path \"{pattern}\" {{ capabilities = [{all}] }}")]);
        let held = acl.capabilities("");
        for capability in [READ, Capability::List, Capability::Scan, Capability::Update] {
            let ask = Ask::new(capability, "");
            assert_eq!(acl.decide(&ask).is_ok(), is_matched, "{capability:?} by {pattern:?}");
            assert_eq!(held.has(capability), is_matched, "{capability:?} by {pattern:?}");
            assert_eq!(acl.explain(&ask).decided_by.is_some(), is_matched, "{pattern:?}");
        }
    }
    let denied = set(&["path \"+/\" { policy = \"deny\" }\npath \"*\" { policy = \"write\" }"]);
    let lost = denied.explain(&Ask::new(Capability::List, "")).lost;
    assert!(lost.is_empty(), "{lost:?}");
}
