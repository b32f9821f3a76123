//! The provider without a server: keys, roles and tokens over time, and the code flow up to what a client is told.

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Response};
use kallisto_auth::Operation::{Delete, List, Read, Update};
use kallisto_engine::{Caller, Profile, ProfileGroup};

use crate::testing::TestMount;

const NOW: i64 = 1_800_000_000;
const CALLBACK: &str = "http://127.0.0.1:8250/cb";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const ANN: &str = "0b7c1b5e-0000-0000-0000-0000000000a1";

/// A mount that knows an entity, which asks.
fn mount() -> TestMount {
    let mount = TestMount::new(&super::ENGINE);
    let group =
        ProfileGroup { id: "g-1".to_owned(), name: "admins".to_owned(), ..ProfileGroup::default() };
    mount.say_person(Profile {
        id: ANN.to_owned(),
        name: "ann".to_owned(),
        groups: vec![group],
        ..Profile::default()
    });
    ask_as(&mount, ANN);
    mount
}

fn ask_as(mount: &TestMount, entity_id: &str) {
    let proven_at = jiff::Timestamp::from_second(NOW).ok();
    mount.ask_as(Caller { entity_id: entity_id.to_owned(), proven_at, ..Caller::default() });
}

fn write(mount: &TestMount, path: &str, body: &str) {
    mount.ask(NOW, Update, path, body).unwrap_or_else(|error| panic!("{path}: {error}"));
}

fn refused(
    mount: &TestMount,
    operation: kallisto_auth::Operation,
    path: &str,
    body: &str,
) -> String {
    mount.ask(NOW, operation, path, body).unwrap_err().to_string()
}

/// A bare answer.
fn bare(answer: Result<Response, Error>) -> (u16, Map) {
    match answer {
        Ok(Response::Bare { code, body: Json::Object(body) }) => (code, body),
        Ok(Response::Challenge { body: Json::Object(body), .. }) => (401, body),
        other => panic!("{other:?}"),
    }
}

fn kids(mount: &TestMount, at: i64, path: &str) -> Vec<String> {
    let (_, set) = bare(mount.answer(at, Read, path, b""));
    let Json::Array(keys) = &set["keys"] else { panic!("a set of keys") };
    keys.iter().map(|key| key.as_object().unwrap()["kid"].as_str().unwrap().to_owned()).collect()
}

/// A part of a token.
fn part(token: &str, at: usize) -> Map {
    let part = token.split('.').nth(at).unwrap();
    json::parse_object(&data_encoding::BASE64URL_NOPAD.decode(part.as_bytes()).unwrap()).unwrap()
}

fn token(mount: &TestMount, at: i64) -> String {
    TestMount::text(&mount.ask(at, Read, "oidc/token/r", "").unwrap(), "token")
}

fn kid(token: &str) -> String {
    TestMount::text(&part(token, 0), "kid")
}

