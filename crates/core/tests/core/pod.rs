//! Logins of service accounts at a server that is a pod itself: who reviews them, and whom it believes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kallisto_core::{Authorization, Error, Operation, OutboundAnswer, OutboundCall, OutboundCalls};
use kallisto_engine::{Pod, PodAccount};
use secrecy::ExposeSecret;

use crate::logins::log_in;
use crate::support::Site;

use Operation::Update;

/// A server of which the last call is known: where it went, with which token, believing whom.
#[derive(Default)]
struct Reviewer(Mutex<(String, String, String)>);

impl OutboundCalls for Reviewer {
    fn clock(&self) -> Duration {
        Duration::ZERO
    }

    fn send(&self, call: &OutboundCall, _: Duration) -> Result<OutboundAnswer, String> {
        let Authorization::Bearer(token) = &call.authorization else { panic!("no token") };
        let token = token.expose_secret().to_owned();
        *self.0.lock().unwrap() = (call.url.clone(), token, call.authorities.clone());
        let user = r#""user":{"username":"system:serviceaccount:ns:web","uid":"u"}"#;
        let body = format!(r#"{{"status":{{"authenticated":true,{user}}}}}"#).into_bytes();
        Ok(OutboundAnswer { status: 201, body, ..OutboundAnswer::default() })
    }
}

/// A pod, whose token is replaced.
struct OwnPod(Mutex<&'static str>);

impl Pod for OwnPod {
    fn account(&self) -> Option<Arc<PodAccount>> {
        Some(Arc::new(PodAccount {
            api_server: "https://10.96.0.1:443".to_owned(),
            token: (*self.0.lock().unwrap()).into(),
            authorities: "PEM of the pod".to_owned(),
            revision: 1,
        }))
    }
}

#[test]
fn the_pod_reviews_where_nobody_else_is_named_and_at_its_own_api_server_alone() {
    let Site { store, core, keys } = Site::open(1 << 20);
    let (reviewer, pod) = (Arc::new(Reviewer::default()), Arc::new(OwnPod(Mutex::new("one"))));
    let core = core.with_outbound(Arc::clone(&reviewer) as _).with_pod(Arc::clone(&pod) as _);
    let site = Site { store, core, keys };
    let role = r#"{"bound_service_account_names":"web","bound_service_account_namespaces":"ns"}"#;
    site.ask(Update, "sys/auth/kubernetes", r#"{"type":"kubernetes"}"#).unwrap();
    let part = |text: &str| data_encoding::BASE64URL_NOPAD.encode(text.as_bytes());
    let jwt = format!("{}.{}.{}", part(r#"{"alg":"EdDSA"}"#), part("{}"), part("signature"));
    let enter = |config: &str| -> Result<(String, String), Error> {
        site.ask(Update, "auth/kubernetes/config", config).unwrap();
        site.ask(Update, "auth/kubernetes/role/r", role).unwrap();
        // As it is in a file.
        let body = format!(r#"{{"role":"r","jwt":"{jwt}\n"}}"#);
        log_in(&site, 0, "auth/kubernetes/login", &body)?;
        let (_, token, authorities) = reviewer.0.lock().unwrap().clone();
        Ok((token, authorities))
    };
    let says = |token: &str, authorities: &str| (token.to_owned(), authorities.to_owned());
    let own = r#"{"kubernetes_host":"https://kubernetes.default.svc""#;
    assert_eq!(enter(&format!("{own}}}")).unwrap(), says("one", "PEM of the pod"));
    *pod.0.lock().unwrap() = "two";
    assert_eq!(enter(&format!("{own}}}")).unwrap(), says("two", "PEM of the pod"));
    let given = format!(r#"{own},"token_reviewer_jwt":"given\n","kubernetes_ca_cert":"PEM"}}"#);
    assert_eq!(enter(&given).unwrap(), says("given", "PEM"));
    // The login's own token, as at a server that is no pod.
    let off = format!(r#"{own},"disable_local_ca_jwt":true,"kubernetes_ca_cert":"PEM"}}"#);
    assert_eq!(enter(&off).unwrap(), says(&jwt, "PEM"));
    for other in ["https://evil.example", "http://10.96.0.1:443"] {
        let config = format!(r#"{{"kubernetes_host":"{other}"}}"#);
        assert_eq!(enter(&config).unwrap(), says(&jwt, ""), "{other}");
    }
}
