//! Replays what was recorded of ACME with a client of our own, and with certbot: statuses, headers that clients read, and bodies.
//!
//! Requests are signed anew, since the keys that signed the recorded ones are not known. Ids, tokens and times differ from run to run: an id has to
//! stand for the recorded one wherever that stands, tokens and times have to be there. Of certificates that are downloaded the number is compared here;
//! what they say is compared by the replay of PKI and by the clients of the walk. All else has to be equal, but for what the tables name.

use std::collections::{BTreeMap, HashMap};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::EcdsaKeyPair;
use kallisto_api::Response;
use kallisto_api::json::{self, Json, Map};
use kallisto_auth::Operation::{Read, Update};
use kallisto_engine::{ProbeAnswer, ProbeKind};

use super::tests::{base64, jwk, new_key, thumbprint};
use crate::pki::ENGINE;
use crate::testing::TestMount;

const OURS: &str = include_str!("../../../tests/golden/acme.json");
const CERTBOT: &str = include_str!("../../../tests/golden/acme-certbot.json");
/// When all requests come.
const NOW: i64 = 1_800_000_000;

type Known = (usize, &'static [&'static str], &'static str);

const FIELDS: &str = "fields that Vault has and OpenBao has not";
const CONTACT: &str = "a contact is a mailto: URL (RFC 8555, 7.3)";
const FIRST: &str =
    "the row with the bad contact made no account, so this one does, with its own contact";
const SIGNATURE: &str = "a bad signature is the client's mistake: malformed, 400 (RFC 8555, 6.2)";
const ALGORITHM: &str =
    "another algorithm is badSignatureAlgorithm, with those that there are (RFC 8555, 6.2)";
const SHOWN: &str = "reading an account shows its contacts (RFC 8555, 7.1.2)";
const EXPIRES: &str = "a pending authorization says when it expires (RFC 8555, 7.1.4)";
const WILDCARD: &str =
    "of names that are no wildcards it must not be said whether they are (RFC 8555, 7.1.4)";
const BOTH: &str = "an authorization says when it expires, and of a wildcard alone that it is one (RFC 8555, 7.1.4)";
const IP: &str = "an address may be shown by tls-alpn-01 too (RFC 8738, 6)";
const FIXED: &str = "what a look failed by is told in a fixed text, and no list is empty";
const NAMED: &str = "an order that is invalid still names its authorizations (RFC 8555, 7.1.3)";
const DETAIL: &str = "the same in other words";

/// Every difference left of our own client's.
const KNOWN: &[Known] = &[
    (
        8,
        &[
            "/contact missing",
            "/detail new",
            "/orders missing",
            "/status missing",
            "/type new",
            "content-type",
            "location",
            "status 400",
        ],
        CONTACT,
    ),
    (10, &["/detail", "/type", "status 400"], SIGNATURE),
    (12, &["/algorithms new", "/detail", "/type"], ALGORITHM),
    (13, &["/contact/0", "status 201"], FIRST),
    (14, &["/contact/0"], FIRST),
    (17, &["/contact new"], SHOWN),
    (18, &["/detail"], DETAIL),
    (19, &["/detail", "/type", "status 400"], SIGNATURE),
    (24, &["/detail"], DETAIL),
    (25, &["/detail"], DETAIL),
    (29, &["/expires new", "/wildcard missing"], BOTH),
    (31, &["/wildcard missing"], WILDCARD),
    (33, &["/challenges", "/expires new", "/wildcard missing"], IP),
    (35, &["/challenges", "/wildcard missing"], IP),
    (40, &["/detail"], DETAIL),
    (47, &["/expires new"], EXPIRES),
    (53, &["/expires new", "/wildcard missing"], BOTH),
    (
        55,
        &[
            "/challenges/0/error/detail",
            "/challenges/0/error/subproblems missing",
            "/expires new",
            "/wildcard missing",
        ],
        FIXED,
    ),
    (56, &["/error/detail", "/error/subproblems missing"], FIXED),
    (59, &["/expires new", "/wildcard missing"], BOTH),
    (60, &["/expires new", "/wildcard missing"], BOTH),
    (61, &["/authorizations"], NAMED),
];

