//! OCSP (RFC 6960): what is asked, and what is answered.

use std::time::Duration;

use aws_lc_rs::digest::{self, SHA1_FOR_LEGACY_USE_ONLY};
use der::asn1::{Any, BitString, GeneralizedTime, ObjectIdentifier, OctetString};
use der::{Choice, DateTime, Decode as _, Encode as _, Enumerated, Sequence};
use x509_cert::ext::{Extension, Extensions};

use crate::certificate::CertificateSigner;
use crate::error::{Error, Result};
use crate::oid;
use crate::serial::Serial;

/// Most certificates that one request may ask for.
pub const ASKED_MAX: usize = 32;
/// Longest nonce that is taken, in bytes (RFC 9654).
pub const NONCE_BYTES_MAX: usize = 128;

/// The answer to a request that is none.
pub const MALFORMED: &[u8] = &[0x30, 3, 0x0a, 1, 1];
/// The answer when the server could not make one.
pub const INTERNAL_ERROR: &[u8] = &[0x30, 3, 0x0a, 1, 2];
/// The answer when too many ask.
pub const TRY_LATER: &[u8] = &[0x30, 3, 0x0a, 1, 3];
/// The answer where nobody may ask.
pub const UNAUTHORIZED: &[u8] = &[0x30, 3, 0x0a, 1, 6];

#[derive(Clone, Debug, PartialEq, Eq, Sequence)]
struct AlgorithmIdentifier {
    oid: ObjectIdentifier,
    parameters: Option<Any>,
}

#[derive(Clone, Debug, PartialEq, Eq, Sequence)]
struct CertId {
    hash: AlgorithmIdentifier,
    name_hash: OctetString,
    key_hash: OctetString,
    serial: der::asn1::Int,
}

#[derive(Clone, Debug, PartialEq, Eq, Sequence)]
struct Single {
    id: CertId,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    extensions: Option<Extensions>,
}

#[derive(Clone, Debug, PartialEq, Eq, Sequence)]
struct TbsRequest {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", default = "Default::default")]
    version: u8,
    #[asn1(context_specific = "1", tag_mode = "EXPLICIT", optional = "true")]
    requestor: Option<Any>,
    asked: Vec<Single>,
    #[asn1(context_specific = "2", tag_mode = "EXPLICIT", optional = "true")]
    extensions: Option<Extensions>,
}

#[derive(Clone, Debug, PartialEq, Eq, Sequence)]
struct OcspRequest {
    tbs: TbsRequest,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    signature: Option<Any>,
}

/// A request, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OcspQuestion {
    /// What it asks for.
    pub asked: Vec<OcspQuery>,
    /// What it wants to see again.
    nonce: Option<Extension>,
}

/// A certificate that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OcspQuery {
    id: CertId,
    /// Its number; `None` for one that no certificate of ours has.
    pub serial: Option<Serial>,
}

/// The hashes by which requests name an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerHashes {
    sha1: ([u8; 20], [u8; 20]),
    sha256: ([u8; 32], [u8; 32]),
    sha384: ([u8; 48], [u8; 48]),
    sha512: ([u8; 64], [u8; 64]),
}

impl IssuerHashes {
    /// Those of an issuer's Name and the bits of its key.
    pub fn of(name: &[u8], key_bits: &[u8]) -> Self {
        Self {
            sha1: hashed(&SHA1_FOR_LEGACY_USE_ONLY, name, key_bits),
            sha256: hashed(&digest::SHA256, name, key_bits),
            sha384: hashed(&digest::SHA384, name, key_bits),
            sha512: hashed(&digest::SHA512, name, key_bits),
        }
    }
}

/// The hashes of a Name and of the bits of a key.
fn hashed<const N: usize>(
    algorithm: &'static digest::Algorithm,
    name: &[u8],
    key_bits: &[u8],
) -> ([u8; N], [u8; N]) {
    let hash = |bytes: &[u8]| {
        let mut array = [0; N];
        array.copy_from_slice(digest::digest(algorithm, bytes).as_ref());
        array
    };
    (hash(name), hash(key_bits))
}

impl OcspQuery {
    /// Whether it is of this issuer.
    pub fn is_of(&self, issuer: &IssuerHashes) -> bool {
        let is = |name: &[u8], key: &[u8]| {
            self.id.name_hash.as_bytes() == name && self.id.key_hash.as_bytes() == key
        };
        match self.id.hash.oid {
            oid::SHA1 => is(&issuer.sha1.0, &issuer.sha1.1),
            oid::SHA256 => is(&issuer.sha256.0, &issuer.sha256.1),
            oid::SHA384 => is(&issuer.sha384.0, &issuer.sha384.1),
            oid::SHA512 => is(&issuer.sha512.0, &issuer.sha512.1),
            _ => false,
        }
    }
}

