//! Replays what was recorded of PKI, row by row: statuses, replies, and what the certificates in them say.
//!
//! Keys, ids, serial numbers and times differ from run to run. An id or a serial number has to stand for the recorded one wherever that stands; a
//! time has to be as far from the time of its row; of a certificate, request or list all that was written down of the recorded one has to hold: its
//! subject, how long it is good, how it is signed, and each extension in its place. All else has to be equal, but for what the table names,
//! and for two things that standards forbid, which were recorded everywhere ([`without_what_standards_forbid`]).

use std::sync::Arc;

use data_encoding::BASE64;
use kallisto_core::json::{Json, Map};
use kallisto_listener::WallClock;
use x509_parser::prelude::*;

use crate::pki_decoded::{
    certificate, hex, is_serial, label, list, ocsp_status, oids, pem_blocks, request, tlv,
};
use crate::replay::{Judge, Known, Place, REFUSED, is_id, replay, text};
use crate::support::{Reply, Running};

const PKI: &str = include_str!("../golden/pki.json");
/// When the recording began.
const RECORDED_AT: i64 = 1_795_414_578;
/// How much of a recording passed between a time and its reply, at the most.
const SLACK_SECS: i64 = 8;

const CALLER: &str = "a client's mistake is a 400, never a 500";
const NO_SUBJECT: &str = "a root without a subject is refused: validators refuse what it signs";
const CA_SAN: &str = "a CA is no host: constraints of names above it would hold for its name";
const RESERVED: &str = "no key is named default: that stands for another one";
const IN_USE: &str = "a key in use is deleted only with force";
const UNKNOWN: &str = "what is unknown is refused when it is written";
const CASE: &str = "domains are compared without case, and the certificate has lower case";
const FORMAT: &str = "an unknown format of a private key is refused, not taken for another one";
const IDNA: &str = "a name with a label that is too long is refused as any other name";
const NOBODY: &str =
    "a certificate without a subject has to have an alternative name (RFC 5280, 4.1.2.6)";
const ORDER: &str = "the names stand where they stand in every certificate";
const PATH: &str = "what is no serial number names nothing, as one that was never issued";
const WORDS: &str = "the server's log is not where progress is found";

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
    (113, REFUSED, NOBODY),
    (124, &["/data/csr#oids"], CA_SAN),
    (130, &["/errors"], PATH),
    (146, &["status", "/errors/0"], CALLER),
    (166, &["/warnings/0"], WORDS),
];

/// What roles and tidying say of the metadata of certificates, which the recorded server has not: they are those of Vault.
const METADATA: &[&str] = &["/data/no_store_metadata", "/data/tidy_cert_metadata"];

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

#[test]
fn pki_exchanges_are_answered_as_recorded() {
    let server = Running::start();
    let clock = Arc::clone(&server.clock) as Arc<dyn WallClock>;
    let mut judge =
        Certificates { clock, root: Vec::new(), good: String::new(), revoked: String::new() };
    replay(&server, PKI, is_replayed, KNOWN, &mut judge);
}

/// Knows what certificates, lists and answers of OCSP say, and what OCSP is asked about.
struct Certificates {
    clock: Arc<dyn WallClock>,
    /// The root that signed what OCSP is asked about, in DER.
    root: Vec<u8>,
    /// The serial number of a certificate that is good.
    good: String,
    /// That of one that is revoked.
    revoked: String,
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

impl Judge for Certificates {
    fn texts(&mut self, place: &Place<'_>, recorded: &str, ours: &str) -> Option<Vec<String>> {
        let differs = || vec![place.pointer.to_owned()];
        let only_if = |is_same: bool| Some(if is_same { Vec::new() } else { differs() });
        if recorded.starts_with("-----BEGIN") {
            let is_same = label(recorded) == label(ours);
            return Some(if is_same { describes(place, ours) } else { differs() });
        }
        if recorded.contains("MASKED") {
            return only_if(!ours.is_empty());
        }
        if recorded.starts_with("MII") {
            return only_if(BASE64.decode(ours.as_bytes()).is_ok());
        }
        if self.is_id(recorded) || matches!(place.name, "lease_id" | "id") {
            return None;
        }
        if place.name.ends_with("rfc3339") || place.name.ends_with("_time") {
            return only_if(ours.parse::<jiff::Timestamp>().is_ok());
        }
        only_if(sentence(recorded) == sentence(ours))
    }

    fn numbers(&mut self, place: &Place<'_>, recorded: &Json, ours: &str) -> bool {
        let Json::Number(recorded) = recorded else { return false };
        let (recorded, ours): (i64, i64) = (recorded.parse().unwrap(), ours.parse().unwrap());
        let apart = (recorded - RECORDED_AT) - (ours - self.clock.now().as_second());
        let is_time = matches!(place.name, "expiration" | "not_before" | "revocation_time" | "ttl");
        is_time && (apart.abs() <= SLACK_SECS || (recorded - ours).abs() <= 1)
    }

    fn is_id(&self, text: &str) -> bool {
        is_id(text) || is_serial(text)
    }