/// Every difference left of certbot's.
const KNOWN_CERTBOT: &[Known] = &[
    (4, &["/expires new", "/wildcard missing"], BOTH),
    (5, &["/expires new", "/wildcard missing"], BOTH),
    (8, &["/wildcard missing"], WILDCARD),
    (9, &["/wildcard missing"], WILDCARD),
    (20, &["/expires new", "/wildcard missing"], BOTH),
    (22, &["/wildcard missing"], WILDCARD),
];

fn text<'r>(row: &'r Map, name: &str) -> &'r str {
    row.get(name).and_then(Json::as_str).unwrap_or_default()
}

fn map<'r>(row: &'r Map, name: &str) -> Option<&'r Map> {
    match row.get(name) {
        Some(Json::Object(map)) => Some(map),
        _ => None,
    }
}

/// Runs of letters, digits and dashes that are ids.
fn ids(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter(|word| word.len() == 36 && word.matches('-').count() == 4).collect()
}

struct Replay {
    mount: TestMount,
    base: &'static str,
    keys: [EcdsaKeyPair; 2],
    /// What stands for which recorded id.
    ours: HashMap<String, String>,
    /// The tokens of challenges, by their URLs.
    tokens: HashMap<String, String>,
    /// The URLs of accounts, by their directories.
    kids: HashMap<String, String>,
    last_nonce: String,
}

