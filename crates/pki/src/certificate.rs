//! Certificates: what is written into them. What is read of them is in [`ParsedCertificate`].

use der::asn1::{
    AnyRef, BitStringRef, Ia5String, ObjectIdentifier, OctetString, OctetStringRef, UintRef,
};
use der::flagset::FlagSet;
use der::{Decode as _, Encode, Sequence, Tag};
use x509_cert::Certificate;
use x509_cert::ext::pkix::constraints::name::{GeneralSubtree, GeneralSubtrees};
use x509_cert::ext::pkix::crl::dp::DistributionPoint;
use x509_cert::ext::pkix::name::{DistributionPointName, GeneralName};
use x509_cert::ext::pkix::{
    AccessDescription, AuthorityKeyIdentifier, BasicConstraints, KeyUsages, NameConstraints,
};
use x509_cert::ext::{Extension, Extensions};
use x509_cert::time::Validity;

use crate::crl::ExtraExtension;
use crate::error::{Error, Result};
use crate::key::{PkiKeyKind, PrivateKey, PublicKey};
use crate::names::host_name;
use crate::policy::{self, CertificatePolicy};
use crate::san::{self, San};
use crate::serial::Serial;
use crate::signature::SignatureAlgorithm;
use crate::{oid, time};

pub(crate) mod parsed;

pub use parsed::ParsedCertificate;

/// Largest certificate that is read, in bytes.
pub const CERTIFICATE_BYTES_MAX: usize = 64 << 10;

/// What may be done with a key, as flags.
pub type Usages = FlagSet<KeyUsages>;

/// The uses that a role may name.
///
/// # Errors
/// [`Error::Invalid`] naming the one that there is not.
pub fn usage_named(name: &str) -> Result<KeyUsages> {
    let bare = name.trim().to_ascii_lowercase();
    Ok(match bare.strip_prefix("keyusage").unwrap_or(&bare) {
        "digitalsignature" => KeyUsages::DigitalSignature,
        "contentcommitment" | "nonrepudiation" => KeyUsages::NonRepudiation,
        "keyencipherment" => KeyUsages::KeyEncipherment,
        "dataencipherment" => KeyUsages::DataEncipherment,
        "keyagreement" => KeyUsages::KeyAgreement,
        "certsign" | "keycertsign" => KeyUsages::KeyCertSign,
        "crlsign" => KeyUsages::CRLSign,
        "encipheronly" => KeyUsages::EncipherOnly,
        "decipheronly" => KeyUsages::DecipherOnly,
        _ => return Err(Error::invalid(format!("unrecognized key usage {name:?}"))),
    })
}

/// The extended uses that a role may name.
///
/// # Errors
/// [`Error::Invalid`] naming the one that there is not.
pub fn ext_usage_named(name: &str) -> Result<ObjectIdentifier> {
    let bare = name.trim().to_ascii_lowercase();
    let text = match bare.strip_prefix("extkeyusage").unwrap_or(&bare) {
        "any" => "2.5.29.37.0",
        "serverauth" => SERVER_AUTH,
        "clientauth" => CLIENT_AUTH,
        "codesigning" => CODE_SIGNING,
        "emailprotection" => EMAIL_PROTECTION,
        "ipsecendsystem" => "1.3.6.1.5.5.7.3.5",
        "ipsectunnel" => "1.3.6.1.5.5.7.3.6",
        "ipsecuser" => "1.3.6.1.5.5.7.3.7",
        "timestamping" => "1.3.6.1.5.5.7.3.8",
        "ocspsigning" => "1.3.6.1.5.5.7.3.9",
        "microsoftservergatedcrypto" => "1.3.6.1.4.1.311.10.3.3",
        "netscapeservergatedcrypto" => "2.16.840.1.113730.4.1",
        "microsoftcommercialcodesigning" => "1.3.6.1.4.1.311.2.1.22",
        "microsoftkernelcodesigning" => "1.3.6.1.4.1.311.61.1.1",
        _ => return Err(Error::invalid(format!("unrecognized extended key usage {name:?}"))),
    };
    Ok(ObjectIdentifier::new_unwrap(text))
}

