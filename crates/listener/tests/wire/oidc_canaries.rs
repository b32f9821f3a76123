//! What an audit device hears of logins by OIDC: no code, state, nonce, token or secret, neither of those who log in nor of those who fail.

use std::cell::RefCell;

use kallisto_core::json::Json;

use crate::golden_oidc::{plain, running_as_its_own_provider};
use crate::support::{Recorder, Reply, Running};

const CALLBACK: &str = "http://127.0.0.1:8250/oidc/callback";

fn text(reply: &Reply, place: &str) -> String {
    reply.at(place).as_str().unwrap().to_owned()
}

fn parameter(url: &str, name: &str) -> String {
    let (_, query) = url.split_once('?').unwrap();
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(found, _)| *found == name).unwrap().1.to_owned()
}

/// A mount that believes the provider of the same server; the secret of its client, and the token of a user there.
fn prepare(server: &Running) -> (String, String) {
    let write = |path: &str, body: &str| {
        let reply = server.ask("POST", path, body);
        assert!(reply.status < 300, "{path}: {}", reply.text());
        reply
    };
    write("sys/auth/userpass", r#"{"type":"userpass"}"#);
    let policy =
        r#"{"policy":"path \"identity/oidc/provider/+/authorize\" { capabilities = [\"read\"] }"}"#;
    write("sys/policies/acl/oidc", policy);
    write("auth/userpass/users/ann", r#"{"password":"canary-password","token_policies":"oidc"}"#);
    let login = write("auth/userpass/login/ann", r#"{"password":"canary-password"}"#);
    write("identity/oidc/key/k", r#"{"allowed_client_ids":"*"}"#);
    write("identity/oidc/provider/default", r#"{"allowed_client_ids":"*"}"#);
    let client = format!(r#"{{"key":"k","assignments":"allow_all","redirect_uris":"{CALLBACK}"}}"#);
    write("identity/oidc/client/app", &client);
    let client = server.ask("GET", "identity/oidc/client/app", "");
    let (id, secret) = (text(&client, "data/client_id"), text(&client, "data/client_secret"));
    write("sys/auth/oidc", r#"{"type":"oidc"}"#);
    let config = format!(
        r#"{{"oidc_discovery_url":"http://127.0.0.1:8609/v1/identity/oidc/provider/default",
            "oidc_client_id":"{id}","oidc_client_secret":"{secret}","default_role":"r"}}"#
    );
    write("auth/oidc/config", &config);
    let role = format!(r#"{{"user_claim":"sub","allowed_redirect_uris":"{CALLBACK}"}}"#);
    write("auth/oidc/role/r", &role);
    (secret, text(&login, "auth/client_token"))
}

#[test]
fn no_code_state_nonce_token_or_secret_of_a_login_is_written_down_in_clear() {
    let server = running_as_its_own_provider();
    let recorder = Recorder::start();
    assert_eq!(server.ask("POST", "sys/audit/socket", &recorder.device()).status, 204);
    let (secret, user) = prepare(&server);
    let mut secrets = vec![secret, user.clone(), "canary-password".to_owned()];
    let anyone =
        |method: &str, path: &str, body: &str| server.connect().ask_with(method, path, &[], body);
    for (client_nonce, is_good) in [("canary-client-nonce", true), ("canary-other-nonce", false)] {
        let body =
            format!(r#"{{"redirect_uri":"{CALLBACK}","client_nonce":"canary-client-nonce"}}"#);
        let url = text(&anyone("POST", "auth/oidc/oidc/auth_url", &body), "data/auth_url");
        let (_, query) = url.split_once('?').unwrap();
        let path = format!("identity/oidc/provider/default/authorize?{query}");
        let given = server.connect().ask_with("GET", &path, &[("X-Vault-Token", &user)], "");
        let (code, state) = (text(&given, "code"), text(&given, "state"));
        let path = format!(
            "auth/oidc/oidc/callback?code={code}&state={state}&client_nonce={client_nonce}"
        );
        let login = anyone("GET", &path, "");
        assert_eq!(login.status == 200, is_good, "{}", login.text());
        if is_good {
            secrets.push(text(&login, "auth/client_token"));
            assert_eq!(anyone("GET", &path, "").status, 400, "once");
        }
        secrets.extend([code, plain(&state), client_nonce.to_owned()]);
        secrets.extend(["nonce", "code_challenge"].map(|name| plain(&parameter(&url, name))));
    }
    // By every way that something comes, made up by whoever asks.
    for (method, path, body) in [
        (
            "GET",
            "auth/oidc/oidc/callback?code=canary-code&state=canary-state&client_nonce=canary-n",
            "",
        ),
        (
            "GET",
            "auth/oidc/oidc/callback?error=e&error_description=canary-said&state=canary-state",
            "",
        ),
        (
            "POST",
            "auth/oidc/oidc/callback",
            r#"{"id_token":"canary-id-token","state":"canary-state"}"#,
        ),
        ("POST", "auth/oidc/oidc/callback", r#"{"confirm":"canary-confirm"}"#),
        ("POST", "auth/oidc/oidc/poll", r#"{"state":"canary-state","client_nonce":"canary-n"}"#),
        ("POST", "auth/oidc/login", r#"{"role":"r","jwt":"canary-jwt"}"#),
    ] {
        let reply = anyone(method, path, body);
        assert!(matches!(reply.status, 200 | 400), "{path}: {} {}", reply.status, reply.text());
    }
    let made_up = ["code", "state", "n", "said", "id-token", "confirm", "jwt"];
    secrets.extend(made_up.map(|name| format!("canary-{name}")));
    let heard = RefCell::new(String::new());
    recorder.wait(|records| {
        let all = records.iter().map(|record| String::from_utf8(Json::clone(record).to_text()));
        *heard.borrow_mut() = all.map(Result::unwrap).collect::<Vec<_>>().join("\n");
        heard.borrow().matches("\"auth/oidc/login\"").count() >= 2
    });
    let heard = heard.into_inner();
    assert!(heard.contains("auth/oidc/oidc/callback") && heard.contains("hmac-sha256:"));
    for secret in secrets {
        let line = heard.lines().find(|line| line.contains(&secret));
        assert_eq!(line, None, "{secret} is in a record");
    }
    recorder.stop();
}
