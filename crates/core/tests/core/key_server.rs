//! Logins that depend on another server: what it is asked, how often, and what when it fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kallisto_core::{Error, Operation, OutboundAnswer, OutboundCall, OutboundCalls};

use crate::logins::log_in;
use crate::support::Site;

use Operation::Update;

/// RFC 8037, appendix A: an Ed25519 key, under an id.
const KEYS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"one",
    "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

/// Answers everything with one text, and counts.
#[derive(Default)]
struct Server {
    asked: AtomicUsize,
    answer: Mutex<Option<String>>,
}

impl OutboundCalls for Server {
    fn clock(&self) -> Duration {
        Duration::ZERO
    }

    fn send(&self, call: &OutboundCall, _: Duration) -> Result<OutboundAnswer, String> {
        assert_eq!(call.url, "https://keys.example/set");
        self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.answer.lock().unwrap().clone();
        let body = answer.ok_or("connection to 10.1.2.3 refused")?.into_bytes();
        Ok(OutboundAnswer { status: 200, body, ..OutboundAnswer::default() })
    }
}

fn site(server: &Arc<Server>) -> Site {
    let site = Site::open(1 << 20);
    let Site { store, core, keys } = site;
    let outbound: Arc<dyn OutboundCalls> = Arc::<Server>::clone(server);
    let site = Site { store, core: core.with_outbound(outbound), keys };
    for (path, body) in [
        ("sys/auth/jwt", r#"{"type":"jwt"}"#),
        ("auth/jwt/config", r#"{"jwks_url":"https://keys.example/set"}"#),
        ("auth/jwt/role/web", r#"{"role_type":"jwt","user_claim":"sub","bound_subject":"a"}"#),
    ] {
        site.ask(Update, path, body).unwrap();
    }
    site
}

/// A JWT with a signature that is none, by the key called `key`.
fn jwt(key: &str) -> String {
    let part = |text: &str| data_encoding::BASE64URL_NOPAD.encode(text.as_bytes());
    let header = part(&format!(r#"{{"alg":"EdDSA","kid":"{key}"}}"#));
    format!("{header}.{}.{}", part(r#"{"sub":"a","exp":99999}"#), part("no signature"))
}

fn enter(site: &Site, secs: i64, key: &str) -> Error {
    let body = format!(r#"{{"role":"web","jwt":"{}"}}"#, jwt(key));
    log_in(site, secs, "auth/jwt/login", &body).unwrap_err()
}

#[test]
fn made_up_key_ids_do_not_make_the_server_knock_without_end() {
    let server = Arc::new(Server::default());
    *server.answer.lock().unwrap() = Some(KEYS.to_owned());
    let site = site(&server);
    let asked = || server.asked.load(Ordering::SeqCst);
    // A known key asks once an hour, whatever the signature.
    for secs in [0, 9, 3599] {
        assert!(matches!(enter(&site, secs, "one"), Error::Invalid(_)));
    }
    assert_eq!(asked(), 1);
    assert!(matches!(enter(&site, 3600, "one"), Error::Invalid(_)));
    assert_eq!(asked(), 2);
    // Unknown ones ask again, but not for every login.
    for at in 0..100 {
        assert!(matches!(enter(&site, 3605, &format!("k{at}")), Error::Invalid(_)));
    }
    assert_eq!(asked(), 2);
    for at in 0..100 {
        assert!(matches!(enter(&site, 3611, &format!("k{at}")), Error::Invalid(_)));
    }
    assert_eq!(asked(), 3);
}

#[test]
fn a_key_server_that_is_gone_is_no_ones_login_and_tells_nothing_of_our_network() {
    let server = Arc::new(Server::default());
    let site = site(&server);
    let refused = enter(&site, 0, "one");
    assert!(matches!(refused, Error::Unavailable(_)));
    assert!(!refused.to_string().contains("10.1.2.3"), "{refused}");
    for nonsense in ["", "[]", "{}", r#"{"keys":{}}"#] {
        *server.answer.lock().unwrap() = Some(nonsense.to_owned());
        assert!(matches!(enter(&site, 0, "one"), Error::Unavailable(_)), "{nonsense}");
    }
}