/// TLS servers.
pub const SERVER_AUTH: &str = "1.3.6.1.5.5.7.3.1";
/// TLS clients.
pub const CLIENT_AUTH: &str = "1.3.6.1.5.5.7.3.2";
/// Signed code.
pub const CODE_SIGNING: &str = "1.3.6.1.5.5.7.3.3";
/// Signed mail.
pub const EMAIL_PROTECTION: &str = "1.3.6.1.5.5.7.3.4";

/// Where more is to be found about a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Urls {
    /// The issuer's certificate.
    pub issuing_certificates: Vec<String>,
    /// The revocation list.
    pub crl_distribution_points: Vec<String>,
    /// What changed since the revocation list.
    pub delta_crl_distribution_points: Vec<String>,
    /// OCSP.
    pub ocsp_servers: Vec<String>,
}

/// What names a CA may sign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaNameLimits {
    /// What is allowed; all if empty.
    pub permitted: Vec<NameConstraint>,
    /// What is not.
    pub excluded: Vec<NameConstraint>,
}

/// A part of a kind of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameConstraint {
    /// A domain and what is below it; below it only with a dot before it.
    Dns(String),
    /// An address, all of a host, or with a dot before it all of a domain.
    Email(String),
    /// Addresses and their mask, one after the other: 8 or 32 bytes.
    Ip(Vec<u8>),
    /// A host of URIs, or with a dot before it all of a domain.
    Uri(String),
}

impl NameConstraint {
    /// Of DNS names: a domain, with a dot before it for what is below it alone.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is none, such as a wildcard.
    pub fn dns(text: &str) -> Result<Self> {
        domain(text).map(Self::Dns)
    }

    /// Of mailboxes: one, all of a host, or with a dot before it all of a domain.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is none of them.
    pub fn email(text: &str) -> Result<Self> {
        match text.split_once('@') {
            Some((local, host)) if crate::names::is_mailbox(local) && !host.starts_with('.') => {
                Ok(Self::Email(format!("{local}@{}", domain(host)?)))
            }
            Some(_) => Err(Error::invalid(format!("the name constraint {text:?} is no mailbox"))),
            None => domain(text).map(Self::Email),
        }
    }

    /// Of URIs: a host, or with a dot before it all of a domain.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is neither.
    pub fn uri(text: &str) -> Result<Self> {
        domain(text).map(Self::Uri)
    }
}

fn domain(text: &str) -> Result<String> {
    let (dot, host) = text.strip_prefix('.').map_or(("", text), |host| (".", host));
    let host = host_name(host)
        .ok_or_else(|| Error::invalid(format!("the name constraint {text:?} is no domain")))?;
    Ok(format!("{dot}{host}"))
}

/// What a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificatePurpose {
    /// A CA, that may stand above so many others, if that is limited.
    Ca {
        /// How many CAs may follow.
        path_length: Option<u8>,
        /// What it may sign.
        constraints: CaNameLimits,
        /// The id of its key, where that is not SHA-1 of the key: that of another certificate of the same key.
        key_id: Option<Vec<u8>>,
    },
    /// Anything else; whether it says so.
    Leaf {
        /// Whether there is a basicConstraints that says so.
        says_so: bool,
    },
}

/// The alternative names of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AltNames {
    /// These.
    Names(Vec<San>),
    /// The value of an extension that was checked.
    Encoded(Vec<u8>),
}

/// What is written into a certificate.
#[derive(Clone, Debug)]
pub struct CertificateContents {
    /// Its number.
    pub serial: Serial,
    /// The first second it is good.
    pub not_before: i64,
    /// The last.
    pub not_after: i64,
    /// The Name of its owner.
    pub subject: Vec<u8>,
    /// The key of its owner.
    pub public: PublicKey,
    /// What it is for.
    pub purpose: CertificatePurpose,
    /// What its key may do.
    pub usages: Usages,
    /// What its key may do by name.
    pub ext_usages: Vec<ObjectIdentifier>,
    /// Its other names.
    pub alt_names: AltNames,
    /// Where more is to be found.
    pub urls: Urls,
    /// What it was issued by.
    pub policies: Vec<CertificatePolicy>,
    /// What else it says; nothing of the above.
    pub extra: Vec<ExtraExtension>,
}

