//! Which mistakes are those of the call (1), and what cannot be used (2), as the page of exit codes says.

use crate::support::{Answer, DevServer, Ran, Stub, directory, kallisto};

/// Nobody is given that port, as one that was free a moment ago may be.
const NOBODY: (&str, &str) = ("VAULT_ADDR", "http://127.0.0.1:1");

/// Runs a line whose words are apart by one blank.
fn run(variable: (&str, &str), line: &str) -> Ran {
    let words: Vec<&str> = line.split(' ').collect();
    kallisto(&directory(), &[NOBODY, ("VAULT_TOKEN", "root"), variable], "", &words)
}

#[test]
fn wrong_arguments_and_flags_exit_with_one_and_nothing_is_sent() {
    let stub = Stub::start(Vec::new());
    for line in [
        "token create -ttl=abc",
        "token create -period=abc",
        "token create -explicit-max-ttl=1y",
        "token renew -increment=abc",
        "lease renew -increment=abc x",
        "secrets enable -default-lease-ttl=abc kv",
        "secrets tune -max-lease-ttl=abc secret",
        "auth enable -default-lease-ttl=abc userpass",
        "auth tune -user-lockout-duration=abc userpass",
        "operator raft autopilot set-config -last-contact-threshold=abc",
        "kv get -wrap-ttl=abc secret/a",
        "kv get -header=bad secret/a",
        "kv put secret/a @nofile",
        "kv put secret/a b=@nofile",
        "bench http -address redis://127.0.0.1:1",
        "bench resp -address http://127.0.0.1:1",
        "bench herd -address redis://127.0.0.1:1",
    ] {
        let ran = run(("VAULT_ADDR", &stub.address), line);
        assert_eq!(ran.code, 1, "{line}: {ran:?}");
        assert!(!ran.stderr.is_empty(), "{line}");
    }
    assert_eq!(stub.asked(), []);
}

#[test]
fn durations_that_vaults_command_line_takes_are_taken() {
    for (flag, wanted) in [("-ttl=90", "90"), ("-ttl=1h30m", "1h30m"), ("-ttl=1d", "1d")] {
        let stub = Stub::start(vec![Answer::of(200, r#"{"auth":{"client_token":"t"}}"#)]);
        let ran = run(("VAULT_ADDR", &stub.address), &format!("token create {flag} -field=token"));
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "t"), "{ran:?}");
        assert_eq!(stub.asked()[0].body, format!("{{\"ttl\":\"{wanted}\"}}"));
    }
    for flag in ["-default-lease-ttl=-1", "-max-lease-ttl=-1s"] {
        let stub = Stub::start(vec![Answer::of(204, "")]);
        let ran = run(("VAULT_ADDR", &stub.address), &format!("secrets tune {flag} secret"));
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(stub.asked()[0].body.contains("system"), "{:?}", stub.asked());
    }
}

#[test]
fn an_environment_a_file_and_a_server_that_cannot_be_used_exit_with_two() {
    for variable in [
        ("VAULT_ADDR", "foo"),
        ("VAULT_ADDR", "ftp://foo"),
        ("VAULT_ADDR", "http://ann:s3cr3t@foo"),
        ("VAULT_WRAP_TTL", "abc"),
        ("VAULT_CLIENT_TIMEOUT", "abc"),
        ("VAULT_MAX_RETRIES", "x"),
        ("VAULT_SKIP_VERIFY", "maybe"),
        ("VAULT_CACERT", "/nope"),
        ("VAULT_CLIENT_CERT", "/nope"),
        ("VAULT_TOKEN", "bad\u{7}"),
        ("VAULT_HTTP_PROXY", "::::"),
        NOBODY,
    ] {
        let ran = run(variable, "kv get secret/a");
        assert_eq!(ran.code, 2, "{variable:?}: {ran:?}");
        assert!(!ran.stderr.is_empty() && !ran.stderr.contains("s3cr3t"), "{variable:?}: {ran:?}");
    }
    for line in [
        "kv get -address=foo secret/a",
        "kv get -ca-cert=/nope secret/a",
        "kv get -client-cert=/nope secret/a",
        "policy write x nofile",
        "operator raft snapshot restore nofile",
        "operator raft snapshot save /nope/file",
        "bench http -connections=1 -duration=1 -address http://127.0.0.1:1",
        "bench herd -n 1 -limit=1 -address http://127.0.0.1:1",
        "bench http -prepare -address http://127.0.0.1:1",
        "bench http -ca-cert=/nope -address https://127.0.0.1:1",
    ] {
        let ran = run(NOBODY, line);
        assert_eq!(ran.code, 2, "{line}: {ran:?}");
    }
}

/// Their other codes are answers, so none of those may be a failure.
#[test]
fn commands_whose_codes_are_answers_exit_with_one_whatever_fails() {
    for line in ["status", "operator init -status", "pki health-check pki"] {
        assert_eq!(run(NOBODY, line).code, 1, "{line}");
    }
    let refusal = r#"{"errors":["preflight capability check returned 403"]}"#;
    let stub = Stub::start(vec![Answer::of(403, refusal)]);
    assert_eq!(run(("VAULT_ADDR", &stub.address), "pki health-check nope").code, 1);
}

#[test]
fn a_tune_without_settings_changes_nothing_and_succeeds() {
    let server = DevServer::start(&directory());
    for (line, code, told) in [
        ("auth tune token", 0, "Success! Tuned the auth method at: token/"),
        ("secrets tune secret", 0, "Success! Tuned the secrets engine at: secret/"),
        ("auth tune nope", 2, ""),
        ("secrets tune nope", 2, ""),
    ] {
        let ran = server.run(line);
        assert_eq!(ran.code, code, "{line}: {ran:?}");
        assert!(ran.stdout.contains(told), "{line}: {ran:?}");
    }
}

/// What a server refuses is neither a rate nor a latency.
#[test]
fn a_load_that_is_refused_tells_errors_and_no_rate() {
    let server = DevServer::start(&directory());
    assert_eq!(server.run("status").code, 0);
    let address = format!("-address={}", server.address);
    let load = ["bench", "http", "-token=bad", "-connections=2", "-duration=1", "-warm-up=0"];
    let ran = server.run_words(&[&load[..], &[&address, "-json"]].concat());
    assert_eq!(ran.code, 2, "{ran:?}");
    for wanted in
        ["\"good\":0,", "\"reads\":{\"count\":0,", "\"per_second\":0.000", "\"status 403\":"]
    {
        assert!(ran.stdout.contains(wanted), "{wanted}: {}", ran.stdout);
    }
}
