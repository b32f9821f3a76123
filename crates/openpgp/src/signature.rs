//! Signatures of a key over its own parts (RFC 4880, section 5.2).

use std::cell::Cell;

use aws_lc_rs::digest;
use aws_lc_rs::signature::{
    self, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

use crate::Error;
use crate::packet::{Input, subpacket_length};
use crate::public_key::{PgpCurve, PgpKey, PgpMaterial};

/// Types of signatures.
pub(crate) const CERTIFICATIONS: std::ops::RangeInclusive<u8> = 0x10..=0x13;
pub(crate) const SUBKEY_BINDING: u8 = 0x18;
pub(crate) const DIRECT_KEY: u8 = 0x1f;
pub(crate) const KEY_REVOCATION: u8 = 0x20;
pub(crate) const SUBKEY_REVOCATION: u8 = 0x28;

const SHA256: u8 = 8;
const SHA384: u8 = 9;
const SHA512: u8 = 10;

/// What subpackets say.
const CREATED: u8 = 2;
const SIGNATURE_EXPIRES: u8 = 3;
const KEY_EXPIRES: u8 = 9;
const ISSUER: u8 = 16;
const ISSUER_FINGERPRINT: u8 = 33;
const KEY_FLAGS: u8 = 27;
/// Those that are understood here and say nothing about what is decided, if they are critical.
const HARMLESS: [u8; 12] = [11, 16, 20, 21, 22, 23, 24, 25, 28, 30, 32, 33];
/// Flags of keys for encryption, of messages and of what is stored.
const ENCRYPTS: u8 = 0x04 | 0x08;

/// A signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature<'a> {
    pub(crate) kind: u8,
    algorithm: u8,
    hash: u8,
    /// From its first byte to the end of what is signed of it.
    hashed: &'a [u8],
    /// The identifier of the key that it is said to be by: a hint, which nobody signed.
    issuer: Option<[u8; 8]>,
    /// The integers.
    rest: &'a [u8],
    pub(crate) says: Statement,
}

/// What a signature says of the key that it is over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Statement {
    created: u64,
    signature_secs: u64,
    key_secs: u64,
    flags: Option<u8>,
    /// It says something critical that is not understood here.
    is_obscure: bool,
}

impl Statement {
    /// Seconds since 1970 at which it was made.
    pub(crate) const fn created(&self) -> u64 {
        self.created
    }

    /// Whether it holds at `now`, in seconds since 1970.
    pub(crate) const fn holds(&self, now: u64) -> bool {
        let ends = self.created.saturating_add(self.signature_secs);
        !self.is_obscure && (self.signature_secs == 0 || now < ends)
    }

    /// Whether a key made at `created` has expired.
    pub(crate) const fn has_expired(&self, created: u64, now: u64) -> bool {
        self.key_secs != 0 && now >= created.saturating_add(self.key_secs)
    }

    /// Whether the key is for encryption; `None` if that is not said.
    pub(crate) fn encrypts(&self) -> Option<bool> {
        self.flags.map(|flags| flags & ENCRYPTS != 0)
    }
}