/// Who signs.
#[derive(Clone, Copy, Debug)]
pub struct CertificateSigner<'a> {
    /// The Name of the issuer.
    pub name: &'a [u8],
    /// The id of its key.
    pub key_id: &'a [u8],
    /// Its key.
    pub key: &'a PrivateKey,
    /// How it signs.
    pub algorithm: SignatureAlgorithm,
}

#[derive(Sequence)]
struct TbsCertificate<'a> {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    version: u8,
    serial: UintRef<'a>,
    signature: AnyRef<'a>,
    issuer: AnyRef<'a>,
    validity: Validity,
    subject: AnyRef<'a>,
    public: AnyRef<'a>,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT")]
    extensions: AnyRef<'a>,
}

/// What is signed, how, and the signature.
#[derive(Sequence)]
pub(crate) struct SignedData<'a> {
    pub(crate) tbs: AnyRef<'a>,
    pub(crate) algorithm: AnyRef<'a>,
    pub(crate) signature: BitStringRef<'a>,
}

impl SignedData<'_> {
    /// Signs what is to be signed, and puts it together.
    pub(crate) fn sign(
        tbs: &[u8],
        key: &PrivateKey,
        algorithm: SignatureAlgorithm,
    ) -> Result<Vec<u8>> {
        let signature = key.sign(algorithm, tbs)?;
        let named = algorithm.to_der()?;
        let signed = SignedData {
            tbs: AnyRef::from_der(tbs)?,
            algorithm: AnyRef::from_der(&named)?,
            signature: BitStringRef::from_bytes(&signature)?,
        };
        Ok(signed.to_der()?)
    }
}

/// An extension.
pub(crate) fn extension(
    id: ObjectIdentifier,
    critical: bool,
    value: &impl Encode,
) -> Result<Extension> {
    let extn_value = OctetString::new(value.to_der()?)?;
    Ok(Extension { extn_id: id, critical, extn_value })
}

#[derive(Sequence)]
struct ExtensionRef<'a> {
    id: ObjectIdentifier,
    #[asn1(default = "Default::default")]
    critical: bool,
    value: &'a OctetStringRef,
}

/// Extensions, encoded one after another: each once, into one allocation.
struct EncodedExtensions {
    bytes: Vec<u8>,
    /// Room for the value of one.
    value: Vec<u8>,
}

impl EncodedExtensions {
    /// Bytes that those of a leaf have, as a rule.
    const BYTES_USUAL: usize = 512;

    fn new() -> Self {
        Self { bytes: Vec::with_capacity(Self::BYTES_USUAL), value: Vec::new() }
    }

    fn push(&mut self, id: ObjectIdentifier, critical: bool, value: &impl Encode) -> Result<()> {
        let mut room = std::mem::take(&mut self.value);
        room.clear();
        value.encode_to_vec(&mut room)?;
        self.push_encoded(id, critical, &room)?;
        self.value = room;
        Ok(())
    }

    fn push_encoded(&mut self, id: ObjectIdentifier, critical: bool, value: &[u8]) -> Result<()> {
        let extension = ExtensionRef { id, critical, value: OctetStringRef::new(value)? };
        extension.encode_to_vec(&mut self.bytes)?;
        Ok(())
    }

    /// The SEQUENCE of them.
    fn sequence(&self) -> Result<AnyRef<'_>> {
        Ok(AnyRef::new(Tag::Sequence, &self.bytes)?)
    }
}

fn uri(url: &str) -> Result<GeneralName> {
    let text = Ia5String::new(url)
        .map_err(|_| Error::invalid(format!("the URL {url:?} is not in ASCII")))?;
    Ok(GeneralName::UniformResourceIdentifier(text))
}

/// Places where revocation lists are.
pub(crate) fn distribution_points(urls: &[String]) -> Result<Vec<DistributionPoint>> {
    let point = |url: &String| {
        let name = DistributionPointName::FullName(vec![uri(url)?]);
        Ok(DistributionPoint { distribution_point: Some(name), reasons: None, crl_issuer: None })
    };
    urls.iter().map(point).collect()
}

