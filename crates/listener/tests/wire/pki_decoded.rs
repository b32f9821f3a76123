//! What certificates, requests, lists and answers of OCSP say, in the words of the recording.

use data_encoding::BASE64;
use kallisto_core::json::{Json, Map};
use x509_parser::prelude::*;

pub(crate) fn hex(serial: &str) -> Vec<u8> {
    serial.split(':').map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

pub(crate) fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    assert!(length < 128);
    [&[tag, length], content].concat()
}

/// What an answer of OCSP says of the one certificate that it is about.
pub(crate) fn ocsp_status(body: &[u8]) -> String {
    if body == [0x30, 3, 0x0a, 1, 6] {
        return "UNAUTHORIZED".to_owned();
    }
    // The state stands between the CertID, which ends in the serial number, and thisUpdate.
    let algorithm = [0x30, 9, 6, 5, 0x2b, 0x0e, 3, 2, 0x1a, 5, 0];
    let at = body.windows(algorithm.len()).position(|part| part == algorithm).unwrap();
    let mut rest = &body[at + algorithm.len()..];
    for _ in 0..3 {
        rest = &rest[2 + usize::from(rest[1])..];
    }
    match rest[0] {
        0x80 => "GOOD",
        0xa1 => "REVOKED",
        0x82 => "UNKNOWN",
        _ => "?",
    }
    .to_owned()
}

pub(crate) fn is_serial(text: &str) -> bool {
    text.len() == 59 && text.split(':').all(|pair| pair.len() == 2)
}

pub(crate) fn label(text: &str) -> String {
    text.lines().next().unwrap_or_default().split("MASKED").next().unwrap_or_default().to_owned()
}

/// The blocks of a text, with their labels.
pub(crate) fn pem_blocks(text: &str) -> Vec<(String, Vec<u8>)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        if let Some(label) = line.strip_prefix("-----BEGIN ") {
            open = Some((label.trim_end_matches('-').to_owned(), String::new()));
        } else if line.starts_with("-----END ") {
            let (label, base64) = open.take().unwrap();
            blocks.push((label, BASE64.decode(base64.as_bytes()).unwrap()));
        } else if let Some((_, base64)) = &mut open {
            base64.push_str(line);
        }
    }
    blocks
}

/// The numbers of extensions that were written down.
pub(crate) fn oids(extensions: &Json) -> Json {
    let Json::Array(all) = extensions else { panic!("a list of extensions") };
    Json::Array(all.iter().map(|one| one.as_object().unwrap()["oid"].clone()).collect())
}

pub(crate) fn object(pairs: Vec<(&str, Json)>) -> Map {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(crate) fn name(name: &X509Name<'_>) -> Json {
    let mut parts: Vec<String> = Vec::new();
    for part in name.iter_rdn() {
        let pairs = part.iter().map(|pair| {
            let oid = pair.attr_type().to_id_string();
            let short = match oid.as_str() {
                "2.5.4.3" => "CN",
                "2.5.4.6" => "C",
                "2.5.4.7" => "L",
                "2.5.4.8" => "ST",
                "2.5.4.9" => "STREET",
                "2.5.4.10" => "O",
                "2.5.4.11" => "OU",
                other => other,
            };
            format!("{short}={}", pair.as_str().unwrap())
        });
        parts.push(pairs.collect::<Vec<_>>().join("+"));
    }
    parts.reverse();
    parts.join(",").into()
}

pub(crate) fn algorithm(oid: &str) -> &str {
    match oid {
        "1.2.840.113549.1.1.11" => "sha256WithRSAEncryption",
        "1.2.840.113549.1.1.12" => "sha384WithRSAEncryption",
        "1.2.840.113549.1.1.13" => "sha512WithRSAEncryption",
        "1.2.840.113549.1.1.10" => "rsassaPss",
        "1.2.840.10045.4.3.2" => "ecdsa-with-SHA256",
        "1.2.840.10045.4.3.3" => "ecdsa-with-SHA384",
        "1.2.840.10045.4.3.4" => "ecdsa-with-SHA512",
        "1.3.101.112" => "ed25519",
        other => other,
    }
}

pub(crate) fn certificate(der: &[u8]) -> Map {
    let (_, parsed) = X509Certificate::from_der(der).unwrap();
    let validity = parsed.validity();
    let seconds = validity.not_after.timestamp() - validity.not_before.timestamp();
    object(vec![
        ("subject", name(parsed.subject())),
        ("issuer", name(parsed.issuer())),
        ("serial_bytes", (parsed.raw_serial().len() as u64).into()),
        ("seconds", seconds.into()),
        ("sig", algorithm(&parsed.signature_algorithm.algorithm.to_id_string()).into()),
        ("extensions", extensions(parsed.extensions())),
    ])
}

pub(crate) fn request(der: &[u8]) -> Map {
    let (_, parsed) = X509CertificationRequest::from_der(der).unwrap();
    let found: Vec<Json> = parsed
        .requested_extensions()
        .into_iter()
        .flatten()
        .filter_map(|extension| match extension {
            ParsedExtension::BasicConstraints(_) => Some("2.5.29.19".into()),
            ParsedExtension::SubjectAlternativeName(_) => Some("2.5.29.17".into()),
            _ => None,
        })
        .collect();
    object(vec![
        ("oids", Json::Array(found)),
        ("subject", name(&parsed.certification_request_info.subject)),
        ("sig", algorithm(&parsed.signature_algorithm.algorithm.to_id_string()).into()),
    ])
}

pub(crate) fn list(der: &[u8]) -> Map {
    let (_, parsed) = CertificateRevocationList::from_der(der).unwrap();
    let next = parsed.next_update().unwrap().timestamp();
    let revoked = parsed.iter_revoked_certificates().map(|one| {
        Json::Object(object(vec![
            ("serial_bytes", (one.raw_serial().len() as u64).into()),
            ("extensions", Json::Array(Vec::new())),
        ]))
    });
    let oids = parsed.extensions().iter().map(|one| one.oid.to_id_string());
    object(vec![
        ("oids", Json::strings(oids)),
        ("issuer", name(parsed.issuer())),
        ("sig", algorithm(&parsed.signature_algorithm.algorithm.to_id_string()).into()),
        ("valid_seconds", (next - parsed.last_update().timestamp()).into()),
        ("revoked", Json::Array(revoked.collect())),
    ])
}

pub(crate) fn constraints(found: &BasicConstraints) -> Json {
    Json::Object(object(vec![
        ("ca", found.ca.into()),
        (
            "path_length",
            found.path_len_constraint.map_or(Json::Null, |length| i64::from(length).into()),
        ),
    ]))
}

pub(crate) fn general(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(name) => format!("DNSName:{name}"),
        GeneralName::RFC822Name(name) => format!("RFC822Name:{name}"),
        GeneralName::URI(uri) => format!("UniformResourceIdentifier:{uri}"),
        GeneralName::IPAddress(bytes) => {
            let ip = match bytes.len() {
                4 => std::net::IpAddr::from(<[u8; 4]>::try_from(*bytes).unwrap()),
                _ => std::net::IpAddr::from(<[u8; 16]>::try_from(*bytes).unwrap()),
            };
            format!("IPAddress:{ip}")
        }
        GeneralName::OtherName(oid, value) => {
            let inner: String = value[2..].iter().map(|byte| format!("{byte:02x}")).collect();
            format!("OtherName:{}:{inner}", oid.to_id_string())
        }
        other => format!("{other:?}"),
    }
}

