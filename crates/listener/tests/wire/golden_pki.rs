//! Replays what was recorded of PKI, row by row: statuses, replies, and what the certificates in them say.
//!
//! Keys, ids, serial numbers and times differ from run to run. An id or a serial number has to stand for the recorded one wherever that stands; a
//! time has to be as far from the time of its row; of a certificate, request or list all that was written down of the recorded one has to hold: its
//! subject, how long it is good, how it is signed, and each extension in its place. All else has to be equal, but for what the table names,
//! and for two things that standards forbid, which were recorded everywhere ([`without_what_standards_forbid`]).

use std::collections::{BTreeMap, HashMap};

use data_encoding::BASE64;
use kallisto_core::json::{self, Json, Map};
use kallisto_listener::WallClock;
use x509_parser::prelude::*;

use crate::pki_decoded::{
    certificate, hex, is_id, is_serial, label, list, ocsp_status, oids, pem_blocks, request, tlv,
};
use crate::support::{Reply, Running, TOKEN};

const PKI: &str = include_str!("../golden/pki.json");
/// When the recording began.
const RECORDED_AT: i64 = 1_795_414_578;
/// How much of a recording passed between a time and its reply, at the most.
const SLACK_SECS: i64 = 8;

type Known = (usize, &'static [&'static str], &'static str);

const CALLER: &str = "a client's mistake is a 400, never a 500";
const NO_SUBJECT: &str = "a root without a subject is refused: validators refuse what it signs";
const CA_SAN: &str = "a CA is no host: constraints of names above it would hold for its name";
const RESERVED: &str = "no key is named default: that stands for another one";
const IN_USE: &str = "a key in use is deleted only with force";
const UNKNOWN: &str = "what is unknown is refused when it is written";
const CASE: &str = "domains are compared without case, and the certificate has lower case";
const FORMAT: &str = "an unknown format of a private key is refused, not taken for another one";
const IDNA: &str = "a name with a label that is too long is refused as any other name";
const ORDER: &str = "the names stand where they stand in every certificate";
const PATH: &str = "what is no serial number names nothing, as one that was never issued";
const WORDS: &str = "the server's log is not where progress is found";

/// The places where an envelope and a list of errors differ, beside the status.
const REFUSED: &[&str] = &[
    "status",
    "/auth",
    "/data",
    "/lease_duration",
    "/lease_id",
    "/renewable",
    "/request_id",
    "/warnings",
    "/wrap_info",
    "/errors",
];

/// Every difference left.
const KNOWN: &[Known] = &[
    (8, &["status", "/errors/0"], CALLER),
    (9, &["status", "/errors/0"], CALLER),
    (11, REFUSED, NO_SUBJECT),
    (18, FIXED_END, CA_SAN),
    (21, &["/data/certificate#extensions", "/data/issuing_ca#extensions"], CA_SAN),
    (29, REFUSED, RESERVED),
    (45, &["status", "/"], IN_USE),
    (57, REFUSED, UNKNOWN),
    (58, REFUSED, UNKNOWN),
    (61, REFUSED, UNKNOWN),
    (63, REFUSED, UNKNOWN),
    (87, ISSUED, CASE),
    (90, REFUSED, FORMAT),
    (93, &["/errors/0"], IDNA),
    (111, &["/data/certificate#extensions"], ORDER),
    (124, &["/data/csr#oids"], CA_SAN),
    (130, &["/errors"], PATH),
    (146, &["status", "/errors/0"], CALLER),
    (166, &["/warnings/0"], WORDS),
];

/// The same, and how long what has a fixed end is good.
const FIXED_END: &[&str] = &[
    "/data/certificate#extensions",
    "/data/certificate#seconds",
    "/data/issuing_ca#extensions",
    "/data/issuing_ca#seconds",
];

/// The same where the recorded server refuses.
const ISSUED: &[&str] = &[
    "status",
    "/errors",
    "/auth",
    "/data",
    "/lease_duration",
    "/lease_id",
    "/renewable",
    "/request_id",
    "/warnings",
    "/wrap_info",
];

/// Rows about ACME, which has a replay of its own.
fn is_replayed(row: &Map) -> bool {
    row["section"].as_str() != Some("acme config") && text(row, "path") != "pki/config/acme"
}

fn text<'r>(row: &'r Map, name: &str) -> &'r str {
    row[name].as_str().unwrap_or_default()
}