/// An AuthorityKeyIdentifier that names a key by its id alone.
#[derive(Sequence)]
struct AuthorityKeyIdRef<'a> {
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT")]
    key_id: &'a OctetStringRef,
}

pub(crate) fn authority_key_id(key_id: &[u8]) -> Result<Extension> {
    let id = AuthorityKeyIdentifier {
        key_identifier: Some(OctetString::new(key_id)?),
        ..AuthorityKeyIdentifier::default()
    };
    extension(oid::AUTHORITY_KEY_ID, false, &id)
}

fn access(urls: &Urls) -> Result<Vec<AccessDescription>> {
    let ocsp = urls.ocsp_servers.iter().map(|url| (oid::ACCESS_OCSP, url));
    let issuers = urls.issuing_certificates.iter().map(|url| (oid::ACCESS_CA_ISSUERS, url));
    let described = |(method, url): (ObjectIdentifier, &String)| {
        Ok(AccessDescription { access_method: method, access_location: uri(url)? })
    };
    ocsp.chain(issuers).map(described).collect()
}

fn subtrees(constraints: &[NameConstraint]) -> Result<Option<GeneralSubtrees>> {
    let ia5 = |text: &str| {
        Ia5String::new(text)
            .map_err(|_| Error::invalid(format!("the name constraint {text:?} is not in ASCII")))
    };
    let tree = |constraint: &NameConstraint| {
        let base = match constraint {
            NameConstraint::Dns(name) => GeneralName::DnsName(ia5(name)?),
            NameConstraint::Email(name) => GeneralName::Rfc822Name(ia5(name)?),
            NameConstraint::Uri(name) => GeneralName::UniformResourceIdentifier(ia5(name)?),
            NameConstraint::Ip(bytes) => {
                GeneralName::IpAddress(OctetString::new(bytes.as_slice())?)
            }
        };
        Ok(GeneralSubtree { base, minimum: 0, maximum: None })
    };
    if constraints.is_empty() {
        return Ok(None);
    }
    constraints.iter().map(tree).collect::<Result<_>>().map(Some)
}

/// What is said to who asks for a leaf that may sign certificates.
pub const NO_CA: &str = "only a CA may sign certificates: a certificate that is issued cannot have the key usage CertSign";

/// What is said to who asks for a certificate of nobody (RFC 5280, 4.1.2.6).
const NO_NAME: &str = "a certificate without a subject has to have an alternative name";

/// What a key of a kind can do at all (RFC 4055, 1.2; RFC 8410, 5; RFC 8813, 3).
fn usages_of_kind(kind: PkiKeyKind) -> Usages {
    let all = KeyUsages::DigitalSignature | KeyUsages::NonRepudiation | KeyUsages::CRLSign;
    all | match kind {
        PkiKeyKind::Rsa(_) => KeyUsages::KeyEncipherment | KeyUsages::DataEncipherment,
        PkiKeyKind::P256 | PkiKeyKind::P384 | PkiKeyKind::P521 => {
            KeyUsages::KeyAgreement | KeyUsages::EncipherOnly | KeyUsages::DecipherOnly
        }
        PkiKeyKind::Ed25519 => Usages::default(),
    }
}

/// Those of these usages that a key may have in a certificate that is no CA's.
pub(crate) fn leaf_usages(public: &PublicKey, usages: Usages) -> Usages {
    let usages = public.kind().map_or(usages, |kind| usages & usages_of_kind(kind));
    usages & !KeyUsages::KeyCertSign
}

