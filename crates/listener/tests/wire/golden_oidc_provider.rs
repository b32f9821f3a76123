//! Replays what was recorded of identity tokens and of the OIDC provider, row by row: statuses, headers, replies, and what the tokens in them say.
//!
//! Ids, accessors, codes and secrets differ from run to run. An id has to stand for the recorded one wherever that stands; what was masked has to
//! be there. The rows of the login method that follow in the recording have a replay of their own.

use std::collections::{BTreeMap, HashMap};

use data_encoding::{BASE64, BASE64URL_NOPAD};
use kallisto_core::json::{self, Json, Map};

use crate::support::{Reply, Running, TOKEN};

const OIDC: &str = include_str!("../golden/oidc.json");

type Known = (usize, &'static [&'static str], &'static str);

const ADVICE: &str = "RFC 6749 asks for `no-store`, which is there; `pragma` is HTTP/1.0's";

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
];

/// Names under which a value differs from run to run, and stands for the recorded one.
const NAMES_OF_IDS: [&str; 7] = ["client_id", "entity_id", "id", "accessor", "aud", "sub", "iss"];
/// What differs from run to run and is not looked at.
const NOT_COMPARED: [&str; 1] = ["request_id"];

fn text<'r>(row: &'r Map, name: &str) -> &'r str {
    row.get(name).and_then(Json::as_str).unwrap_or_default()
}

#[test]
fn identity_tokens_and_the_provider_answer_as_recorded() {
    let server = Running::start_reached_at("http://127.0.0.1:8609");
    let Ok(Json::Array(rows)) = json::parse(OIDC.as_bytes()) else { panic!("a list of rows") };
    let mut replay = Replay { server: &server, captured: HashMap::new(), ours: HashMap::new() };
    let mut found: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let mut replayed = 0;
    for (at, row) in rows.iter().enumerate() {
        let row = row.as_object().unwrap();
        if !text(row, "section").starts_with("identity: ") {
            continue;
        }
        replayed += 1;
        let reply = replay.ask(row);
        let mut differences = Vec::new();
        replay.compare(row, &reply, &mut differences);
        if !differences.is_empty() {
            eprintln!("{at} {} {}: {differences:?}", text(row, "method"), text(row, "path"));
            eprintln!("  {} {}", reply.status, reply.text());
            found.insert(at, differences);
        }
        replay.capture(row, &reply);
    }
    assert_eq!(replayed, 57);
    let listed: BTreeMap<usize, Vec<String>> = KNOWN
        .iter()
        .map(|(at, places, _)| (*at, places.iter().map(|place| (*place).to_owned()).collect()))
        .collect();
    assert_eq!(found, listed, "left: what differs; right: what is listed");
}

struct Replay<'s> {
    server: &'s Running,
    /// What rows gave that later rows use.
    captured: HashMap<String, String>,
    /// What stands for which recorded id.
    ours: HashMap<String, String>,
}

