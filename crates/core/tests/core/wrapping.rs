//! Response wrapping through the pipeline.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use kallisto_core::json::{self, Json, Map};
use kallisto_core::{
    Core, Denial, Error, HeaderSource, Headers, Initialized, Operation, Path, Request, Response,
    ServerInfo, TokenText,
};
use kallisto_store::{MemoryStore, Records};

use crate::support::{Site, ask_as, logical, whole_core};

use Operation::{Delete, List, Read, Update};

/// Asks with a wrapping lifetime in seconds; `None` asks without a token.
fn wrapped(
    core: &Core,
    token: Option<&str>,
    operation: Operation,
    path: &str,
    body: &str,
    wrap_ttl_secs: u64,
) -> Result<Response, Error> {
    pollster::block_on(core.handle(&request(token, operation, path, body, wrap_ttl_secs)))
}

fn request<'a>(
    token: Option<&'a str>,
    operation: Operation,
    path: &'a str,
    body: &'a str,
    wrap_ttl_secs: u64,
) -> Request<'a> {
    Request {
        token: token.map(TokenText::new),
        body: body.as_bytes(),
        wrap_ttl_secs,
        ..Request::new(operation, Path::decode(path).unwrap(), Timestamp::UNIX_EPOCH)
    }
}

fn object(text: &[u8]) -> Map {
    json::parse(text).unwrap().as_object().unwrap().clone()
}

/// The `wrap_info` of a wrapped answer, which says nothing else.
fn wrap_info(response: Response) -> Map {
    let logical = logical(response);
    assert!(logical.data.is_empty() && logical.auth.is_empty());
    object(&logical.wrap_info)
}

/// A wrapping token with the answer to `GET path`.
fn wrap(site: &Site, path: &str) -> String {
    let answer = wrapped(&site.core, Some("root"), Read, path, "", 60).unwrap();
    wrap_info(answer)["token"].as_str().unwrap().to_owned()
}