impl CertificateContents {
    /// The key usages that are asked for, as far as the key can do them. A leaf never signs certificates: there are validators that ask for nothing else
    /// of a CA.
    fn possible_usages(&self) -> Result<Usages> {
        let CertificatePurpose::Leaf { .. } = self.purpose else { return Ok(self.usages) };
        if self.usages.contains(KeyUsages::KeyCertSign) {
            return Err(Error::invalid(NO_CA));
        }
        let Some(kind) = self.public.kind() else { return Ok(self.usages) };
        let mut usages = self.usages & usages_of_kind(kind);
        // They say something of the agreement on keys alone.
        if !usages.contains(KeyUsages::KeyAgreement) {
            usages &= !(KeyUsages::EncipherOnly | KeyUsages::DecipherOnly);
        }
        if usages.contains(KeyUsages::EncipherOnly) && usages.contains(KeyUsages::DecipherOnly) {
            return Err(Error::invalid("EncipherOnly and DecipherOnly exclude each other"));
        }
        if usages.is_empty() && !self.usages.is_empty() {
            return Err(Error::invalid(format!(
                "a key of type {} has none of the key usages that are asked for",
                kind.type_name()
            )));
        }
        Ok(usages)
    }

    fn extensions(&self, signer: &CertificateSigner<'_>) -> Result<EncodedExtensions> {
        let mut extensions = EncodedExtensions::new();
        let usages = self.possible_usages()?;
        if !usages.is_empty() {
            extensions.push(oid::KEY_USAGE, true, &x509_cert::ext::pkix::KeyUsage(usages))?;
        }
        if !self.ext_usages.is_empty() {
            // Who stamps times says so critically (RFC 3161, 2.3); a CA that may sign for those who do stamps none.
            let is_leaf = matches!(self.purpose, CertificatePurpose::Leaf { .. });
            let critical = is_leaf && self.ext_usages.contains(&oid::TIME_STAMPING);
            extensions.push(oid::EXT_KEY_USAGE, critical, &self.ext_usages)?;
        }
        match &self.purpose {
            CertificatePurpose::Ca { path_length, .. } => {
                let constraints = BasicConstraints { ca: true, path_len_constraint: *path_length };
                extensions.push(oid::BASIC_CONSTRAINTS, true, &constraints)?;
            }
            CertificatePurpose::Leaf { says_so: true } => {
                let constraints = BasicConstraints { ca: false, path_len_constraint: None };
                extensions.push(oid::BASIC_CONSTRAINTS, true, &constraints)?;
            }
            CertificatePurpose::Leaf { says_so: false } => {}
        }
        let hash = self.public.key_id();
        let key_id: &[u8] = match &self.purpose {
            CertificatePurpose::Ca { key_id: Some(key_id), .. } => key_id,
            _ => &hash,
        };
        extensions.push(oid::SUBJECT_KEY_ID, false, &OctetStringRef::new(key_id)?)?;
        let authority = AuthorityKeyIdRef { key_id: OctetStringRef::new(signer.key_id)? };
        extensions.push(oid::AUTHORITY_KEY_ID, false, &authority)?;
        let access = access(&self.urls)?;
        if !access.is_empty() {
            extensions.push(oid::AUTHORITY_INFO_ACCESS, false, &access)?;
        }
        // Without a subject the names are all that says whose it is.
        let critical = self.subject == EMPTY_NAME;
        match &self.alt_names {
            AltNames::Names(names) if names.is_empty() && critical => {
                return Err(Error::invalid(NO_NAME));
            }
            AltNames::Names(names) if names.is_empty() => {}
            AltNames::Names(names) => {
                let value = san::encode(names)?;
                extensions.push_encoded(oid::SUBJECT_ALT_NAME, critical, &value)?;
            }
            AltNames::Encoded(value) => {
                extensions.push_encoded(oid::SUBJECT_ALT_NAME, critical, value)?;
            }
        }
        if let CertificatePurpose::Ca { constraints, .. } = &self.purpose
            && *constraints != CaNameLimits::default()
        {
            let value = NameConstraints {
                permitted_subtrees: subtrees(&constraints.permitted)?,
                excluded_subtrees: subtrees(&constraints.excluded)?,
            };
            extensions.push(oid::NAME_CONSTRAINTS, true, &value)?;
        }
        if !self.policies.is_empty() {
            let policies = policy::informations(&self.policies)?;
            extensions.push(oid::CERTIFICATE_POLICIES, false, &policies)?;
        }
        for (id, urls) in [
            (oid::CRL_DISTRIBUTION_POINTS, &self.urls.crl_distribution_points),
            (oid::FRESHEST_CRL, &self.urls.delta_crl_distribution_points),
        ] {
            if !urls.is_empty() {
                extensions.push(id, false, &distribution_points(urls)?)?;
            }
        }
        for extra in &self.extra {
            extensions.push_encoded(extra.id, extra.critical, &extra.value)?;
        }
        Ok(extensions)
    }