impl Replay<'_> {
    /// A text with what earlier rows gave in its places, spelled by `spell`.
    fn fill(&self, text: &str, spell: impl Fn(&str) -> String) -> String {
        let mut filled = text.to_owned();
        for (name, value) in &self.captured {
            filled = filled.replace(&format!("{{{{{name}}}}}"), &spell(value));
        }
        if let Some((before, rest)) = filled.split_once("{{basic:") {
            let (names, after) = rest.split_once("}}").unwrap();
            let (id, secret) = names.split_once(':').unwrap();
            let pair = format!("{}:{}", self.captured[id], self.captured[secret]);
            return format!("{before}{}{after}", BASE64.encode(pair.as_bytes()));
        }
        filled
    }

    fn ask(&self, row: &Map) -> Reply {
        let same = |value: &str| value.to_owned();
        let token = match text(row, "token") {
            "" => TOKEN.to_owned(),
            other => self.fill(other, same),
        };
        let mut headers: Vec<(String, String)> = Vec::new();
        if row["auth"] == Json::Bool(true) {
            headers.push(("X-Vault-Token".to_owned(), token));
        }
        if let Some(Json::Object(given)) = row.get("headers") {
            for (name, value) in given {
                headers.push((name.clone(), self.fill(value.as_str().unwrap(), same)));
            }
        }
        let quoted = |value: &str| {
            let text = String::from_utf8(Json::from(value).to_text()).unwrap();
            text[1..text.len() - 1].to_owned()
        };
        let body = match (row.get("raw").and_then(Json::as_str), row.get("body")) {
            (Some(raw), _) => self.fill(raw, same),
            (None, None | Some(Json::Null)) => String::new(),
            (None, Some(body)) => self.fill(&String::from_utf8(body.to_text()).unwrap(), quoted),
        };
        let path = self.fill(text(row, "path"), same);
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.server.connect().ask_with(text(row, "method"), &path, &headers, &body)
    }

    fn capture(&mut self, row: &Map, reply: &Reply) {
        let Some(Json::Object(captures)) = row.get("capture") else { return };
        for (name, pointer) in captures {
            let mut at = &json::parse(&reply.body).unwrap();
            for part in pointer.as_str().unwrap().split('/').skip(1) {
                at = &at.as_object().unwrap()[part];
            }
            self.captured.insert(name.clone(), at.as_str().unwrap().to_owned());
        }
    }

    fn compare(&mut self, row: &Map, reply: &Reply, differences: &mut Vec<String>) {
        let status: u16 = String::from_utf8(row["status"].to_text()).unwrap().parse().unwrap();
        if reply.status != status {
            differences.push("status".to_owned());
        }
        let headers = row["resp_headers"].as_object().unwrap();
        for name in ["cache-control", "content-type", "pragma", "www-authenticate"] {
            if reply.header(name) != headers.get(name).and_then(Json::as_str) {
                differences.push(name.to_owned());
            }
        }
        match &row["resp"] {
            Json::Null if reply.body.is_empty() => {}
            recorded => match json::parse(&reply.body) {
                Ok(ours) => self.values("", "", recorded, &ours, differences),
                Err(_) => differences.push("/".to_owned()),
            },
        }
        if let Some(Json::Object(tokens)) = row.get("jwt") {
            let body = json::parse(&reply.body).unwrap();
            for (name, recorded) in tokens {
                self.token(&body, name, recorded.as_object().unwrap(), differences);
            }
        }
    }

    /// Compares what a token of the reply says.
    fn token(&mut self, body: &Json, name: &str, recorded: &Map, differences: &mut Vec<String>) {
        let body = body.as_object().unwrap();
        let inside = body.get("data").and_then(Json::as_object).unwrap_or(body);
        let parts: Vec<Json> = text(inside, name)
            .split('.')
            .take(2)
            .map(|part| json::parse(&BASE64URL_NOPAD.decode(part.as_bytes()).unwrap()).unwrap())
            .collect();
        let [header, claims] = &parts[..] else { panic!("{name} has two parts of JSON") };
        self.values(&format!("#{name}"), "", &recorded["header"], header, differences);
        self.values(&format!("#{name}"), "", &recorded["claims"], claims, differences);
        let claims = claims.as_object().unwrap();
        if let (Some(now), Some(later)) = (claims.get("now"), claims.get("in")) {
            let secs = |number: &Json| -> i64 {
                String::from_utf8(number.to_text()).unwrap().parse().unwrap()
            };
            assert_eq!(secs(later) - secs(now), 3600, "an hour from now");
            assert_eq!(now, &claims["iat"]);
        }
    }

    fn values(
        &mut self,
        place: &str,
        name: &str,
        recorded: &Json,
        ours: &Json,
        differences: &mut Vec<String>,
    ) {
        match (recorded, ours) {
            (Json::Object(recorded), Json::Object(ours)) => {
                let mut ours = ours.clone();
                for (name, value) in recorded {
                    let place = format!("{place}/{name}");
                    match ours.remove(name) {
                        Some(_) if NOT_COMPARED.contains(&name.as_str()) => {}
                        Some(ours) => self.values(&place, name, value, &ours, differences),
                        None => differences.push(place),
                    }
                }
                differences.extend(ours.keys().map(|name| format!("{place}/{name}")));
            }
            (Json::Array(recorded), Json::Array(all)) if recorded.len() == all.len() => {
                for (at, (recorded, ours)) in recorded.iter().zip(all).enumerate() {
                    self.values(&format!("{place}/{at}"), name, recorded, ours, differences);
                }
            }
            (Json::String(recorded), Json::String(ours)) => {
                if !self.is_same(name, recorded, ours) {
                    differences.push(place.to_owned());
                }
            }
            // A time of a token.
            (Json::String(recorded), Json::Number(_)) if recorded == "<int>" => {}
            (Json::Number(_), Json::Number(_)) if matches!(name, "now" | "in") => {}
            (recorded, ours) if recorded == ours => {}
            _ => differences.push(place.to_owned()),
        }
    }

    fn is_same(&mut self, name: &str, recorded: &str, ours: &str) -> bool {
        match recorded {
            "MASKED" | "<str>" | "<kid>" => !ours.is_empty(),
            _ if name == "client_id" && recorded.len() != ours.len() => false,
            _ if NAMES_OF_IDS.contains(&name) => {
                self.ours.entry(recorded.to_owned()).or_insert_with(|| ours.to_owned()) == ours
            }
            _ => recorded == ours,
        }
    }
}