impl<'a> Signature<'a> {
    /// A signature of version 4, or a revocation of version 3; `None` for any other, which proves nothing here.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Option<Self>, Error> {
        let mut input = Input(body);
        let version = input.byte()?;
        if version != 4 {
            let (_, kind) = (input.byte()?, input.byte()?);
            let is_revocation = matches!(kind, KEY_REVOCATION | SUBKEY_REVOCATION);
            return Ok((version == 3 && is_revocation).then(|| Self::revocation(kind)));
        }
        let (kind, algorithm, hash) = (input.byte()?, input.byte()?, input.byte()?);
        let subpackets = input.counted(2)?;
        let hashed = body.get(..6 + subpackets.len()).ok_or(Error::Malformed)?;
        // What is not signed says nothing.
        let unsigned = input.counted(2)?;
        input.take(2)?;
        let issuer = issuer(subpackets).or_else(|| issuer(unsigned));
        let says = statement(subpackets)?;
        Ok(Some(Self { kind, algorithm, hash, hashed, issuer, rest: input.0, says }))
    }

    /// A revocation of version 3, of which nothing is verified: revocations count whoever signed them.
    fn revocation(kind: u8) -> Self {
        let says = Statement::default();
        Self { kind, algorithm: 0, hash: 0, hashed: &[], issuer: None, rest: &[], says }
    }

    /// Whether `signer` made it over `over`. Nothing is by anybody once `verifications_left` is 0.
    pub(crate) fn is_by(
        &self,
        signer: &PgpKey<'_>,
        over: &[u8],
        verifications_left: &Cell<usize>,
    ) -> bool {
        // Signatures of other people, of which a key may have many, cost no verification.
        if self.issuer.is_some_and(|issuer| issuer != signer.id) {
            return false;
        }
        let Some(left) = verifications_left.get().checked_sub(1) else { return false };
        verifications_left.set(left);
        let mut message = over.to_vec();
        message.extend_from_slice(self.hashed);
        let Ok(length) = u32::try_from(self.hashed.len()) else { return false };
        message.extend_from_slice(&[4, 0xff]);
        message.extend_from_slice(&length.to_be_bytes());
        self.verifies(signer, &message).unwrap_or(false)
    }

    fn verifies(&self, signer: &PgpKey<'_>, message: &[u8]) -> Result<bool, Error> {
        let mut input = Input(self.rest);
        match (signer.material, self.algorithm) {
            (PgpMaterial::Rsa { modulus, exponent, signs: true, .. }, 1 | 3) => {
                let parameters = match self.hash {
                    SHA256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    SHA384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    SHA512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    _ => return Ok(false),
                };
                let signed = padded(input.integer()?, modulus.len())?;
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                Ok(key.verify(parameters, message, &signed).is_ok())
            }
            (PgpMaterial::Ed25519 { point }, 22) => {
                let hash = match self.hash {
                    SHA256 => &digest::SHA256,
                    SHA384 => &digest::SHA384,
                    SHA512 => &digest::SHA512,
                    _ => return Ok(false),
                };
                let [0x40, key @ ..] = point else { return Err(Error::Malformed) };
                let signed = both(&mut input, 32)?;
                let hashed = digest::digest(hash, message);
                let key = UnparsedPublicKey::new(&signature::ED25519, key);
                Ok(key.verify(hashed.as_ref(), &signed).is_ok())
            }
            (PgpMaterial::Ecdsa { curve, point }, 19) => {
                let (how, bytes): (&'static dyn VerificationAlgorithm, _) = match (curve, self.hash)
                {
                    (PgpCurve::P256, SHA256) => (&signature::ECDSA_P256_SHA256_FIXED, 32),
                    (PgpCurve::P384, SHA384) => (&signature::ECDSA_P384_SHA384_FIXED, 48),
                    (PgpCurve::P521, SHA512) => (&signature::ECDSA_P521_SHA512_FIXED, 66),
                    _ => return Ok(false),
                };
                let signed = both(&mut input, bytes)?;
                Ok(UnparsedPublicKey::new(how, point).verify(message, &signed).is_ok())
            }
            _ => Ok(false),
        }
    }
}

/// Two integers of a signature, each of so many bytes.
fn both(input: &mut Input<'_>, bytes: usize) -> Result<Vec<u8>, Error> {
    let mut signed = padded(input.integer()?, bytes)?;
    signed.extend(padded(input.integer()?, bytes)?);
    Ok(signed)
}

/// An integer with zeros in front.
fn padded(integer: &[u8], bytes: usize) -> Result<Vec<u8>, Error> {
    let zeros = bytes.checked_sub(integer.len()).ok_or(Error::Malformed)?;
    let mut padded = vec![0; zeros];
    padded.extend_from_slice(integer);
    Ok(padded)
}

/// The key that a signature is said to be by. A fingerprint ends with the identifier.
fn issuer(subpackets: &[u8]) -> Option<[u8; 8]> {
    let mut input = Input(subpackets);
    while !input.0.is_empty() {
        let length = subpacket_length(&mut input).ok()?;
        let mut body = Input(input.take(length).ok()?);
        if matches!(body.byte().ok()? & 0x7f, ISSUER | ISSUER_FINGERPRINT) {
            return body.0.last_chunk::<8>().copied();
        }
    }
    None
}

fn statement(subpackets: &[u8]) -> Result<Statement, Error> {
    let (mut input, mut says) = (Input(subpackets), Statement::default());
    while !input.0.is_empty() {
        let length = subpacket_length(&mut input)?;
        let mut body = Input(input.take(length)?);
        let kind = body.byte()?;
        match kind & 0x7f {
            CREATED => says.created = body.number(4)? as u64,
            SIGNATURE_EXPIRES => says.signature_secs = body.number(4)? as u64,
            KEY_EXPIRES => says.key_secs = body.number(4)? as u64,
            KEY_FLAGS => says.flags = Some(body.0.first().copied().unwrap_or(0)),
            other => says.is_obscure |= kind & 0x80 != 0 && !HARMLESS.contains(&other),
        }
    }
    Ok(says)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revocations_of_version_3_count_and_nothing_else_of_it_does() {
        let kind = |bytes: &[u8]| Signature::parse(bytes).unwrap().map(|one| one.kind);
        assert_eq!(kind(&[3, 5, KEY_REVOCATION, 0, 0, 0, 0]), Some(KEY_REVOCATION));
        assert_eq!(kind(&[3, 5, SUBKEY_REVOCATION]), Some(SUBKEY_REVOCATION));
        assert_eq!(kind(&[3, 5, 0x10, 0, 0, 0, 0]), None);
        assert_eq!(kind(&[6, 0, KEY_REVOCATION]), None);
        assert!(Signature::parse(&[3, 5]).is_err());
    }
}