impl Replay {
    fn new(base: &'static str) -> Self {
        let replay = Self {
            mount: TestMount::new(&ENGINE),
            base,
            keys: [new_key(), new_key()],
            ours: HashMap::new(),
            tokens: HashMap::new(),
            kids: HashMap::new(),
            last_nonce: String::new(),
        };
        for (path, body) in [
            (
                "root/generate/internal",
                r#"{"common_name":"R","key_type":"ec","not_after":"2036-01-01T00:00:00Z"}"#
                    .to_owned(),
            ),
            ("config/cluster", format!(r#"{{"path":"{base}"}}"#)),
            (
                "roles/acme",
                r#"{"allowed_domains":"example.test","allow_subdomains":true,"key_type":"any"}"#
                    .to_owned(),
            ),
            ("config/acme", r#"{"enabled":true}"#.to_owned()),
        ] {
            replay.mount.ask(NOW, Update, path, &body).unwrap();
        }
        replay
    }

    fn nonce(&self) -> String {
        match self.mount.answer(NOW, Read, "acme/new-nonce", b"").unwrap() {
            Response::Foreign { headers, .. } => headers[0].1.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// A recorded text with ids of ours.
    fn filled(&self, recorded: &str) -> String {
        let mut filled = recorded.to_owned();
        for id in ids(recorded) {
            if let Some(ours) = self.ours.get(id) {
                filled = filled.replace(id, ours);
            }
        }
        filled
    }

    fn request(&mut self, row: &Map, jws: &Map) -> Vec<u8> {
        let note = text(row, "note");
        let recorded = map(jws, "protected").unwrap();
        let url = self.filled(text(recorded, "url"));
        let directory = url.split("acme/").next().unwrap().to_owned()
            + if url.contains("roles/acme/acme/") { "acme/acme" } else { "acme" };
        let nonce = match note {
            "bad nonce" => "bad".to_owned(),
            "nonce used twice" => self.last_nonce.clone(),
            _ => self.nonce(),
        };
        self.last_nonce.clone_from(&nonce);
        let mut protected = super::super::given::object([
            ("nonce", nonce.into()),
            ("url", url.into()),
            ("alg", if text(recorded, "alg") == "none" { "none" } else { "ES256" }.into()),
        ]);
        if recorded.contains_key("kid") {
            let unknown = format!("{directory}/account/00000000-0000-4000-8000-000000000000");
            let kid = match note {
                "unknown account" => unknown,
                _ => self.kids.get(&directory).cloned().unwrap_or(unknown),
            };
            protected.insert("kid".to_owned(), kid.into());
        } else {
            protected.insert("jwk".to_owned(), jwk(&self.keys[0]));
        }
        let payload = match jws.get("payload") {
            Some(Json::Object(payload)) => {
                String::from_utf8(Json::Object(payload.clone()).to_text()).unwrap()
            }
            _ => String::new(),
        };
        let payload = match text(row, "path").ends_with("revoke-cert") {
            true => format!(r#"{{"certificate":"{}"}}"#, self.tokens["certificate"]),
            false => payload,
        };
        let (protected, payload) =
            (base64(&Json::Object(protected).to_text()), base64(payload.as_bytes()));
        let key = usize::from(matches!(note, "signed by another key" | "bad signature"));
        let message = format!("{protected}.{payload}");
        let signature = self.keys[key].sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        let signature = base64(signature.as_ref());
        format!(r#"{{"protected":"{protected}","payload":"{payload}","signature":"{signature}"}}"#)
            .into_bytes()
    }

    /// Asks as recorded, and says where the answer differs.
    fn replay(&mut self, row: &Map) -> Vec<String> {
        let path = self.filled(text(row, "path").strip_prefix("pki/").unwrap());
        let answer = match map(row, "jws") {
            Some(jws) => {
                let body = self.request(row, &jws.clone());
                self.mount.answer(NOW, Update, &path, &body).unwrap()
            }
            None => self.mount.answer(NOW, Read, &path, b"").unwrap(),
        };
        let Response::Foreign { code, content_type, headers, body } = answer else {
            panic!("{path}: {answer:?}")
        };
        let mut differences = Vec::new();
        let status: u16 = String::from_utf8(row["status"].to_text()).unwrap().parse().unwrap();
        // A HEAD is answered with 200 where a GET is a 204, by the listener.
        let is_head = text(row, "method") == "HEAD" && (status, code) == (200, 204);
        if status != code && !is_head {
            differences.push(format!("status {code}"));
        }
        let recorded = map(row, "resp_headers").unwrap();
        if content_type != text(recorded, "content-type") {
            differences.push("content-type".to_owned());
        }
        let headers: HashMap<&str, String> = headers.into_iter().rev().collect();
        if recorded.contains_key("link") && headers["link"] != text(recorded, "link") {
            differences.push("link".to_owned());
        }
        match (text(recorded, "location"), headers.get("location")) {
            ("", None) => {}
            ("", Some(_)) | (_, None) => differences.push("location".to_owned()),
            (recorded, Some(ours)) => {
                self.learn(recorded, ours);
                if self.filled(recorded) != *ours {
                    differences.push("location".to_owned());
                }
                if let Some((directory, _)) = ours.split_once("/account/") {
                    self.kids.insert(directory.to_owned(), ours.clone());
                }
            }
        }
        let ours = json::parse(&body).unwrap_or(Json::Null);
        match &row["resp"] {
            Json::String(chain) => {
                let count = |text: &str| text.matches("BEGIN CERTIFICATE").count();
                let text = String::from_utf8(body).unwrap();
                if count(chain) != count(&text) {
                    differences.push("/".to_owned());
                }
                let first = &kallisto_pki::pem::read(&text).unwrap()[0].1;
                self.tokens.insert("certificate".to_owned(), base64(first));
            }
            recorded => self.compare("", recorded, &ours, &mut differences),
        }
        self.note_tokens(&ours);
        self.show(row, &path);
        differences
    }

    fn learn(&mut self, recorded: &str, ours: &str) {
        for (recorded, ours) in ids(recorded).into_iter().zip(ids(ours)) {
            self.ours.entry(recorded.to_owned()).or_insert_with(|| ours.to_owned());
        }
    }

    fn compare(
        &mut self,
        place: &str,
        recorded: &Json,
        ours: &Json,
        differences: &mut Vec<String>,
    ) {
        match (recorded, ours) {
            (Json::Object(recorded), Json::Object(ours)) => {
                for (name, value) in recorded {
                    let place = format!("{place}/{name}");
                    match ours.get(name) {
                        Some(ours) => self.compare(&place, value, ours, differences),
                        None => differences.push(format!("{place} missing")),
                    }
                }
                let new = ours.keys().filter(|name| !recorded.contains_key(*name));
                differences.extend(new.map(|name| format!("{place}/{name} new")));
            }
            (Json::Array(recorded), Json::Array(ours)) if recorded.len() == ours.len() => {
                for (at, (recorded, ours)) in recorded.iter().zip(ours).enumerate() {
                    self.compare(&format!("{place}/{at}"), recorded, ours, differences);
                }
            }
            (Json::String(recorded), Json::String(ours)) => {
                let is_free = ["/token", "/expires", "/validated", "/revocation_time_rfc3339"];
                if is_free.iter().any(|name| place.ends_with(name)) {
                    return;
                }
                if recorded.starts_with("http") {
                    self.learn(recorded, ours);
                }
                if self.filled(recorded) != *ours {
                    differences.push(place.to_owned());
                }
            }
            (recorded, ours) if recorded == ours => {}
            _ if place.ends_with("/revocation_time") => {}
            _ => differences.push(place.to_owned()),
        }
    }

    fn note_tokens(&mut self, ours: &Json) {
        let Json::Object(map) = ours else { return };
        if let Some(Json::Array(all)) = map.get("challenges") {
            for one in all {
                let Json::Object(one) = one else { continue };
                self.tokens.insert(text(one, "url").to_owned(), text(one, "token").to_owned());
            }
        }
    }

    /// After the client said that a challenge is ready, what is looked at is as it was then.
    fn show(&mut self, row: &Map, path: &str) {
        for (id, probe) in self.mount.probes() {
            let shown = &self.tokens[&format!("{}/{path}", self.base)];
            let shown = format!("{shown}.{}", thumbprint(&self.keys[0]));
            let is_wrong = matches!(&probe.host, kallisto_engine::ProbeHost::Name(name) if name.starts_with("bad."));
            let found = match &probe.what {
                _ if is_wrong => ProbeAnswer::Body(b"wrong".to_vec()),
                ProbeKind::Texts => {
                    let hash = digest(&SHA256, shown.as_bytes());
                    ProbeAnswer::Texts(vec![base64(hash.as_ref()).into_bytes()])
                }
                _ => ProbeAnswer::Body(shown.into_bytes()),
            };
            assert!(text(row, "path").contains("/challenge/"), "{path}");
            self.mount.find_by_probe(&id, Ok(found));
        }
    }
}

fn replay(recording: &str, base: &'static str, known: &[Known]) {
    let Ok(Json::Array(rows)) = json::parse(recording.as_bytes()) else { panic!("a list of rows") };
    let mut replay = Replay::new(base);
    let mut found: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let Json::Object(row) = row else { panic!("no row") };
        // The setup is not ACME's own, but for its settings, which are replayed by hand.
        if !text(row, "path").contains("/acme/") {
            continue;
        }
        let mut differences = replay.replay(row);
        differences.sort();
        if !differences.is_empty() {
            found.insert(at, differences);
        }
    }
    let listed: BTreeMap<usize, Vec<String>> = known
        .iter()
        .map(|(at, places, _)| (*at, places.iter().map(|place| (*place).to_owned()).collect()))
        .collect();
    if found != listed {
        for (at, differences) in &found {
            eprintln!("    ({at}, &{differences:?}, X),");
        }
    }
    assert_eq!(found, listed, "left: what differs; right: what is listed");
}

#[test]
fn exchanges_of_acme_are_answered_as_recorded() {
    replay(OURS, "http://127.0.0.1:8611/v1/pki", KNOWN);
}

#[test]
fn exchanges_of_certbot_are_answered_as_recorded() {
    replay(CERTBOT, "http://127.0.0.1:8680/v1/pki", KNOWN_CERTBOT);
}

/// The settings that are shown are those that were recorded, and those of Vault.
#[test]
fn settings_are_shown_as_recorded() {
    let mount = TestMount::new(&ENGINE);
    mount.ask(NOW, Update, "config/cluster", r#"{"path":"http://x.test/v1/pki"}"#).unwrap();
    let body = r#"{"enabled":true,"dns_resolver":"127.0.0.1:8670"}"#;
    let mut shown = mount.ask(NOW, Update, "config/acme", body).unwrap();
    for (name, _) in [
        ("challenge_excluded_ip_ranges", FIELDS),
        ("challenge_permitted_ip_ranges", FIELDS),
        ("max_ttl", FIELDS),
    ] {
        assert!(shown.remove(name).is_some(), "{name}");
    }
    let Ok(Json::Array(rows)) = json::parse(OURS.as_bytes()) else { panic!("a list of rows") };
    let recorded = rows.iter().find_map(|row| {
        let Json::Object(row) = row else { return None };
        let is_it = text(row, "path") == "pki/config/acme" && row["status"] == 200u64.into();
        is_it.then(|| map(map(row, "resp")?, "data").cloned()).flatten()
    });
    assert_eq!(Some(shown), recorded);
}