    fn ids_are_in_order(&self) -> bool {
        true
    }

    fn is_ours(&self, pointer: &str) -> bool {
        METADATA.contains(&pointer)
    }

    fn body(&mut self, row: &Map) -> Option<(&'static str, Vec<u8>)> {
        row["raw"].as_str()?;
        Some(("application/ocsp-request", self.ocsp_request(text(row, "note"))))
    }

    fn whole(&mut self, row: &Map, reply: &Reply) -> Option<Vec<String>> {
        self.note(row, reply);
        let recorded = row["resp"].as_object()?;
        if recorded.contains_key("base64") {
            return Some(holds(row, &reply.body));
        }
        let said = recorded.get("ocsp")?.as_object().unwrap();
        let is_same = ocsp_status(&reply.body) == text_or(said, "cert_status");
        Some(if is_same { Vec::new() } else { vec!["/ocsp".to_owned()] })
    }
}

impl Certificates {
    /// Keeps what OCSP is asked about later.
    fn note(&mut self, row: &Map, reply: &Reply) {
        let captures = |name: &str| {
            row.get("capture").and_then(Json::as_object).is_some_and(|all| all.contains_key(name))
        };
        let said = |place: &str| reply.at(place).as_str().unwrap().to_owned();
        if captures("root_pem") {
            self.root = pem_blocks(&said("data/certificate")).remove(0).1;
        }
        if captures("web_serial") {
            self.revoked = said("data/serial_number");
        }
        if text(row, "section") == "ocsp" && text(row, "path") == "pki/issue/ec" {
            self.good = said("data/serial_number");
        }
    }

    /// A request of OCSP about a certificate of the root, or of an issuer that there is not.
    fn ocsp_request(&self, note: &str) -> Vec<u8> {
        use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
        let (_, root) = X509Certificate::from_der(&self.root).unwrap();
        let sha1 = |bytes: &[u8]| digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec();
        let name = match note {
            "foreign issuer" => sha1(b"nobody"),
            _ => sha1(root.subject().as_raw()),
        };
        let key = sha1(&root.public_key().subject_public_key.data);
        let serial = match note {
            "revoked" => hex(&self.revoked),
            "unknown serial" => vec![0x12, 0x34],
            _ => hex(&self.good),
        };
        let algorithm = [0x30, 9, 6, 5, 0x2b, 0x0e, 3, 2, 0x1a, 5, 0];
        let id = [&algorithm[..], &tlv(4, &name), &tlv(4, &key), &tlv(2, &serial)].concat();
        tlv(0x30, &tlv(0x30, &tlv(0x30, &tlv(0x30, &tlv(0x30, &id)))))
    }
}

/// A sentence without the ids, times and numbers in it.
fn sentence(text: &str) -> String {
    // Times have colons.
    let mut text = text.to_owned();
    while let Some(at) = text.find("T0").or_else(|| text.find("T1")) {
        text.replace_range(at..=at, " ");
    }
    let words = text.split([' ', ':', ']', '[', '(', ')']);
    let words = words.map(|word| match word.parse::<jiff::Timestamp>() {
        _ if is_id(word) => "ID",
        Ok(_) => "TIME",
        Err(_) => word,
    });
    let bare = words.collect::<Vec<_>>().join(" ");
    bare.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect()
}

/// Where what is in a text says something else than was written down of the recorded one.
fn describes(at: &Place<'_>, ours: &str) -> Vec<String> {
    let Some(Json::Object(all)) = at.row.get("x509") else { return Vec::new() };
    let place = at.pointer;
    let Some(recorded) = all.get(place) else { return Vec::new() };
    let mut differences = Vec::new();
    let recorded = match recorded {
        Json::Array(items) => items.clone(),
        one => vec![one.clone()],
    };
    let ours = pem_blocks(ours);
    if ours.len() != recorded.len() {
        return vec![format!("{place}#blocks")];
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
                _ => without_ids(&recorded) == without_ids(ours),
            };
            if !is_same {
                let told = |json: &Json| String::from_utf8(json.to_text()).unwrap();
                eprintln!("  {place}#{name}:\n    {}\n    {}", told(&recorded), told(ours));
                differences.push(format!("{place}#{name}"));
            }
        }
    }
    differences
}

fn without_ids(json: &Json) -> String {
    let text = String::from_utf8(json.to_text()).unwrap();
    let parts = text.split(['/', '"']);
    parts.map(|part| if is_id(part) { "ID" } else { part }).collect::<Vec<_>>().join("/")
}

fn holds(row: &Map, der: &[u8]) -> Vec<String> {
    let is_list = text(row, "path").ends_with("crl");
    let is_it = match is_list {
        true => CertificateRevocationList::from_der(der).is_ok(),
        false => X509Certificate::from_der(der).is_ok(),
    };
    if is_it { Vec::new() } else { vec!["/base64".to_owned()] }
}

fn text_or(map: &Map, name: &str) -> String {
    map.get(name).and_then(Json::as_str).unwrap_or("UNAUTHORIZED").to_owned()
}
