//! Exported keys in the form in which they are imported: raw bytes, or PKCS#8 for key pairs.
//!
//! ```text
//! PrivateKeyInfo := SEQUENCE { INTEGER 0, AlgorithmIdentifier, OCTET STRING key }        (RFC 5208)
//! ```

use data_encoding::BASE64;
use der::asn1::{AnyRef, OctetStringRef};
use der::{Encode as _, Sequence, Tag};
use zeroize::Zeroizing;

/// Without the attributes that may follow.
#[derive(Sequence)]
struct PrivateKeyInfo<'a> {
    version: u8,
    algorithm: AnyRef<'a>,
    key: &'a OctetStringRef,
}

/// rsaEncryption, with the NULL behind it.
const RSA: &[u8] = &[0x06, 9, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 1, 0x05, 0];
const ED25519: &[u8] = &[0x06, 3, 0x2B, 0x65, 0x70];
/// id-ecPublicKey and a curve.
const P256: &[u8] =
    &[0x06, 7, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 2, 1, 0x06, 8, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 3, 1, 7];
const P384: &[u8] = &[0x06, 7, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 2, 1, 0x06, 5, 0x2B, 0x81, 4, 0, 0x22];
const P521: &[u8] = &[0x06, 7, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 2, 1, 0x06, 5, 0x2B, 0x81, 4, 0, 0x23];
/// Bytes of an Ed25519 seed, behind which an export has the public key.
const SEED_BYTES: usize = 32;

/// The material of an exported key of this type; `None` if it is not understood.
pub(super) fn material(kind: &str, exported: &str) -> Option<Zeroizing<Vec<u8>>> {
    let is_pem = exported.trim_start().starts_with("-----BEGIN");
    let algorithm = match kind {
        kind if kind.starts_with("rsa-") => RSA,
        "ecdsa-p256" => P256,
        "ecdsa-p384" => P384,
        "ecdsa-p521" => P521,
        "ed25519" if is_pem => return pem_bytes(exported),
        "ed25519" => {
            let pair = Zeroizing::new(BASE64.decode(exported.as_bytes()).ok()?);
            // The key is an octet string inside of one (RFC 8410, 7).
            let seed = OctetStringRef::new(pair.get(..SEED_BYTES)?).and_then(|seed| seed.to_der());
            return info(ED25519, &Zeroizing::new(seed.ok()?));
        }
        _ if is_pem => return None,
        _ => return BASE64.decode(exported.as_bytes()).ok().map(Zeroizing::new),
    };
    let key = pem_bytes(exported)?;
    let is_whole = exported.contains("BEGIN PRIVATE KEY");
    if is_whole { Some(key) } else { info(algorithm, &key) }
}

/// The bytes inside a PEM text.
pub(super) fn pem_bytes(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    pem::parse(text).ok().map(|pem| Zeroizing::new(pem.into_contents()))
}

fn info(algorithm: &[u8], key: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let algorithm = AnyRef::new(Tag::Sequence, algorithm).ok()?;
    let info = PrivateKeyInfo { version: 0, algorithm, key: OctetStringRef::new(key).ok()? };
    info.to_der().ok().map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ed25519_seed_is_the_pkcs8_of_rfc_8410() {
        let exported = BASE64.encode(&[[0xD4; 32], [1; 32]].concat());
        let info = material("ed25519", &exported).unwrap();
        assert_eq!(
            info[..16],
            [0x30, 0x2E, 2, 1, 0, 0x30, 5, 6, 3, 0x2B, 0x65, 0x70, 4, 0x22, 4, 0x20]
        );
        assert_eq!(info[16..], [0xD4; 32]);
        assert!(aws_lc_rs::signature::Ed25519KeyPair::from_pkcs8_maybe_unchecked(&info).is_ok());
        assert!(material("aes256-gcm96", "AAAA").is_some_and(|key| *key == [0, 0, 0]));
        assert!(material("aes256-gcm96", "not base64!").is_none());
    }
}
