//! What got around the policies of other servers, each as a test.

use std::borrow::Cow;

use jiff::Timestamp;

use super::{Ask, Dice, policies, set, set_for};
use crate::{
    AclSet, Capability, Denied, NoIdentity, Operation, Path, Precedence, Subject, TemplateSubject,
    Token, TokenKind, Variable, authorize_by,
};

struct Request<'a>(Operation, Path<'a>);

impl Subject for Request<'_> {
    fn operation(&self) -> Operation {
        self.0
    }

    fn path(&self) -> &Path<'_> {
        &self.1
    }

    fn needs_sudo(&self) -> bool {
        self.1.as_str() == "sys/seal"
    }
}

/// One spelling of `path`: escaped here and there, with segments in between that mean nothing.
fn spelling(path: &str, dice: &mut Dice) -> String {
    let mut spelled = String::new();
    for byte in path.bytes() {
        match (byte, dice.below(12)) {
            (b'/', 0) => spelled.push_str("//"),
            (b'/', 1) => spelled.push_str("/./"),
            (b'/', 2) => spelled.push_str("/x/../"),
            (b'/', 3) => spelled.push_str("/%2e%2e/"),
            (b'/', 4) => spelled.push('\\'),
            (b'/', 5) => spelled.push_str("%5C"),
            (b'/', 6) => spelled.push_str("%2F"),
            (b'/', 7) => spelled.push_str("%2f"),
            (_, 8) => spelled.push_str(&format!("%{byte:02X}")),
            (_, 9) => spelled.push_str(&format!("%{byte:02x}")),
            _ => spelled.push(char::from(byte)),
        }
    }
    match dice.below(16) {
        0 => format!("/{spelled}"),
        1 => format!("./{spelled}"),
        2 => format!("{spelled}%00"),
        3 => format!("{spelled}/."),
        _ => spelled,
    }
}

#[test]
fn ten_thousand_spellings_of_a_path_are_one_path_or_none() {
    let acl = set(&[
        "path \"secret/data/*\" { capabilities = [\"read\", \"update\", \"delete\", \"list\"] }
                     path \"secret/data/team/+/key\" { capabilities = [\"read\"] }
                     path \"secret/data/team/prod/*\" { capabilities = [\"deny\"] }
                     path \"secret/data/a b\" { capabilities = [\"delete\"] }",
    ]);
    let operations = [
        Operation::Read,
        Operation::Update,
        Operation::Patch,
        Operation::Delete,
        Operation::List,
        Operation::Scan,
    ];
    let mut dice = Dice(1);
    let (mut same, mut refused) = (0, 0);
    for path in [
        "secret/data/team/prod/key",
        "secret/data/team/test/key",
        "secret/data/team/prod/",
        "secret/data/a b",
        "secret/metadata/x",
    ] {
        for _ in 0..10_000 {
            let spelled = spelling(path, &mut dice);
            let Ok(decoded) = Path::decode(&spelled) else {
                refused += 1;
                continue;
            };
            assert_eq!(decoded.as_str(), path, "{spelled}");
            same += 1;
            for operation in operations {
                let spelled = acl.decide(&Request(operation, decoded.clone())).is_ok();
                let plain = Path::decode(path).unwrap();
                assert_eq!(spelled, acl.decide(&Request(operation, plain)).is_ok());
            }
        }
    }
    assert!(same > 2_000 && refused > 10_000, "{same} {refused}");
}

#[test]
fn a_listing_asks_for_both_forms_of_its_path() {
    let acl = set(&["path \"s/*\" { capabilities = [\"list\", \"read\"] }
                     path \"s/team\" { capabilities = [\"deny\"] }
                     path \"s/ops\" { capabilities = [\"read\"] }
                     path \"s/web/\" { capabilities = [\"list\"] }
                     path \"t\" { capabilities = [\"list\"] }"]);
    let list = |path| acl.decide(&Ask::new(Capability::List, path)).is_ok();
    for path in ["s/team", "s/team/", "s/ops", "s/ops/"] {
        assert!(!list(path), "{path}");
    }
    for path in ["s/", "s", "s/web", "s/web/", "s/other", "t", "t/"] {
        assert!(list(path), "{path}");
    }
    assert_eq!(acl.capabilities("s/team/").names(), ["deny"]);
    assert_eq!(acl.capabilities("t").names(), ["list"]);
    assert_eq!(acl.capabilities("s").names(), ["deny"]);
    // A denial of the one form is not passed by with the other, whatever is asked.
    let acl = set(&["path \"s/+\" { policy = \"deny\" } path \"s/*\" { policy = \"write\" }"]);
    for capability in [Capability::List, Capability::Read, Capability::Delete] {
        assert!(acl.decide(&Ask::new(capability, "s/a/")).is_err());
        assert!(acl.decide(&Ask::new(capability, "s/a/b")).is_ok());
    }
    // Otherwise rules for the form with the slash come first, as elsewhere.
    let acl =
        set(&["path \"+/b/+\" { policy = \"write\" } path \"+/*\" { capabilities = [\"list\"] }"]);
    assert_eq!(acl.capabilities("a/b/c/").names(), ["list"]);
    assert_eq!(
        acl.explain(&Ask::new(Capability::List, "a/b/c/")).lost[0].to,
        Precedence::WithSlash
    );
    // Of two exact rules for the two forms a denial speaks.
    for (with, without) in [("list", "deny"), ("deny", "list")] {
        let acl = set(&[format!(
            "path \"a/\" {{ capabilities = [\"{with}\"] }} path \"a\" {{ capabilities = [\"{without}\"] }}"
        )]);
        assert!(acl.decide(&Ask::new(Capability::List, "a")).is_err());
    }
}

