//! Logins of service accounts whose namespace is bound by its labels.

use std::sync::Arc;
use std::time::Duration;

use kallisto_core::{
    Authorization, Error, Operation, OutboundAnswer, OutboundCall, OutboundCalls, Payload,
};
use secrecy::ExposeSecret;

use crate::logins::log_in;
use crate::support::Site;

use Operation::Update;

/// Knows every token as one of the account `web` of the namespace it names, and the labels of some.
struct Cluster;

impl OutboundCalls for Cluster {
    fn clock(&self) -> Duration {
        Duration::ZERO
    }

    fn send(&self, call: &OutboundCall, _: Duration) -> Result<OutboundAnswer, String> {
        let Authorization::Bearer(token) = &call.authorization else { panic!("no token") };
        assert_eq!(token.expose_secret(), "reviewer");
        let path = call.url.strip_prefix("https://k8s.example").unwrap();
        let (status, body) = match (path, &call.payload) {
            ("/apis/authentication.k8s.io/v1/tokenreviews", Payload::Json(asked)) => {
                let asked = String::from_utf8(asked.clone()).unwrap();
                let namespace = ["good", "other", "gone", "down", "no/name"]
                    .into_iter()
                    .find(|name| asked.contains(&token_of(name)))
                    .unwrap();
                let user = format!("system:serviceaccount:{namespace}:web");
                let user = format!(r#""user":{{"username":"{user}","uid":"u"}}"#);
                (201, format!(r#"{{"status":{{"authenticated":true,{user}}}}}"#))
            }
            ("/api/v1/namespaces/good", Payload::Nothing) => {
                (200, r#"{"metadata":{"labels":{"team":"a","env":"prod"}}}"#.to_owned())
            }
            ("/api/v1/namespaces/other", Payload::Nothing) => {
                (200, r#"{"metadata":{"labels":{"team":"b"}}}"#.to_owned())
            }
            ("/api/v1/namespaces/down", Payload::Nothing) => (500, String::new()),
            ("/api/v1/namespaces/gone", Payload::Nothing) => (404, String::new()),
            (other, _) => panic!("asked for {other}"),
        };
        Ok(OutboundAnswer { status, body: body.into_bytes(), ..OutboundAnswer::default() })
    }
}

/// A JWT that nobody signed, which names a namespace.
fn token_of(namespace: &str) -> String {
    let part = |text: &str| data_encoding::BASE64URL_NOPAD.encode(text.as_bytes());
    let header = part(r#"{"alg":"EdDSA"}"#);
    format!("{header}.{}.{}", part(&format!(r#"{{"sub":"{namespace}"}}"#)), part("signature"))
}

#[test]
fn labels_of_a_namespace_let_in_its_accounts_and_no_others() {
    let Site { store, core, keys } = Site::open(1 << 20);
    let site = Site { store, core: core.with_outbound(Arc::new(Cluster)), keys };
    let config = |more: &str| format!(r#"{{"kubernetes_host":"https://k8s.example"{more}}}"#);
    let reviewer = config(r#","token_reviewer_jwt":"reviewer""#);
    let role = r#"{"bound_service_account_names":"web","bound_service_account_namespace_selector":
        "{\"matchLabels\":{\"team\":\"a\"}}"}"#;
    for (path, body) in [
        ("sys/auth/kubernetes", r#"{"type":"kubernetes"}"#),
        ("auth/kubernetes/config", &reviewer),
        ("auth/kubernetes/role/r", role),
    ] {
        site.ask(Update, path, body).unwrap();
    }
    let enter = |namespace: &str| {
        let body = format!(r#"{{"role":"r","jwt":"{}"}}"#, token_of(namespace));
        log_in(&site, 0, "auth/kubernetes/login", &body)
    };
    assert!(enter("good").is_ok());
    for refused in ["other", "gone", "no/name"] {
        assert!(matches!(enter(refused), Err(Error::Denied(_))), "{refused}");
    }
    assert!(matches!(enter("down"), Err(Error::Unavailable(_))));
    // One that is named needs no labels.
    let named = r#"{"bound_service_account_namespaces":"gone"}"#;
    site.ask(Update, "auth/kubernetes/role/r", named).unwrap();
    assert!(enter("gone").is_ok() && enter("good").is_ok() && enter("other").is_err());
}
