//! Replays what was recorded of identity tokens, of the OIDC provider, and of logins by OIDC at that same provider.
//!
//! Accessors, codes, clients and secrets differ from run to run: one has to stand for the recorded one wherever that stands, and what was masked
//! has to be there. What tokens say and what a browser is sent with was written down beside the replies, and is compared as they are.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use data_encoding::{BASE64, BASE64URL_NOPAD};
use kallisto_core::json::{self, Json, Map};
use kallisto_core::{Authorization, OutboundAnswer, OutboundCall, OutboundCalls, ServerInfo};
use kallisto_store::MemoryStore;
use secrecy::ExposeSecret;

use crate::replay::{Judge, Known, Place, replay, text};
use crate::support::{Connection, Reply, Running, whole_core};

const OIDC: &str = include_str!("../golden/oidc.json");
/// Where the recorded server was reached, which was its own provider.
const REACHED_AT: &str = "http://127.0.0.1:8609";

const LONGER: &str = "a nonce has 256 random bits, and a state says whose login it is, so that every server knows it";
const NAME: &str = "the sentence is Vault's: the recorded server says its own name in it";
const CALLER: &str = "a client's mistake is a 400, never a 500";
const ADVICE: &str = "RFC 6749 asks for `no-store`, which is there; `pragma` is HTTP/1.0's";

/// What a browser is sent with that has another length.
const SENT: &[&str] = &["/data/auth_url#/nonce", "/data/auth_url#/state"];

/// Every difference left.
const KNOWN: &[Known] = &[
    (39, &["pragma"], ADVICE),
    (40, &["pragma"], ADVICE),
    (41, &["pragma"], ADVICE),
    (42, &["pragma"], ADVICE),
    (44, &["pragma"], ADVICE),
    (46, &["pragma"], ADVICE),
    (48, &["pragma"], ADVICE),
    (49, &["pragma"], ADVICE),
    (51, &["pragma"], ADVICE),
    (53, &["pragma"], ADVICE),
    (73, SENT, LONGER),
    (76, &["/errors/0"], NAME),
    (77, SENT, LONGER),
    (79, &["/errors/0"], NAME),
    (80, SENT, LONGER),
    (83, SENT, LONGER),
    (85, &["/errors/0"], NAME),
    (86, SENT, LONGER),
    (89, &["/errors/0"], NAME),
    (90, &["/errors/0"], NAME),
    (93, &["status"], CALLER),
];

/// Names under which a value differs from run to run, and stands for the recorded one.
const NAMES_OF_IDS: [&str; 6] = ["client_id", "entity_id", "accessor", "aud", "sub", "iss"];

#[test]
fn identity_tokens_the_provider_and_logins_at_it_answer_as_recorded() {
    let server = running_as_its_own_provider();
    replay(&server, OIDC, |_| true, KNOWN, &mut Tokens::default());
}

/// A server that reaches itself at [`REACHED_AT`].
pub(crate) fn running_as_its_own_provider() -> Running {
    let itself = Arc::new(Itself::default());
    let info = ServerInfo { api_addr: Some(REACHED_AT.to_owned()), ..ServerInfo::default() };
    let core = whole_core(Arc::new(MemoryStore::new()), info);
    let core = core.with_outbound(Arc::clone(&itself) as Arc<dyn OutboundCalls>);
    let server = Running::start_as(core, |service| service);
    itself.0.set(server.address()).unwrap();
    server
}

/// Sends what goes to [`REACHED_AT`] to the server of the test.
#[derive(Default)]
struct Itself(OnceLock<SocketAddr>);

impl OutboundCalls for Itself {
    fn clock(&self) -> Duration {
        Duration::ZERO
    }

