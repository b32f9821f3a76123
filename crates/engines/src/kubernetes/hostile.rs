//! What an API server answers and what operators write, as hostile bytes: a target of the fuzzers.

use jiff::Timestamp;
use kallisto_api::json::{self, Json};
use kallisto_engine::far_end::HttpWorkAnswer;
use kallisto_engine::yaml;

use super::cluster::{Cluster, is_token};
use super::objects::{ObjectKind, ObjectNames, Revocation, uid};
use super::selector::NamespaceSelector;
use super::{creds, rules};

/// Reads whatever it is given as a document of rules or labels, as what takes a lease's objects back, and as an answer of an API server.
///
/// A document says what its JSON says, what takes objects back reads back, an object that is not the one that was asked for has no UID, and a
/// token is one.
pub fn read_hostile(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Some(Json::Object(document)) = yaml::parse(text) {
            let json = Json::Object(document.clone()).to_text();
            if let Ok(again) = json::parse_object(&json) {
                assert!(again == document, "a document is not what its JSON says");
            }
        }
        let _ = (NamespaceSelector::parse(text), rules::parse(text));
    }
    if let Some(revocation) = Revocation::decode(bytes) {
        assert_eq!(Revocation::decode(&revocation.encode()), Some(revocation));
    }
    let Some((status, body)) = bytes.split_first() else { return };
    let status = 200 + 3 * u16::from(*status);
    let answer = HttpWorkAnswer { status, body: body.to_vec() };
    let Ok(told) = Cluster::default().judge(&answer) else { return };
    let names = ObjectNames { namespace: "ns".into(), name: "name".into() };
    let is_meant = body.windows(6).any(|part| part == b"\"name\"");
    assert!(is_meant || uid(&told, &names, ObjectKind::Role).is_none());
    if let Some((token, secs)) = creds::issued(&told, Timestamp::UNIX_EPOCH) {
        assert!(is_token(&token) && secs > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_without_a_fault_is_read() {
        for bytes in [
            &b""[..],
            b"rules:\n- verbs: [get]\n  resources: ['a''b', \"c\\n\"]",
            b"a: {b: [c, {d: e}], f: 01}",
            b"\x00{\"kind\":\"Role\",\"metadata\":{\"name\":\"name\",\"namespace\":\"ns\",\"uid\":\"u\"}}",
            b"\x00{\"status\":{\"token\":\"a.e30.b\",\"expirationTimestamp\":\"9999-01-01T00:00:00Z\"}}",
            b"\x46{\"kind\":\"Status\"}",
            br#"{"namespace":"a","name":"b","objects":["Role"],"asked_at":-1}"#,
        ] {
            read_hostile(bytes);
        }
    }
}