#[test]
fn pki_exchanges_are_answered_as_recorded() {
    let server = Running::start();
    let Ok(Json::Array(rows)) = json::parse(PKI.as_bytes()) else { panic!("a list of rows") };
    let mut replay = Replay { server: &server, captured: HashMap::new(), ours: HashMap::new() };
    let mut found: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let row = row.as_object().unwrap();
        if !is_replayed(row) {
            continue;
        }
        let reply = replay.ask(row);
        let differences = replay.compare(row, &reply);
        if !differences.is_empty() {
            eprintln!("{at} {} {}: {differences:?}", text(row, "method"), text(row, "path"));
            eprintln!("  {} {}", reply.status, reply.text());
            found.insert(at, differences);
        }
        replay.capture(row, &reply);
    }
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
    /// What stands for which recorded id or serial number.
    ours: HashMap<String, String>,
}

/// What was recorded of a certificate, request or list, as it is signed here: a part of a name does not have an attribute twice (X.501, 9.3), and a leaf
/// has no key usage that its key cannot do (RFC 4055, 8410, 8813).
fn without_what_standards_forbid(recorded: &Map) -> Map {
    let mut recorded = recorded.clone();
    for field in ["subject", "issuer"] {
        let Some(Json::String(name)) = recorded.get(field) else { continue };
        let parts = name.split(',').map(|part| {
            let values: Vec<&str> = part.split('+').rev().collect();
            values.join(",")
        });
        let name = parts.collect::<Vec<_>>().join(",");
        recorded.insert(field.to_owned(), name.into());
    }
    let cannot: &[&str] = match text_or(&recorded, "key").split('-').next() {
        Some("rsa") => &["key_agreement"],
        Some("ec") => &["key_encipherment"],
        Some("ed25519") => &["key_agreement", "key_encipherment"],
        _ => &[],
    };
    if let Some(Json::Array(extensions)) = recorded.get_mut("extensions") {
        for extension in extensions {
            let Json::Object(extension) = extension else { continue };
            if text_or(extension, "name") == "keyUsage"
                && let Some(Json::Array(usages)) = extension.get_mut("v")
            {
                usages.retain(
                    |usage| !matches!(usage, Json::String(name) if cannot.contains(&name.as_str())),
                );
            }
        }
    }
    recorded
}

