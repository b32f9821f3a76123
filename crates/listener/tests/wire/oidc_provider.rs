//! The OIDC provider as applications meet it: headers that prove who they are, racers for one code, and what an audit device is told.

use data_encoding::BASE64;
use kallisto_core::json::{self, Json};

use crate::support::{Recorder, Reply, Running, TOKEN};

const CALLBACK: &str = "http://127.0.0.1:8250/cb";
const RACERS: usize = 64;
/// What a browser is sent with, of the client whose id follows.
const REQUEST: &str = "redirect_uri=http%3A%2F%2F127.0.0.1%3A8250%2Fcb&response_type=code&scope=openid+who&state=canary-state&nonce=canary-nonce\
    &client_id=";

/// A server with a client, and a user who is logged in.
struct Provider {
    server: Running,
    client_id: String,
    secret: String,
    /// The token of the user.
    user: String,
}

fn text(reply: &Reply, pointer: &str) -> String {
    let mut at = &json::parse(&reply.body).unwrap();
    for name in pointer.split('/') {
        at = &at.as_object().unwrap_or_else(|| panic!("{pointer}: {}", reply.text()))[name];
    }
    at.as_str().unwrap().to_owned()
}

impl Provider {
    fn start() -> Self {
        let server = Running::start_reached_at("http://127.0.0.1:8200");
        let write = |path: &str, body: &str| {
            let reply = server.ask("POST", path, body);
            assert!(reply.status < 300, "{path}: {}", reply.text());
        };
        write("sys/auth/userpass", r#"{"type":"userpass"}"#);
        let policy = r#"{"policy":"path \"identity/oidc/provider/+/authorize\" { capabilities = [\"read\",\"update\"] }"}"#;
        write("sys/policies/acl/oidc", policy);
        write("auth/userpass/users/ann", r#"{"password":"pw","token_policies":"oidc"}"#);
        let login = server.ask("POST", "auth/userpass/login/ann", r#"{"password":"pw"}"#);
        write("identity/oidc/key/k", r#"{"algorithm":"EdDSA","allowed_client_ids":"*"}"#);
        write("identity/oidc/scope/who", r#"{"template":"{\"user\": {{identity.entity.name}} }"}"#);
        write(
            "identity/oidc/provider/default",
            r#"{"allowed_client_ids":"*","scopes_supported":"who"}"#,
        );
        let client =
            format!(r#"{{"key":"k","assignments":"allow_all","redirect_uris":"{CALLBACK}"}}"#);
        write("identity/oidc/client/app", &client);
        let shown = server.ask("GET", "identity/oidc/client/app", "");
        Self {
            client_id: text(&shown, "data/client_id"),
            secret: text(&shown, "data/client_secret"),
            user: text(&login, "auth/client_token"),
            server,
        }
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let path = format!("identity/oidc/provider/default/{path}");
        self.server.connect().ask_with(method, &path, headers, body)
    }

    fn code(&self) -> String {
        let path = format!("authorize?{REQUEST}{}", self.client_id);
        let reply = self.send("GET", &path, &[("X-Vault-Token", &self.user)], "");
        assert_eq!(reply.status, 200, "{}", reply.text());
        text(&reply, "code")
    }

    fn bring(&self, code: &str) -> Reply {
        let pair = format!("{}:{}", self.client_id, self.secret);
        let basic = format!("Basic {}", BASE64.encode(pair.as_bytes()));
        let headers = [
            ("Authorization", basic.as_str()),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        let body = format!(
            "grant_type=authorization_code&code={code}&redirect_uri=http%3A%2F%2F127.0.0.1%3A8250%2Fcb"
        );
        self.send("POST", "token", &headers, &body)
    }

    fn userinfo(&self, method: &str, authorization: &str) -> Reply {
        self.send(method, "userinfo", &[("Authorization", authorization)], "")
    }
}

#[test]
fn userinfo_takes_the_access_token_as_a_bearer_token_and_nothing_else() {
    let provider = Provider::start();
    let given = provider.bring(&provider.code());
    assert_eq!(given.status, 200, "{}", given.text());
    assert_eq!(given.header("cache-control"), Some("no-store"));
    let token = text(&given, "access_token");
    for method in ["GET", "POST"] {
        let told = provider.userinfo(method, &format!("bearer {token}"));
        assert_eq!(told.status, 200, "{}", told.text());
        assert!(text(&told, "user").starts_with("entity"), "{}", told.text());
        assert_eq!(text(&told, "sub").len(), 36);
    }
    for other in [
        format!("Bearer {TOKEN}"),
        format!("Bearer {}", provider.user),
        format!("Bearer {}x", token),
        format!("Bearer {}", text(&given, "id_token")),
        format!("Basic {}", BASE64.encode(token.as_bytes())),
        "Bearer".to_owned(),
    ] {
        let told = provider.userinfo("GET", &other);
        assert_eq!((told.status, text(&told, "error").as_str()), (401, "invalid_token"));
        let challenge = told.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer error=\"invalid_token\", error_desc"), "{challenge}");
    }
    // It is good there, and nowhere else.
    let elsewhere = provider.server.connect().ask_with(
        "GET",
        "auth/token/lookup-self",
        &[("X-Vault-Token", &token)],
        "",
    );
    assert_eq!(elsewhere.status, 403);
    // Nor is it after its client is gone.
    provider.server.ask("DELETE", "identity/oidc/client/app", "");
    let told = provider.userinfo("GET", &format!("Bearer {token}"));
    assert_eq!((told.status, text(&told, "error").as_str()), (403, "access_denied"));
}

/// RFC 6749, 5.2.
#[test]
fn a_client_that_does_not_prove_itself_hears_how_it_would() {
    let provider = Provider::start();
    let stranger = Provider { secret: "hvo_secret_x".to_owned(), ..provider };
    let refused = stranger.bring(&stranger.code());
    assert_eq!((refused.status, text(&refused, "error").as_str()), (401, "invalid_client"));
    assert_eq!(refused.header("www-authenticate"), Some("Basic realm=\"token\""));
    assert_eq!(refused.header("content-type"), Some("application/json"));
}

#[test]
fn of_many_that_bring_a_code_at_once_one_is_given_tokens_which_end_with_the_second() {
    let provider = Provider::start();
    let code = provider.code();
    let replies: Vec<Reply> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..RACERS).map(|_| scope.spawn(|| provider.bring(&code))).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    let (given, refused): (Vec<_>, Vec<_>) =
        replies.into_iter().partition(|reply| reply.status == 200);
    assert_eq!(given.len(), 1);
    for reply in refused {
        assert_eq!((reply.status, text(&reply, "error").as_str()), (400, "invalid_grant"));
    }
    let token = text(&given[0], "access_token");
    assert_eq!(provider.userinfo("GET", &format!("Bearer {token}")).status, 401);
}

#[test]
fn no_code_token_or_secret_reaches_an_audit_device_as_it_is() {
    let (provider, recorder) = (Provider::start(), Recorder::start());
    assert_eq!(provider.server.ask("POST", "sys/audit/socket", &recorder.device()).status, 204);
    let code = provider.code();
    let given = provider.bring(&code);
    let (access, id) = (text(&given, "access_token"), text(&given, "id_token"));
    provider.userinfo("GET", &format!("Bearer {access}"));
    provider.bring(&code);
    let body = format!(
        r#"{{"grant_type":"authorization_code","code":"canary-code","client_id":"{}","client_secret":"{}","code_verifier":"canary-verifier"}}"#,
        provider.client_id, provider.secret
    );
    provider.send("POST", "token", &[], &body);
    provider.server.ask("GET", "identity/oidc/client/app", "");
    let judged = format!(r#"{{"token":"{id}"}}"#);
    provider.server.ask("POST", "identity/oidc/introspect", &judged);
    let user = provider.user.clone();
    let secrets = [
        code.as_str(),
        &access,
        &id,
        &provider.secret,
        &user,
        "canary-code",
        "canary-verifier",
        "canary-state",
        "canary-nonce",
    ];
    recorder.wait(|records| {
        let all: Vec<String> = records
            .iter()
            .map(|record| String::from_utf8(Json::clone(record).to_text()).unwrap())
            .collect();
        for record in &all {
            for secret in secrets {
                assert!(!record.contains(secret), "{record}");
            }
        }
        // Both records of each request are there.
        all.iter().filter(|record| record.contains("provider/default/token")).count() == 6
            && all.iter().filter(|record| record.contains("oidc/introspect")).count() == 2
    });
}
