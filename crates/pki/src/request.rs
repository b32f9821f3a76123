//! Certificate requests (PKCS #10): made for CAs elsewhere, and read of clients.

use der::asn1::{AnyRef, ObjectIdentifier};
use der::{Decode as _, Encode as _, Sequence};
use x509_cert::attr::{Attribute, Attributes};
use x509_cert::ext::pkix::BasicConstraints;
use x509_cert::ext::{Extension, Extensions};
use x509_cert::request::{CertReq, ExtensionReq};

use crate::certificate::{SignedData, extension};
use crate::error::{Error, Result};
use crate::key::{PrivateKey, PublicKey};
use crate::oid;
use crate::san::{self, San};
use crate::signature::SignatureAlgorithm;
use crate::subject::CertificateSubject;

/// Largest request that is read, in bytes.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;

/// A request, read; its signature was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    /// The Name that is asked for, as it came.
    pub subject_der: Vec<u8>,
    /// Its fields.
    pub subject: CertificateSubject,
    /// Every CN and e-mail address in it.
    pub subject_names: Vec<String>,
    /// The key.
    pub public: PublicKey,
    /// The alternative names that are asked for.
    pub alt_names: Vec<San>,
    /// Whether a CA is asked for.
    pub wants_ca: bool,
}

impl CertificateRequest {
    /// Reads a request in DER, and checks that whoever made it has the key.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is none, says a thing twice, or is signed by another key.
    pub fn from_der(bytes: &[u8]) -> Result<Self> {
        let unreadable = || Error::invalid("the certificate request could not be parsed");
        if bytes.len() > REQUEST_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a certificate request of more than {REQUEST_BYTES_MAX} bytes"
            )));
        }
        let signed = SignedData::from_der(bytes).map_err(|_| unreadable())?;
        let request = CertReq::from_der(bytes).map_err(|_| unreadable())?;
        let public = PublicKey::from_spki(&request.info.public_key.to_der()?)?;
        let algorithm = SignatureAlgorithm::from_der(&signed.algorithm.to_der()?)?;
        let signature = signed.signature.as_bytes().ok_or_else(unreadable)?;
        if public.kind().is_none() {
            return Err(Error::invalid("the request has a key of a type that is not supported"));
        }
        if !algorithm.verifies(&public, &signed.tbs.to_der()?, signature) {
            return Err(Error::invalid("request signature invalid"));
        }
        let subject_der = request.info.subject.to_der()?;
        let mut read = Self {
            subject: CertificateSubject::from_der(&subject_der)?,
            subject_names: CertificateSubject::names_of(&subject_der)?,
            subject_der,
            public,
            alt_names: Vec::new(),
            wants_ca: false,
        };
        for extension in extensions(&request.info.attributes)? {
            match extension.extn_id {
                oid::SUBJECT_ALT_NAME => {
                    read.alt_names = san::decode(extension.extn_value.as_bytes())?;
                }
                oid::BASIC_CONSTRAINTS => {
                    let found = BasicConstraints::from_der(extension.extn_value.as_bytes());
                    read.wants_ca = found.map_err(|_| unreadable())?.ca;
                }
                // What a certificate says is for the role to say; nothing else is copied.
                _ => {}
            }
        }
        Ok(read)
    }
}

fn extensions(attributes: &Attributes) -> Result<Extensions> {
    let unreadable = || Error::invalid("the certificate request could not be parsed");
    let mut found = Extensions::new();
    for attribute in attributes.iter().filter(|one| one.oid == oid::EXTENSION_REQUEST) {
        for value in attribute.values.iter() {
            let asked = value.decode_as::<Extensions>().map_err(|_| unreadable())?;
            found.extend(asked);
        }
    }
    let ids: Vec<ObjectIdentifier> = found.iter().map(|one| one.extn_id).collect();
    if ids.iter().enumerate().any(|(at, id)| ids[..at].contains(id)) {
        return Err(Error::invalid("the certificate request has an extension twice"));
    }
    Ok(found)
}

#[derive(Sequence)]
struct Info<'a> {
    version: u8,
    subject: AnyRef<'a>,
    public: AnyRef<'a>,
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT")]
    attributes: Attributes,
}

/// What a request of ours asks for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The Name.
    pub subject: Vec<u8>,
    /// Other names.
    pub alt_names: Vec<San>,
    /// Whether it says that it is for a CA.
    pub says_ca: bool,
}

impl Wish {
    /// The request, signed, in DER.
    ///
    /// # Errors
    /// [`Error::Invalid`] for names that cannot stand there; when it cannot be signed.
    pub fn sign(&self, key: &PrivateKey, algorithm: SignatureAlgorithm) -> Result<Vec<u8>> {
        let mut asked = Extensions::new();
        if !self.alt_names.is_empty() {
            let value = der::asn1::OctetString::new(san::encode(&self.alt_names)?)?;
            asked.push(Extension {
                extn_id: oid::SUBJECT_ALT_NAME,
                critical: false,
                extn_value: value,
            });
        }
        if self.says_ca {
            let value = BasicConstraints { ca: true, path_len_constraint: None };
            asked.push(extension(oid::BASIC_CONSTRAINTS, true, &value)?);
        }
        let mut attributes = Attributes::default();
        if !asked.is_empty() {
            attributes.insert(Attribute::try_from(ExtensionReq(asked))?)?;
        }
        let info = Info {
            version: 0,
            subject: AnyRef::from_der(&self.subject)?,
            public: AnyRef::from_der(key.spki())?,
            attributes,
        };
        SignedData::sign(&info.to_der()?, key, algorithm)
    }
}