fn given(token: &str) -> String {
    format!(r#"{{"token":"{token}"}}"#)
}

fn invalid() -> Error {
    Error::invalid("wrapping token is not valid or does not exist")
}

fn unwrap(site: &Site, token: &str) -> Result<Response, Error> {
    site.ask(Update, "sys/wrapping/unwrap", &given(token))
}

fn site() -> Site {
    let site = Site::open(1 << 20);
    site.put("a", "1");
    site
}

#[test]
fn an_answer_is_wrapped_looked_up_and_opened_once() {
    let site = site();
    let info = wrap_info(wrapped(&site.core, Some("root"), Read, "secret/data/a", "", 60).unwrap());
    assert!(info["creation_path"] == "secret/data/a".into() && info["ttl"] == 60_u64.into());
    let token = info["token"].as_str().unwrap();
    let before = site.store.approximate_len();
    for asker in [None, Some("root"), Some(token), Some("hvs.nobody")] {
        let answer = wrapped(&site.core, asker, Update, "sys/wrapping/lookup", &given(token), 0);
        let data = object(&logical(answer.unwrap()).data);
        assert!(data["creation_ttl"] == 60_u64.into(), "{asker:?}");
    }
    assert_eq!(site.store.approximate_len(), before);
    let opened = logical(unwrap(&site, token).unwrap());
    assert_eq!(String::from_utf8(opened.data).unwrap(), site.get("a").unwrap());
    assert_eq!(site.store.approximate_len(), before - 2, "the token and its content are gone");
    assert_eq!(unwrap(&site, token).unwrap_err(), invalid());
    let looked = site.ask(Update, "sys/wrapping/lookup", &given(token)).unwrap_err();
    assert_eq!(looked, invalid());
}

#[test]
fn a_wrapping_token_opens_itself_and_is_burnt_by_any_other_use() {
    let site = site();
    let token = wrap(&site, "secret/data/a");
    assert!(ask_as(&site.core, &token, 0, Update, "sys/wrapping/unwrap", "").is_ok());
    let again = ask_as(&site.core, &token, 0, Update, "sys/wrapping/unwrap", "").unwrap_err();
    assert_eq!(again, invalid());
    for (operation, path) in
        [(Read, "auth/token/lookup-self"), (Read, "secret/data/a"), (Update, "sys/wrapping/rewrap")]
    {
        let token = wrap(&site, "secret/data/a");
        let denied = ask_as(&site.core, &token, 0, operation, path, "").unwrap_err();
        assert_eq!(denied, Error::Denied(Denial::Policy), "{path}");
        assert_eq!(unwrap(&site, &token).unwrap_err(), invalid(), "{path}");
    }
    // The way before there was a route for it.
    let token = wrap(&site, "secret/data/a");
    let old = logical(ask_as(&site.core, &token, 0, Read, "cubbyhole/response", "").unwrap());
    assert_eq!(old.warnings.len(), 1);
    let envelope = object(&old.data)["response"].as_str().unwrap().to_owned();
    assert!(object(envelope.as_bytes())["data"].as_object().unwrap().contains_key("metadata"));
    assert_eq!(unwrap(&site, &token).unwrap_err(), invalid());
}

/// Its record and what is in it are there until a job sweeps them, so each way to open it has to look at the time.
#[test]
fn an_expired_wrapping_token_opens_in_no_way() {
    const UNWRAP: &str = "sys/wrapping/unwrap";
    let site = site();
    let mut ways = 0;
    for (asker, path, is_given) in [
        (Some("root"), UNWRAP, true),
        (None, UNWRAP, true),
        (Some(""), UNWRAP, false),
        (Some("root"), "sys/wrapping/rewrap", true),
        (Some("root"), "sys/wrapping/lookup", true),
        (None, "sys/wrapping/lookup", true),
        (Some(""), "cubbyhole/response", false),
    ] {
        for (secs, is_open) in [(60, false), (61, false), (59, true)] {
            let token = wrap(&site, "secret/data/a");
            let body = if is_given { given(&token) } else { String::new() };
            let asker = asker.map(|asker| if asker.is_empty() { &*token } else { asker });
            let operation = if path.starts_with("sys/") { Update } else { Read };
            let ask = request(asker, operation, path, &body, 0);
            let ask = Request { now: Timestamp::from_second(secs).unwrap(), ..ask };
            let answer = pollster::block_on(site.core.handle(&ask));
            assert_eq!(answer.is_ok(), is_open, "{path} as {asker:?} at {secs} s: {answer:?}");
            ways += 1;
        }
    }
    assert_eq!(ways, 21);
}

#[test]
fn unwrapping_for_others_takes_a_right_and_costs_the_token_nothing_without_it() {
    let site = site();
    let token = wrap(&site, "secret/data/a");
    let body = r#"{"id":"weak","no_default_policy":true,"policies":["none"]}"#;
    site.ask(Update, "auth/token/create", body).unwrap();
    for (asker, denial) in [("weak", Denial::Policy), ("hvs.nobody", Denial::BadToken)] {
        let asker = Some(asker);
        let answer = wrapped(&site.core, asker, Update, "sys/wrapping/unwrap", &given(&token), 0);
        assert_eq!(answer.unwrap_err(), Error::Denied(denial));
    }
    let nothing = wrapped(&site.core, None, Update, "sys/wrapping/unwrap", "", 0).unwrap_err();
    assert_eq!(nothing, Error::Denied(Denial::NoWrappingToken));
    for wrong in ["root", "weak", "hvs.nobody", ""] {
        assert_eq!(unwrap(&site, wrong).unwrap_err(), invalid(), "{wrong}");
    }
    assert!(unwrap(&site, &token).is_ok());
}

#[test]
fn a_wrapping_token_in_the_body_of_a_request_without_a_token_opens_itself_once() {
    let site = site();
    let token = wrap(&site, "secret/data/a");
    let open =
        |token: &str| wrapped(&site.core, None, Update, "sys/wrapping/unwrap", &given(token), 0);
    for wrong in ["root", "hvs.nobody", "weak"] {
        assert_eq!(open(wrong).unwrap_err(), invalid(), "{wrong}");
    }
    assert_eq!(open("").unwrap_err(), Error::Denied(Denial::NoWrappingToken));
    assert_eq!(logical(open(&token).unwrap()).data, site.get("a").unwrap().into_bytes());
    assert_eq!(open(&token).unwrap_err(), invalid());
    // By the other spelling of the path too, and not in another namespace.
    let token = wrap(&site, "secret/data/a");
    site.ask(Update, "sys/namespaces/team", "").unwrap();
    let body = given(&token);
    let inside =
        Request { namespace: "team/", ..request(None, Update, "sys/wrapping/unwrap", &body, 0) };
    assert_eq!(pollster::block_on(site.core.handle(&inside)).unwrap_err(), invalid());
    assert!(open(&token).is_ok());
    let wins = AtomicUsize::new(0);
    let token = wrap(&site, "secret/data/a");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| wins.fetch_add(usize::from(open(&token).is_ok()), Ordering::Relaxed));
        }
    });
    assert_eq!(wins.load(Ordering::Relaxed), 1);
}

