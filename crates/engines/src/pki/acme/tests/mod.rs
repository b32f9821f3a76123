//! ACME without a server: what requests come to at the times that a test says, with a client that signs as RFC 8555 wants it.

mod accounts;
mod ends;
mod orders;

use std::collections::BTreeMap;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use data_encoding::BASE64URL_NOPAD;
use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Response};
use kallisto_auth::Operation::{Delete, List, Read, Update};
use kallisto_engine::{ProbeAnswer, ProbeFailure, ProbeKind};
use kallisto_pki::request::Wish;
use kallisto_pki::signature::SignatureWish;
use kallisto_pki::{CertificateSubject, PkiKeyKind, PrivateKey, San, SignatureAlgorithm};

use crate::pki::ENGINE;
use crate::testing::TestMount;

const NOW: i64 = 1_800_000_000;
const BASE: &str = "http://ca.test/v1/mount";

pub(super) fn base64(bytes: &[u8]) -> String {
    BASE64URL_NOPAD.encode(bytes)
}

/// An answer.
#[derive(Debug)]
struct Answer {
    code: u16,
    headers: BTreeMap<&'static str, String>,
    text: String,
}

impl Answer {
    fn body(&self) -> Map {
        json::parse_object(self.text.as_bytes()).unwrap_or_else(|_| panic!("{}", self.text))
    }

    fn get(&self, name: &str) -> String {
        match self.body().get(name) {
            Some(Json::String(text)) => text.clone(),
            Some(other) => String::from_utf8(other.to_text()).unwrap(),
            None => String::new(),
        }
    }

    /// The type of a problem, without what all types begin with, and the status.
    fn problem(&self) -> (String, u16) {
        let kind = self.get("type").replace("urn:ietf:params:acme:error:", "");
        (kind, self.code)
    }

    fn location(&self) -> String {
        self.headers.get("location").cloned().unwrap_or_default()
    }

