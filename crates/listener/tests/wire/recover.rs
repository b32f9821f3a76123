//! What names a loaded snapshot to recover from never runs as anything else: every spelling, by both readers of HTTP/1.1.

use crate::support::{Running, TOKEN};

/// Makes a request hyper's, and changes no answer.
const NOT_PLAIN: (&str, &str) = ("TE", "trailers");
const HEADER: &str = "X-Vault-Recover-Snapshot-Id";
/// What is answered where no id is named, where there are two, and where there is one.
const NONE: &str = "RECOVER needs a loaded snapshot";
const MANY: &str = "more than one snapshot is named";
const ONE: &str = "no snapshot a is loaded";

/// Query, headers, and what the refusal says.
type Spelling = (&'static str, &'static [&'static str], &'static str);

/// Ways of naming a snapshot.
const SPELLINGS: [Spelling; 13] = [
    ("?recover_snapshot_id=", &[], NONE),
    ("?recover_snapshot_id", &[], NONE),
    ("?recover_snapshot_id=&recover_snapshot_id=", &[], NONE),
    ("", &[""], NONE),
    ("?recover_snapshot_id=&recover_snapshot_id=a", &[], MANY),
    ("?recover_snapshot_id=a&recover_snapshot_id=", &[], MANY),
    ("?recover_snapshot_id=a&recover_snapshot_id=b", &[], MANY),
    ("?recover_snapshot_id=a", &[""], MANY),
    ("?recover_snapshot_id=", &["a"], MANY),
    ("", &["a", "b"], MANY),
    ("?%72ecover_snapshot_id=a", &[], ONE),
    ("?recover_snapshot_id=a&recover_snapshot_id=a", &["a"], ONE),
    ("", &["a"], ONE),
];

/// Asks both readers with these ids in headers; they say the same.
fn told(server: &Running, method: &str, path: &str, ids: &[&str], body: &str) -> (u16, String) {
    let named = ids.iter().map(|id| (HEADER, *id));
    let plain: Vec<_> = [("X-Vault-Token", TOKEN)].into_iter().chain(named).collect();
    let other = [plain.as_slice(), &[NOT_PLAIN]].concat();
    let [plain, other] = [plain, other].map(|headers| {
        let reply = server.connect().ask_with(method, path, &headers, body);
        (reply.status, reply.text())
    });
    assert_eq!(plain, other, "{method} {path} {ids:?}");
    plain
}

#[test]
fn every_spelling_of_a_snapshot_recovers_or_is_refused() {
    let server = Running::start();
    let body = r#"{"data":{"a":"written"}}"#;
    server.ask("POST", "secret/data/one", r#"{"data":{"a":"b"}}"#);
    for (query, ids, says) in SPELLINGS {
        for method in ["RECOVER", "POST", "PUT"] {
            let path = format!("secret/data/one{query}");
            let (status, text) = told(&server, method, &path, ids, body);
            assert!(
                status == 400 && text.contains(says),
                "{method} {path} {ids:?}: {status} {text}"
            );
        }
    }
    let (status, text) = told(&server, "RECOVER", "secret/data/one", &[], body);
    assert!(status == 400 && text.contains(NONE), "{text}");
    let kept = server.ask("GET", "secret/data/one", "");
    assert_eq!(kept.text_at("data/metadata/version"), "1");
    // Elsewhere the name means nothing.
    let read = server.ask("GET", "secret/data/one?recover_snapshot_id=", "");
    assert_eq!(read.status, 200);
}

#[test]
fn a_recovery_at_any_other_path_is_refused() {
    let server = Running::start();
    server.ask("POST", "sys/auth/userpass", r#"{"type":"userpass"}"#);
    server.ask("POST", "auth/userpass/users/u", r#"{"password":"secret-of-u"}"#);
    let login = r#"{"password":"secret-of-u"}"#;
    for (path, body) in [
        ("auth/userpass/login/u", login),
        ("sys/unseal", r#"{"key":"00"}"#),
        ("sys/unseal", r#"{"reset":true}"#),
        ("sys/init", r#"{"secret_shares":1,"secret_threshold":1}"#),
        ("sys/rekey/init", r#"{"secret_shares":1,"secret_threshold":1}"#),
        ("sys/generate-root/attempt", "{}"),
        ("sys/health", ""),
        ("sys/seal", ""),
        ("sys/storage/raft/snapshot-load", "file"),
        ("sys/policies/acl/p", r#"{"policy":""}"#),
        ("auth/token/create", "{}"),
    ] {
        for method in ["RECOVER", "POST"] {
            for (query, ids) in [("", &["a"][..]), ("?recover_snapshot_id=a", &[])] {
                let (status, text) = told(&server, method, &format!("{path}{query}"), ids, body);
                assert_eq!(status, 400, "{method} {path}{query}: {text}");
                assert!(!text.contains("\"auth\""), "{text}");
            }
        }
    }
    assert_eq!(server.ask("POST", "auth/userpass/login/u", login).status, 200);
    server.assert_serves();
}