#[test]
fn what_says_nothing_is_not_wrapped_and_what_anyone_may_ask_is_not_kept() {
    let site = site();
    let ask = |operation, path: &str, body: &str| {
        wrapped(&site.core, Some("root"), operation, path, body, 60)
    };
    assert_eq!(ask(Read, "secret/data/none", "").unwrap_err(), Error::NotFound);
    assert!(matches!(ask(Delete, "secret/data/a", "").unwrap(), Response::Empty));
    // A deleted version has metadata to tell.
    let token = wrap(&site, "secret/data/a");
    assert!(matches!(unwrap(&site, &token).unwrap(), Response::Missing(_)));
    let mounts = wrap_info(ask(Read, "sys/mounts", "").unwrap());
    assert!(unwrap(&site, mounts["token"].as_str().unwrap()).is_ok());
    let before = site.store.approximate_len();
    let open = wrapped(&site.core, None, Read, "sys/internal/ui/mounts", "", 60).unwrap();
    assert!(logical(open).wrap_info.is_empty());
    assert_eq!(site.store.approximate_len(), before);
    let echo = wrap_info(ask(Update, "sys/wrapping/wrap", r#"{"a":{"b":1.50}}"#).unwrap());
    let echoed = logical(unwrap(&site, echo["token"].as_str().unwrap()).unwrap());
    assert_eq!(echoed.data, br#"{"a":{"b":1.50}}"#);
    let plain = site.ask(Update, "sys/wrapping/wrap", "{}").unwrap_err();
    assert_eq!(plain, Error::invalid("endpoint requires response wrapping to be used"));
}

#[test]
fn a_rewrapped_answer_moves_and_a_made_token_is_told_by_its_accessor() {
    let site = site();
    let body = r#"{"policies":["default"]}"#;
    let made = wrapped(&site.core, Some("root"), Update, "auth/token/create", body, 60).unwrap();
    let first = wrap_info(made);
    let rewrapped =
        site.ask(Update, "sys/wrapping/rewrap", &given(first["token"].as_str().unwrap()));
    let second = wrap_info(rewrapped.unwrap());
    assert!(first["token"] != second["token"]);
    for name in ["wrapped_accessor", "creation_path", "ttl"] {
        assert!(first[name] == second[name], "{name}");
    }
    assert_eq!(unwrap(&site, first["token"].as_str().unwrap()).unwrap_err(), invalid());
    let opened = logical(unwrap(&site, second["token"].as_str().unwrap()).unwrap());
    assert!(object(&opened.auth)["accessor"] == second["wrapped_accessor"]);
}

#[test]
fn the_policy_of_wrapping_tokens_is_what_it_is() {
    let site = site();
    let body = Json::object([("policy", r#"path "a" { capabilities = ["read"] }"#.into())]);
    let body = String::from_utf8(body.to_text()).unwrap();
    let path = "sys/policies/acl/response-wrapping";
    assert!(site.ask(Update, path, &body).is_err() && site.ask(Delete, path, "").is_err());
    assert!(site.ask(Read, path, "").is_ok());
    let listed = logical(site.ask(List, "sys/policies/acl", "").unwrap());
    assert!(!String::from_utf8(listed.data).unwrap().contains("wrapping"));
    let made = site.ask(Update, "auth/token/create", r#"{"policies":["response-wrapping"]}"#);
    assert_eq!(made.unwrap_err(), Error::invalid("cannot assign policy \"response-wrapping\""));
}

#[test]
fn of_many_who_open_a_token_at_once_one_gets_the_answer() {
    const ROUNDS: usize = 50;
    const THREADS: usize = 4;
    let site = site();
    for _ in 0..ROUNDS {
        let token = wrap(&site, "secret/data/a");
        let got = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (site, token, got) = (&site, &token, &got);
                scope.spawn(move || {
                    let answer = match thread % 3 {
                        0 => unwrap(site, token),
                        1 => ask_as(&site.core, token, 0, Update, "sys/wrapping/unwrap", ""),
                        _ => ask_as(&site.core, token, 0, Read, "cubbyhole/response", ""),
                    };
                    if answer.is_ok() {
                        got.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(got.load(Ordering::Relaxed), 1);
    }
    let accessors = logical(site.ask(List, "auth/token/accessors", "").unwrap());
    let Json::Array(live) = &object(&accessors.data)["keys"] else { panic!("no list") };
    assert_eq!(live.len(), 1, "root alone");
}

/// A request's one header: the form that a wrapping token is to have.
struct Form(&'static str);

impl HeaderSource for Form {
    fn values(&self, name: &str) -> Vec<String> {
        if name == "x-vault-wrap-format" { vec![self.0.to_owned()] } else { Vec::new() }
    }
}

/// Asks for a wrapping token in a form; its text.
fn wrap_in_form(site: &Site, form: &'static str, path: &str, body: &str) -> String {
    let form = Form(form);
    let request =
        Request { headers: Headers::of(&form), ..request(Some("root"), Update, path, body, 60) };
    let answer = pollster::block_on(site.core.handle(&request)).unwrap();
    wrap_info(answer)["token"].as_str().unwrap().to_owned()
}

/// What the middle part of a signed text says.
fn claims(text: &str) -> Map {
    let part = text.split('.').nth(1).unwrap();
    object(&data_encoding::BASE64URL_NOPAD.decode(part.as_bytes()).unwrap())
}

#[test]
fn a_signed_text_opens_once_and_so_does_the_token_inside() {
    let site = site();
    let text = wrap_in_form(&site, "jwt", "sys/wrapping/wrap", r#"{"a":1}"#);
    let inside = claims(&text);
    let named: Vec<_> = inside.keys().map(String::as_str).collect();
    assert_eq!(named, ["accessor", "addr", "exp", "iat", "jti", "nbf", "type"]);
    assert_eq!(inside["type"].as_str(), Some("wrapping"));
    // Looking leaves it whole, and says of the text what it says of the token.
    let token = inside["jti"].as_str().unwrap();
    let seen = |text: &str| site.ask(Update, "sys/wrapping/lookup", &given(text)).map(logical);
    assert_eq!(seen(&text).unwrap().data, seen(token).unwrap().data);
    // It is a token nowhere else, and the one inside does not burn by it.
    assert!(ask_as(&site.core, &text, 0, Read, "auth/token/lookup-self", "").is_err());
    assert_eq!(logical(unwrap(&site, &text).unwrap()).data, br#"{"a":1}"#);
    assert_eq!(unwrap(&site, &text).unwrap_err(), invalid());
    assert_eq!(unwrap(&site, token).unwrap_err(), invalid());

    let text = wrap_in_form(&site, "jwt", "sys/wrapping/wrap", r#"{"a":2}"#);
    let alone = ask_as(&site.core, &text, 0, Update, "sys/wrapping/unwrap", "");
    assert_eq!(logical(alone.unwrap()).data, br#"{"a":2}"#);
    let text = wrap_in_form(&site, "jwt", "sys/wrapping/wrap", r#"{"a":3}"#);
    let token = claims(&text)["jti"].as_str().unwrap().to_owned();
    assert_eq!(logical(unwrap(&site, &token).unwrap()).data, br#"{"a":3}"#);
    assert_eq!(unwrap(&site, &text).unwrap_err(), invalid());
}

#[test]
fn a_signed_text_that_was_touched_opens_nothing() {
    let site = site();
    let text = wrap_in_form(&site, "jwt", "sys/wrapping/wrap", r#"{"a":1}"#);
    let parts: Vec<_> = text.split('.').collect();
    let other = wrap_in_form(&site, "jwt", "sys/wrapping/wrap", r#"{"a":1}"#);
    let foreign = other.rsplit('.').next().unwrap();
    for touched in [
        format!("{}.{}.{foreign}", parts[0], parts[1]),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{}", parts[0], parts[1]),
        format!("{}.{}x.{}", parts[0], parts[1], parts[2]),
        format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{}.", parts[1]),
        format!("{text}{}", "A".repeat(8192)),
    ] {
        assert_eq!(unwrap(&site, &touched).unwrap_err(), invalid(), "{touched}");
    }
    assert!(unwrap(&site, &text).is_ok());
}

#[test]
fn only_the_form_that_is_known_is_made_and_rewrapping_makes_it_too() {
    let site = site();
    let plain = wrap_in_form(&site, "JWT", "sys/wrapping/wrap", r#"{"a":1}"#);
    assert!(plain.starts_with("hvs."), "{plain}");
    let text = wrap_in_form(&site, "jwt", "sys/wrapping/rewrap", &given(&plain));
    assert_eq!(unwrap(&site, &plain).unwrap_err(), invalid());
    assert_eq!(logical(unwrap(&site, &text).unwrap()).data, br#"{"a":1}"#);
    // The accessor of what is handed out is told inside too.
    let text = wrap_in_form(&site, "jwt", "auth/token/create", "{}");
    let told = claims(&text)["accessor"].as_str().unwrap().to_owned();
    let auth = object(&logical(unwrap(&site, &text).unwrap()).auth);
    assert_eq!(auth["accessor"].as_str(), Some(told.as_str()));
}

/// The wrapping token of an answer, with its accessor.
fn wrap_as(site: &Site, token: &str) -> (String, String) {
    let answer = wrapped(&site.core, Some(token), Update, "sys/wrapping/wrap", r#"{"a":1}"#, 60);
    let info = wrap_info(answer.unwrap());
    let text = |name: &str| info[name].as_str().unwrap().to_owned();
    (text("token"), text("accessor"))
}

fn by_accessor(accessor: &str) -> String {
    format!(r#"{{"accessor":"{accessor}"}}"#)
}

/// What its maker hears of a wrapping token, by accessor.
fn state(site: &Site, token: &str, accessor: &str, secs: i64) -> Result<String, Error> {
    let body = by_accessor(accessor);
    let answer = ask_as(&site.core, token, secs, Update, "sys/wrapping/lookup", &body)?;
    Ok(object(&logical(answer).data)["state"].as_str().unwrap().to_owned())
}

fn makers(site: &Site) {
    for id in ["maker", "other"] {
        let body = format!(r#"{{"id":"{id}"}}"#);
        site.ask(Update, "auth/token/create", &body).unwrap();
    }
}

#[test]
fn the_maker_of_a_wrapping_token_hears_what_became_of_it_and_nobody_else() {
    let site = site();
    makers(&site);
    let (waiting, accessor) = wrap_as(&site, "maker");
    assert_eq!(state(&site, "maker", &accessor, 0).unwrap(), "waiting");
    for stranger in ["other", "root"] {
        assert_eq!(state(&site, stranger, &accessor, 0).unwrap_err(), invalid(), "{stranger}");
    }
    assert!(matches!(state(&site, "hvs.nobody", &accessor, 0), Err(Error::Denied(_))));
    let nobody = by_accessor(&accessor);
    for path in ["sys/wrapping/lookup", "sys/wrapping/revoke"] {
        let answer = wrapped(&site.core, None, Update, path, &nobody, 0);
        assert!(matches!(answer, Err(Error::Denied(_))), "{path}");
    }
    for wrong in ["x", "../../config/cors", "a/b", "wrapping/key"] {
        assert_eq!(state(&site, "maker", wrong, 0).unwrap_err(), invalid(), "{wrong}");
    }
    assert_eq!(state(&site, "maker", &accessor, 61).unwrap(), "expired");
    assert!(unwrap(&site, &waiting).is_ok());
    assert_eq!(state(&site, "maker", &accessor, 0).unwrap(), "opened");
    assert_eq!(state(&site, "maker", &accessor, 61).unwrap(), "opened");
    // Every other way of using it up is an opening.
    for (operation, path) in [(Read, "cubbyhole/response"), (Read, "auth/token/lookup-self")] {
        let (token, accessor) = wrap_as(&site, "maker");
        let _ = ask_as(&site.core, &token, 0, operation, path, "");
        assert_eq!(state(&site, "maker", &accessor, 0).unwrap(), "opened", "{path}");
    }
    // A token wrapped anew is its new maker's.
    let (token, accessor) = wrap_as(&site, "maker");
    site.ask(Update, "sys/wrapping/rewrap", &given(&token)).unwrap();
    assert_eq!(state(&site, "maker", &accessor, 0).unwrap(), "opened");
}

#[test]
fn the_maker_takes_a_wrapping_token_back_while_it_waits() {
    const REVOKE: &str = "sys/wrapping/revoke";
    let site = site();
    makers(&site);
    let revoke = |token: &str, accessor: &str| {
        ask_as(&site.core, token, 0, Update, REVOKE, &by_accessor(accessor))
    };
    let (token, accessor) = wrap_as(&site, "maker");
    for stranger in ["other", "root"] {
        assert_eq!(revoke(stranger, &accessor).unwrap_err(), invalid(), "{stranger}");
    }
    assert!(matches!(revoke("maker", &accessor).unwrap(), Response::Empty));
    assert_eq!(unwrap(&site, &token).unwrap_err(), invalid());
    assert_eq!(state(&site, "maker", &accessor, 0).unwrap(), "withdrawn");
    let again = revoke("maker", &accessor).unwrap_err().to_string();
    assert!(again.contains("withdrawn"), "{again}");
    let (token, accessor) = wrap_as(&site, "maker");
    unwrap(&site, &token).unwrap();
    let late = revoke("maker", &accessor).unwrap_err().to_string();
    assert!(late.contains("opened"), "{late}");
    assert!(ask_as(&site.core, "maker", 0, Update, REVOKE, "{}").is_err());
}

/// Neither route asks for a right, so what bounds a token is asked about here.
#[test]
fn a_maker_is_heard_where_its_token_may_be_used_and_not_by_one_of_few_uses() {
    let site = site();
    let role = r#"{"token_bound_cidrs":"203.0.113.0/24"}"#;
    site.ask(Update, "auth/token/roles/r", role).unwrap();
    site.ask(Update, "auth/token/create/r", r#"{"id":"bound"}"#).unwrap();
    site.ask(Update, "auth/token/create", r#"{"id":"few","num_uses":9}"#).unwrap();
    let ask = |token: &'static str, from: Option<&str>, path: &str, body: &str, wrap: u64| {
        let remote = from.map(|from| format!("{from}:4711").parse().unwrap());
        let request = Request { remote, ..request(Some(token), Update, path, body, wrap) };
        pollster::block_on(site.core.handle(&request))
    };
    let made = |token: &'static str| {
        let inside = Some("203.0.113.7");
        let info = wrap_info(ask(token, inside, "sys/wrapping/wrap", r#"{"a":1}"#, 60).unwrap());
        info["accessor"].as_str().unwrap().to_owned()
    };
    let bound = by_accessor(&made("bound"));
    for path in ["sys/wrapping/lookup", "sys/wrapping/revoke"] {
        for from in [None, Some("192.0.2.1")] {
            let refused = ask("bound", from, path, &bound, 0);
            assert!(matches!(refused, Err(Error::Denied(_))), "{path} from {from:?}: {refused:?}");
        }
        assert!(ask("bound", Some("203.0.113.7"), path, &bound, 0).is_ok(), "{path}");
        let few = by_accessor(&made("few"));
        let refused = ask("few", Some("203.0.113.7"), path, &few, 0);
        assert!(matches!(refused, Err(Error::Denied(Denial::Policy))), "{path}: {refused:?}");
    }
}

#[test]
fn what_is_remembered_of_a_wrapping_token_goes_a_day_after_its_end() {
    let site = site();
    makers(&site);
    let (_, accessor) = wrap_as(&site, "maker");
    const DAY: i64 = 24 * 60 * 60;
    for (secs, is_there) in [(59 + DAY, true), (61 + DAY + 3_600, false)] {
        pollster::block_on(site.core.run_due_jobs(Timestamp::from_second(secs).unwrap())).unwrap();
        assert_eq!(state(&site, "maker", &accessor, 0).is_ok(), is_there, "{secs}");
    }
}

/// Whoever opens a wrapping token may have its content wrapped again.
#[test]
fn what_a_wrapping_token_opens_is_wrapped_anew_if_that_is_asked_for() {
    let site = site();
    let token = wrap(&site, "secret/data/a");
    let again = wrapped(&site.core, Some(&token), Update, "sys/wrapping/unwrap", "", 60);
    let info = wrap_info(again.unwrap());
    assert_eq!(info["creation_path"], "sys/wrapping/unwrap".into());
    let opened = logical(unwrap(&site, info["token"].as_str().unwrap()).unwrap());
    assert_eq!(String::from_utf8(opened.data).unwrap(), site.get("a").unwrap());
    assert_eq!(unwrap(&site, &token).unwrap_err(), invalid());
}

/// The only copy of new shares is not kept behind the barrier that they open, with a lifetime.
#[test]
fn what_a_rekey_answers_is_not_wrapped() {
    let core = whole_core(Arc::new(MemoryStore::new()), ServerInfo::default());
    let root = Some("root".to_owned().into());
    let made = pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
    let ask = |path: &str, body: &str| match wrapped(&core, Some("root"), Update, path, body, 1) {
        Ok(Response::Bare { code: 200, body }) => body.as_object().unwrap().clone(),
        other => panic!("{path}: {other:?}"),
    };
    let begun = ask("sys/rekey/init", r#"{"secret_shares":1,"secret_threshold":1}"#);
    let share = &Initialized::hex(&made.keys)[0];
    let nonce = begun["nonce"].as_str().unwrap();
    let body = format!(r#"{{"key":"{share}","nonce":"{nonce}"}}"#);
    let ended = ask("sys/rekey/update", &body);
    assert!(matches!(&ended["keys"], Json::Array(keys) if keys.len() == 1), "{ended:?}");
}

/// Keeping an answer costs a write, which whoever has no token cannot ask for.
#[test]
fn what_anyone_may_ask_is_not_kept_for_anyone() {
    let site = Site::open(usize::MAX);
    let keys = "identity/oidc/.well-known/keys";
    for path in [keys, "identity/oidc/provider/default/.well-known/keys", "sys/seal-status"] {
        for token in [None, Some("root")] {
            let before = site.store.approximate_len();
            let answer = wrapped(&site.core, token, Read, path, "", 60).unwrap();
            assert!(answer.logical().is_none_or(|logical| logical.wrap_info.is_empty()), "{path}");
            assert_eq!(site.store.approximate_len(), before, "{path}");
        }
    }
}