impl OcspQuestion {
    /// Reads a request.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is none, or asks for too much; the answer is [`MALFORMED`].
    pub fn from_der(bytes: &[u8]) -> Result<Self> {
        let malformed = || Error::invalid("the OCSP request is malformed");
        let request = OcspRequest::from_der(bytes).map_err(|_| malformed())?.tbs;
        if request.version != 0 || request.asked.is_empty() || request.asked.len() > ASKED_MAX {
            return Err(malformed());
        }
        let asked = request.asked.into_iter().map(|single| {
            let bytes = single.id.serial.as_bytes();
            let is_positive = bytes.first().is_some_and(|first| *first < 0x80);
            let serial = is_positive.then(|| Serial::from_bytes(bytes).ok()).flatten();
            OcspQuery { id: single.id, serial }
        });
        let extensions = request.extensions.unwrap_or_default();
        let nonce = extensions.into_iter().find(|one| one.extn_id == oid::OCSP_NONCE);
        if nonce.as_ref().is_some_and(|one| one.extn_value.as_bytes().len() > NONCE_BYTES_MAX + 4) {
            return Err(malformed());
        }
        Ok(Self { asked: asked.collect(), nonce })
    }

    /// Whether it wants a nonce to be repeated, so that its answer is for nobody else.
    pub fn has_nonce(&self) -> bool {
        self.nonce.is_some()
    }
}

/// What is known of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateStatus {
    /// It was issued here, and not revoked.
    Good,
    /// It was revoked, then.
    Revoked {
        /// When.
        at: i64,
    },
    /// It was not issued here.
    Unknown,
}

#[derive(Sequence)]
struct RevokedInfo {
    at: GeneralizedTime,
}

#[derive(Choice)]
enum CertStatus {
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT")]
    Good(der::asn1::Null),
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", constructed = "true")]
    Revoked(RevokedInfo),
    #[asn1(context_specific = "2", tag_mode = "IMPLICIT")]
    Unknown(der::asn1::Null),
}

#[derive(Sequence)]
struct SingleResponse {
    id: CertId,
    status: CertStatus,
    this_update: GeneralizedTime,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    next_update: Option<GeneralizedTime>,
}

#[derive(Sequence)]
struct ResponseData {
    #[asn1(context_specific = "1", tag_mode = "EXPLICIT")]
    responder: Any,
    produced_at: GeneralizedTime,
    responses: Vec<SingleResponse>,
    #[asn1(context_specific = "1", tag_mode = "EXPLICIT", optional = "true")]
    extensions: Option<Extensions>,
}

#[derive(Sequence)]
struct BasicResponse {
    data: ResponseData,
    algorithm: Any,
    signature: BitString,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumerated)]
#[repr(u8)]
enum ResponseStatus {
    Successful = 0,
}

#[derive(Sequence)]
struct ResponseBytes {
    kind: ObjectIdentifier,
    bytes: OctetString,
}

#[derive(Sequence)]
struct OcspResponse {
    status: ResponseStatus,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    bytes: ResponseBytes,
}

fn generalized(at: i64) -> Result<GeneralizedTime> {
    let since = Duration::from_secs(u64::try_from(at).unwrap_or(0));
    Ok(GeneralizedTime::from_date_time(DateTime::from_unix_duration(since)?))
}

/// The answer to a request: what is known of each certificate that it asks for, in its order.
///
/// # Errors
/// When it cannot be encoded or signed.
pub fn answer(
    request: &OcspQuestion,
    known: &[CertificateStatus],
    now: i64,
    next_update: Option<i64>,
    signer: &CertificateSigner<'_>,
) -> Result<Vec<u8>> {
    let single = |(asked, status): (&OcspQuery, &CertificateStatus)| {
        let status = match status {
            CertificateStatus::Good => CertStatus::Good(der::asn1::Null),
            CertificateStatus::Revoked { at } => {
                CertStatus::Revoked(RevokedInfo { at: generalized(*at)? })
            }
            CertificateStatus::Unknown => CertStatus::Unknown(der::asn1::Null),
        };
        let next_update = next_update.map(generalized).transpose()?;
        Ok(SingleResponse {
            id: asked.id.clone(),
            status,
            this_update: generalized(now)?,
            next_update,
        })
    };
    let responses: Result<Vec<_>> = request.asked.iter().zip(known).map(single).collect();
    let data = ResponseData {
        responder: Any::from_der(signer.name)?,
        produced_at: generalized(now)?,
        responses: responses?,
        extensions: request.nonce.clone().map(|nonce| vec![nonce]),
    };
    let signature = signer.key.sign(signer.algorithm, &data.to_der()?)?;
    let basic = BasicResponse {
        data,
        algorithm: Any::from_der(&signer.algorithm.to_der()?)?,
        signature: BitString::from_bytes(&signature)?,
    };
    let response = OcspResponse {
        status: ResponseStatus::Successful,
        bytes: ResponseBytes { kind: oid::OCSP_BASIC, bytes: OctetString::new(basic.to_der()?)? },
    };
    Ok(response.to_der()?)
}
