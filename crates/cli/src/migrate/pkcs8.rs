//! Exported keys in the form in which they are imported: raw bytes, or PKCS#8 for key pairs.
//!
//! ```text
//! PrivateKeyInfo := SEQUENCE { INTEGER 0, AlgorithmIdentifier, OCTET STRING key }        (RFC 5208)
//! ```

use data_encoding::BASE64;
use zeroize::Zeroizing;

const SEQUENCE: u8 = 0x30;
const OCTETS: u8 = 0x04;
const INTEGER_0: [u8; 3] = [0x02, 1, 0];
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
            let seed = Zeroizing::new(value(OCTETS, pair.get(..SEED_BYTES)?));
            return Some(info(ED25519, &seed));
        }
        _ if is_pem => return None,
        _ => return BASE64.decode(exported.as_bytes()).ok().map(Zeroizing::new),
    };
    let key = pem_bytes(exported)?;
    let is_whole = exported.contains("BEGIN PRIVATE KEY");
    Some(if is_whole { key } else { info(algorithm, &key) })
}

/// The bytes inside a PEM text.
pub(super) fn pem_bytes(pem: &str) -> Option<Zeroizing<Vec<u8>>> {
    let lines =
        pem.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("-----"));
    let text = Zeroizing::new(lines.collect::<String>());
    BASE64.decode(text.as_bytes()).ok().map(Zeroizing::new)
}

fn info(algorithm: &[u8], key: &[u8]) -> Zeroizing<Vec<u8>> {
    let key = Zeroizing::new(value(OCTETS, key));
    let parts = Zeroizing::new([&INTEGER_0, value(SEQUENCE, algorithm).as_slice(), &key].concat());
    Zeroizing::new(value(SEQUENCE, &parts))
}

/// A tag, the length and what it is of.
fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut out = Vec::with_capacity(content.len() + 6);
    out.push(tag);
    match (content.len(), u8::try_from(length.len())) {
        (0..=127, _) => out.push(length.first().copied().unwrap_or(0)),
        (_, Ok(bytes)) => {
            out.push(0x80 | bytes);
            out.extend_from_slice(length);
        }
        (_, Err(_)) => unreachable!("a length has eight bytes"),
    }
    out.extend_from_slice(content);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_der() {
        assert_eq!(value(4, &[]), [4, 0]);
        assert_eq!(value(4, &[7; 127])[..2], [4, 127]);
        assert_eq!(value(4, &[7; 128])[..3], [4, 0x81, 128]);
        assert_eq!(value(4, &[7; 300])[..4], [4, 0x82, 1, 44]);
    }

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
