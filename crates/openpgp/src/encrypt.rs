//! Messages: a session key for one recipient, and a text under it (RFC 4880, sections 5.1 and 5.13; RFC 6637).
//!
//! ```text
//! message := session key packet (tag 1) | encrypted packet (tag 18): 1 | AES-256-CFB( random 16, its last 2 again, literal, MDC )
//! literal := packet (tag 11): 'b' | no name | no date | text            MDC := d3 14 | SHA-1 of all before
//! ```

use aws_lc_rs::agreement::{self, EphemeralPrivateKey, UnparsedPublicKey};
use aws_lc_rs::cipher::{self, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::key_wrap::{AES_128, AES_256, KeyEncryptionKey, KeyWrap};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::rsa::{Pkcs1PublicEncryptingKey, PublicEncryptingKey, PublicKeyComponents};
use aws_lc_rs::{digest, error::Unspecified};
use zeroize::Zeroizing;

use crate::packet::{self, write_integer};
use crate::public_key::{ECDH, PgpCurve, PgpKey, PgpMaterial};
use crate::{Error, TEXT_BYTES_MAX};

/// AES-256 among the ciphers of the standard.
const AES_256_ID: u8 = 9;
const AES_128_ID: u8 = 7;
const SHA256_ID: u8 = 8;
const SHA384_ID: u8 = 9;
const SHA512_ID: u8 = 10;
const RSA_ID: u8 = 1;
/// Least bytes of a modulus: 2,048 bits.
const MODULUS_BYTES_MIN: usize = 256;
/// What a session key is padded to, so that its length tells nothing of the cipher.
const WRAPPED_BYTES: usize = 40;
const BLOCK_BYTES: usize = 16;
/// What a packet of text has besides the text: its tag, its length, how the text is, no name and no date.
const LITERAL_OVERHEAD_BYTES: usize = 6 + 6;
/// A modification detection code with its tag and length.
const CODE_BYTES: usize = 2 + 20;
/// Who sends, for the derivation of a key: nobody.
const ANONYMOUS: &[u8; 20] = b"Anonymous Sender    ";

/// A key that is encrypted to.
#[derive(Clone, Debug)]
pub(crate) struct EncryptionKey {
    fingerprint: [u8; 20],
    material: OwnedPgpMaterial,
}

#[derive(Clone, Debug)]
enum OwnedPgpMaterial {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    Ecdh { curve: PgpCurve, point: Vec<u8>, hash: u8, cipher: u8 },
}

impl EncryptionKey {
    pub(crate) fn of(key: &PgpKey<'_>) -> Result<Self, Error> {
        let material = match key.material {
            PgpMaterial::Rsa { modulus, exponent, .. } if modulus.len() >= MODULUS_BYTES_MIN => {
                OwnedPgpMaterial::Rsa { modulus: modulus.to_vec(), exponent: exponent.to_vec() }
            }
            PgpMaterial::Ecdh { curve, point, hash, cipher } => {
                let known = matches!(hash, SHA256_ID | SHA384_ID | SHA512_ID)
                    && matches!(cipher, AES_128_ID | AES_256_ID);
                if !known {
                    return Err(Error::Unusable);
                }
                OwnedPgpMaterial::Ecdh { curve, point: point.to_vec(), hash, cipher }
            }
            _ => return Err(Error::Unusable),
        };
        Ok(Self { fingerprint: key.fingerprint()?, material })
    }
}

/// A message with `text` in it.
pub(crate) fn message(key: &EncryptionKey, text: &[u8]) -> Result<Vec<u8>, Error> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Error::TooLong);
    }
    let mut session = Zeroizing::new([0; 32]);
    SystemRandom::new().fill(&mut *session).map_err(refused)?;
    let mut out = Vec::new();
    packet::write(1, &session_packet(key, &session)?, &mut out)?;
    packet::write(18, &encrypted(&session, text)?, &mut out)?;
    Ok(out)
}

/// The session key for a recipient.
fn session_packet(key: &EncryptionKey, session: &[u8; 32]) -> Result<Vec<u8>, Error> {
    // With all its room at once: what a vector outgrows is not wiped.
    let mut named = Zeroizing::new(Vec::<u8>::with_capacity(WRAPPED_BYTES));
    named.push(AES_256_ID);
    named.extend_from_slice(session);
    let sum = session.iter().fold(0_u16, |sum, byte| sum.wrapping_add(u16::from(*byte)));
    named.extend_from_slice(&sum.to_be_bytes());
    let mut body = vec![3];
    let (_, id) = key.fingerprint.split_at_checked(12).ok_or(Error::Cipher)?;
    body.extend_from_slice(id);
    match &key.material {
        OwnedPgpMaterial::Rsa { modulus, exponent } => {
            body.push(RSA_ID);
            let components = PublicKeyComponents { n: modulus, e: exponent };
            let public: PublicEncryptingKey = components.try_into().map_err(refused)?;
            let public = Pkcs1PublicEncryptingKey::new(public).map_err(refused)?;
            let mut sealed = vec![0; public.ciphertext_size()];
            let sealed = public.encrypt(&named, &mut sealed).map_err(refused)?;
            write_integer(sealed, &mut body)?;
        }
        OwnedPgpMaterial::Ecdh { curve, point, hash, cipher } => {
            body.push(ECDH);
            let parameters = parameters(*curve, *hash, *cipher, &key.fingerprint);
            let agreed = agree(*curve, point, *hash, &parameters)?;
            let padding = WRAPPED_BYTES - named.len();
            let padding_byte = u8::try_from(padding).map_err(|_| Error::Cipher)?;
            named.extend(std::iter::repeat_n(padding_byte, padding));
            let wrapped = wrap(&agreed.key, *cipher, &named)?;
            write_integer(&agreed.ephemeral, &mut body)?;
            body.push(u8::try_from(wrapped.len()).map_err(|_| Error::Cipher)?);
            body.extend_from_slice(&wrapped);
        }
    }
    Ok(body)
}