    /// The certificate, signed, in DER.
    ///
    /// # Errors
    /// [`Error::Invalid`] for contents that cannot stand in a certificate; when it cannot be signed.
    pub fn sign(&self, signer: &CertificateSigner<'_>) -> Result<Vec<u8>> {
        let algorithm = signer.algorithm.to_der()?;
        let extensions = self.extensions(signer)?;
        let tbs = TbsCertificate {
            version: 2,
            serial: UintRef::new(self.serial.as_bytes())?,
            signature: AnyRef::from_der(&algorithm)?,
            issuer: AnyRef::from_der(signer.name)?,
            validity: Validity::new(time::encode(self.not_before)?, time::encode(self.not_after)?),
            subject: AnyRef::from_der(&self.subject)?,
            public: AnyRef::from_der(self.public.spki())?,
            extensions: extensions.sequence()?,
        };
        SignedData::sign(&tbs.to_der()?, signer.key, signer.algorithm)
    }
}

/// Signs what a certificate says again, as another issuer: its name, the id of its key and where more is to be found change, and nothing else.
///
/// # Errors
/// [`Error::Invalid`] for what is no certificate; when it cannot be signed.
pub fn sign_again(der: &[u8], signer: &CertificateSigner<'_>, urls: &Urls) -> Result<Vec<u8>> {
    let unreadable = |_| Error::invalid("the certificate could not be parsed");
    let certificate = Certificate::from_der(der).map_err(unreadable)?;
    let tbs = certificate.tbs_certificate();
    let changed = [
        oid::AUTHORITY_KEY_ID,
        oid::AUTHORITY_INFO_ACCESS,
        oid::CRL_DISTRIBUTION_POINTS,
        oid::FRESHEST_CRL,
    ];
    let known = tbs.extensions().map_or(&[][..], Vec::as_slice);
    let mut extensions: Extensions =
        known.iter().filter(|one| !changed.contains(&one.extn_id)).cloned().collect();
    extensions.push(authority_key_id(signer.key_id)?);
    let access = access(urls)?;
    if !access.is_empty() {
        extensions.push(extension(oid::AUTHORITY_INFO_ACCESS, false, &access)?);
    }
    for (id, urls) in [
        (oid::CRL_DISTRIBUTION_POINTS, &urls.crl_distribution_points),
        (oid::FRESHEST_CRL, &urls.delta_crl_distribution_points),
    ] {
        if !urls.is_empty() {
            extensions.push(extension(id, false, &distribution_points(urls)?)?);
        }
    }
    let algorithm = signer.algorithm.to_der()?;
    let signed = SignedData::from_der(der).map_err(unreadable)?;
    let subject = parsed::subject_as_written(signed.tbs)?;
    let public = tbs.subject_public_key_info().to_der()?;
    let serial = Serial::from_bytes(positive(tbs.serial_number().as_bytes())?)?;
    let extensions = extensions.to_der()?;
    let again = TbsCertificate {
        version: 2,
        serial: UintRef::new(serial.as_bytes())?,
        signature: AnyRef::from_der(&algorithm)?,
        issuer: AnyRef::from_der(signer.name)?,
        validity: *tbs.validity(),
        subject: AnyRef::from_der(&subject)?,
        public: AnyRef::from_der(&public)?,
        extensions: AnyRef::from_der(&extensions)?,
    };
    SignedData::sign(&again.to_der()?, signer.key, signer.algorithm)
}

/// The Name that says nothing.
pub const EMPTY_NAME: &[u8] = &[0x30, 0];

/// The number of an INTEGER's bytes that is not negative.
fn positive(bytes: &[u8]) -> Result<&[u8]> {
    match bytes.first() {
        Some(first) if *first < 0x80 => Ok(bytes),
        _ => Err(Error::invalid("a certificate with a negative serial number is not supported")),
    }
}
