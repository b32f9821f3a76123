//! Whatever anybody sends, read as requests of ACME: a target of the fuzzers.
//!
//! Called by `fuzz` alone. What is read has to be refused, or to mean one thing.

use super::jws::{Binding, Jwk, Jws, JwsSigner};
use super::orders::AcmeIdentifier;
use kallisto_api::json;
use kallisto_pki::acme::AcmeCertificate;
use kallisto_pki::request::CertificateRequest;

/// Reads bytes as a signed request, a binding, a key, a name, and what a probe or a client brings.
pub fn read_hostile(bytes: &[u8]) {
    if let Ok(jws) = Jws::read(bytes) {
        if let JwsSigner::Key(key) = &jws.signer {
            check_key(key);
            let _ = jws.verify(key);
        }
        let _ = jws.object();
    }
    if let Ok(map) = json::parse_object(bytes)
        && let Ok(key) = Jwk::read(&map)
    {
        check_key(&key);
        let _ = Binding::read(&map, "", &key);
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(identifier) = AcmeIdentifier::dns(text)
    {
        let value = identifier.value();
        assert_eq!(value, text, "a name is the one that was sent");
        assert_eq!(value, value.to_ascii_lowercase(), "in lower case");
        assert!(value.len() <= 255 && value.matches('*').count() <= 1);
    }
    let _ = AcmeCertificate::from_der(bytes);
    let _ = CertificateRequest::from_der(bytes);
}

/// A key that is written is the key that was read, in one spelling.
fn check_key(key: &Jwk) {
    let again = Jwk::parse(key.text());
    assert_eq!(again.as_ref(), Some(key), "a key has one spelling");
    assert_eq!(key.thumbprint().len(), 43);
}
