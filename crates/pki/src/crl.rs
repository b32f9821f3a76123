//! Revocation lists.

use der::asn1::{AnyRef, ObjectIdentifier, OctetString, UintRef};
use der::{Any, Decode as _, Encode as _, Sequence, Tag};
use x509_cert::ext::{Extension, Extensions};
use x509_cert::time::Time;

use crate::certificate::{
    CertificateSigner, SignedData, authority_key_id, distribution_points, extension,
};
use crate::error::{Error, Result};
use crate::serial::Serial;
use crate::{oid, time};

/// Bytes that an entry has at most: headers, a serial number of 21 bytes and a time.
const ENTRY_BYTES: usize = 44;

/// Most extensions of an entry.
const ENTRY_EXTENSIONS_MAX: usize = 16;

/// What a list says, but for its entries.
#[derive(Clone, Debug)]
pub struct CrlContents<'a> {
    /// Its number.
    pub number: u64,
    /// When it was made.
    pub this_update: i64,
    /// When there will be a newer one.
    pub next_update: i64,
    /// The number of the complete list that it goes on from; `None` for a complete one.
    pub base: Option<u64>,
    /// Where what changed since is to be found.
    pub freshest: &'a [String],
}

/// A revoked certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevokedEntry {
    /// Its number.
    pub serial: Serial,
    /// When it was revoked.
    pub at: i64,
}

/// An extension that whoever asks says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraExtension {
    /// What it is.
    pub id: ObjectIdentifier,
    /// Whether who does not know it may not go on.
    pub critical: bool,
    /// Its value, in DER.
    pub value: Vec<u8>,
}

impl ExtraExtension {
    /// Why a certificate was revoked (RFC 5280, 5.3.1): an ENUMERATED.
    pub fn reason(reason: u8) -> Self {
        Self { id: oid::REASON_CODE, critical: false, value: vec![0x0a, 1, reason] }
    }

    fn encode(&self) -> Result<Extension> {
        AnyRef::from_der(&self.value)
            .map_err(|_| Error::invalid(format!("the extension {} is no DER", self.id)))?;
        let extn_value = OctetString::new(self.value.as_slice())?;
        Ok(Extension { extn_id: self.id, critical: self.critical, extn_value })
    }
}

#[derive(Sequence)]
struct CrlEntry<'a> {
    serial: UintRef<'a>,
    at: Time,
    extensions: Option<Extensions>,
}

#[derive(Sequence)]
struct TbsCertList<'a> {
    version: u8,
    signature: AnyRef<'a>,
    issuer: AnyRef<'a>,
    this_update: Time,
    next_update: Time,
    revoked: Option<AnyRef<'a>>,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    extensions: Extensions,
}

/// The extensions of an entry.
fn encode_all(extensions: &[ExtraExtension]) -> Result<Option<Extensions>> {
    if extensions.is_empty() {
        return Ok(None);
    }
    let is_twice = |(at, one): (usize, &ExtraExtension)| {
        extensions[..at].iter().any(|other| other.id == one.id)
    };
    if extensions.len() > ENTRY_EXTENSIONS_MAX || extensions.iter().enumerate().any(is_twice) {
        return Err(Error::invalid(format!(
            "an entry of the list has an extension twice, or more than {ENTRY_EXTENSIONS_MAX}"
        )));
    }
    extensions.iter().map(ExtraExtension::encode).collect::<Result<_>>().map(Some)
}

fn number(number: u64) -> Result<Any> {
    Ok(Any::encode_from(&number)?)
}