#[test]
fn no_case_of_a_denied_path_gets_in() {
    let acl = set(&["path \"*\" { capabilities = [\"read\", \"list\", \"update\", \"sudo\"] }
                     path \"secret/Admin\" { capabilities = [\"deny\"] }
                     path \"secret/Straße/*\" { capabilities = [\"deny\"] }
                     path \"Team/+/Key\" { capabilities = [\"deny\"] }
                     path \"kelvin/K\" { capabilities = [\"deny\"] }"]);
    let refused = |path: &str| {
        for capability in [Capability::Read, Capability::List, Capability::Update] {
            assert!(acl.decide(&Ask::new(capability, path)).is_err(), "{path}");
        }
        assert_eq!(acl.capabilities(path).names(), ["deny"], "{path}");
    };
    let mut dice = Dice(3);
    for path in ["secret/Admin", "secret/Straße/x", "Team/any/Key", "team/ANY/key"] {
        refused(path);
        for (at, character) in path.char_indices() {
            for other in [character.to_ascii_uppercase(), character.to_ascii_lowercase()] {
                let (before, after) = (&path[..at], &path[at + character.len_utf8()..]);
                refused(&format!("{before}{other}{after}"));
            }
        }
        for _ in 0..1000 {
            let flip = |c: char| {
                if dice.below(2) == 0 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
            };
            refused(&path.chars().map(flip).collect::<String>());
        }
    }
    for path in ["SECRET/STRASSE/x", "secret/strasse/X", "kelvin/k", "kelvin/\u{212a}"] {
        refused(path);
    }
    // Case is kept everywhere else, and a denial is no broader than its pattern.
    assert!(acl.decide(&Ask::new(Capability::Read, "secret/Admins")).is_ok());
    let exact =
        set(&["path \"s/A*\" { capabilities = [\"deny\"] } path \"s/ab\" { policy = \"read\" }"]);
    assert!(exact.decide(&Ask::new(Capability::Read, "s/ab")).is_ok());
    assert!(exact.decide(&Ask::new(Capability::Read, "s/aB")).is_err());
}

fn token(kind: TokenKind) -> Token {
    Token {
        accessor: "a".into(),
        kind,
        policies: vec!["root".into()],
        display_name: "t".into(),
        path: "auth/token/create".into(),
        created_at: Timestamp::UNIX_EPOCH,
        expires_at: None,
        orphan: true,
    }
}

/// A cache that forgot to ask must not keep an expired rule alive.
#[test]
fn a_stale_set_decides_nothing() {
    let acl = set(&["path \"s/a\" { capabilities = [\"read\"] }
                     path \"s/b\" { capabilities = [\"read\"] expiration = 60 }"]);
    let ask = || Request(Operation::Read, Path::decode("s/a").unwrap());
    let at = |second| Timestamp::from_second(second).unwrap();
    assert!(authorize_by(&token(TokenKind::Service), &acl, ask(), at(59)).is_ok());
    assert!(authorize_by(&token(TokenKind::Service), &acl, ask(), at(60)).is_err());
    assert!(authorize_by(&token(TokenKind::Root), &acl, ask(), at(60)).is_ok());
}

#[test]
fn root_is_a_kind_of_token_and_no_policy() {
    let now = Timestamp::from_second(10).unwrap();
    let ask = || Request(Operation::Update, Path::decode("sys/seal").unwrap());
    let all = set(&[
        "path \"*\" { capabilities = [\"create\", \"read\", \"update\", \"delete\", \"list\"] }",
    ]);
    assert!(authorize_by(&token(TokenKind::Root), &AclSet::default(), ask(), now).is_ok());
    for acl in [AclSet::default(), all] {
        let refused = authorize_by(&token(TokenKind::Service), &acl, ask(), now);
        assert_eq!(refused.map(|_| ()).unwrap_err(), Denied);
    }
    let sudo = set(&["path \"sys/seal\" { capabilities = [\"update\", \"sudo\"] }"]);
    assert!(authorize_by(&token(TokenKind::Service), &sudo, ask(), now).is_ok());
}

