//! Certificates that are read: of whom, by whom, for how long and for what.

use der::asn1::{AnyRef, BitString, OctetString};
use der::{Decode as _, Encode as _, SliceReader, Tagged as _};
use x509_cert::Certificate;
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::constraints::name::GeneralSubtrees;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{AuthorityKeyIdentifier, BasicConstraints, KeyUsages, NameConstraints};

use super::{CERTIFICATE_BYTES_MAX, CaNameLimits, NameConstraint, SignedData, Usages, positive};
use crate::error::{Error, Result};
use crate::key::PublicKey;
use crate::san::{self, San};
use crate::serial::Serial;
use crate::signature::SignatureAlgorithm;
use crate::{oid, time};

/// A certificate, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedCertificate {
    /// The certificate itself.
    pub der: Vec<u8>,
    /// Its number.
    pub serial: Serial,
    /// The Name of its owner. The values of each part are sorted, so that names that are the same are the same bytes.
    pub subject: Vec<u8>,
    /// The Name of its owner, byte for byte: what it signs names it so.
    pub subject_as_written: Vec<u8>,
    /// The Name of who signed it, sorted likewise.
    pub issuer: Vec<u8>,
    /// The first second it is good.
    pub not_before: i64,
    /// The last.
    pub not_after: i64,
    /// Its owner's key.
    pub public: PublicKey,
    /// Whether it is a CA's.
    pub is_ca: bool,
    /// How many CAs may follow.
    pub path_length: Option<u8>,
    /// What names it may sign; `None` where it says so of kinds of names that are not known.
    pub name_limits: Option<CaNameLimits>,
    /// What its key may do; `None` where it does not say.
    pub usages: Option<Usages>,
    /// The id of its key, as it says.
    pub key_id: Option<Vec<u8>>,
    /// The id of the key that signed it, as it says.
    pub authority_key_id: Option<Vec<u8>>,
    /// Its other names, as far as they are of kinds that are known.
    pub alt_names: Vec<San>,
    /// How it was signed; `None` for ways that are not supported.
    pub algorithm: Option<SignatureAlgorithm>,
    tbs: Vec<u8>,
    signature: Vec<u8>,
}

impl ParsedCertificate {
    /// Reads a certificate.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is none, or says a thing twice.
    pub fn from_der(bytes: &[u8]) -> Result<Self> {
        let unreadable = || Error::invalid("the certificate could not be parsed");
        if bytes.len() > CERTIFICATE_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a certificate of more than {CERTIFICATE_BYTES_MAX} bytes"
            )));
        }
        let signed = SignedData::from_der(bytes).map_err(|_| unreadable())?;
        let certificate = Certificate::from_der(bytes).map_err(|_| unreadable())?;
        let tbs = certificate.tbs_certificate();
        let mut parsed = Self {
            der: bytes.to_vec(),
            serial: Serial::from_bytes(positive(tbs.serial_number().as_bytes())?)?,
            subject: tbs.subject().to_der()?,
            subject_as_written: subject_as_written(signed.tbs).map_err(|_| unreadable())?,
            issuer: tbs.issuer().to_der()?,
            not_before: time::decode(tbs.validity().not_before),
            not_after: time::decode(tbs.validity().not_after),
            public: PublicKey::from_spki(&tbs.subject_public_key_info().to_der()?)?,
            is_ca: false,
            path_length: None,
            name_limits: Some(CaNameLimits::default()),
            usages: None,
            key_id: None,
            authority_key_id: None,
            alt_names: Vec::new(),
            algorithm: SignatureAlgorithm::from_der(&signed.algorithm.to_der()?).ok(),
            tbs: signed.tbs.to_der()?,
            signature: signed.signature.as_bytes().ok_or_else(unreadable)?.to_vec(),
        };
        if certificate.signature_algorithm() != tbs.signature() {
            return Err(unreadable());
        }
        let extensions = tbs.extensions().map_or(&[][..], Vec::as_slice);
        for (at, extension) in extensions.iter().enumerate() {
            if extensions[..at].iter().any(|other| other.extn_id == extension.extn_id) {
                return Err(Error::invalid("the certificate has an extension twice"));
            }
            parsed.take(extension).map_err(|_| unreadable())?;
        }
        Ok(parsed)
    }

    fn take(&mut self, extension: &Extension) -> Result<()> {
        let value = extension.extn_value.as_bytes();
        match extension.extn_id {
            oid::BASIC_CONSTRAINTS => {
                let found = BasicConstraints::from_der(value)?;
                (self.is_ca, self.path_length) = (found.ca, found.path_len_constraint);
            }
            oid::NAME_CONSTRAINTS => {
                self.name_limits = NameConstraints::from_der(value).ok().and_then(limits_of);
            }
            oid::KEY_USAGE => {
                // As bits, since a usage of fewer bits than are known is one too.
                let bits = BitString::from_der(value)?;
                self.usages = Some(usages_of(&bits));
            }
            oid::SUBJECT_KEY_ID => {
                self.key_id = Some(OctetString::from_der(value)?.as_bytes().to_vec());
            }
            oid::AUTHORITY_KEY_ID => {
                let found = AuthorityKeyIdentifier::from_der(value)?;
                let id = found.key_identifier.map(|id| id.as_bytes().to_vec());
                self.authority_key_id = id;
            }
            // Certificates of others may have names of any kind.
            oid::SUBJECT_ALT_NAME => self.alt_names = san::decode(value).unwrap_or_default(),
            _ => {}
        }
        Ok(())
    }

    /// The id of its key: what it says, or else what we would say.
    pub fn subject_key_id(&self) -> Vec<u8> {
        self.key_id.clone().unwrap_or_else(|| self.public.key_id().to_vec())
    }

    /// Whether its owner signed it.
    pub fn is_self_signed(&self) -> bool {
        self.subject == self.issuer && self.is_signed_by(&self.public)
    }

    /// Whether this key signed it.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        self.algorithm.is_some_and(|algorithm| algorithm.verifies(key, &self.tbs, &self.signature))
    }

    /// Whether it may have been issued by the owner of another one, by what both say. That it was, its signature says.
    pub fn names_as_issuer(&self, issuer: &Self) -> bool {
        let keys_fit = match (&self.authority_key_id, &issuer.key_id) {
            (Some(wanted), Some(found)) => wanted == found,
            _ => true,
        };
        self.issuer == issuer.subject && keys_fit
    }

    /// Whether its key may sign certificates.
    pub fn may_sign_certificates(&self) -> bool {
        self.is_ca && self.usages.is_none_or(|usages| usages.contains(KeyUsages::KeyCertSign))
    }

    /// Whether its key may sign revocation lists.
    pub fn may_sign_crls(&self) -> bool {
        self.usages.is_none_or(|usages| usages.contains(KeyUsages::CRLSign))
    }
}