    fn send(&self, call: &OutboundCall, _: Duration) -> Result<OutboundAnswer, String> {
        let path = call.url.strip_prefix(REACHED_AT).ok_or("a request to another server")?;
        let address = self.0.get().ok_or("no server yet")?;
        let mut headers = vec![("Accept", "application/json".to_owned())];
        match &call.authorization {
            Authorization::None => {}
            Authorization::Bearer(token) => {
                headers.push(("Authorization", format!("Bearer {}", token.expose_secret())));
            }
            Authorization::Ssws(_) => return Err("this server is not Okta".to_owned()),
            Authorization::Basic(name, password) => {
                let pair = format!("{name}:{}", password.expose_secret());
                let pair = BASE64.encode(pair.as_bytes());
                headers.push(("Authorization", format!("Basic {pair}")));
            }
        }
        let (method, body) = match call.payload.encode() {
            None => ("GET", Vec::new()),
            Some((kind, bytes)) => {
                headers.push(("Content-Type", kind.to_owned()));
                ("POST", bytes.to_vec())
            }
        };
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let body = String::from_utf8(body).map_err(|error| error.to_string())?;
        let reply = Connection::to(*address).ask_with(method, path, &headers, &body);
        Ok(OutboundAnswer { status: reply.status, body: reply.body, ..OutboundAnswer::default() })
    }
}

/// What knows tokens.
#[derive(Default)]
struct Tokens {
    /// What stands for which recorded id.
    ours: HashMap<String, String>,
}

impl Judge for Tokens {
    fn texts(&mut self, place: &Place<'_>, recorded: &str, ours: &str) -> Option<Vec<String>> {
        let characters = recorded.strip_prefix('<').and_then(|it| it.strip_suffix(" characters>"));
        let is_same = match (recorded, characters) {
            ("MASKED" | "<str>" | "<kid>", _) => !ours.is_empty(),
            (_, Some(count)) => ours.len().to_string() == count,
            _ if place.name == "client_id" && recorded.len() != ours.len() => false,
            _ if NAMES_OF_IDS.contains(&place.name) => {
                self.ours.entry(recorded.to_owned()).or_insert_with(|| ours.to_owned()) == ours
            }
            _ => return None,
        };
        Some(if is_same { Vec::new() } else { vec![place.pointer.to_owned()] })
    }

    /// Times of tokens.
    fn numbers(&mut self, place: &Place<'_>, recorded: &Json, _: &str) -> bool {
        recorded.as_str() == Some("<int>") || matches!(place.name, "now" | "in")
    }

    fn headers(&self) -> &'static [&'static str] {
        &["cache-control", "content-type", "pragma", "www-authenticate"]
    }

    fn decoded(&mut self, row: &Map, reply: &Reply) -> Vec<(String, Json, Json)> {
        let mut all = Vec::new();
        if let Some(Json::Object(tokens)) = row.get("jwt") {
            for (name, recorded) in tokens {
                all.extend(token(reply, name, recorded.as_object().unwrap()));
            }
        }
        if let Some(recorded) = row.get("auth_url") {
            let url = reply.at("data/auth_url");
            let (_, query) = url.as_str().unwrap().split_once('?').unwrap();
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let ours = pairs.map(|(name, value)| (name.to_owned(), plain(value).into()));
            all.push((
                "/data/auth_url#".to_owned(),
                recorded.clone(),
                Json::Object(ours.collect()),
            ));
        }
        all
    }
}

/// What a value of a query stands for.
pub(crate) fn plain(value: &str) -> String {
    let mut parts = value.split('%');
    let mut bytes = parts.next().unwrap().replace('+', " ").into_bytes();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(part[2..].replace('+', " ").as_bytes());
    }
    String::from_utf8(bytes).unwrap()
}

/// What a token of a reply says, beside what the recorded one did.
fn token(reply: &Reply, name: &str, recorded: &Map) -> Vec<(String, Json, Json)> {
    let body = reply.json();
    let body = body.as_object().unwrap();
    let inside = body.get("data").and_then(Json::as_object).unwrap_or(body);
    let parts: Vec<Json> = text(inside, name)
        .split('.')
        .take(2)
        .map(|part| json::parse(&BASE64URL_NOPAD.decode(part.as_bytes()).unwrap()).unwrap())
        .collect();
    let [header, claims] = &parts[..] else { panic!("{name} has two parts of JSON") };
    let said = claims.as_object().unwrap();
    if let (Some(now), Some(later)) = (said.get("now"), said.get("in")) {
        let secs = |number: &Json| -> i64 {
            String::from_utf8(number.to_text()).unwrap().parse().unwrap()
        };
        assert_eq!(secs(later) - secs(now), 3600, "an hour from now");
        assert_eq!(now, &said["iat"]);
    }
    let place = format!("#{name}");
    vec![
        (place.clone(), recorded["header"].clone(), header.clone()),
        (place, recorded["claims"].clone(), claims.clone()),
    ]
}