#[test]
fn a_token_says_who_asks_and_is_good_until_its_end() {
    let mount = mount();
    write(&mount, "oidc/key/k", r#"{"algorithm":"EdDSA","allowed_client_ids":"*"}"#);
    let template =
        r#"{"key":"k","ttl":"1h","template":"{\"groups\": {{identity.entity.groups.names}} }"}"#;
    write(&mount, "oidc/role/r", template);
    let token = token(&mount, NOW);
    let claims = part(&token, 1);
    assert_eq!(TestMount::text(&claims, "sub"), ANN);
    assert_eq!(TestMount::text(&claims, "groups"), r#"["admins"]"#);
    assert_eq!(TestMount::text(&claims, "iss"), "http://127.0.0.1:8200/v1/mount/oidc");
    let judge = |at: i64| {
        let body = format!(r#"{{"token":"{token}\n"}}"#);
        TestMount::text(
            &bare(mount.answer(at, Update, "oidc/introspect", body.as_bytes())).1,
            "active",
        )
    };
    assert_eq!(judge(NOW + 3600), "true");
    assert_eq!(judge(NOW + 3660), "false");
    ask_as(&mount, "");
    let refused = refused(&mount, Read, "oidc/token/r", "");
    assert_eq!(refused, "no entity associated with the request's token");
    assert_eq!(judge(NOW), "true");
    mount.say_person(Profile { id: ANN.to_owned(), is_disabled: true, ..Profile::default() });
    assert_eq!(judge(NOW), "false");
}

#[test]
fn a_template_is_taken_as_it_stands_and_in_base_64_in_lines() {
    let mount = mount();
    write(&mount, "oidc/key/k", r#"{"algorithm":"EdDSA","allowed_client_ids":"*"}"#);
    let template = r#"{ "user": {{identity.entity.name}}, "all": {{identity.entity.groups.names}}, "of": {{identity.entity.metadata.contact}} }"#;
    let encoded = data_encoding::BASE64.encode(template.as_bytes());
    // As `base64` writes it: lines of 76 characters.
    let lines: Vec<&str> =
        encoded.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
    assert!(lines.len() > 1);
    for given in [
        template.to_owned(),
        encoded.clone(),
        format!("{encoded}\n"),
        lines.join("\n"),
        lines.join("\r\n") + "\r\n",
    ] {
        let body = Json::object([
            ("key", "k".into()),
            ("ttl", "1h".into()),
            ("template", given.as_str().into()),
        ]);
        let body = String::from_utf8(body.to_text()).unwrap();
        write(&mount, "oidc/role/r", &body);
        write(&mount, "oidc/scope/s", &body);
        for path in ["oidc/role/r", "oidc/scope/s"] {
            let shown = mount.ask(NOW, Read, path, "").unwrap();
            assert_eq!(TestMount::text(&shown, "template"), template, "{given}");
        }
        assert_eq!(TestMount::text(&part(&token(&mount, NOW), 1), "user"), "ann");
    }
}

#[test]
fn keys_rotate_by_the_clock_and_are_published_while_a_token_of_theirs_lives() {
    let mount = mount();
    let key = r#"{"algorithm":"ES256","rotation_period":"1m","verification_ttl":"5m","allowed_client_ids":"*"}"#;
    write(&mount, "oidc/key/k", key);
    write(&mount, "oidc/role/r", r#"{"key":"k","ttl":"5m"}"#);
    let mut live: Vec<(String, i64)> = Vec::new();
    let mut versions = std::collections::BTreeSet::new();
    for minute in 0..20 {
        let at = NOW + 60 * minute;
        mount.run_job(at, "key_rotation").unwrap();
        let kid = kid(&token(&mount, at));
        versions.insert(kid.clone());
        live.push((kid, at + 300));
        live.retain(|(_, end)| *end > at);
        let published = kids(&mount, at, "oidc/.well-known/keys");
        for (kid, _) in &live {
            assert!(published.contains(kid), "minute {minute}");
        }
        assert!(published.len() <= 2 + 10, "ended versions are let go of: {}", published.len());
    }
    assert_eq!(versions.len(), 20, "one version a minute");
    let restarted = mount.restarted();
    assert_eq!(kids(&restarted, NOW + 1200, "oidc/.well-known/keys").len(), 2 + 9);
    restarted.run_job(NOW + 4000, "key_rotation").unwrap();
    restarted.run_job(NOW + 4001, "key_rotation").unwrap();
    assert_eq!(kids(&restarted, NOW + 4001, "oidc/.well-known/keys").len(), 2 + 1);
}

#[test]
fn what_is_referred_to_is_not_deleted_nor_cut_below_what_refers_to_it() {
    let mount = mount();
    write(&mount, "oidc/key/k", r#"{"algorithm":"EdDSA"}"#);
    write(&mount, "oidc/role/r", r#"{"key":"k","ttl":"2h"}"#);
    let why = refused(&mount, Delete, "oidc/key/k", "");
    assert_eq!(
        why,
        "unable to delete key \"k\" because it is currently referenced by these roles: r"
    );
    let why = refused(&mount, Update, "oidc/key/k", r#"{"verification_ttl":"1h"}"#);
    assert!(why.ends_with("one or more roles with a token ttl greater than 3600 seconds"), "{why}");
    write(&mount, "oidc/assignment/a", r#"{"entity_ids":["x"]}"#);
    write(&mount, "oidc/scope/s", r#"{"template":"{\"x\": 1}"}"#);
    write(&mount, "oidc/client/c", r#"{"key":"k","assignments":["a"],"id_token_ttl":"1h"}"#);
    write(&mount, "oidc/provider/p", r#"{"scopes_supported":["s"]}"#);
    mount.ask(NOW, Delete, "oidc/role/r", "").unwrap();
    for (path, who) in
        [("key/k", "clients: c"), ("assignment/a", "clients: c"), ("scope/s", "providers: p")]
    {
        let why = refused(&mount, Delete, &format!("oidc/{path}"), "");
        assert!(why.ends_with(&format!("currently referenced by these {who}")), "{why}");
    }
    for path in ["client/c", "provider/p", "key/k", "assignment/a", "scope/s", "scope/none"] {
        mount.ask(NOW, Delete, &format!("oidc/{path}"), "").unwrap();
    }
    assert_eq!(mount.names(), ["oidc/uses"]);
    for path in ["key/default", "assignment/allow_all", "provider/default"] {
        let why = refused(&mount, Delete, &format!("oidc/{path}"), "");
        assert!(why.ends_with("not allowed"), "{why}");
    }
}

#[test]
fn what_cannot_be_is_refused_where_it_is_written() {
    let mount = mount();
    write(&mount, "oidc/key/k", r#"{"algorithm":"EdDSA","verification_ttl":"1h"}"#);
    for (path, body, why) in [
        ("key/x", r#"{"rotation_period":"59s"}"#, "at least one minute"),
        ("key/x", r#"{"rotation_period":"1m","verification_ttl":"11m"}"#, "10x rotation_period"),
        ("key/x", r#"{"algorithm":"HS256"}"#, "unknown signing algorithm"),
        ("key/x", r#"{"algorithm":"none"}"#, "unknown signing algorithm"),
        ("key/none/rotate", "{}", "no named key found"),
        ("role/x", "{}", "the key parameter is required"),
        ("role/x", r#"{"key":"none"}"#, "cannot find key"),
        ("role/x", r#"{"key":"k","ttl":"2h"}"#, "verification_ttl of the key"),
        ("role/x", r#"{"key":"k","ttl":"1h","template":"{\"sub\": 1}"}"#, "top level key \"sub\""),
        ("scope/openid", "{}", "is reserved"),
        ("scope/x", r#"{"template":"{"}"#, "error parsing template"),
        ("client/x", r#"{"key":"none"}"#, "key \"none\" does not exist"),
        ("client/x", r#"{"key":"k","assignments":["no"]}"#, "assignment \"no\" does not exist"),
        ("client/x", r#"{"key":"k","id_token_ttl":"2h"}"#, "verification_ttl of the key"),
        (
            "client/x",
            r#"{"key":"k","client_type":"other","id_token_ttl":"1h"}"#,
            "invalid client_type",
        ),
        (
            "client/x",
            r#"{"key":"k","id_token_ttl":"1h","redirect_uris":["javascript:x"]}"#,
            "scheme",
        ),
        ("assignment/allow_all", "{}", "not allowed"),
        ("provider/x", r#"{"scopes_supported":["no"]}"#, "scope \"no\" does not exist"),
        ("provider/x", r#"{"issuer":"https://a.example/x"}"#, "invalid issuer"),
        ("config", r#"{"issuer":"a.example"}"#, "invalid issuer"),
    ] {
        let refused = refused(&mount, Update, &format!("oidc/{path}"), body);
        assert!(refused.contains(why), "{path} {body}: {refused}");
    }
    assert_eq!(mount.ask(NOW, List, "oidc/role", ""), Err(Error::NotFound));
}

#[test]
fn the_default_key_is_made_when_something_first_refers_to_it() {
    let mount = mount();
    let shown = mount.ask(NOW, Read, "oidc/key/default", "").unwrap();
    assert_eq!(TestMount::text(&shown, "algorithm"), "RS256");
    assert_eq!(mount.names_in("oidc/key/"), 0);
    write(&mount, "oidc/key/default", r#"{"algorithm":"EdDSA"}"#);
    write(&mount, "oidc/client/c", "{}");
    assert_eq!(kids(&mount, NOW, "oidc/provider/default/.well-known/keys").len(), 2);
    let listed = mount.ask(NOW, List, "oidc/provider", "").unwrap();
    assert_eq!(TestMount::text(&listed, "keys"), r#"["default"]"#);
    let listed = mount.ask(NOW, List, "oidc/assignment", "").unwrap();
    assert_eq!(TestMount::text(&listed, "keys"), r#"["allow_all"]"#);
}

/// A mount with a client of each type.
fn provider() -> (TestMount, Map, Map) {
    let mount = mount();
    write(&mount, "oidc/key/k", r#"{"algorithm":"EdDSA","allowed_client_ids":"*"}"#);
    write(&mount, "oidc/scope/who", r#"{"template":"{\"user\": {{identity.entity.name}} }"}"#);
    write(
        &mount,
        "oidc/provider/default",
        r#"{"allowed_client_ids":"*","scopes_supported":["who"]}"#,
    );
    for (name, kind) in [("app", "confidential"), ("cli", "public")] {
        let body = format!(
            r#"{{"key":"k","client_type":"{kind}","assignments":["allow_all"],"redirect_uris":["{CALLBACK}"]}}"#
        );
        write(&mount, &format!("oidc/client/{name}"), &body);
    }
    let read = |name: &str| mount.ask(NOW, Read, &format!("oidc/client/{name}"), "").unwrap();
    let (app, cli) = (read("app"), read("cli"));
    assert!(TestMount::text(&app, "client_secret").starts_with("hvo_secret_"));
    assert!(!cli.contains_key("client_secret"));
    (mount, app, cli)
}

fn code(mount: &TestMount, client: &Map, challenge: &str) -> String {
    let client_id = TestMount::text(client, "client_id");
    let mut query = vec![
        ("client_id", client_id.as_str()),
        ("redirect_uri", CALLBACK),
        ("response_type", "code"),
        ("scope", "openid who"),
        ("state", "st"),
        ("nonce", "no"),
    ];
    if !challenge.is_empty() {
        query.extend([("code_challenge", challenge), ("code_challenge_method", "S256")]);
    }
    let path = "oidc/provider/default/authorize";
    let (status, told) = bare(mount.answer_with(NOW, Read, path, &query, b""));
    assert_eq!((status, TestMount::text(&told, "state").as_str()), (200, "st"), "{told:?}");
    TestMount::text(&told, "code")
}

fn exchange(mount: &TestMount, at: i64, client: &Map, code: &str, verifier: &str) -> (u16, Map) {
    let text = |name| TestMount::text(client, name);
    let body = format!(
        r#"{{"grant_type":"authorization_code","code":"{code}","redirect_uri":"{CALLBACK}","client_id":"{}","client_secret":"{}","code_verifier":"{verifier}"}}"#,
        text("client_id"),
        text("client_secret"),
    );
    bare(mount.answer(at, Update, "oidc/provider/default/token", body.as_bytes()))
}

#[test]
fn a_code_is_turned_into_tokens_once() {
    let (mount, app, _) = provider();
    let code = code(&mount, &app, "");
    let (status, told) = exchange(&mount, NOW + 1, &app, &code, "");
    assert_eq!(status, 200, "{told:?}");
    let claims = part(&TestMount::text(&told, "id_token"), 1);
    for (name, value) in [("sub", ANN), ("user", "ann"), ("nonce", "no")] {
        assert_eq!(TestMount::text(&claims, name), value);
    }
    let hash = |name| kallisto_identity_tokens::SigningAlgorithm::EdDsa.half_hash(name);
    assert_eq!(TestMount::text(&claims, "c_hash"), hash(&code));
    assert_eq!(TestMount::text(&claims, "at_hash"), hash(&TestMount::text(&told, "access_token")));
    let (status, told) = exchange(&mount, NOW + 1, &app, &code, "");
    assert_eq!((status, TestMount::text(&told, "error").as_str()), (400, "invalid_grant"));
}

#[test]
fn no_record_holds_a_code_or_an_access_token() {
    let (mount, app, _) = provider();
    let code = code(&mount, &app, "");
    let (_, told) = exchange(&mount, NOW, &app, &code, "");
    let token = TestMount::text(&told, "access_token");
    use kallisto_engine::Backend as _;
    for name in mount.names() {
        let record = mount.get(&name).unwrap().unwrap();
        let record = String::from_utf8_lossy(&record.value).into_owned();
        assert!(!record.contains(&code) && !record.contains(&token), "{name}");
    }
}

#[test]
fn a_code_ends_after_five_minutes_and_its_record_after_its_token() {
    let (mount, app, _) = provider();
    let given = code(&mount, &app, "");
    assert_eq!(exchange(&mount, NOW + 300, &app, &given, "").0, 400);
    let given = code(&mount, &app, "");
    assert_eq!(exchange(&mount, NOW + 299, &app, &given, "").0, 200);
    mount.run_job(NOW + 86_000, "grant_expiry").unwrap();
    assert_eq!(mount.names_in("oidc/grant/"), 2);
    mount.run_job(NOW + 86_400 + 300 + 7200, "grant_expiry").unwrap();
    assert_eq!(mount.names_in("oidc/grant/"), 0);
}

#[test]
fn who_has_the_code_and_not_the_verifier_is_given_nothing() {
    let (mount, app, cli) = provider();
    for client in [&app, &cli] {
        for verifier in ["", CHALLENGE, "short"] {
            let code = code(&mount, client, CHALLENGE);
            assert_eq!(exchange(&mount, NOW, client, &code, verifier).0, 400, "{verifier}");
            // The code is spent by the try.
            assert_eq!(exchange(&mount, NOW, client, &code, VERIFIER).0, 400);
        }
        let code = code(&mount, client, CHALLENGE);
        assert_eq!(exchange(&mount, NOW, client, &code, VERIFIER).0, 200);
    }
    // A challenge that somebody took out on the way: the verifier gives it away.
    let code = code(&mount, &app, "");
    assert_eq!(exchange(&mount, NOW, &app, &code, VERIFIER).0, 400);
}

#[test]
fn a_client_that_does_not_prove_itself_spends_no_code() {
    let (mount, app, cli) = provider();
    let code = code(&mount, &app, "");
    let mut stranger = app.clone();
    stranger.insert("client_secret".to_owned(), "hvo_secret_wrong".into());
    let (status, told) = exchange(&mount, NOW, &stranger, &code, "");
    assert_eq!((status, TestMount::text(&told, "error").as_str()), (401, "invalid_client"));
    assert_eq!(exchange(&mount, NOW, &app, &code, "").0, 200);
    // A code of one client is nothing to another.
    let code = self::code(&mount, &app, "");
    let (status, told) = exchange(&mount, NOW, &cli, &code, "");
    assert_eq!((status, TestMount::text(&told, "error").as_str()), (400, "invalid_grant"));
}

/// Between the code and its exchange an operator disables the user, or takes the entity away.
#[test]
fn a_code_of_a_user_who_was_disabled_or_is_gone_gives_nothing() {
    let (mount, app, _) = provider();
    let given = code(&mount, &app, "");
    mount.say_person(Profile { id: ANN.to_owned(), is_disabled: true, ..Profile::default() });
    let (status, told) = exchange(&mount, NOW + 1, &app, &given, "");
    assert_eq!(
        (status, TestMount::text(&told, "error").as_str()),
        (400, "invalid_request"),
        "{told:?}"
    );
    assert!(!told.contains_key("access_token") && !told.contains_key("id_token"));
    // The code is spent.
    mount.say_person(Profile { id: ANN.to_owned(), ..Profile::default() });
    assert_eq!(exchange(&mount, NOW + 2, &app, &given, "").0, 400);
}

#[test]
fn a_client_gets_a_token_of_its_own_where_it_may() {
    let (mount, app, _) = provider();
    let ask = || {
        let body = format!(
            r#"{{"grant_type":"client_credentials","scope":"openid","client_id":"{}","client_secret":"{}"}}"#,
            TestMount::text(&app, "client_id"),
            TestMount::text(&app, "client_secret"),
        );
        bare(mount.answer(NOW, Update, "oidc/provider/default/token", body.as_bytes()))
    };
    assert_eq!(ask().0, 400);
    write(&mount, "oidc/client/app", r#"{"client_credentials":true}"#);
    let (status, told) = ask();
    assert_eq!(status, 200, "{told:?}");
    let claims = part(&TestMount::text(&told, "access_token"), 1);
    assert_eq!(TestMount::text(&claims, "sub"), TestMount::text(&app, "client_id"));
    assert!(!told.contains_key("id_token"));
}

#[test]
fn scopes_that_set_the_same_claim_are_warned_of_and_refused() {
    let (mount, app, _) = provider();
    write(&mount, "oidc/scope/other", r#"{"template":"{\"user\": 1}"}"#);
    let body = br#"{"scopes_supported":["who","other"]}"#;
    let Ok(Response::Logical(told)) = mount.answer(NOW, Update, "oidc/provider/default", body)
    else {
        panic!("a warning")
    };
    assert!(told.warnings[0].contains("conflict \"user\" in scopes \"other\", \"who\""));
    let client_id = TestMount::text(&app, "client_id");
    let query = [
        ("client_id", client_id.as_str()),
        ("redirect_uri", CALLBACK),
        ("response_type", "code"),
        ("scope", "openid who other"),
    ];
    let path = "oidc/provider/default/authorize";
    let (_, told) = bare(mount.answer_with(NOW, Read, path, &query, b""));
    let (status, told) = exchange(&mount, NOW, &app, &TestMount::text(&told, "code"), "");
    assert_eq!((status, TestMount::text(&told, "error").as_str()), (400, "invalid_request"));
}
