//! Certificate requests (PKCS #10): made for CAs elsewhere, and read of clients.

use der::asn1::{AnyRef, BitString, ObjectIdentifier};
use der::{Decode as _, Encode as _, Sequence};
use x509_cert::attr::{Attribute, Attributes};
use x509_cert::ext::pkix::{BasicConstraints, NameConstraints};
use x509_cert::ext::{Extension, Extensions};
use x509_cert::request::ExtensionReq;

use crate::certificate::parsed::usages_of;
use crate::certificate::{
    CaNameLimits, CertificateContents, CertificatePurpose, SignedData, Usages, extension,
    leaf_usages,
};
use crate::crl::ExtraExtension;
use crate::error::{Error, Result};
use crate::key::{PkiKeyKind, PrivateKey, PublicKey};
use crate::oid;
use crate::san::{self, San};
use crate::signature::{SignatureAlgorithm, SignatureWish};
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
    /// The alternative names that are asked for; an error where there is one that no rule is about.
    pub alt_names: Result<Vec<San>>,
    /// Whether a CA is asked for.
    pub wants_ca: bool,
    /// Whether it says whether a CA is asked for.
    pub has_basic_constraints: bool,
    /// How many CAs may follow, as it asks for it.
    path_length: Option<u8>,
    /// The other extensions that are asked for.
    asked: Vec<ExtraExtension>,
}

