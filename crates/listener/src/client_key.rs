//! The key of a client's certificate, and whether the client has it.
//!
//! `tls` asks here while a handshake runs, for certificates that it trusts with nothing, and for the key of its own certificate when it reads that. Nothing but the key is looked
//! at: a certificate of version 1, of another day, or with unknown extensions is as good a name for a key as
//! any (webpki, which rustls asks otherwise, refuses those). Whether a certificate is believed is for a login method to
//! say, not for the wire.
//!
//! Invariants:
//! - Bytes from the network are input: what is cut short or ill formed has no key, and its client is refused.
//! - A signature counts only under the algorithm of the key that it is checked with.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved};
use x509_parser::asn1_rs::Any;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Checks that a client signed a handshake of TLS 1.2 with the key of its certificate.
///
/// # Errors
/// No key is in it, the key is of another kind than the signature, or the signature is not its.
pub(crate) fn verify_tls12(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let key = CertificateKey::find(certificate).ok_or(CertificateError::BadEncoding)?;
    let mut mapping = algorithms.mapping.iter();
    let Some((_, candidates)) = mapping.find(|(scheme, _)| *scheme == signed.scheme) else {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    };
    // TLS 1.2 names the hash and not the curve: the key says which it is.
    let mut candidates = candidates.iter();
    let fitting = candidates.find(|one| one.public_key_alg_id().as_ref() == key.algorithm);
    let checked = fitting.map(|one| one.verify_signature(key.bits, message, signed.signature()));
    match checked {
        Some(Ok(())) => Ok(HandshakeSignatureValid::assertion()),
        Some(Err(_)) | None => Err(CertificateError::BadSignature.into()),
    }
}

/// The same of TLS 1.3.
///
/// # Errors
/// As [`verify_tls12`].
pub(crate) fn verify_tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let key = CertificateKey::find(certificate).ok_or(CertificateError::BadEncoding)?;
    let whole = SubjectPublicKeyInfoDer::from(key.whole);
    verify_tls13_signature_with_raw_key(message, &whole, signed, algorithms)
}

/// The public key of a certificate, as its `SubjectPublicKeyInfo`; none if it cannot be read.
pub(crate) fn public_key<'a>(certificate: &'a CertificateDer<'_>) -> Option<&'a [u8]> {
    CertificateKey::find(certificate).map(|key| key.whole)
}

/// A public key where it stands in a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CertificateKey<'a> {
    /// With its mark and length.
    whole: &'a [u8],
    /// What the algorithm and its parameters say.
    algorithm: &'a [u8],
    /// The key itself.
    bits: &'a [u8],
}

impl<'a> CertificateKey<'a> {
    fn find(certificate: &'a [u8]) -> Option<Self> {
        let (rest, parsed) = X509Certificate::from_der(certificate).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let whole = parsed.tbs_certificate.subject_pki.raw;
        let (_, info) = Any::from_der(whole).ok()?;
        let (after, algorithm) = Any::from_der(info.data).ok()?;
        let (_, key) = Any::from_der(after).ok()?;
        // A key is whole bytes (RFC 5280, section 4.1.2.7, and the algorithms it names).
        let (unused_bits, bits) = key.data.split_first()?;
        (*unused_bits == 0).then_some(Self { whole, algorithm: algorithm.data, bits })
    }
}

#[cfg(test)]
mod tests {
    use data_encoding::BASE64;

    use super::*;

    /// Self-signed with an Ed25519 key, of version 1: without extensions, and without its version.
    const VERSION_1: &str = "MIHUMIGHAhQr7rYbZxg5bstAV7v6M6BEGm1sFzAFBgMrZXAwDTELMAkGA1UEAwwCdjEwHhcNMjYxMTIzMDk1OTQ2WhcNMjYxMTI0MDk1OTQ2WjANMQswCQYDVQQDDAJ2MTAqMAUGAytlcAMhAPfMqiGS72OOmGrSHopJfIve73J6Ed2QXWmUWNA0UzJVMAUGAytlcANBAIiCuy71qcwzsAUSGXUycK7l6f+ZmDpQzdSbzdZbeq7O5v0DTarEVcHBWc3ETa2IiMBy+PkCcePfxWTYIPokSQY=";
    /// The same key in a certificate of version 3 with a critical extension that nobody knows.
    const VERSION_3: &str = "MIIBPDCB76ADAgECAhR8zO6pP142dhpp4yYzTq4rwUXcBTAFBgMrZXAwDTELMAkGA1UEAwwCdjMwHhcNMjYxMTIzMDk1OTQ2WhcNMjYxMTI0MDk1OTQ2WjANMQswCQYDVQQDDAJ2MzAqMAUGAytlcAMhAPfMqiGS72OOmGrSHopJfIve73J6Ed2QXWmUWNA0UzJVo2EwXzAdBgNVHQ4EFgQULFKd7VZYKerZa6qrSoZ/W0RIOnkwHwYDVR0jBBgwFoAULFKd7VZYKerZa6qrSoZ/W0RIOnkwDwYDVR0TAQH/BAUwAwEB/zAMBgMqAwQBAf8EAgUAMAUGAytlcANBANAnUjrd5a076QHHEYD6BIhj/LS/Esx73XB4yu56ax1urVjGzezrJ+mUxzfKVePL4etIA8UGkoZ0NknPwBB1iAk=";
    /// The identifier of Ed25519 (RFC 8410, section 3).
    const ED25519: &[u8] = b"\x06\x03\x2b\x65\x70";
    const ED25519_KEY_BYTES: usize = 32;

    fn decoded(text: &str) -> Vec<u8> {
        BASE64.decode(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_key_is_found_in_any_version_and_beside_anything() {
        let (first, third) = (decoded(VERSION_1), decoded(VERSION_3));
        let (found, same) =
            (CertificateKey::find(&first).unwrap(), CertificateKey::find(&third).unwrap());
        assert_eq!(found, same);
        assert_eq!(found.algorithm, ED25519);
        assert_eq!(found.bits.len(), ED25519_KEY_BYTES);
        assert!(found.whole.ends_with(found.bits));
    }

    #[test]
    fn what_is_cut_short_or_no_certificate_has_no_key() {
        for whole in [decoded(VERSION_1), decoded(VERSION_3)] {
            for end in 0..whole.len() {
                assert_eq!(CertificateKey::find(&whole[..end]), None, "{end}");
            }
            assert_eq!(CertificateKey::find(&[&whole[..], b"x"].concat()), None);
        }
        assert_eq!(CertificateKey::find(b"no certificate"), None);
        assert_eq!(CertificateKey::find(&[0x30, 0x80, 0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }

    /// Whatever is changed in a certificate, its key is found or it has none; nothing panics.
    #[test]
    fn damaged_certificates_are_read_without_a_panic() {
        let whole = decoded(VERSION_3);
        for (at, change) in (0..whole.len()).flat_map(|at| [1, 0x80, 0xff].map(|by| (at, by))) {
            let mut damaged = whole.clone();
            damaged[at] ^= change;
            if let Some(key) = CertificateKey::find(&damaged) {
                assert!(key.whole.len() > key.bits.len(), "{at} {change}");
            }
        }
    }
}
