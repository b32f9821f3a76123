//! Replays what was recorded of SSH. Keys differ from run to run: of a certificate all that `ssh-keygen -L` told of the recorded one has to
//! hold, but for its serial number, its time and the key that signed it.

use kallisto_core::json::{Json, Map};
use ssh_key::Certificate;
use ssh_key::certificate::{CertType, OptionsMap};

use crate::replay::{Judge, Known, Place, REFUSED, replay, text};
use crate::support::Running;

const SSH: &str = include_str!("../golden/ssh.json");

const CALLER: &str = "a client's mistake is a 400, never a 500";
const NOBODY: &str = "an empty text names nobody, and stands for the default user: a certificate without principals is good for everybody";
const SHA_1: &str = "OpenSSH refuses signatures with SHA-1 since 8.8: a role for them is refused when it is written";
const ONE_LESS: &str = "the role for SHA-1 is not there";
const EXCLUDED: &str = "what a role leaves out is left out under config/zeroaddress too";
const DONE: &str = "clients that know Vault take 204 for done, and no other answer";

/// Every difference left.
const KNOWN: &[Known] = &[
    (4, &["status", "/errors/0"], CALLER),
    (24, &["/data/signed_key#Principals"], NOBODY),
    (38, &["status", "/"], SHA_1),
    (55, REFUSED, EXCLUDED),
    (72, &["/warnings/0"], ONE_LESS),
    (74, &["status", "/"], DONE),
];

#[test]
fn ssh_exchanges_are_answered_as_recorded() {
    replay(&Running::start(), SSH, |_| true, KNOWN, &mut Certificates);
}

struct Certificates;

impl Judge for Certificates {
    fn texts(&mut self, place: &Place<'_>, recorded: &str, ours: &str) -> Option<Vec<String>> {
        match place.name {
            // Written without leading zeros.
            "serial_number" => {
                let is_serial = u64::from_str_radix(ours, 16).is_ok() && !ours.starts_with('0');
                Some(if is_serial { Vec::new() } else { vec![place.pointer.to_owned()] })
            }
            "signed_key" => Some(certificates(place, ours)),
            _ if recorded.starts_with("ssh-") && recorded.ends_with('\n') => {
                let type_of = |text: &str| text.split(' ').next().map(str::to_owned);
                let is_key = ssh_key::PublicKey::from_openssh(ours.trim()).is_ok();
                let is_same = is_key && ours.ends_with('\n') && type_of(recorded) == type_of(ours);
                Some(if is_same { Vec::new() } else { vec![place.pointer.to_owned()] })
            }
            _ => None,
        }
    }
}

/// Where a certificate says something else than was written down of the recorded one.
fn certificates(place: &Place<'_>, ours: &str) -> Vec<String> {
    let Ok(certificate) = Certificate::from_openssh(ours.trim()) else {
        return vec![format!("{}#", place.pointer)];
    };
    let Some(recorded) = told(place.row) else { return Vec::new() };
    let ours = fields(&certificate);
    assert_eq!(ours.len(), recorded.len());
    // A key that is made is another one in every run.
    let is_made = text(place.row, "path").starts_with("ssh/issue/");
    let different =
        recorded.iter().zip(&ours).filter(|(recorded, ours)| match recorded.0.as_str() {
            "Public key" if is_made => first_word(&recorded.1) != first_word(&ours.1),
            "Key ID" => key_id(&recorded.1, is_made) != key_id(&ours.1, is_made),
            _ => recorded != ours,
        });
    different.map(|((name, _), _)| format!("{}#{name}", place.pointer)).collect()
}

fn first_word(text: &str) -> Option<&str> {
    text.split(' ').next()
}

/// A key id without the name of the token, which the recorded root token has another one of than ours, and without the key's hash
/// where that is another key.
fn key_id(text: &str, is_made: bool) -> String {
    let text = text.replace("vault-token-", "vault-root-");
    let (before, hash) = text.rsplit_once('-').unwrap_or((&text, ""));
    if is_made { format!("{before}-{}", hash.len()) } else { text }
}

/// What was told of the recorded certificate: each field with its value, or with the lines below it.
fn told(row: &Map) -> Option<Vec<(String, String)>> {
    let Some(Json::Array(lines)) = row.get("ssh") else { return None };
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in lines.iter().filter_map(Json::as_str) {
        match line.split_once(':') {
            Some((name, value)) => {
                fields.push((name.to_owned(), value.trim().to_owned()));
            }
            _ => {
                let last = fields.last_mut()?;
                let comma = if last.1.is_empty() { "" } else { "," };
                last.1 = format!("{}{comma}{line}", last.1);
            }
        }
    }
    for (name, value) in &mut fields {
        *value = bare(name, value);
    }
    Some(fields)
}

/// A value without what differs from run to run.
fn bare(name: &str, value: &str) -> String {
    match name {
        "Serial" => String::new(),
        // The type of the key, and how it signed.
        "Signing CA" => {
            let words: Vec<&str> = value.split(' ').filter(|word| !word.contains(':')).collect();
            words.join(" ")
        }
        "Valid" => {
            let times: Vec<jiff::Timestamp> =
                value.split(' ').filter_map(|word| format!("{word}Z").parse().ok()).collect();
            (times[1].as_second() - times[0].as_second()).to_string()
        }
        _ => value.to_owned(),
    }
}

/// What `ssh-keygen -L` would tell of a certificate, in its words and order.
fn fields(certificate: &Certificate) -> Vec<(String, String)> {
    let kind = match certificate.cert_type() {
        CertType::User => "user",
        CertType::Host => "host",
    };
    let name = |algorithm: &ssh_key::Algorithm| match algorithm {
        ssh_key::Algorithm::Rsa { .. } => "RSA",
        ssh_key::Algorithm::Ed25519 => "ED25519",
        other => panic!("{other}"),
    };
    let list =
        |items: Vec<String>| if items.is_empty() { "(none)".to_owned() } else { items.join(",") };
    let options =
        |map: &OptionsMap| list(map.iter().map(|(name, value)| format!("{name}{value}")).collect());
    let public = certificate.public_key();
    let fingerprint = public.fingerprint(ssh_key::HashAlg::Sha256);
    let lives = certificate.valid_before() - certificate.valid_after();
    let ca = certificate.signature_key().algorithm();
    [
        ("Type", format!("{} {kind} certificate", certificate.algorithm().to_certificate_type())),
        ("Public key", format!("{}-CERT {fingerprint}", name(&public.algorithm()))),
        ("Signing CA", format!("{} (using {})", name(&ca), certificate.signature().algorithm())),
        ("Key ID", format!("{:?}", certificate.key_id())),
        ("Serial", String::new()),
        ("Valid", lives.to_string()),
        ("Principals", list(certificate.valid_principals().to_vec())),
        ("Critical Options", options(certificate.critical_options())),
        ("Extensions", options(certificate.extensions())),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