    fn urls(&self, name: &str) -> Vec<String> {
        match self.body().get(name) {
            Some(Json::Array(urls)) => {
                urls.iter().map(|u| u.as_str().unwrap().to_owned()).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The path inside the mount of a URL.
fn inside(url: &str) -> &str {
    url.strip_prefix(BASE).unwrap().trim_start_matches('/')
}

/// A mount with ACME, at a time.
struct Ca {
    mount: TestMount,
    at: i64,
}

impl Ca {
    fn new() -> Self {
        Self::with_key(r#""key_type":"ec""#)
    }

    /// One whose CA has such a key.
    fn with_key(key: &str) -> Self {
        let ca = Self { mount: TestMount::new(&ENGINE), at: NOW };
        ca.ask(
            "root/generate/internal",
            &format!(r#"{{"common_name":"R",{key},"not_after":"2030-01-01T00:00:00Z"}}"#),
        );
        ca.ask("config/cluster", &format!(r#"{{"path":"{BASE}"}}"#));
        ca.ask(
            "roles/web",
            r#"{"allowed_domains":"example.test","allow_subdomains":true,"key_type":"any"}"#,
        );
        ca.ask("config/acme", r#"{"enabled":true}"#);
        ca
    }

    fn ask(&self, path: &str, body: &str) -> Map {
        self.mount.ask(self.at, Update, path, body).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    fn answer(&self, path: &str, body: &[u8]) -> Answer {
        let operation = if body.is_empty() { Read } else { Update };
        match self.mount.answer(self.at, operation, path, body).unwrap() {
            Response::Foreign { code, headers, body, .. } => Answer {
                code,
                headers: headers.into_iter().collect(),
                text: String::from_utf8(body).unwrap(),
            },
            other => panic!("{path}: {other:?}"),
        }
    }

    fn nonce(&self) -> String {
        self.answer("acme/new-nonce", b"").headers["replay-nonce"].clone()
    }

    fn job(&self, name: &str) {
        self.mount.run_job(self.at, name).unwrap();
    }

    /// How many records of ACME there are.
    fn records(&self) -> usize {
        self.mount.names_in("acme/")
    }
}

/// A request that is about to be signed.
struct Draft {
    protected: Vec<(&'static str, Json)>,
    payload: String,
    signer: usize,
}

/// A client: keys, and the URL of its account.
struct Client<'c> {
    ca: &'c Ca,
    directory: &'static str,
    keys: Vec<EcdsaKeyPair>,
    kid: String,
}

pub(super) fn new_key() -> EcdsaKeyPair {
    EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap()
}

pub(super) fn jwk(key: &EcdsaKeyPair) -> Json {
    let point = key.public_key().as_ref();
    Json::object([
        ("crv", "P-256".into()),
        ("kty", "EC".into()),
        ("x", base64(&point[1..33]).into()),
        ("y", base64(&point[33..]).into()),
    ])
}

pub(super) fn thumbprint(key: &EcdsaKeyPair) -> String {
    // The members are in the order of their names.
    base64(digest(&SHA256, &jwk(key).to_text()).as_ref())
}

fn sign(key: &EcdsaKeyPair, protected: Json, payload: &str) -> Vec<u8> {
    let (protected, payload) = (base64(&protected.to_text()), base64(payload.as_bytes()));
    let message = format!("{protected}.{payload}");
    let signature = key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
    let signature = base64(signature.as_ref());
    // The order of members is what says to the mount that it is a JWS.
    format!(r#"{{"protected":"{protected}","payload":"{payload}","signature":"{signature}"}}"#)
        .into_bytes()
}

impl<'c> Client<'c> {
    /// One with a new key and no account.
    fn stranger(ca: &'c Ca, directory: &'static str) -> Self {
        Self { ca, directory, keys: vec![new_key()], kid: String::new() }
    }

    /// One with an account.
    fn new(ca: &'c Ca, directory: &'static str) -> Self {
        let mut client = Self::stranger(ca, directory);
        let made = client.post("new-account", "{}");
        assert_eq!(made.code, 201, "{}", made.text);
        client.kid = made.location();
        client
    }

    fn url(&self, what: &str) -> String {
        format!("{BASE}/{}/{what}", self.directory)
    }

    /// What a good request has.
    fn draft(&self, url: &str, payload: &str) -> Draft {
        let who = match self.kid.as_str() {
            "" => ("jwk", jwk(&self.keys[0])),
            kid => ("kid", kid.into()),
        };
        Draft {
            protected: vec![
                ("alg", "ES256".into()),
                ("nonce", self.ca.nonce().into()),
                ("url", url.into()),
                who,
            ],
            payload: payload.to_owned(),
            signer: 0,
        }
    }

    fn send(&self, url: &str, draft: Draft) -> Answer {
        let pairs = draft.protected.into_iter().map(|(name, value)| (name.to_owned(), value));
        let protected = Json::Object(pairs.collect());
        let body = sign(&self.keys[draft.signer], protected, &draft.payload);
        self.ca.answer(inside(url), &body)
    }

    fn post(&self, what: &str, payload: &str) -> Answer {
        self.post_to(&self.url(what), payload)
    }

    fn post_to(&self, url: &str, payload: &str) -> Answer {
        self.send(url, self.draft(url, payload))
    }

    fn order(&self, identifiers: &[(&str, &str)]) -> Answer {
        let identifiers = identifiers.iter().map(|(kind, value)| {
            Json::object([("type", (*kind).into()), ("value", (*value).into())])
        });
        let payload = Json::object([("identifiers", Json::Array(identifiers.collect()))]);
        self.post("new-order", &String::from_utf8(payload.to_text()).unwrap())
    }

    /// The challenges of an authorization by their types: URL and token.
    fn challenges(&self, authorization: &str) -> BTreeMap<String, (String, String)> {
        let answer = self.post_to(authorization, "");
        let Some(Json::Array(all)) = answer.body().get("challenges").cloned() else {
            panic!("{}", answer.text)
        };
        let text = |map: &Map, name: &str| map.get(name).unwrap().as_str().unwrap().to_owned();
        let all = all.iter().map(|one| {
            let Json::Object(one) = one else { panic!("no object") };
            (text(one, "type"), (text(one, "url"), text(one, "token")))
        });
        all.collect()
    }

    /// Has an order's authorizations shown by http-01.
    fn show_all(&self, order: &Answer) {
        for authorization in order.urls("authorizations") {
            let (url, token) = self.challenges(&authorization)["http-01"].clone();
            assert_eq!(self.post_to(&url, "{}").code, 200);
            let (id, _) = self.ca.mount.probes().pop().unwrap();
            let shown = format!("{token}.{}\n", thumbprint(&self.keys[0]));
            self.ca.mount.find_by_probe(&id, Ok(ProbeAnswer::Body(shown.into_bytes())));
            assert_eq!(self.post_to(&url, "").get("status"), "valid");
        }
    }

    /// An order, and its certificate in DER.
    fn issue(&self, name: &str) -> Vec<u8> {
        let order = self.order(&[("dns", name)]);
        assert_eq!(order.code, 201, "{}", order.text);
        self.show_all(&order);
        let done = self.post_to(&order.get("finalize"), &csr(&[dns(name)], ""));
        assert_eq!((done.code, done.get("status")), (200, "valid".to_owned()), "{}", done.text);
        let chain = self.post_to(&done.get("certificate"), "").text;
        let blocks = kallisto_pki::pem::read(&chain).unwrap();
        assert_eq!(blocks.len(), 2, "the certificate and its CA's");
        blocks[0].1.to_vec()
    }
}

fn dns(name: &str) -> San {
    San::Dns(name.to_owned())
}

/// The payload of a request to finalize, for a new key.
fn csr(names: &[San], common_name: &str) -> String {
    csr_of(&PrivateKey::make(PkiKeyKind::P256).unwrap(), names, common_name, false)
}

fn csr_of(key: &PrivateKey, names: &[San], common_name: &str, says_ca: bool) -> String {
    let subject =
        CertificateSubject { common_name: common_name.to_owned(), ..CertificateSubject::default() };
    let wish = Wish { subject: subject.to_der().unwrap(), alt_names: names.to_vec(), says_ca };
    let algorithm = SignatureAlgorithm::choose(PkiKeyKind::P256, SignatureWish::default());
    format!(r#"{{"csr":"{}"}}"#, base64(&wish.sign(key, algorithm).unwrap()))
}

#[test]
fn a_disabled_mount_has_no_directory() {
    let mount = TestMount::new(&ENGINE);
    for path in ["acme/directory", "roles/web/acme/directory", "acme/new-nonce"] {
        let answer = mount.answer(NOW, Read, path, b"").unwrap();
        assert!(matches!(answer, Response::MissingEmpty), "{path}: {answer:?}");
    }
    let answer = mount.answer(NOW, Update, "acme/new-account", b"{\"protected\":1}").unwrap();
    assert!(matches!(answer, Response::MissingEmpty), "{answer:?}");
    let refused = mount.ask(NOW, Update, "config/acme", r#"{"enabled":true}"#);
    let why = "ACME feature requires local cluster 'path' field configuration to be set";
    assert_eq!(refused, Err(Error::invalid(why)));
}

#[test]
fn a_client_that_does_not_do_as_rfc_8555_says_hears_the_type_and_status_of_it() {
    let ca = Ca::new();
    let client = Client::new(&ca, "acme");
    let stranger = Client::stranger(&ca, "acme");
    let new_account = stranger.url("new-account");
    let new_order = client.url("new-order");
    let spoil = |client: &Client<'_>, url: &str, spoil: &dyn Fn(&mut Draft)| {
        let mut draft = client.draft(url, r#"{"onlyReturnExisting":false}"#);
        spoil(&mut draft);
        client.send(url, draft).problem()
    };
    let set = |name: &'static str, value: Json| {
        move |draft: &mut Draft| {
            draft.protected.retain(|(known, _)| *known != name);
            draft.protected.push((name, value.clone()));
        }
    };
    let without = |name: &'static str| {
        move |draft: &mut Draft| draft.protected.retain(|(known, _)| *known != name)
    };
    let used = {
        let draft = client.draft(&new_order, "{}");
        let nonce = draft.protected[1].1.clone();
        client.send(&new_order, draft);
        nonce
    };
    let hs = |alg: &str| ("badSignatureAlgorithm".to_owned(), 400, alg.to_owned());
    for (kind, code, alg) in [hs("none"), hs("HS256"), hs("HS512"), hs("RS1"), hs("PS256")] {
        let found = spoil(&stranger, &new_account, &set("alg", alg.as_str().into()));
        assert_eq!(found, (kind, code), "{alg}");
    }
    let rows: Vec<(&str, (String, u16), &str, u16)> = vec![
        ("an algorithm of another key", spoil(&stranger, &new_account, &set("alg", "RS256".into())), "malformed", 400),
        ("no algorithm", spoil(&stranger, &new_account, &without("alg")), "malformed", 400),
        ("no nonce", spoil(&stranger, &new_account, &without("nonce")), "badNonce", 400),
        ("a nonce of nobody", spoil(&stranger, &new_account, &set("nonce", "AAAA".into())), "badNonce", 400),
        ("a nonce that is no text", spoil(&stranger, &new_account, &set("nonce", 7u64.into())), "malformed", 400),
        ("a nonce that was used", spoil(&client, &new_order, &set("nonce", used)), "badNonce", 400),
        ("no url", spoil(&stranger, &new_account, &without("url")), "malformed", 400),
        ("another url", spoil(&stranger, &new_account, &set("url", new_order.as_str().into())), "unauthorized", 401),
        ("no key", spoil(&stranger, &new_account, &without("jwk")), "malformed", 400),
        ("two keys", spoil(&stranger, &new_account, &set("kid", client.kid.as_str().into())), "malformed", 400),
        ("a kid for a new account", spoil(&client, &new_account, &|_| {}), "malformed", 400),
        ("a jwk for an order", spoil(&stranger, &new_order, &|_| {}), "malformed", 400),
        ("an unknown account", spoil(&client, &new_order, &set("kid", format!("{BASE}/acme/account/00000000-0000-4000-8000-000000000000").into())), "accountDoesNotExist", 400),
        ("an account elsewhere", spoil(&client, &new_order, &set("kid", "http://other.test/account/1".into())), "accountDoesNotExist", 400),
        ("an extension", spoil(&stranger, &new_account, &set("crit", Json::strings(["exp"]))), "malformed", 400),
        ("a private key", spoil(&stranger, &new_account, &|draft| {
            let Json::Object(mut key) = jwk(&stranger.keys[0]) else { unreachable!() };
            key.insert("d".to_owned(), "AAAA".into());
            draft.protected.retain(|(name, _)| *name != "jwk");
            draft.protected.push(("jwk", Json::Object(key)));
        }), "badPublicKey", 400),
        ("a key of an unknown type", spoil(&stranger, &new_account, &set("jwk", Json::object([("kty", "oct".into()), ("k", "AAAA".into())]))), "badPublicKey", 400),
        ("a short RSA key", spoil(&stranger, &new_account, &set("jwk", Json::object([("kty", "RSA".into()), ("n", base64(&[0xff; 128]).into()), ("e", "AQAB".into())]))), "badPublicKey", 400),
        ("only an existing account", {
            let mut draft = stranger.draft(&new_account, r#"{"onlyReturnExisting":true}"#);
            draft.signer = 0;
            stranger.send(&new_account, draft).problem()
        }, "accountDoesNotExist", 400),
        ("a contact of another scheme", stranger.post("new-account", r#"{"contact":["tel:1"]}"#).problem(), "unsupportedContact", 400),
        ("a contact of two", stranger.post("new-account", r#"{"contact":["mailto:a@x.test,b@x.test"]}"#).problem(), "invalidContact", 400),
        ("a contact with headers", stranger.post("new-account", r#"{"contact":["mailto:a@x.test?bcc=b"]}"#).problem(), "invalidContact", 400),
        ("a contact that is no URL", stranger.post("new-account", r#"{"contact":["bad"]}"#).problem(), "invalidContact", 400),
        ("no identifiers", client.post("new-order", "{}").problem(), "malformed", 400),
        ("an unknown identifier", client.order(&[("bogus", "x")]).problem(), "unsupportedIdentifier", 400),
        ("two wildcards", client.order(&[("dns", "*.*.example.test")]).problem(), "malformed", 400),
        ("an address as a name", client.order(&[("dns", "10.0.0.1")]).problem(), "malformed", 400),
        ("upper case", client.order(&[("dns", "UPPER.example.test")]).problem(), "malformed", 400),
        ("no host", client.order(&[("dns", "a_b.example.test")]).problem(), "malformed", 400),
        ("a U-label", client.order(&[("dns", "\u{fc}.example.test")]).problem(), "malformed", 400),
        ("a mapped address", client.order(&[("ip", "::ffff:10.0.0.1")]).problem(), "malformed", 400),
        ("an address in another spelling", client.order(&[("ip", "2001:DB8::1")]).problem(), "malformed", 400),
        ("a wish for times", client.post("new-order", r#"{"identifiers":[{"type":"dns","value":"a.test"}],"notBefore":"2030-01-01T00:00:00Z"}"#).problem(), "malformed", 400),
        ("an order of nobody", client.post("order/00000000-0000-4000-8000-000000000000", "").problem(), "malformed", 404),
        ("an authorization of nobody", client.post("authorization/00000000-0000-4000-8000-000000000000", "").problem(), "malformed", 404),
        ("a challenge of nobody", client.post("challenge/00000000-0000-4000-8000-000000000000/http-01", "{}").problem(), "malformed", 404),
        ("no certificate", client.post("revoke-cert", "{}").problem(), "malformed", 400),
        ("an unknown reason", client.post("revoke-cert", r#"{"certificate":"AAAA","reason":7}"#).problem(), "badRevocationReason", 400),
        ("a reason for others", client.post("revoke-cert", r#"{"certificate":"AAAA","reason":9}"#).problem(), "badRevocationReason", 400),
        ("a GET of an order", ca.answer("acme/order/x", b"").problem(), "malformed", 405),
        ("another content type", ca.answer("acme/new-order", b"{ \"protected\":\"\"}").problem(), "malformed", 415),
    ];
    for (what, found, kind, code) in rows {
        assert_eq!(found, (kind.to_owned(), code), "{what}");
    }
    // Signed by a key that is not the account's.
    let mut other =
        Client { ca: &ca, directory: "acme", keys: vec![new_key()], kid: String::new() };
    other.kid.clone_from(&client.kid);
    assert_eq!(other.order(&[("dns", "a.test")]).problem(), ("malformed".to_owned(), 400));
    // A header that is not protected, and one signature of many.
    for extra in [r#","header":{}}"#, r#","signatures":[]}"#] {
        let draft = stranger.draft(&new_account, "{}");
        let protected = draft.protected.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
        let mut body = sign(&stranger.keys[0], Json::Object(protected), "{}");
        body.pop();
        body.extend_from_slice(extra.as_bytes());
        let found = ca.answer("acme/new-account", &body).problem();
        assert_eq!(found, ("malformed".to_owned(), 400), "{extra}");
    }
}

#[test]
fn every_answer_has_a_fresh_nonce_and_says_where_the_directory_is() {
    let ca = Ca::new();
    let client = Client::new(&ca, "roles/web/acme");
    let good = client.order(&[("dns", "a.example.test")]);
    let bad = client.order(&[("dns", "a.example.com")]);
    assert_eq!(bad.problem(), ("rejectedIdentifier".to_owned(), 400));
    let directory = format!("<{BASE}/roles/web/acme/directory>;rel=\"index\"");
    for answer in [&good, &bad] {
        assert_eq!(answer.headers["link"], directory);
        assert!(!answer.headers["replay-nonce"].is_empty());
    }
    assert_ne!(good.headers["replay-nonce"], bad.headers["replay-nonce"]);
}

#[test]
fn a_request_that_was_answered_is_not_answered_again_by_whoever_leads_next() {
    let mut ca = Ca::new();
    let (draft, keys, kid) = {
        let client = Client::new(&ca, "acme");
        let url = client.url("new-order");
        let draft =
            client.draft(&url, r#"{"identifiers":[{"type":"dns","value":"a.example.test"}]}"#);
        (draft, client.keys, client.kid)
    };
    let protected = draft.protected.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
    let body = sign(&keys[0], Json::Object(protected), &draft.payload);
    assert_eq!(ca.answer("acme/new-order", &body).code, 201);
    assert_eq!(ca.answer("acme/new-order", &body).problem().0, "badNonce");
    // Another server leads: it has not seen what was used.
    ca.mount = ca.mount.restarted();
    ca.at += 1;
    assert_eq!(ca.answer("acme/new-order", &body).problem().0, "badNonce");
    let client = Client { ca: &ca, directory: "acme", keys, kid };
    assert_eq!(client.order(&[("dns", "a.example.test")]).code, 201, "a nonce made since is good");
}

#[test]
fn a_certificate_is_revoked_by_account_by_key_and_by_whoever_holds_its_names() {
    let ca = Ca::new();
    let client = Client::new(&ca, "acme");
    let payload =
        |der: &[u8], reason: &str| format!(r#"{{"certificate":"{}"{reason}}}"#, base64(der));
    let first = client.issue("a.example.test");
    let other = Client::new(&ca, "acme");
    let refused = other.post("revoke-cert", &payload(&first, "")).problem();
    assert_eq!(refused, ("unauthorized".to_owned(), 401));
    let stranger = Client::stranger(&ca, "acme");
    assert_eq!(stranger.post("revoke-cert", &payload(&first, "")).problem().0, "unauthorized");
    assert_eq!(client.post("revoke-cert", &payload(&first, r#","reason":4"#)).code, 200);
    assert_eq!(client.post("revoke-cert", &payload(&first, "")).problem().0, "alreadyRevoked");
    // By an account with an authorization for the name.
    let second = client.issue("b.example.test");
    let order = other.order(&[("dns", "b.example.test"), ("dns", "c.example.test")]);
    assert_eq!(other.post("revoke-cert", &payload(&second, "")).problem().0, "unauthorized");
    other.show_all(&order);
    assert_eq!(other.post("revoke-cert", &payload(&second, "")).code, 200);
    // By the key of the certificate, which has no account.
    let order = client.order(&[("dns", "d.example.test")]);
    client.show_all(&order);
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let done =
        client.post_to(&order.get("finalize"), &csr_of(&key, &[dns("d.example.test")], "", false));
    let chain = client.post_to(&done.get("certificate"), "").text;
    let third = kallisto_pki::pem::read(&chain).unwrap()[0].1.to_vec();
    let holder = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.pkcs8()).unwrap();
    let holder = Client { ca: &ca, directory: "acme", keys: vec![holder], kid: String::new() };
    assert_eq!(holder.post("revoke-cert", &payload(&third, r#","reason":1"#)).code, 200);
    assert_eq!(ca.mount.names_in("revoked/"), 3);
}
