//! The material of public keys: what a key packet says.

use crate::Error;
use crate::packet::Input;
use aws_lc_rs::digest;

/// Object identifiers of curves, as packets have them.
const CURVE25519: &[u8] = &[0x2b, 6, 1, 4, 1, 0x97, 0x55, 1, 5, 1];
const ED25519: &[u8] = &[0x2b, 6, 1, 4, 1, 0xda, 0x47, 0x0f, 1];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const P384: &[u8] = &[0x2b, 0x81, 4, 0, 0x22];
const P521: &[u8] = &[0x2b, 0x81, 4, 0, 0x23];

const RSA: u8 = 1;
const RSA_ENCRYPT: u8 = 2;
const RSA_SIGN: u8 = 3;
pub(crate) const ECDH: u8 = 18;
const ECDSA: u8 = 19;
const EDDSA: u8 = 22;

/// A curve of ECDH or ECDSA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PgpCurve {
    Curve25519,
    Ed25519,
    P256,
    P384,
    P521,
}

impl PgpCurve {
    fn of(oid: &[u8]) -> Option<Self> {
        Some(match oid {
            CURVE25519 => Self::Curve25519,
            ED25519 => Self::Ed25519,
            P256 => Self::P256,
            P384 => Self::P384,
            P521 => Self::P521,
            _ => return None,
        })
    }

    pub(crate) const fn oid(self) -> &'static [u8] {
        match self {
            Self::Curve25519 => CURVE25519,
            Self::Ed25519 => ED25519,
            Self::P256 => P256,
            Self::P384 => P384,
            Self::P521 => P521,
        }
    }
}

/// What a key is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PgpMaterial<'a> {
    Rsa {
        modulus: &'a [u8],
        exponent: &'a [u8],
        encrypts: bool,
        signs: bool,
    },
    /// The point as it is written, with the byte that says how.
    Ecdh {
        curve: PgpCurve,
        point: &'a [u8],
        hash: u8,
        cipher: u8,
    },
    Ecdsa {
        curve: PgpCurve,
        point: &'a [u8],
    },
    Ed25519 {
        point: &'a [u8],
    },
    /// Of no kind that is known here.
    Other,
}

/// A key or subkey.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PgpKey<'a> {
    /// The whole packet.
    pub(crate) body: &'a [u8],
    /// The end of its fingerprint, by which signatures name it.
    pub(crate) id: [u8; 8],
    /// Seconds since 1970.
    pub(crate) created: u64,
    pub(crate) material: PgpMaterial<'a>,
}

impl<'a> PgpKey<'a> {
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, Error> {
        let mut input = Input(body);
        let version = input.byte()?;
        if version != 4 {
            return Err(Error::Version(version));
        }
        let created = input.number(4)? as u64;
        let algorithm = input.byte()?;
        let material = match algorithm {
            RSA | RSA_ENCRYPT | RSA_SIGN => {
                let (modulus, exponent) = (input.integer()?, input.integer()?);
                let (encrypts, signs) = (algorithm != RSA_SIGN, algorithm != RSA_ENCRYPT);
                PgpMaterial::Rsa { modulus, exponent, encrypts, signs }
            }
            ECDH | ECDSA | EDDSA => {
                let curve = PgpCurve::of(input.counted(1)?);
                let point = input.integer()?;
                match (algorithm, curve) {
                    (ECDH, Some(curve)) if curve != PgpCurve::Ed25519 => {
                        let [1, hash, cipher] = *input.counted(1)? else {
                            return Err(Error::Malformed);
                        };
                        PgpMaterial::Ecdh { curve, point, hash, cipher }
                    }
                    (ECDSA, Some(curve @ (PgpCurve::P256 | PgpCurve::P384 | PgpCurve::P521))) => {
                        PgpMaterial::Ecdsa { curve, point }
                    }
                    (EDDSA, Some(PgpCurve::Ed25519)) => PgpMaterial::Ed25519 { point },
                    _ => PgpMaterial::Other,
                }
            }
            _ => PgpMaterial::Other,
        };
        let mut key = Self { body, id: [0; 8], created, material };
        key.id = *key.fingerprint()?.last_chunk::<8>().ok_or(Error::Malformed)?;
        Ok(key)
    }

    /// What signatures and fingerprints are over.
    pub(crate) fn hashed(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        let length = u16::try_from(self.body.len()).map_err(|_| Error::Malformed)?;
        out.push(0x99);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(self.body);
        Ok(())
    }

    /// The fingerprint, which is SHA-1 in this version: it names a key, and nothing is trusted for it.
    pub(crate) fn fingerprint(&self) -> Result<[u8; 20], Error> {
        let mut bytes = Vec::with_capacity(self.body.len() + 3);
        self.hashed(&mut bytes)?;
        let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &bytes);
        hash.as_ref().try_into().map_err(|_| Error::Cipher)
    }

    /// Whether it could be encrypted to.
    pub(crate) const fn encrypts(&self) -> bool {
        matches!(self.material, PgpMaterial::Rsa { encrypts: true, .. } | PgpMaterial::Ecdh { .. })
    }
}
