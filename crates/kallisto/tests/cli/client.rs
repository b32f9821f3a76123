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
    // A port that was free a moment ago: nobody listens once the listener is gone.
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let environment = [("VAULT_ADDR", address.as_str())];
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