/// What constraints of names say; `None` where a name is of a kind that is not known.
fn limits_of(found: NameConstraints) -> Option<CaNameLimits> {
    let list = |trees: Option<GeneralSubtrees>| {
        let trees = trees.unwrap_or_default().into_iter();
        trees.map(|tree| constraint_of(tree.base)).collect::<Option<Vec<_>>>()
    };
    Some(CaNameLimits {
        permitted: list(found.permitted_subtrees)?,
        excluded: list(found.excluded_subtrees)?,
    })
}

fn constraint_of(name: GeneralName) -> Option<NameConstraint> {
    Some(match name {
        GeneralName::DnsName(name) => NameConstraint::Dns(name.as_str().to_owned()),
        GeneralName::Rfc822Name(name) => NameConstraint::Email(name.as_str().to_owned()),
        GeneralName::UniformResourceIdentifier(name) => {
            NameConstraint::Uri(name.as_str().to_owned())
        }
        GeneralName::IpAddress(block) => NameConstraint::Ip(block.as_bytes().to_vec()),
        GeneralName::OtherName(_)
        | GeneralName::DirectoryName(_)
        | GeneralName::EdiPartyName(_)
        | GeneralName::RegisteredId(_) => return None,
    })
}

/// The Name of the owner of a certificate, byte for byte. The library sorts the values of each part of a name, as DER wants them; not every CA does, and to
/// most validators a name of other bytes is another name.
pub(super) fn subject_as_written(tbs: AnyRef<'_>) -> Result<Vec<u8>> {
    let mut reader = SliceReader::new(tbs.value())?;
    let first = AnyRef::decode(&mut reader)?;
    // Certificates of version 1 do not say their version.
    let before = if first.tag().is_context_specific() { 4 } else { 3 };
    for _ in 0..before {
        AnyRef::decode(&mut reader)?;
    }
    Ok(AnyRef::decode(&mut reader)?.to_der()?)
}

pub(crate) fn usages_of(bits: &BitString) -> Usages {
    let all = [
        KeyUsages::DigitalSignature,
        KeyUsages::NonRepudiation,
        KeyUsages::KeyEncipherment,
        KeyUsages::DataEncipherment,
        KeyUsages::KeyAgreement,
        KeyUsages::KeyCertSign,
        KeyUsages::CRLSign,
        KeyUsages::EncipherOnly,
        KeyUsages::DecipherOnly,
    ];
    let set = all.into_iter().zip(bits.bits()).filter(|(_, is_set)| *is_set);
    set.fold(Usages::default(), |usages, (usage, _)| usages | usage)
}
