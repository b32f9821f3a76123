//! What the client does on the way: redirects, retries, tokens, hints, and the flags that people
//! type in their own order.

use crate::support::{Answer, Stub, directory, kallisto};

const SECRET: &str = r#"{"request_id":"r","data":{"a":"1"}}"#;
const MOUNT: &str = r#"{"data":{"path":"secret/","type":"kv","options":{"version":"2"}}}"#;
const VERSION: &str = r#"{"data":{"data":{"a":"1"},"metadata":{"version":1}}}"#;

fn with<'a>(stub: &'a Stub, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut environment = vec![("VAULT_ADDR", stub.address.as_str()), ("VAULT_TOKEN", "root")];
    environment.extend(more);
    environment
}

#[test]
fn one_redirect_is_followed_with_method_and_body() {
    let target = Stub::start(vec![Answer::of(204, "")]);
    let location = format!("{}/v1/kv/a", target.address);
    let first = Stub::start(vec![Answer::of(307, "").with_header("Location", &location)]);
    let ran = kallisto(&directory(), &with(&first, &[]), "", &["write", "kv/a", "x=1"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Success! Data written to: kv/a\n"));
    let asked = target.asked();
    assert_eq!((asked[0].method.as_str(), asked[0].body.as_str()), ("PUT", "{\"x\":\"1\"}"));
    assert_eq!(asked[0].headers["x-vault-token"], "root");
}

#[test]
fn a_second_redirect_and_a_forbidden_one_are_not_followed() {
    let again = || Answer::of(307, "").with_header("Location", "/v1/elsewhere");
    let stub = Stub::start(vec![again(), again(), Answer::of(200, SECRET)]);
    kallisto(&directory(), &with(&stub, &[]), "", &["read", "kv/a"]);
    assert_eq!(stub.asked().len(), 2);
    let stub = Stub::start(vec![again(), Answer::of(200, SECRET)]);
    kallisto(&directory(), &with(&stub, &[]), "", &["read", "-disable-redirects", "kv/a"]);
    assert_eq!(stub.asked().len(), 1);
}

#[test]
fn retries_are_off_unless_asked_for() {
    let busy =
        || Answer::of(503, r#"{"errors":["Vault is sealed"]}"#).with_header("Retry-After", "0");
    let stub = Stub::start(vec![busy(), busy(), Answer::of(200, SECRET)]);
    let ran = kallisto(&directory(), &with(&stub, &[]), "", &["read", "kv/a"]);
    assert_eq!((ran.code, stub.asked().len()), (2, 1));
    assert!(ran.hints.contains("sealed"), "{ran:?}");
    let stub = Stub::start(vec![busy(), busy(), Answer::of(200, SECRET)]);
    let environment = with(&stub, &[("VAULT_MAX_RETRIES", "2")]);
    let ran = kallisto(&directory(), &environment, "", &["read", "-field=a", "kv/a"]);
    assert_eq!((ran.code, ran.stdout.as_str(), stub.asked().len()), (0, "1", 3));
}

#[test]
fn a_broken_connection_is_an_error_that_names_the_request() {
    let stub = Stub::start(vec![Answer::of(0, "")]);
    let ran = kallisto(&directory(), &with(&stub, &[]), "", &["write", "kv/a", "x=hunter2"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("PUT http://127.0.0.1"), "{ran:?}");
    assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
}

#[test]
fn nobody_listening_gets_a_hint() {
    // Nobody is given that port, as one that was free a moment ago may be.
    let environment = [("VAULT_ADDR", "http://127.0.0.1:1")];
    let read = kallisto(&directory(), &environment, "", &["read", "kv/a"]);
    assert_eq!(read.code, 2);
    assert!(read.hints.contains("VAULT_ADDR"), "{read:?}");
    let status = kallisto(&directory(), &environment, "", &["status"]);
    assert_eq!(status.code, 1);
}

#[test]
fn a_refusal_hints_at_the_token() {
    let stub = Stub::start(vec![Answer::of(403, r#"{"errors":["permission denied"]}"#)]);
    let ran = kallisto(&directory(), &with(&stub, &[]), "", &["read", "kv/a"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("* permission denied"), "{ran:?}");
    assert!(ran.hints.contains("kallisto token lookup"), "{ran:?}");
    assert!(ran.hints.contains("policy explain"), "{ran:?}");
}

#[test]
fn status_tells_sealed_by_its_exit_code() {
    let sealed = r#"{"type":"shamir","initialized":true,"sealed":true,"t":2,"n":3,"progress":1,"nonce":"x","version":"1.18.3"}"#;
    let stub = Stub::start(vec![
        Answer::of(200, sealed),
        Answer::of(503, r#"{"errors":["Vault is sealed"]}"#),
    ]);
    let ran = kallisto(&directory(), &with(&stub, &[]), "", &["status"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stdout.contains("Unseal Progress    1/2"), "{ran:?}");
}

#[test]
fn flags_may_follow_what_they_apply_to() {
    let lines: [&[&str]; 4] = [
        &["kv", "get", "-mount=secret", "-field=a", "app"],
        &["kv", "get", "app", "-mount", "secret", "-field", "a"],
        &["kv", "get", "--mount=secret", "app", "--field=a"],
        &["kv", "get", "secret/app", "-field=a"],
    ];
    for line in lines {
        let stub = Stub::start(vec![Answer::of(200, MOUNT), Answer::of(200, VERSION)]);
        let ran = kallisto(&directory(), &with(&stub, &[]), "", line);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "1"), "{line:?}");
        assert_eq!(stub.asked()[1].path, "/v1/secret/data/app", "{line:?}");
    }
}

#[test]
fn our_spelling_of_a_variable_wins() {
    let stub = Stub::start(vec![Answer::of(200, SECRET)]);
    let environment = with(&stub, &[("KALLISTO_TOKEN", "ours"), ("KALLISTO_FORMAT", "json")]);
    let ran = kallisto(&directory(), &environment, "", &["read", "kv/a"]);
    assert!(ran.stdout.starts_with("{\n"), "{ran:?}");
    assert_eq!(stub.asked()[0].headers["x-vault-token"], "ours");
}

#[test]
fn an_older_server_is_taken_for_one_without_versions() {
    let stub = Stub::start(vec![Answer::of(404, r#"{"errors":[]}"#), Answer::of(204, "")]);
    let ran = kallisto(&directory(), &with(&stub, &[]), "", &["kv", "put", "kv/a", "x=1"]);
    assert_eq!(ran.code, 0);
    assert_eq!(
        (stub.asked()[1].path.as_str(), stub.asked()[1].body.as_str()),
        ("/v1/kv/a", "{\"x\":\"1\"}")
    );
}

#[test]
fn an_answer_that_is_no_json_is_an_error_without_its_text() {
    let stub = Stub::start(vec![Answer::of(200, "<html>hunter2</html>")]);
    let ran = kallisto(&directory(), &with(&stub, &[]), "", &["read", "kv/a"]);
    assert_eq!(ran.code, 2);
    assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
}

#[cfg(unix)]
#[test]
fn login_keeps_the_token_where_only_its_owner_reads_it() {
    use std::os::unix::fs::PermissionsExt;
    let home = directory();
    let found =
        r#"{"data":{"id":"t","accessor":"a","policies":["root"],"ttl":0,"renewable":false}}"#;
    let stub = Stub::start(vec![Answer::of(200, found), Answer::of(200, found)]);
    let environment = [("VAULT_ADDR", stub.address.as_str())];
    let ran = kallisto(&home, &environment, "t0ken\n", &["login", "-no-print", "-"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
    let file = home.join(".vault-token");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "t0ken");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let shown = kallisto(&home, &environment, "", &["print", "token"]);
    assert_eq!(shown.stdout, "t0ken\n");
    kallisto(&home, &environment, "", &["token", "lookup"]);
    assert_eq!(stub.asked()[1].headers["x-vault-token"], "t0ken");
}

#[test]
fn data_to_wrap_is_wrapped_for_five_minutes_unless_somebody_says_otherwise() {
    let wrapped = r#"{"wrap_info":{"token":"w","ttl":300}}"#;
    for (flags, wanted) in [(&[][..], "5m"), (&["-wrap-ttl=1h"], "1h0m0s")] {
        let stub = Stub::start(vec![Answer::of(200, wrapped)]);
        let line = [&["write"], flags, &["sys/wrapping/wrap", "a=b"]].concat();
        let ran = kallisto(&directory(), &with(&stub, &[]), "", &line);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(stub.asked()[0].headers["x-vault-wrap-ttl"], wanted);
    }
    let stub = Stub::start(vec![Answer::of(204, "")]);
    kallisto(&directory(), &with(&stub, &[]), "", &["write", "kv/a", "a=b"]);
    assert_eq!(stub.asked()[0].headers.get("x-vault-wrap-ttl"), None);
}

/// Commands that read an answer themselves.
const READERS: [&[&str]; 18] = [
    &["audit", "list"],
    &["audit", "key", "file"],
    &["audit", "verify", "-device=file", "/dev/null"],
    &["auth", "list"],
    &["secrets", "list"],
    &["secrets", "list", "-format=json"],
    &["secrets", "move", "a", "b"],
    &["policy", "list"],
    &["policy", "read", "app"],
    &["policy", "explain", "-path=secret/a"],
    &["plugin", "list"],
    &["plugin", "info", "auth", "approle"],
    &["token", "capabilities", "secret/a"],
    &["operator", "init", "-status"],
    &["operator", "members"],
    &["operator", "rotate", "-wait"],
    &["operator", "raft", "list-peers"],
    &["operator", "raft", "autopilot", "state"],
];

#[test]
fn what_a_command_reads_itself_is_never_asked_for_wrapped() {
    let wrapped = r#"{"wrap_info":{"token":"w","ttl":300}}"#;
    for line in READERS {
        let stub = Stub::start(vec![Answer::of(200, wrapped), Answer::of(200, wrapped)]);
        let ran = kallisto(&directory(), &with(&stub, &[("VAULT_WRAP_TTL", "5m")]), "", line);
        assert!((1..=2).contains(&ran.code) && ran.stdout.is_empty(), "{line:?}: {ran:?}");
        assert!(ran.stderr.contains("came wrapped"), "{line:?}: {ran:?}");
        for request in stub.asked() {
            assert_eq!(request.headers.get("x-vault-wrap-ttl"), None, "{line:?}: {request:?}");
        }
    }
}

/// Else a secret that was to be wrapped would be printed in the clear.
#[test]
fn a_flag_that_asks_for_wrapping_is_refused_where_nothing_would_be_wrapped() {
    let flag = "-wrap-ttl=60s";
    let readers = READERS.map(|line| [line, &[flag]].concat());
    let others = [
        &["operator", "init", flag][..],
        &["namespace", "list", flag],
        &["kv", "get", flag, "secret/a", "secret/b"],
        &["kv", "get", flag, "-output-curl-string", "secret/a", "secret/b"],
        &["policy", "read", flag, "-output-curl-string", "app"],
        &["ssh", "-mode=otp", "-role=r", flag, "ann@127.0.0.1"],
    ];
    for line in readers.iter().map(Vec::as_slice).chain(others) {
        let stub = Stub::start(vec![Answer::of(200, SECRET)]);
        let ran = kallisto(&directory(), &with(&stub, &[]), "", line);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{line:?}: {ran:?}");
        assert!(ran.stderr.contains("-wrap-ttl"), "{line:?}: {ran:?}");
        assert_eq!(stub.asked(), [], "{line:?}");
    }
    // No duration is no wrapping.
    let stub = Stub::start(vec![Answer::of(200, SECRET)]);
    let ran = kallisto(&directory(), &with(&stub, &[]), "", &["policy", "list", "-wrap-ttl=0"]);
    assert_eq!(stub.asked().len(), 1, "{ran:?}");
    // Several secrets do not come out in the clear by a variable that says the same either.
    let stub = Stub::start(vec![]);
    let environment = with(&stub, &[("VAULT_WRAP_TTL", "60s")]);
    let ran = kallisto(&directory(), &environment, "", &["kv", "get", "secret/a", "secret/b"]);
    assert_eq!((ran.code, stub.asked().len()), (1, 0), "{ran:?}");
}

#[test]
fn an_answer_that_is_printed_as_it_came_is_wrapped_where_that_is_asked_for() {
    let wrapped = r#"{"data":null,"wrap_info":{"token":"w.rap","ttl":60}}"#;
    let roles = r#"{"data":{"roles":["r"]}}"#;
    let home = directory();
    let key = home.join("key.pub");
    std::fs::write(&key, "ssh-ed25519 AAAA\n").unwrap();
    let key = format!("-public-key-path={}", key.display());
    let mut lines = Vec::new();
    for format in ["-format=table", "-format=json"] {
        let ssh = ["ssh", "-no-exec", "-wrap-ttl=60s", format];
        lines.extend([
            ([&ssh[..], &["-mode=otp", "-role=r", "ann@127.0.0.1"]].concat(), vec![wrapped]),
            ([&ssh[..], &["-mode=otp", "ann@127.0.0.1"]].concat(), vec![roles, wrapped]),
            ([&ssh[..], &["-mode=ca", "-role=r", &key, "ann@host"]].concat(), vec![wrapped]),
            (vec!["kv", "get", "-wrap-ttl=60s", format, "secret/a"], vec![MOUNT, wrapped]),
            (
                vec!["kv", "patch", "-method=rw", "-wrap-ttl=60s", format, "secret/a", "b=1"],
                vec![MOUNT, VERSION, wrapped],
            ),
            (
                vec!["kv", "rollback", "-version=1", "-wrap-ttl=60s", format, "secret/a"],
                vec![MOUNT, VERSION, VERSION, wrapped],
            ),
        ]);
        for verb in ["create", "lookup", "patch", "lock"] {
            lines.push((vec!["namespace", verb, "-wrap-ttl=60s", format, "team"], vec![wrapped]));
        }
    }
    for (line, answers) in lines {
        let count = answers.len();
        let stub = Stub::start(answers.into_iter().map(|text| Answer::of(200, text)).collect());
        let ran = kallisto(&home, &with(&stub, &[]), "", &line);
        assert_eq!(ran.code, 0, "{line:?}: {ran:?}");
        assert!(ran.stdout.contains("w.rap"), "{line:?}: {ran:?}");
        let asked = stub.asked();
        let ttl = |at: usize| asked[at].headers.get("x-vault-wrap-ttl").map(String::as_str);
        assert_eq!(asked.len(), count, "{line:?}");
        assert_eq!(ttl(count - 1), Some("1m0s"), "{line:?}");
        assert!((0..count - 1).all(|at| ttl(at).is_none()), "{line:?}");
    }
}

#[test]
fn nothing_is_said_of_what_an_answer_does_not_have() {
    for line in READERS.into_iter().chain([&["namespace", "lookup", "team"][..]]) {
        for answer in [r#"{"request_id":"r","data":null}"#, r#"{"request_id":"r"}"#] {
            let stub = Stub::start(vec![Answer::of(200, answer), Answer::of(200, answer)]);
            let ran = kallisto(&directory(), &with(&stub, &[]), "", line);
            assert!((1..=2).contains(&ran.code) && ran.stdout.is_empty(), "{line:?}: {ran:?}");
        }
    }
    for (line, answer) in [
        (&["audit", "verify", "-device=file", "/dev/null"][..], r#"{"data":{"seq":4}}"#),
        (&["policy", "explain", "-path=a"], r#"{"data":{"reason":"r"}}"#),
        (&["status"], r#"{"data":{"initialized":true}}"#),
        (&["kv", "search", "secret", "a"], r#"{"data":{"path":"secret/"}}"#),
    ] {
        let stub = Stub::start(vec![Answer::of(200, answer), Answer::of(200, answer)]);
        let ran = kallisto(&directory(), &with(&stub, &[]), "", line);
        assert!((1..=2).contains(&ran.code) && ran.stdout.is_empty(), "{line:?}: {ran:?}");
    }
}

#[test]
fn a_404_that_says_why_is_not_taken_for_nothing() {
    let unknown = || Answer::of(404, r#"{"errors":["namespace not found"]}"#);
    for line in [
        &["token", "lookup"][..],
        &["read", "secret/data/a"],
        &["list", "secret/metadata"],
        &["kv", "get", "secret/a"],
        &["policy", "read", "app"],
        &["secrets", "list"],
    ] {
        let stub = Stub::start(vec![unknown(), unknown()]);
        let ran = kallisto(&directory(), &with(&stub, &[]), "", line);
        let said = format!("{}{}", ran.stderr, ran.hints);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{line:?}: {ran:?}");
        assert!(said.contains("namespace not found"), "{line:?}: {ran:?}");
    }
}

#[test]
fn an_address_that_ends_in_v1_is_named_as_the_cause() {
    let unknown = || Answer::of(404, r#"{"errors":["no handler for route"]}"#);
    for line in [&["read", "secret/data/a"][..], &["secrets", "list"]] {
        let stub = Stub::start(vec![unknown()]);
        let address = format!("{}/v1", stub.address);
        let environment = [("VAULT_ADDR", address.as_str()), ("VAULT_TOKEN", "root")];
        let ran = kallisto(&directory(), &environment, "", line);
        assert!(ran.code == 2 && ran.hints.contains("VAULT_ADDR ends in /v1"), "{ran:?}");
    }
}

#[test]
fn programs_get_the_data_of_a_namespace_alone() {
    let answer = r#"{"request_id":"r","data":{"id":"i","path":"team/"}}"#;
    let stub = Stub::start(vec![Answer::of(200, answer)]);
    let line = ["namespace", "lookup", "-format=json", "team"];
    let ran = kallisto(&directory(), &with(&stub, &[]), "", &line);
    assert_eq!(ran.stdout, "{\n  \"id\": \"i\",\n  \"path\": \"team/\"\n}\n", "{ran:?}");
}

#[test]
fn nothing_is_migrated_between_namespaces_of_which_one_is_unknown() {
    let seal = |id: &str| Answer::of(200, &format!(r#"{{"sealed":false,"cluster_id":"{id}"}}"#));
    let known = || Answer::of(200, r#"{"data":{"auth":{},"secret":{}}}"#);
    let unknown = || Answer::of(404, r#"{"errors":["namespace not found"]}"#);
    for pass in ["-dry-run", "-compare"] {
        for (source, target) in [(unknown(), known()), (known(), unknown())] {
            let source = Stub::start(vec![seal("one"), source]);
            let target = Stub::start(vec![seal("other"), target]);
            let from =
                [("VAULT_SOURCE_ADDR", source.address.as_str()), ("VAULT_SOURCE_TOKEN", "root")];
            let ran = kallisto(&directory(), &with(&target, &from), "", &["migrate", pass]);
            assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{pass}: {ran:?}");
            assert!(ran.stderr.contains("404: namespace not found"), "{pass}: {ran:?}");
        }
    }
}

#[test]
fn what_was_wrapped_is_shown_as_what_it_is() {
    let list = r#"{"request_id":"r","data":{"keys":["b","a"]}}"#;
    let nothing = "Successfully unwrapped. There was no data in the wrapped secret.\n";
    for (answer, line, wanted) in [
        (Answer::of(200, list), &["unwrap", "w"][..], "Keys\n----\na\nb\n"),
        (Answer::of(200, list), &["unwrap", "-format=json", "w"], "[\n  \"b\",\n  \"a\"\n]\n"),
        (Answer::of(200, list), &["unwrap", "-field=keys", "w"], "[b a]"),
        (Answer::of(204, ""), &["unwrap", "w"], nothing),
        (Answer::of(204, ""), &["unwrap", "-format=json", "w"], ""),
    ] {
        let stub = Stub::start(vec![answer]);
        let ran = kallisto(&directory(), &with(&stub, &[]), "", line);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, wanted), "{line:?}");
    }
}

#[test]
fn version_nought_is_any_version_of_what_is_changed() {
    for (flag, wanted) in [("-cas=0", "{}"), ("-cas=3", r#"{"cas":3}"#)] {
        let stub = Stub::start(vec![Answer::of(200, MOUNT), Answer::of(200, VERSION)]);
        let line = ["kv", "patch", flag, "secret/app", "a=2"];
        kallisto(&directory(), &with(&stub, &[]), "", &line);
        let body = format!(r#"{{"data":{{"a":"2"}},"options":{wanted}}}"#);
        assert_eq!(stub.asked()[1].body, body);
    }
}

#[test]
fn a_login_takes_from_the_environment_what_is_not_said() {
    let made = r#"{"auth":{"client_token":"t","policies":["default"]}}"#;
    let environment =
        [("LOGNAME", "ada"), ("VAULT_LDAP_PASSWORD", "pw"), ("VAULT_AUTH_GITHUB_TOKEN", "gh")];
    for (line, path, body) in [
        (&["-method=ldap"][..], "/v1/auth/ldap/login/ada", r#"{"password":"pw"}"#),
        (
            &["-method=ldap", "-path=corp", "username=bob", "password=x"],
            "/v1/auth/corp/login/bob",
            r#"{"password":"x"}"#,
        ),
        (
            &["-method=userpass", "mount=people", "username=bob", "password=x"],
            "/v1/auth/people/login/bob",
            r#"{"password":"x"}"#,
        ),
        (&["-method=github"], "/v1/auth/github/login", r#"{"token":"gh"}"#),
    ] {
        let stub = Stub::start(vec![Answer::of(200, made)]);
        let words = [&["login", "-token-only"], line].concat();
        let ran = kallisto(&directory(), &with(&stub, &environment), "", &words);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "t"), "{ran:?}");
        assert_eq!((stub.asked()[0].path.as_str(), stub.asked()[0].body.as_str()), (path, body));
    }
}

/// The answer that asks for a code is not wrapped, the token that comes of it is.
#[test]
fn a_login_with_a_second_factor_is_wrapped_where_that_is_asked_for() {
    let asks = r#"{"auth":{"client_token":"","mfa_requirement":{"mfa_request_id":"q","mfa_constraints":{"r":{"any":[{"type":"totp","id":"m","name":""}]}}}}}"#;
    let wrapped = r#"{"wrap_info":{"token":"w.rap","ttl":60}}"#;
    let token = r#"{"auth":{"client_token":"t0ken","policies":["default"]}}"#;
    let line = ["-method=userpass", "-wrap-ttl=60", "-mfa=123456", "username=ann", "password=pw"];
    let answers = || vec![Answer::of(200, asks), Answer::of(200, wrapped), Answer::of(200, token)];
    for (flag, asked) in [("-token-only", 2), ("-no-store", 2), ("-no-print", 3)] {
        let stub = Stub::start(answers());
        let home = directory();
        let environment = with(&stub, &[("VAULT_TOKEN", "")]);
        let ran = kallisto(&home, &environment, "", &[&["login", flag][..], &line].concat());
        assert_eq!(ran.code, 0, "{flag}: {ran:?}");
        let requests = stub.asked();
        assert_eq!(requests.len(), asked, "{flag}: {requests:?}");
        assert_eq!(requests[1].path, "/v1/sys/mfa/validate");
        assert_eq!(requests[1].headers["x-vault-wrap-ttl"], "1m0s", "{flag}");
        assert_eq!(ran.stdout.contains("w.rap"), asked == 2, "{flag}: {ran:?}");
        let kept = std::fs::read_to_string(home.join(".vault-token")).ok();
        assert_eq!(kept.as_deref(), (asked == 3).then_some("t0ken"), "{flag}");
    }
}

#[test]
fn all_of_the_data_is_a_field() {
    for (format, wanted) in [("table", "map[a:1]"), ("json", "{\n  \"a\": \"1\"\n}")] {
        let stub = Stub::start(vec![Answer::of(200, MOUNT), Answer::of(200, VERSION)]);
        let format = format!("-format={format}");
        let line = ["kv", "get", &format, "-field=data", "secret/app"];
        let ran = kallisto(&directory(), &with(&stub, &[]), "", &line);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, wanted));
    }
}

#[test]
fn a_namespace_that_is_not_there_has_no_lists() {
    for line in [["secrets", "list"], ["auth", "list"], ["policy", "list"], ["audit", "list"]] {
        let stub = Stub::start(vec![Answer::of(404, r#"{"errors":[]}"#)]);
        let ran = kallisto(&directory(), &with(&stub, &[]), "", &line);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
        assert!(ran.stderr.contains("namespace"), "{ran:?}");
    }
}

#[test]
fn programs_get_a_document_where_nothing_is_listed() {
    let warned = r#"{"data":{"a":"1"},"warnings":["no list"]}"#;
    let stub = Stub::start(vec![Answer::of(404, warned)]);
    let line = ["list", "-format=json", "secret"];
    let ran = kallisto(&directory(), &with(&stub, &[]), "", &line);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, "{}\n"), "{ran:?}");
}

#[test]
fn programs_get_what_vaults_command_line_prints_of_a_cluster() {
    let state = r#"{"request_id":"r","data":{"healthy":true,"leader":"a","servers":{}}}"#;
    let wanted = "{\n  \"healthy\": true,\n  \"leader\": \"a\",\n  \"servers\": {}\n}\n";
    let engines = r#"{"data":{"auth":["jwt"],"secret":["kv"],"detailed":[{"name":"jwt","type":"auth"},{"name":"kv","type":"secret"}]}}"#;
    let details = "{\n  \"auth\": [\n    \"jwt\"\n  ],\n  \"details\": [\n    {\n      \"name\": \"jwt\",\n      \"type\": \"auth\"\n    }\n  ]\n}\n";
    for (line, answer, wanted) in [
        ("operator raft autopilot state -format=json", state, wanted),
        (
            "operator raft join -format=json http://a:8200",
            r#"{"joined":true}"#,
            "{\n  \"joined\": true\n}\n",
        ),
        ("plugin list -format=json auth", engines, details),
        (
            "plugin info -format=json auth jwt",
            r#"{"request_id":"r","data":{"builtin":true,"name":"jwt","oci":false}}"#,
            "{\n  \"builtin\": true,\n  \"name\": \"jwt\"\n}\n",
        ),
        (
            "plugin info auth jwt",
            r#"{"request_id":"r","data":{"builtin":true,"name":"jwt","oci":false}}"#,
            "Key        Value\n---        -----\nbuiltin    true\nname       jwt\n",
        ),
    ] {
        let stub = Stub::start(vec![Answer::of(200, answer)]);
        let words: Vec<&str> = line.split(' ').collect();
        let ran = kallisto(&directory(), &with(&stub, &[]), "", &words);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, wanted), "{line}");
    }
    let stub = Stub::start(vec![Answer::of(200, state)]);
    let line = ["operator", "raft", "autopilot", "state", "-format=pretty"];
    let ran = kallisto(&directory(), &with(&stub, &[]), "", &line);
    assert!(ran.stdout.contains("healthy"), "{ran:?}");
}