impl CrlContents<'_> {
    fn extensions(&self, signer: &CertificateSigner<'_>) -> Result<Extensions> {
        let mut extensions = vec![
            authority_key_id(signer.key_id)?,
            extension(oid::CRL_NUMBER, false, &number(self.number)?)?,
        ];
        if let Some(base) = self.base {
            extensions.push(extension(oid::DELTA_CRL_INDICATOR, true, &number(base)?)?);
        }
        // A delta is not told where the deltas are (RFC 5280, 5.2.6).
        if self.base.is_none() && !self.freshest.is_empty() {
            let points = distribution_points(self.freshest)?;
            extensions.push(extension(oid::FRESHEST_CRL, false, &points)?);
        }
        Ok(extensions)
    }

    /// The list, signed, in DER. It takes time and memory by its entries: some 40 bytes each.
    ///
    /// # Errors
    /// When it cannot be encoded or signed.
    pub fn sign(
        &self,
        revoked: impl IntoIterator<Item = RevokedEntry>,
        signer: &CertificateSigner<'_>,
    ) -> Result<Vec<u8>> {
        let with_none = revoked.into_iter().map(|one| (one, &[][..]));
        self.sign_all(with_none, &[], signer)
    }

    /// The list, with extensions of its own and of its entries.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an extension that it has anyway; when it cannot be encoded or signed.
    pub fn sign_all<'e>(
        &self,
        revoked: impl IntoIterator<Item = (RevokedEntry, &'e [ExtraExtension])>,
        extra: &[ExtraExtension],
        signer: &CertificateSigner<'_>,
    ) -> Result<Vec<u8>> {
        let revoked = revoked.into_iter();
        let mut entries = Vec::with_capacity(revoked.size_hint().0.saturating_mul(ENTRY_BYTES));
        for (one, extensions) in revoked {
            let serial = UintRef::new(one.serial.as_bytes())?;
            let extensions = encode_all(extensions)?;
            CrlEntry { serial, at: time::encode(one.at)?, extensions }
                .encode_to_vec(&mut entries)?;
        }
        let mut extensions = self.extensions(signer)?;
        for one in extra {
            if extensions.iter().any(|known| known.extn_id == one.id) {
                return Err(Error::invalid(format!("the list has the extension {} twice", one.id)));
            }
            extensions.push(one.encode()?);
        }
        let algorithm = signer.algorithm.to_der()?;
        let tbs = TbsCertList {
            version: 1,
            signature: AnyRef::from_der(&algorithm)?,
            issuer: AnyRef::from_der(signer.name)?,
            this_update: time::encode(self.this_update)?,
            next_update: time::encode(self.next_update)?,
            revoked: match entries.is_empty() {
                true => None,
                false => Some(AnyRef::new(Tag::Sequence, &entries)?),
            },
            extensions,
        };
        SignedData::sign(&tbs.to_der()?, signer.key, signer.algorithm)
    }
}

/// The number that an extension has: it may have 20 bytes (RFC 5280, 5.2.3), and none of ours has more than 8.
fn number_of(value: &[u8]) -> Result<Option<u64>> {
    let number = UintRef::from_der(value)?;
    let bytes = number.as_bytes();
    let fits = bytes.len() <= size_of::<u64>();
    Ok(fits.then(|| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))))
}

/// A list, read.
#[derive(Clone, Debug)]
pub struct ParsedList {
    /// The Name of who signed it.
    pub issuer: Vec<u8>,
    /// Its number; `None` too for one of more than 64 bits.
    pub number: Option<u64>,
    /// The number of the complete list that it goes on from.
    pub base: Option<u64>,
    /// When it was made.
    pub this_update: i64,
    /// When there will be a newer one.
    pub next_update: Option<i64>,
    /// What it lists.
    pub revoked: Vec<RevokedEntry>,
    /// What each entry says besides, in their order.
    pub extensions: Vec<Vec<ExtraExtension>>,
    tbs: Vec<u8>,
    algorithm: Vec<u8>,
    signature: Vec<u8>,
}

impl ParsedList {
    /// Reads a list.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is none.
    pub fn from_der(bytes: &[u8]) -> Result<Self> {
        let unreadable = || Error::invalid("the revocation list could not be parsed");
        let signed = SignedData::from_der(bytes).map_err(|_| unreadable())?;
        let list =
            x509_cert::crl::CertificateList::<x509_cert::certificate::Rfc5280>::from_der(bytes)
                .map_err(|_| unreadable())?
                .tbs_cert_list;
        let mut parsed = Self {
            issuer: list.issuer.to_der()?,
            number: None,
            base: None,
            this_update: time::decode(list.this_update),
            next_update: list.next_update.map(time::decode),
            revoked: Vec::new(),
            extensions: Vec::new(),
            tbs: signed.tbs.to_der()?,
            algorithm: signed.algorithm.to_der()?,
            signature: signed.signature.as_bytes().ok_or_else(unreadable)?.to_vec(),
        };
        for extension in list.crl_extensions.unwrap_or_default() {
            let value = extension.extn_value.as_bytes();
            let number = || number_of(value).map_err(|_| unreadable());
            match extension.extn_id {
                oid::CRL_NUMBER => parsed.number = number()?,
                oid::DELTA_CRL_INDICATOR => parsed.base = number()?,
                _ => {}
            }
        }
        for one in list.revoked_certificates.unwrap_or_default() {
            let serial = Serial::from_bytes(one.serial_number.as_bytes())?;
            parsed.revoked.push(RevokedEntry { serial, at: time::decode(one.revocation_date) });
            let extra = one.crl_entry_extensions.unwrap_or_default().into_iter();
            let extra = extra.map(|one| ExtraExtension {
                id: one.extn_id,
                critical: one.critical,
                value: one.extn_value.as_bytes().to_vec(),
            });
            parsed.extensions.push(extra.collect());
        }
        Ok(parsed)
    }

    /// Whether this key signed it.
    pub fn is_signed_by(&self, key: &crate::key::PublicKey) -> bool {
        let algorithm = crate::signature::SignatureAlgorithm::from_der(&self.algorithm);
        algorithm.is_ok_and(|algorithm| algorithm.verifies(key, &self.tbs, &self.signature))
    }
}
