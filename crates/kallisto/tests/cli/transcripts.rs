//! The command line against transcripts of the reference.
//!
//! Each line of `transcripts/*.json` is one run of the reference's command line (OpenBao 2.7.2)
//! against its own server: arguments, input, the requests it sent and their answers, both streams
//! and the exit code. The same arguments must make `kallisto` send the same requests and, given
//! the same answers, print the same bytes. Names of programs are ours; `ADDR` stands for the
//! server's address. A step with `differs` was changed by hand, and says why.

use std::path::Path;

use crate::support::{Answer, Ran, RecordedRequest, Stub, directory, kallisto};
use kallisto_core::json::{Json, Map, parse};

#[test]
fn kv() {
    replay("kv");
}

#[test]
fn logical_status_token_and_login() {
    replay("logical");
}

#[test]
fn operator() {
    replay("operator");
}

#[test]
fn mounts_and_wrapping() {
    replay("mounts_and_wrapping");
}

#[test]
fn rollback_and_patch() {
    replay("rollback_and_patch");
}

/// Replays one file; the steps share a home directory, as logins do.
fn replay(name: &str) {
    let path = format!("{}/tests/cli/transcripts/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let Json::Array(steps) = parse(&std::fs::read(path).unwrap()).unwrap() else {
        panic!("a transcript is a list")
    };
    assert!(steps.len() > 20, "{name} has lost steps");
    let home = directory();
    let failures: Vec<String> = steps
        .iter()
        .enumerate()
        .filter_map(|(at, step)| check(&home, step.as_object().unwrap(), &format!("{name} {at}")))
        .collect();
    assert!(failures.is_empty(), "{} steps differ:\n{}", failures.len(), failures.join("\n"));
}

/// What is different in this step, if anything is.
fn check(home: &Path, step: &Map, title: &str) -> Option<String> {
    for (file, content) in object(step, "files") {
        std::fs::write(home.join(file), content.as_str().unwrap()).unwrap();
    }
    let exchanges: Vec<&Map> =
        list(step, "exchanges").iter().map(|e| e.as_object().unwrap()).collect();
    let stub = Stub::start(exchanges.iter().map(|exchange| answer(exchange)).collect());
    let ran = run(home, step, &stub.address);
    let wanted = (text(step, "stdout"), text(step, "stderr"), number(step, "code"));
    let got = (
        ran.stdout.replace(&stub.address, "ADDR"),
        ran.stderr.replace(&stub.address, "ADDR"),
        ran.code,
    );
    let sent: Vec<Request> = stub.asked().iter().map(Request::of_asked).collect();
    let expected: Vec<Request> =
        exchanges.iter().map(|exchange| Request::of_exchange(exchange)).collect();
    let same = sent == expected && got == wanted;
    let args = args(step).join(" ");
    (!same).then(|| {
        format!("{title}: {args}\n  want {expected:?} {wanted:?}\n  got  {sent:?} {got:?}")
    })
}

fn run(home: &Path, step: &Map, address: &str) -> Ran {
    let changes = object(step, "env");
    let mut environment = vec![("VAULT_ADDR", address), ("VAULT_TOKEN", "root")];
    environment.retain(|(name, _)| !changes.contains_key(*name));
    let set = changes.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
    environment.extend(set);
    kallisto(home, &environment, &text(step, "stdin"), &args(step))
}

fn answer(exchange: &Map) -> Answer {
    let status = u16::try_from(number(exchange, "status")).unwrap();
    Answer::of(status, &text(exchange, "answer"))
}

/// A request as far as it must be the same: bodies by their meaning, headers by what they say.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Request {
    fn of_asked(asked: &RecordedRequest) -> Self {
        assert_eq!(asked.headers.get("x-vault-request").map(String::as_str), Some("true"));
        let told = |name: &str| {
            (name.starts_with("x-") && name != "x-vault-request") || name == "content-type"
        };
        let headers = asked.headers.iter().filter(|(name, _)| told(name));
        Self {
            method: asked.method.clone(),
            path: asked.path.clone(),
            headers: headers.map(|(name, value)| (name.clone(), value.clone())).collect(),
            body: meaning(&asked.body),
        }
    }

    fn of_exchange(exchange: &Map) -> Self {
        let headers = object(exchange, "headers").into_iter();
        Self {
            method: text(exchange, "method"),
            path: text(exchange, "path"),
            headers: headers
                .map(|(name, value)| (name, value.as_str().unwrap().to_owned()))
                .collect(),
            body: meaning(&text(exchange, "body")),
        }
    }
}

/// JSON with its keys sorted and its escapes undone.
fn meaning(body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    String::from_utf8(parse(body.as_bytes()).unwrap().to_text()).unwrap()
}

fn text(map: &Map, name: &str) -> String {
    map.get(name).and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn number(map: &Map, name: &str) -> i32 {
    match map.get(name) {
        Some(Json::Number(text)) => text.parse().unwrap(),
        _ => panic!("{name} is no number"),
    }
}

fn object(map: &Map, name: &str) -> Map {
    map.get(name).and_then(Json::as_object).cloned().unwrap_or_default()
}

fn list<'a>(map: &'a Map, name: &str) -> &'a [Json] {
    match map.get(name) {
        Some(Json::Array(items)) => items,
        _ => &[],
    }
}

fn args(step: &Map) -> Vec<&str> {
    list(step, "args").iter().map(|word| word.as_str().unwrap()).collect()
}
