//! Logins that depend on another server: what it is asked, how often, and what when it fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
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
    /// How long it takes to answer.
    takes: Mutex<Duration>,
}

impl OutboundCalls for Server {
    fn clock(&self) -> Duration {
        Duration::ZERO
    }

    fn send(&self, call: &OutboundCall, _: Duration) -> Result<OutboundAnswer, String> {
        assert_eq!(call.url, "https://keys.example/set");
        self.asked.fetch_add(1, Ordering::SeqCst);
        let takes = *self.takes.lock().unwrap();
        std::thread::sleep(takes);
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
        (
            "auth/jwt/config",
            r#"{"jwks_url":"https://keys.example/set","skip_jwks_validation":true}"#,
        ),
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
fn made_up_tokens_do_not_make_the_server_knock_without_end() {
    let server = Arc::new(Server::default());
    *server.answer.lock().unwrap() = Some(KEYS.to_owned());
    let site = site(&server);
    let asked = || server.asked.load(Ordering::SeqCst);
    for secs in [0, 9] {
        assert!(matches!(enter(&site, secs, "one"), Error::Invalid(_)));
    }
    assert_eq!(asked(), 1);
    // Whether it is a known key that did not sign, or an unknown one, it is asked again, but not for every login.
    for (secs, times) in [(10, 2), (19, 2), (20, 3), (29, 3), (3600, 4), (3609, 4)] {
        for at in 0..100 {
            for key in ["one".to_owned(), format!("k{at}")] {
                assert!(matches!(enter(&site, secs, &key), Error::Invalid(_)));
            }
        }
        assert_eq!(asked(), times, "{secs}");
    }
}

/// As when a cluster starts: nothing was fetched yet.
#[test]
fn logins_that_come_together_ask_once() {
    let server = Arc::new(Server::default());
    *server.answer.lock().unwrap() = Some(KEYS.to_owned());
    *server.takes.lock().unwrap() = Duration::from_millis(300);
    let site = site(&server);
    std::thread::scope(|threads| {
        for _ in 0..30 {
            threads.spawn(|| assert!(matches!(enter(&site, 0, "one"), Error::Invalid(_))));
        }
    });
    assert_eq!(server.asked.load(Ordering::SeqCst), 1);
}

#[test]
fn new_keys_under_an_old_name_are_fetched_when_the_old_ones_did_not_sign() {
    let server = Arc::new(Server::default());
    let [old, new] = [0; 2].map(|_| Ed25519KeyPair::generate().unwrap());
    let say = |pair: Option<&Ed25519KeyPair>| {
        let set = pair.map(|pair| {
            let x = data_encoding::BASE64URL_NOPAD.encode(pair.public_key().as_ref());
            format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"one","x":"{x}"}}]}}"#)
        });
        *server.answer.lock().unwrap() = set;
    };
    say(Some(&old));
    let site = site(&server);
    let asked = || server.asked.load(Ordering::SeqCst);
    let enter = |secs: i64, pair: &Ed25519KeyPair| {
        let part = |bytes: &[u8]| data_encoding::BASE64URL_NOPAD.encode(bytes);
        let header = part(br#"{"alg":"EdDSA","kid":"one"}"#);
        let signed = format!("{header}.{}", part(br#"{"sub":"a","iat":1,"nbf":1,"exp":99999}"#));
        let signature = part(pair.sign(signed.as_bytes()).as_ref());
        let body = format!(r#"{{"role":"web","jwt":"{signed}.{signature}"}}"#);
        log_in(&site, secs, "auth/jwt/login", &body)
    };
    for secs in [0, 3000, 3599] {
        enter(secs, &old).unwrap();
    }
    assert_eq!(asked(), 1, "keys that sign are asked for once an hour");
    say(Some(&new));
    enter(3599, &new).unwrap();
    assert!(matches!(enter(3600, &old), Err(Error::Invalid(_))));
    assert_eq!(asked(), 2);
    // While nobody answers, those that are known are the ones.
    say(None);
    assert!(matches!(enter(3700, &old), Err(Error::Invalid(_))));
    enter(3700, &new).unwrap();
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

#[test]
fn a_key_server_that_is_of_no_use_is_refused_when_it_is_written() {
    let server = Arc::new(Server::default());
    let site = site(&server);
    let write = |more: &str| {
        let body = format!(r#"{{"jwks_url":"https://keys.example/set"{more}}}"#);
        site.ask(Update, "auth/jwt/config", &body).map_err(|error| error.to_string())
    };
    for answer in [None, Some("<html>"), Some("{}")] {
        *server.answer.lock().unwrap() = answer.map(str::to_owned);
        let refused = write("").unwrap_err();
        assert!(refused.starts_with("error checking jwks URL: "), "{refused}");
        assert!(!refused.contains("10.1.2.3"), "{refused}");
    }
    write(r#","skip_jwks_validation":true"#).unwrap();
    *server.answer.lock().unwrap() = Some(KEYS.to_owned());
    write("").unwrap();
}