pub(crate) fn alt_names(found: &SubjectAlternativeName<'_>) -> Json {
    Json::strings(found.general_names.iter().map(general))
}

pub(crate) fn points(found: &CRLDistributionPoints<'_>) -> Json {
    let point = |point: &CRLDistributionPoint<'_>| {
        let Some(DistributionPointName::FullName(names)) = &point.distribution_point else {
            panic!("a full name")
        };
        Json::strings(names.iter().map(general))
    };
    Json::Array(found.iter().map(point).collect())
}

pub(crate) fn extensions(all: &[X509Extension<'_>]) -> Json {
    let told = |one: &X509Extension<'_>| {
        let (name, value) = match one.parsed_extension() {
            ParsedExtension::BasicConstraints(found) => ("basicConstraints", constraints(found)),
            ParsedExtension::SubjectAlternativeName(found) => ("subjectAltName", alt_names(found)),
            ParsedExtension::CRLDistributionPoints(found) => {
                ("cRLDistributionPoints", points(found))
            }
            ParsedExtension::KeyUsage(usage) => {
                let names = [
                    (usage.digital_signature(), "digital_signature"),
                    (usage.key_encipherment(), "key_encipherment"),
                    (usage.key_agreement(), "key_agreement"),
                    (usage.key_cert_sign(), "key_cert_sign"),
                    (usage.crl_sign(), "crl_sign"),
                ];
                let set = names.iter().filter(|(is, _)| *is).map(|(_, name)| *name);
                ("keyUsage", Json::strings(set))
            }
            ParsedExtension::SubjectKeyIdentifier(id) => {
                ("subjectKeyIdentifier", (id.0.len() as u64).into())
            }
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                let length = id.key_identifier.as_ref().map_or(0, |id| id.0.len() as u64);
                let map = vec![("issuer", Json::Bool(false)), ("keyid_len", length.into())];
                ("authorityKeyIdentifier", Json::Object(object(map)))
            }
            ParsedExtension::ExtendedKeyUsage(usage) => {
                let mut names: Vec<String> = Vec::new();
                for (is, oid) in [
                    (usage.server_auth, "1.3.6.1.5.5.7.3.1"),
                    (usage.client_auth, "1.3.6.1.5.5.7.3.2"),
                    (usage.code_signing, "1.3.6.1.5.5.7.3.3"),
                    (usage.email_protection, "1.3.6.1.5.5.7.3.4"),
                ] {
                    if is {
                        names.push(oid.to_owned());
                    }
                }
                ("extendedKeyUsage", Json::strings(names))
            }
            ParsedExtension::AuthorityInfoAccess(found) => {
                let access = found.accessdescs.iter().map(|one| {
                    let method = match one.access_method.to_id_string().as_str() {
                        "1.3.6.1.5.5.7.48.1" => "OCSP",
                        _ => "caIssuers",
                    };
                    format!("{method} {}", general(&one.access_location))
                });
                ("authorityInfoAccess", Json::strings(access))
            }
            ParsedExtension::NameConstraints(found) => {
                let trees = |trees: &Option<Vec<GeneralSubtree<'_>>>| {
                    Json::strings(trees.iter().flatten().map(|tree| general(&tree.base)))
                };
                let map = vec![
                    ("excluded", trees(&found.excluded_subtrees)),
                    ("permitted", trees(&found.permitted_subtrees)),
                ];
                ("nameConstraints", Json::Object(object(map)))
            }
            _ => ("?", Json::Null),
        };
        let oid = one.oid.to_id_string();
        let (name, value) = match oid.as_str() {
            // Of the form of the points above.
            "2.5.29.46" => {
                let (_, found) = CRLDistributionPoints::from_der(one.value).unwrap();
                ("freshestCRL", points(&found))
            }
            _ => (name, value),
        };
        Json::Object(object(vec![
            ("critical", one.critical.into()),
            ("name", name.into()),
            ("oid", oid.into()),
            ("v", value),
        ]))
    };
    Json::Array(all.iter().map(told).collect())
}