/// What the issuer says of its certificates itself, and what is for certificates of CAs.
const OF_THE_ISSUER: [ObjectIdentifier; 11] = [
    oid::SUBJECT_KEY_ID,
    oid::AUTHORITY_KEY_ID,
    oid::AUTHORITY_INFO_ACCESS,
    oid::CRL_DISTRIBUTION_POINTS,
    oid::FRESHEST_CRL,
    oid::ISSUER_ALT_NAME,
    oid::NAME_CONSTRAINTS,
    oid::POLICY_MAPPINGS,
    oid::POLICY_CONSTRAINTS,
    oid::INHIBIT_ANY_POLICY,
    // There are validators to which this alone makes a CA of a certificate without constraints and usages.
    oid::NETSCAPE_CERTIFICATE_TYPE,
];

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
        let info: Info<'_> = signed.tbs.decode_as().map_err(|_| unreadable())?;
        if info.version != VERSION {
            return Err(unreadable());
        }
        let public = PublicKey::from_spki(&info.public.to_der()?)?;
        let algorithm = SignatureAlgorithm::from_der(&signed.algorithm.to_der()?)?;
        let signature = signed.signature.as_bytes().ok_or_else(unreadable)?;
        match public.kind() {
            None => {
                return Err(Error::invalid(
                    "the request has a key of a type that is not supported",
                ));
            }
            Some(PkiKeyKind::Rsa(bits)) if bits < 2048 => {
                return Err(Error::invalid(format!(
                    "RSA keys < 2048 bits are unsafe and not supported: got {bits}"
                )));
            }
            Some(PkiKeyKind::Rsa(bits)) if bits > 8192 => {
                return Err(Error::invalid(format!(
                    "RSA keys > 8192 bits are not supported: got {bits}"
                )));
            }
            Some(_) => {}
        }
        if !algorithm.verifies(&public, &signed.tbs.to_der()?, signature) {
            return Err(Error::invalid("request signature invalid"));
        }
        let subject_der = info.subject.to_der()?;
        let (subject, subject_names) = CertificateSubject::with_names(&subject_der)?;
        let mut read = Self {
            subject,
            subject_names,
            subject_der,
            public,
            alt_names: Ok(Vec::new()),
            wants_ca: false,
            has_basic_constraints: false,
            path_length: None,
            asked: Vec::new(),
        };
        for extension in extensions(&info.attributes)? {
            match extension.extn_id {
                oid::SUBJECT_ALT_NAME => {
                    read.alt_names = san::decode(extension.extn_value.as_bytes());
                }
                oid::BASIC_CONSTRAINTS => {
                    let found = BasicConstraints::from_der(extension.extn_value.as_bytes());
                    let found = found.map_err(|_| unreadable())?;
                    (read.wants_ca, read.path_length) = (found.ca, found.path_len_constraint);
                    read.has_basic_constraints = true;
                }
                // What a certificate says is for the role to say: this is for who signs without one.
                id => read.asked.push(ExtraExtension {
                    id,
                    critical: extension.critical,
                    value: extension.extn_value.into_bytes().into_vec(),
                }),
            }
        }
        Ok(read)
    }

    /// The key usages that are asked for, as far as this key may have them in a certificate that is no CA's; `None` if there are none.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no key usage.
    pub fn usages(&self) -> Result<Option<Usages>> {
        let Some(asked) = self.asked(oid::KEY_USAGE) else { return Ok(None) };
        let bits = BitString::from_der(asked).map_err(|_| Error::invalid(NO_USAGES))?;
        let usages = leaf_usages(&self.public, usages_of(&bits));
        Ok((!usages.is_empty()).then_some(usages))
    }

    /// The extended key usages that are asked for; `None` if there are none.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is none.
    pub fn ext_usages(&self) -> Result<Option<Vec<ObjectIdentifier>>> {
        let asked = self.asked(oid::EXT_KEY_USAGE).map(Vec::<ObjectIdentifier>::from_der);
        asked.transpose().map_err(|_| Error::invalid(NO_USAGES))
    }

    /// What is asked for besides names, usages, and what the issuer says itself.
    pub fn extra(&self) -> Vec<ExtraExtension> {
        let usages = [oid::KEY_USAGE, oid::EXT_KEY_USAGE];
        let is_extra =
            |one: &&ExtraExtension| !usages.contains(&one.id) && !OF_THE_ISSUER.contains(&one.id);
        self.asked.iter().filter(is_extra).cloned().collect()
    }

    /// Gives a CA the usages and extensions that are asked for, and says which it does not get: those that it has already, and that the issuer says of
    /// its certificates itself.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no usage, and for constraints of names that cannot be read.
    pub fn give_ca(&self, contents: &mut CertificateContents) -> Result<Vec<ObjectIdentifier>> {
        let CertificatePurpose::Ca { path_length, constraints, .. } = &contents.purpose else {
            return Ok(Vec::new());
        };
        let mut left_out = Vec::new();
        let is_longer = |asked| path_length.is_none_or(|given| given > asked);
        if self.path_length.is_some_and(is_longer) {
            left_out.push(oid::BASIC_CONSTRAINTS);
        }
        for asked in &self.asked {
            match asked.id {
                oid::KEY_USAGE => {
                    let bits = BitString::from_der(&asked.value);
                    contents.usages |= usages_of(&bits.map_err(|_| Error::invalid(NO_USAGES))?);
                }
                oid::EXT_KEY_USAGE if contents.ext_usages.is_empty() => {
                    contents.ext_usages = self.ext_usages()?.unwrap_or_default();
                }
                oid::NAME_CONSTRAINTS if *constraints == CaNameLimits::default() => {
                    NameConstraints::from_der(&asked.value).map_err(|_| {
                        Error::invalid("the name constraints of the request could not be parsed")
                    })?;
                    // Whoever relies on it has to know them (RFC 5280, 4.2.1.10).
                    contents.extra.push(ExtraExtension { critical: true, ..asked.clone() });
                }
                // These say whose keys they are, and everybody computes them.
                oid::SUBJECT_KEY_ID | oid::AUTHORITY_KEY_ID => {}
                oid::EXT_KEY_USAGE
                | oid::NAME_CONSTRAINTS
                | oid::AUTHORITY_INFO_ACCESS
                | oid::CRL_DISTRIBUTION_POINTS
                | oid::FRESHEST_CRL
                | oid::ISSUER_ALT_NAME => left_out.push(asked.id),
                _ => contents.extra.push(asked.clone()),
            }
        }
        Ok(left_out)
    }

    fn asked(&self, id: ObjectIdentifier) -> Option<&[u8]> {
        self.asked.iter().find(|one| one.id == id).map(|one| one.value.as_slice())
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

const NO_USAGES: &str = "the key usages of the certificate request could not be parsed";

/// The only version that there is (RFC 2986, 4.1).
const VERSION: u8 = 0;

/// The Name of nobody.
const NOBODY: &[u8] = &[0x30, 0];

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
            version: VERSION,
            subject: AnyRef::from_der(&self.subject)?,
            public: AnyRef::from_der(key.spki())?,
            attributes,
        };
        SignedData::sign(&info.to_der()?, key, algorithm)
    }
}