impl Replay<'_> {
    fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (name, value) in &self.captured {
            filled = filled.replace(&format!("{{{{{name}}}}}"), value);
        }
        filled
    }

    fn ask(&self, row: &Map) -> Reply {
        let mut headers: Vec<(&str, &str)> = Vec::new();
        if row["auth"] == Json::Bool(true) {
            headers.push(("X-Vault-Token", TOKEN));
        }
        for (name, value) in row["headers"].as_object().unwrap() {
            headers.push((name, value.as_str().unwrap()));
        }
        let path = self.fill(text(row, "path"));
        if let Some(asked) = row["raw"].as_str() {
            let body = self.ocsp_request(asked, text(row, "note"));
            let mut connection = self.server.connect();
            let head = format!(
                "POST /v1/{path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/ocsp-request\r\n\
                 Content-Length: {}\r\n\r\n",
                body.len()
            );
            connection.send(&[head.as_bytes(), &body].concat());
            return connection.receive().unwrap();
        }
        let body = match &row["body"] {
            Json::Null => String::new(),
            // Line ends of what is filled in have to be told as JSON tells them.
            body => {
                let text = String::from_utf8(body.to_text()).unwrap();
                let mut filled = text;
                for (name, value) in &self.captured {
                    let quoted = Json::from(value.as_str()).to_text();
                    let quoted = String::from_utf8(quoted).unwrap();
                    let bare = &quoted[1..quoted.len() - 1];
                    filled = filled.replace(&format!("{{{{{name}}}}}"), bare);
                }
                filled
            }
        };
        let method = text(row, "method");
        self.server.connect().ask_with(method, &path, &headers, &body)
    }

    /// A request of OCSP about a certificate of the root, or of an issuer that there is not.
    fn ocsp_request(&self, _: &str, note: &str) -> Vec<u8> {
        use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
        let root = pem_blocks(&self.captured["root_pem"]).remove(0).1;
        let (_, root) = X509Certificate::from_der(&root).unwrap();
        let sha1 = |bytes: &[u8]| digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec();
        let name = match note {
            "foreign issuer" => sha1(b"nobody"),
            _ => sha1(root.subject().as_raw()),
        };
        let key = sha1(&root.public_key().subject_public_key.data);
        let serial = match note {
            "revoked" => hex(&self.captured["web_serial"]),
            "unknown serial" => vec![0x12, 0x34],
            _ => hex(&self.captured["good"]),
        };
        let algorithm = [0x30, 9, 6, 5, 0x2b, 0x0e, 3, 2, 0x1a, 5, 0];
        let id = [&algorithm[..], &tlv(4, &name), &tlv(4, &key), &tlv(2, &serial)].concat();
        tlv(0x30, &tlv(0x30, &tlv(0x30, &tlv(0x30, &tlv(0x30, &id)))))
    }

    fn capture(&mut self, row: &Map, reply: &Reply) {
        let mut wanted: Vec<(String, String)> = Vec::new();
        if let Some(Json::Object(captures)) = row.get("capture") {
            for (name, pointer) in captures {
                wanted.push((name.clone(), pointer.as_str().unwrap().to_owned()));
            }
        }
        if text(row, "section") == "ocsp" && text(row, "path") == "pki/issue/ec" {
            wanted.push(("good".to_owned(), "/data/serial_number".to_owned()));
        }
        for (name, pointer) in wanted {
            let body = json::parse(&reply.body).unwrap();
            let mut at = &body;
            for part in pointer.split('/').skip(1) {
                at = &at.as_object().unwrap()[part];
            }
            let value = at
                .as_str()
                .map_or_else(|| String::from_utf8(at.to_text()).unwrap(), ToOwned::to_owned);
            self.captured.insert(name, value);
        }
    }

    fn compare(&mut self, row: &Map, reply: &Reply) -> Vec<String> {
        let mut differences = Vec::new();
        let status: u16 = String::from_utf8(row["status"].to_text()).unwrap().parse().unwrap();
        if reply.status != status {
            differences.push("status".to_owned());
        }
        let content_type = row["resp_headers"].as_object().unwrap().get("content-type");
        if reply.header("content-type") != content_type.and_then(Json::as_str) {
            differences.push("content-type".to_owned());
        }
        match &row["resp"] {
            Json::Null => {
                if !reply.body.is_empty() {
                    differences.push("/".to_owned());
                }
            }
            Json::Object(recorded) if recorded.contains_key("base64") => {
                self.holds(row, "/base64", &reply.body, &mut differences);
            }
            Json::Object(recorded) if recorded.contains_key("ocsp") => {
                let recorded = recorded["ocsp"].as_object().unwrap();
                if ocsp_status(&reply.body) != text_or(recorded, "cert_status") {
                    differences.push("/ocsp".to_owned());
                }
            }
            Json::String(recorded) => {
                let ours = reply.text();
                if label(&ours) != label(recorded) {
                    differences.push("/".to_owned());
                }
                self.describes(row, "/", &ours, &mut differences);
            }
            recorded => match json::parse(&reply.body) {
                Ok(ours) => self.values(row, "", "", recorded, &ours, &mut differences),
                Err(_) => differences.push("/".to_owned()),
            },
        }
        differences
    }

    fn values(
        &mut self,
        row: &Map,
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
                    let key = self.ours.get(name).cloned().unwrap_or_else(|| name.clone());
                    // An id as a name, which was not seen yet, stands for the one that is left.
                    let key = match ours.contains_key(&key) {
                        false if is_id(name) => {
                            ours.keys().find(|key| is_id(key)).cloned().unwrap_or(key)
                        }
                        _ => key,
                    };
                    let place = format!("{place}/{name}");
                    match ours.remove(&key) {
                        Some(ours) => self.values(row, &place, name, value, &ours, differences),
                        None => differences.push(place),
                    }
                }
                differences.extend(ours.keys().map(|name| format!("{place}/{name}")));
            }
            (Json::Array(recorded), Json::Array(ours)) if recorded.len() == ours.len() => {
                for (at, (recorded, ours)) in recorded.iter().zip(ours).enumerate() {
                    let place = format!("{place}/{at}");
                    self.values(row, &place, name, recorded, ours, differences);
                }
            }
            _ if recorded == ours => {}
            _ if name == "request_id" => {}
            (Json::String(recorded), Json::String(ours)) => {
                if !self.texts(row, place, name, recorded, ours, differences) {
                    differences.push(place.to_owned());
                }
            }
            (Json::Number(recorded), Json::Number(ours)) => {
                let (recorded, ours): (i64, i64) =
                    (recorded.parse().unwrap(), ours.parse().unwrap());
                let now = self.server.clock.now().as_second();
                let apart = (recorded - RECORDED_AT) - (ours - now);
                let is_time =
                    matches!(name, "expiration" | "not_before" | "revocation_time" | "ttl");
                if !(is_time && (apart.abs() <= SLACK_SECS || (recorded - ours).abs() <= 1)) {
                    differences.push(place.to_owned());
                }
            }
            _ => differences.push(place.to_owned()),
        }
    }

    fn texts(
        &mut self,
        row: &Map,
        place: &str,
        name: &str,
        recorded: &str,
        ours: &str,
        differences: &mut Vec<String>,
    ) -> bool {
        let is_secret = recorded.contains("MASKED");
        if recorded.starts_with("-----BEGIN") {
            if label(recorded) != label(ours) {
                return false;
            }
            self.describes(row, place, ours, differences);
            return true;
        }
        if is_secret {
            return !ours.is_empty();
        }
        if recorded.starts_with("MII") {
            return BASE64.decode(ours.as_bytes()).is_ok();
        }
        if is_id(recorded) || is_serial(recorded) || name == "lease_id" || name == "id" {
            let known = self.ours.entry(recorded.to_owned()).or_insert_with(|| ours.to_owned());
            return known == ours && is_id(recorded) == is_id(ours);
        }
        if name.ends_with("rfc3339") || name.ends_with("_time") {
            return ours.parse::<jiff::Timestamp>().is_ok();
        }
        // A sentence with an id or a time in it.
        let bare = |text: &str| -> String {
            let words = text.split([' ', ':', ']', '[', '(', ')']).map(|word| {
                let is_time = word.parse::<jiff::Timestamp>().is_ok();
                if is_id(word) {
                    "ID"
                } else if is_time {
                    "TIME"
                } else {
                    word
                }
            });
            words.collect::<Vec<_>>().join(" ")
        };
        let masked = |text: &str| {
            // Times have colons.
            let mut text = text.to_owned();
            while let Some(at) = text.find("T0").or_else(|| text.find("T1")) {
                text.replace_range(at..=at, " ");
            }
            bare(&text).chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect::<String>()
        };
        masked(recorded) == masked(ours)
    }

    /// Whether what is in a text says what was written down of the recorded one.
    fn describes(&mut self, row: &Map, place: &str, ours: &str, differences: &mut Vec<String>) {
        let Some(Json::Object(all)) = row.get("x509") else { return };
        let Some(recorded) = all.get(place) else { return };
        let recorded = match recorded {
            Json::Array(items) => items.clone(),
            one => vec![one.clone()],
        };
        let ours = pem_blocks(ours);
        if ours.len() != recorded.len() {
            differences.push(format!("{place}#blocks"));
            return;
        }
        for (recorded, (label, der)) in recorded.iter().zip(&ours) {
            let recorded = &without_what_standards_forbid(recorded.as_object().unwrap());
            let mine = match label.as_str() {
                "CERTIFICATE" => certificate(der),
                "CERTIFICATE REQUEST" => request(der),
                "X509 CRL" => list(der),
                _ => Map::new(),
            };
            for (name, ours) in &mine {
                let recorded = match name.as_str() {
                    "oids" => oids(&recorded["extensions"]),
                    name => recorded.get(name).map_or(Json::Null, Clone::clone),
                };
                let is_same = match name.as_str() {
                    "seconds" | "valid_seconds" => {
                        let number = |json: &Json| -> i64 {
                            String::from_utf8(json.to_text()).unwrap().parse().unwrap()
                        };
                        (number(&recorded) - number(ours)).abs() <= 1
                    }
                    _ => {
                        let bare = |json: &Json| self.without_ids(json);
                        bare(&recorded) == bare(ours)
                    }
                };
                if !is_same {
                    let told = |json: &Json| String::from_utf8(json.to_text()).unwrap();
                    eprintln!("  {place}#{name}:\n    {}\n    {}", told(&recorded), told(ours));
                    differences.push(format!("{place}#{name}"));
                }
            }
        }
    }

    fn without_ids(&self, json: &Json) -> String {
        let text = String::from_utf8(json.to_text()).unwrap();
        let parts = text.split(['/', '"']);
        parts.map(|part| if is_id(part) { "ID" } else { part }).collect::<Vec<_>>().join("/")
    }

    fn holds(&mut self, row: &Map, _: &str, der: &[u8], differences: &mut Vec<String>) {
        let is_list = text(row, "path").ends_with("crl");
        let is_it = match is_list {
            true => CertificateRevocationList::from_der(der).is_ok(),
            false => X509Certificate::from_der(der).is_ok(),
        };
        if !is_it {
            differences.push("/base64".to_owned());
        }
    }
}

fn text_or(map: &Map, name: &str) -> String {
    map.get(name).and_then(Json::as_str).unwrap_or("UNAUTHORIZED").to_owned()
}