/// A caller that chose its own names.
struct Hostile(&'static str);

impl TemplateSubject for Hostile {
    fn value(&self, _: &Variable) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(self.0))
    }
}

#[test]
fn a_callers_value_is_text_and_never_widens() {
    let text = ["path \"s/{{identity.entity.name}}\" { policy = \"read\" }
                 path \"t/{{identity.entity.name}}/*\" { policy = \"read\" }"];
    for name in ["*", "+", "a*", "a/b", "../a", "a+", "/", ""] {
        let acl = set_for(&text, &Hostile(name));
        assert_eq!(acl.rules().count(), 0, "{name}");
        let explanation = acl.explain(&Ask::new(Capability::Read, "s/a"));
        assert_eq!(explanation.dropped.len(), 2);
    }
    let acl = set_for(&text, &Hostile("ann"));
    assert!(acl.decide(&Ask::new(Capability::Read, "s/ann")).is_ok());
    assert!(acl.decide(&Ask::new(Capability::Read, "s/bob")).is_err());
    assert!(acl.decide(&Ask::new(Capability::Read, "t/ann/x")).is_ok());
    // A denial keeps such values, as text: dropping it would grant.
    let denial = ["path \"*\" { policy = \"read\" }
                   path \"s/{{identity.entity.name}}\" { policy = \"deny\" }"];
    for (name, path, granted) in [
        ("*", "s/*", false),
        ("*", "s/a", true),
        ("+", "s/+", false),
        ("+", "s/a", true),
        ("a/b", "s/a/b", false),
    ] {
        let acl = set_for(&denial, &Hostile(name));
        assert_eq!(acl.decide(&Ask::new(Capability::Read, path)).is_ok(), granted, "{name} {path}");
    }
}

#[test]
fn no_wildcard_and_no_template_reaches_into_a_namespace() {
    let below = |text: &str| {
        let policies = policies(&[text]);
        AclSet::compile_below(&policies, &Hostile("team"), "team/kid/", Timestamp::UNIX_EPOCH)
    };
    let reads = |text: &str| below(text).decide(&Ask::new(Capability::Read, "kv/a")).is_ok();
    let grant = |path: &str| format!("path \"{path}\" {{ policy = \"read\" }}\n");
    let deny = |path: &str| format!("path \"{path}\" {{ policy = \"deny\" }}\n");
    for (path, granted) in [
        ("team/kid/kv/a", true),
        ("/team/kid/kv/*", true),
        ("team/kid/*", true),
        ("team/kid/+/a", true),
        ("*", false),
        ("team/*", false),
        ("team/kid*", false),
        ("team/+/kv/a", false),
        ("+/kid/kv/*", false),
        ("{{identity.entity.name}}/kid/kv/a", false),
        ("team/kid", false),
        ("kv/a", false),
        ("Team/kid/kv/a", false),
        ("team/kid/kid/kv/a", false),
    ] {
        assert_eq!(reads(&grant(path)), granted, "{path}");
    }
    // A denial counts wherever it matches.
    for (path, granted) in [
        ("team/kid/kv/a", false),
        ("TEAM/Kid/kv/a", false),
        ("team/+/kv/a", false),
        ("+/+/kv/a", false),
        ("{{identity.entity.name}}/kid/kv/a", false),
        ("team/other/kv/a", true),
        ("kv/a", true),
        // Less specific than the grant, as everywhere.
        ("*", true),
        ("team/k*", true),
    ] {
        let text = grant("team/kid/kv/*") + &deny(path);
        assert_eq!(reads(&text), granted, "{path}");
    }
}

/// What is spelled out decides inside as the whole path would outside.
#[test]
fn a_policy_seen_from_below_decides_as_it_does_of_the_whole_path() {
    let tails = ["*", "kv/*", "kv/+", "kv/a", "kv/a*", "+/a", "kv/+/b", "kv/b/"];
    let paths = ["kv/a", "kv/b", "kv/ab", "kv/a/b", "kv/b/", "x/a", "kv"];
    for first in tails {
        for second in tails {
            for (one, other) in [("read", "deny"), ("deny", "read"), ("read", "write")] {
                let text = format!(
                    "path \"ns/{first}\" {{ policy = \"{one}\" }}
                     path \"ns/{second}\" {{ policy = \"{other}\" }}"
                );
                let policies = policies(&[text.as_str()]);
                let now = Timestamp::UNIX_EPOCH;
                let whole = AclSet::compile(&policies, &NoIdentity, now);
                let inside = AclSet::compile_below(&policies, &NoIdentity, "ns/", now);
                for path in paths {
                    for capability in [Capability::Read, Capability::Update, Capability::List] {
                        let ask = |path: &str| Ask::new(capability, path);
                        assert_eq!(
                            inside.decide(&ask(path)).is_ok(),
                            whole.decide(&ask(&format!("ns/{path}"))).is_ok(),
                            "{path} {capability:?} {text}"
                        );
                    }
                }
            }
        }
    }
}
