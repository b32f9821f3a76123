//! What an answer was to hand out, when the record of that answer is not taken.

use super::*;
use crate::api::request::TokenText;
use crate::cluster;
use crate::storage::engine_storage::EngineStorage;

impl Site {
    /// Asks with a device that takes the record of the request, and not that of its answer.
    fn ask_unheard(&self, request: &Request<'_>) {
        self.memory.takes.store(1, Ordering::SeqCst);
        let answer = self.ask(request);
        assert!(matches!(answer, Err(Error::Unaudited)), "{}: {answer:?}", request.path.as_str());
        assert!(self.memory.fails.load(Ordering::SeqCst));
        self.memory.fails.store(false, Ordering::SeqCst);
        assert!(self.is_whole());
    }

    fn bare(&self, operation: Operation, path: &str, body: &str) -> Map {
        match self.root(operation, path, body).unwrap() {
            Response::Bare { body: Json::Object(body), .. } => body,
            other => panic!("{path}: {other:?}"),
        }
    }

    fn accessors(&self) -> usize {
        self.core.context.load().as_ref().unwrap().view.tokens.accessors().len()
    }
}

/// The same request with and without a wrapping lifetime.
fn both_ways<'r>(path: &'r str, body: &'r str) -> [Request<'r>; 2] {
    let plain = request(Some(ROOT), Update, path, body);
    let wrapped = Request { wrap_ttl_secs: 60, ..plain.clone() };
    [plain, wrapped]
}

#[test]
fn tokens_that_nobody_hears_of_end_wrapped_or_not() {
    let site = Site::open(settings(RouteAccess::Token));
    let user = r#"{"password":"p","policies":["default"]}"#;
    site.root(Update, "auth/userpass/users/u", user).unwrap();
    let before = site.accessors();
    for (path, body) in [
        ("auth/token/create", r#"{"policies":["default"]}"#),
        ("auth/token/create-orphan", r#"{"policies":["default"]}"#),
        ("auth/userpass/login/u", r#"{"password":"p"}"#),
        ("sys/wrapping/wrap", r#"{"a":"b"}"#),
    ] {
        let [plain, wrapped] = both_ways(path, body);
        if path != "sys/wrapping/wrap" {
            site.ask_unheard(&plain);
            assert_eq!(site.accessors(), before, "{path}");
        }
        site.ask_unheard(&wrapped);
        assert_eq!(site.accessors(), before, "{path}, wrapped");
    }
}

#[test]
fn secret_ids_that_nobody_hears_of_end_wrapped_or_not() {
    let site = Site::open(settings(RouteAccess::Token));
    site.root(Update, "auth/approle/role/r", "").unwrap();
    site.root(Update, "auth/approle/role/r/secret-id", "").unwrap();
    let list = || site.root(Operation::List, "auth/approle/role/r/secret-id", "").unwrap();
    let before = format!("{:?}", list());
    let tokens = site.accessors();
    let custom = r#"{"secret_id":"mine"}"#;
    for (path, body) in [
        ("auth/approle/role/r/secret-id", "{}"),
        ("auth/approle/role/R/secret-id", "{}"),
        ("auth/approle/role/r/custom-secret-id", custom),
    ] {
        for request in both_ways(path, body) {
            site.ask_unheard(&request);
            assert_eq!(format!("{:?}", list()), before, "{path}");
            assert_eq!(site.accessors(), tokens);
        }
    }
    // It may be given again.
    site.root(Update, "auth/approle/role/r/custom-secret-id", custom).unwrap();
}

#[test]
fn a_root_token_that_nobody_hears_of_ends() {
    let store = Arc::new(MemoryStore::new());
    let site = Site::over(store, settings(RouteAccess::Token));
    let before = site.accessors();
    for path in ["sys/generate-root", "sys/generate-root-token"] {
        let attempt = site.bare(Update, "sys/generate-root/attempt", "{}");
        let nonce = text(&attempt, &["nonce"]);
        let body = format!(r#"{{"key":"{}","nonce":"{nonce}"}}"#, site.share);
        let path = format!("{path}/update");
        site.ask_unheard(&request(Some(ROOT), Update, &path, &body));
        assert_eq!(site.accessors(), before, "{path}");
    }
}

#[test]
fn shares_that_nobody_hears_of_do_not_count() {
    let site = Site::open(settings(RouteAccess::Token));
    let config = || site.core.seal_status().unwrap().threshold;
    for path in ["sys/rekey", "sys/rotate/root"] {
        let spec = r#"{"secret_shares":3,"secret_threshold":2}"#;
        let started = site.bare(Update, "sys/rekey/init", spec);
        let nonce = text(&started, &["nonce"]);
        let body = format!(r#"{{"key":"{}","nonce":"{nonce}"}}"#, site.share);
        let path = format!("{path}/update");
        site.ask_unheard(&request(Some(ROOT), Update, &path, &body));
        assert_eq!(config(), 1, "{path}");
        site.root(Update, "sys/seal", "").unwrap();
        let unseal = format!(r#"{{"key":"{}"}}"#, site.share);
        site.root(Update, "sys/unseal", &unseal).unwrap();
        assert!(site.is_whole(), "the old share unseals");
    }
}

#[test]
fn a_join_token_that_nobody_hears_of_is_forgotten() {
    let site = Site::open(settings(RouteAccess::Token));
    let context = site.core.namespace_context("").unwrap();
    let storage = EngineStorage::builtin(&context, crate::storage::keys::MountId::SYSTEM).unwrap();
    let kept = |name: &str| storage.get(name).unwrap().is_some();
    let name = cluster::join_token_record("kjt.some");
    pollster::block_on(storage.put(&name, b"{}".to_vec())).unwrap();
    let asked = request(Some(ROOT), Update, cluster::JOIN_TOKEN, "");
    let told = Response::data(&Json::object([("token", "kjt.some".into())]));
    assert!(kept(&name));
    pollster::block_on(crate::wrapping::unheard::end(&site.core, &context, &asked, &told));
    assert!(!kept(&name));
}

#[test]
fn what_is_renewed_or_unwrapped_unheard_stays_what_it_was() {
    let site = Site::open(settings(RouteAccess::Token));
    let make = r#"{"id":"known","policies":["default"],"ttl":"1h"}"#;
    let make = request(Some(ROOT), Update, "auth/token/create", make);
    let Response::Logical(made) = site.ask(&Request { wrap_ttl_secs: 60, ..make }).unwrap() else {
        panic!("a wrapped answer")
    };
    let wrap_info = json::parse_object(&made.wrap_info).unwrap();
    let wrapping = text(&wrap_info, &["token"]);
    let later = Timestamp::from_second(5).unwrap();
    let shown = |token| Some(TokenText::new(token));
    let renew = request(None, Update, "auth/token/renew-self", "{}");
    site.ask_unheard(&Request { token: shown("known"), now: later, ..renew });
    let unwrap = request(None, Update, "sys/wrapping/unwrap", "");
    let unwrap = Request { token: shown(wrapping), now: later, ..unwrap };
    site.ask_unheard(&unwrap);
    site.ask(&request(Some("known"), Read, "auth/token/lookup-self", "")).unwrap();
    // It opened once, though nobody saw what was in it.
    assert!(matches!(site.ask(&unwrap), Err(Error::Invalid(_))));
}