/// A request for a key with the name and all that is asked for in another, whose signature is not looked at; without one, of nobody and for nothing.
///
/// # Errors
/// [`Error::Invalid`] for what is no request; when it cannot be signed.
pub fn remade(template: Option<&[u8]>, key: &PrivateKey) -> Result<Vec<u8>> {
    let unreadable = || Error::invalid("the certificate request could not be parsed");
    if template.is_some_and(|template| template.len() > REQUEST_BYTES_MAX) {
        return Err(Error::invalid(format!(
            "a certificate request of more than {REQUEST_BYTES_MAX} bytes"
        )));
    }
    let signed = template.map(SignedData::from_der).transpose().map_err(|_| unreadable())?;
    let asked = signed.as_ref().map(|signed| signed.tbs.decode_as::<Info<'_>>());
    let asked = asked.transpose().map_err(|_| unreadable())?;
    let (subject, attributes) = match asked {
        Some(asked) => (asked.subject, asked.attributes),
        None => (AnyRef::from_der(NOBODY)?, Attributes::default()),
    };
    let info =
        Info { version: VERSION, subject, public: AnyRef::from_der(key.spki())?, attributes };
    let algorithm = SignatureAlgorithm::choose(key.kind(), SignatureWish::default());
    SignedData::sign(&info.to_der()?, key, algorithm)
}

#[cfg(test)]
mod tests {
    use x509_cert::request::CertReq;

    use super::*;
    use crate::PkiKeyKind;

    fn example() -> (PrivateKey, Vec<u8>) {
        let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
        let subject = CertificateSubject {
            common_name: "a.example.com".to_owned(),
            organization: vec!["O".to_owned()],
            ..CertificateSubject::default()
        };
        let wish = Wish {
            subject: subject.to_der().unwrap(),
            alt_names: vec![San::Dns("a.example.com".to_owned())],
            says_ca: true,
        };
        let der = wish.sign(&key, SignatureAlgorithm::Ecdsa(crate::Hash::Sha256)).unwrap();
        (key, der)
    }

    #[test]
    fn a_request_says_what_was_wished() {
        let (key, der) = example();
        let read = CertificateRequest::from_der(&der).unwrap();
        assert_eq!(read.subject.common_name, "a.example.com");
        assert_eq!(read.subject_names, ["a.example.com"]);
        assert_eq!(read.subject_der, read.subject.to_der().unwrap());
        assert_eq!(read.public, *key.public());
        assert_eq!(read.alt_names, Ok(vec![San::Dns("a.example.com".to_owned())]));
        assert!(read.wants_ca);
    }

    /// Every byte is changed to every value, and what comes of it signed again: what is taken is a request to the library's own types too, of the only
    /// version, and what is told of it is what stands there.
    #[test]
    fn no_request_is_taken_that_is_none_to_the_library() {
        let (key, der) = example();
        let signed = SignedData::from_der(&der).unwrap();
        let tbs = signed.tbs.to_der().unwrap();
        let mut taken = 0;
        for at in 0..tbs.len() {
            for value in
                [0x00, 0x01, 0x02, 0x05, 0x06, 0x0c, 0x13, 0x30, 0x31, 0x7f, 0x80, 0xa0, 0xff]
            {
                let mut changed = tbs.clone();
                changed[at] = value;
                let algorithm = SignatureAlgorithm::Ecdsa(crate::Hash::Sha256);
                let Ok(der) = SignedData::sign(&changed, &key, algorithm) else { continue };
                let Ok(read) = CertificateRequest::from_der(&der) else { continue };
                taken += 1;
                let theirs = CertReq::from_der(&der);
                let theirs = theirs.unwrap_or_else(|error| panic!("byte {at} is {value}: {error}"));
                assert_eq!(read.subject_der, theirs.info.subject.to_der().unwrap());
                assert_eq!(read.public.spki(), theirs.info.public_key.to_der().unwrap());
            }
        }
        assert!(taken > 0);
    }
}
