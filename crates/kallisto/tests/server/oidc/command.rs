//! `kallisto login -method=oidc`, with the browser that a test is.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use super::provider::{Provider, query_of};
use super::{browse, server};
use crate::support::{Directory, Keys, Server};

/// A role of the command line's.
const ROLE: &str =
    r#"{"user_claim":"sub","allowed_redirect_uris":["http://localhost:8250/oidc/callback"]}"#;

/// The command, and what it printed up to the address that it waits at.
fn start(directory: &Directory, server: &Server, words: &[&str]) -> (Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kallisto"));
    command
        .args(["login", "-method=oidc", "-format=json"])
        .args(words)
        .env_clear()
        .env("HOME", directory.join(""))
        .env("VAULT_ADDR", format!("http://{}", server.address))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let (mut line, mut url) = (String::new(), String::new());
    while said.read_line(&mut line).unwrap() > 0 {
        if line.trim().starts_with("http") {
            url = line.trim().to_owned();
        }
        if line.starts_with("Waiting for OIDC") {
            break;
        }
        line.clear();
    }
    // What it says later must find somebody who reads.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    (child, url)
}

fn end(mut child: Child) -> (Option<i32>, String) {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    (child.wait().unwrap().code(), text)
}

fn setup(name: &str) -> (Directory, Provider, Server, Keys) {
    let directory = Directory::new(name);
    let provider = Provider::start();
    let (server, keys) = server(&directory, &provider);
    server.client(&keys.root).put("auth/oidc/role/cli", ROLE);
    (directory, provider, server, keys)
}

#[test]
fn the_command_takes_the_callback_of_its_own_login_alone() {
    let (directory, provider, server, _) = setup("oidc-command");
    let (child, url) = start(&directory, &server, &["role=cli", "port=0", "skip_browser=true"]);
    let asked = query_of(&url);
    let port = asked["redirect_uri"].split(':').nth(2).unwrap().split('/').next().unwrap();
    let here: SocketAddr = format!("127.0.0.1:{port}").parse().unwrap();
    let (code, state) = provider.log_in(&url);
    // Another page sends the browser here before the provider does.
    let foreign = "/oidc/callback?state=st_other&code=%3Cscript%3Ealert(1)%3C/script%3E";
    let (status, head, page) = browse(here, "GET", foreign, "");
    assert!(status == 400 && !page.contains("script"), "{page}");
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    assert_eq!(browse(here, "GET", "/", "").0, 404);
    let target = format!("/oidc/callback?state={state}&code={code}&iss={}", provider.issuer());
    let (status, _, page) = browse(here, "GET", &target, "");
    assert_eq!(status, 200, "{page}");
    assert!(!page.contains(&code) && !page.contains(&state), "{page}");
    let (exit, said) = end(child);
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("\"client_token\""), "{said}");
    let kept = std::fs::read_to_string(directory.join(".vault-token")).unwrap();
    assert_eq!(server.client(kept.trim()).get("auth/token/lookup-self").status, 200);
    server.stop();
}

#[test]
fn the_command_says_why_there_is_no_token_and_gives_up_in_time() {
    let (directory, provider, server, _) = setup("oidc-command-refused");
    let (child, _) = start(&directory, &server, &["role=r", "port=0"]);
    assert_eq!(end(child).0, Some(2), "the role does not allow localhost");
    let words = ["role=cli", "port=0", "skip_browser=true", "timeout=1s"];
    let (child, _) = start(&directory, &server, &words);
    assert_eq!(end(child).0, Some(2), "nobody came");
    let (child, url) = start(&directory, &server, &["role=cli", "port=0", "skip_browser=true"]);
    let asked = query_of(&url);
    let port = asked["redirect_uri"].split(':').nth(2).unwrap().split('/').next().unwrap();
    let here: SocketAddr = format!("127.0.0.1:{port}").parse().unwrap();
    let (_, state) = provider.log_in(&url);
    let target = format!("/oidc/callback?state={state}&error=access_denied&error_description=x");
    let (status, _, page) = browse(here, "GET", &target, "");
    assert!(status == 400 && page.contains("Your terminal says why"), "{page}");
    assert_eq!(end(child).0, Some(2));
    assert!(!directory.join(".vault-token").exists());
    server.stop();
}

#[test]
fn the_command_waits_for_the_button_and_for_devices() {
    let (directory, provider, server, keys) = setup("oidc-command-direct");
    let redirect = format!("http://{}/v1/auth/oidc/oidc/callback", server.address);
    let mut root = server.client(&keys.root);
    let direct = format!(
        r#"{{"user_claim":"sub","allowed_redirect_uris":"{redirect}","callback_mode":"direct",
            "poll_interval":1}}"#
    );
    root.put("auth/oidc/role/d", &direct);
    root.put("auth/oidc/role/v", r#"{"user_claim":"sub","callback_mode":"device"}"#);
    let words = ["role=d", "callbackmode=direct", "skip_browser=true"];
    let (child, url) = start(&directory, &server, &words);
    let (code, state) = provider.log_in(&url);
    let target = format!("/v1/auth/oidc/oidc/callback?code={code}&state={state}");
    let (_, _, page) = browse(server.address, "GET", &target, "");
    let confirm = page.split_once("name=\"confirm\" value=\"").unwrap().1;
    let confirm = format!("confirm={}", confirm.split_once('"').unwrap().0);
    assert_eq!(browse(server.address, "POST", "/v1/auth/oidc/oidc/callback", &confirm).0, 200);
    assert_eq!(end(child).0, Some(0));
    let words = ["role=v", "callbackmode=device", "skip_browser=true"];
    let (child, url) = start(&directory, &server, &words);
    assert_eq!(url, format!("{}/activate", provider.issuer()));
    provider.let_in();
    assert_eq!(end(child).0, Some(0));
    server.stop();
}