/// What a key of ECDH is derived with besides the shared secret.
fn parameters(curve: PgpCurve, hash: u8, cipher: u8, fingerprint: &[u8; 20]) -> Vec<u8> {
    let oid = curve.oid();
    // An identifier of a curve is a few bytes.
    let mut out = vec![u8::try_from(oid.len()).unwrap_or(u8::MAX)];
    out.extend_from_slice(oid);
    out.extend_from_slice(&[ECDH, 3, 1, hash, cipher]);
    out.extend_from_slice(ANONYMOUS);
    out.extend_from_slice(fingerprint);
    out
}

/// What two keys agreed on.
struct Agreed {
    /// Our half, as it is sent.
    ephemeral: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

fn agree(curve: PgpCurve, point: &[u8], hash: u8, parameters: &[u8]) -> Result<Agreed, Error> {
    let (how, theirs) = match (curve, point) {
        (PgpCurve::Curve25519, [0x40, point @ ..]) => (&agreement::X25519, point),
        (PgpCurve::P256, point) => (&agreement::ECDH_P256, point),
        (PgpCurve::P384, point) => (&agreement::ECDH_P384, point),
        (PgpCurve::P521, point) => (&agreement::ECDH_P521, point),
        (PgpCurve::Curve25519 | PgpCurve::Ed25519, _) => return Err(Error::Malformed),
    };
    let hash = match hash {
        SHA256_ID => &digest::SHA256,
        SHA384_ID => &digest::SHA384,
        SHA512_ID => &digest::SHA512,
        _ => return Err(Error::Unusable),
    };
    let ours = EphemeralPrivateKey::generate(how, &SystemRandom::new()).map_err(refused)?;
    let public = ours.compute_public_key().map_err(refused)?;
    let mut ephemeral = Vec::new();
    if curve == PgpCurve::Curve25519 {
        ephemeral.push(0x40);
    }
    ephemeral.extend_from_slice(public.as_ref());
    let theirs = UnparsedPublicKey::new(how, theirs);
    let key = agreement::agree_ephemeral(ours, theirs, Error::Cipher, |secret| {
        let mut derived = digest::Context::new(hash);
        derived.update(&[0, 0, 0, 1]);
        derived.update(secret);
        derived.update(parameters);
        Ok(Zeroizing::new(derived.finish().as_ref().to_vec()))
    })?;
    Ok(Agreed { ephemeral, key })
}

/// Wraps a session key (RFC 3394) under the front of what was agreed on.
fn wrap(key: &[u8], cipher: u8, session: &[u8]) -> Result<Vec<u8>, Error> {
    let (size, how) = match cipher {
        AES_128_ID => (16, &AES_128),
        _ => (32, &AES_256),
    };
    let key = key.get(..size).ok_or(Error::Unusable)?;
    let mut wrapped = vec![0; session.len() + 8];
    let wrapping = KeyEncryptionKey::new(how, key).map_err(refused)?;
    Ok(wrapping.wrap(session, &mut wrapped).map_err(refused)?.to_vec())
}

/// The text under the session key.
fn encrypted(session: &[u8; 32], text: &[u8]) -> Result<Vec<u8>, Error> {
    let room = BLOCK_BYTES + 2 + LITERAL_OVERHEAD_BYTES + text.len() + CODE_BYTES;
    let mut clear = Zeroizing::new(Vec::<u8>::with_capacity(room));
    clear.resize(BLOCK_BYTES, 0);
    SystemRandom::new().fill(&mut clear).map_err(refused)?;
    let again = clear.last_chunk::<2>().copied().ok_or(Error::Cipher)?;
    clear.extend_from_slice(&again);
    let mut literal = Zeroizing::new(Vec::<u8>::with_capacity(LITERAL_OVERHEAD_BYTES + text.len()));
    literal.extend_from_slice(&[b'b', 0, 0, 0, 0, 0]);
    literal.extend_from_slice(text);
    packet::write(11, &literal, &mut clear)?;
    clear.extend_from_slice(&[0xd3, 20]);
    let code = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &clear);
    clear.extend_from_slice(code.as_ref());
    assert_eq!(clear.len(), room, "the room was right, so that nothing was moved and left behind");
    let key = UnboundCipherKey::new(&cipher::AES_256, session).map_err(refused)?;
    let key = EncryptingKey::cfb128(key).map_err(refused)?;
    // The standard has no other start: the random block in front of the text is what it starts with.
    let start = EncryptionContext::Iv128(FixedLength::from([0; BLOCK_BYTES]));
    key.less_safe_encrypt(&mut clear, start).map_err(refused)?;
    let mut body = vec![1];
    body.extend_from_slice(&clear);
    Ok(body)
}

fn refused(_: Unspecified) -> Error {
    Error::Cipher
}
