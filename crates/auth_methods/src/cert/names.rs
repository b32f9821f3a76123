//! What a client certificate says of its bearer (RFC 5280).
//!
//! Read after the chain was verified or to look for a match, never to decide whether to trust.

use data_encoding::HEXLOWER;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::extensions::{self, Extension};

/// The names in a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CertificateNames {
    pub(super) common_name: String,
    pub(super) units: Vec<String>,
    pub(super) dns: Vec<String>,
    pub(super) emails: Vec<String>,
    pub(super) uris: Vec<String>,
    /// In decimal, as it is usually written.
    pub(super) serial: String,
    pub(super) subject_key_id: String,
    pub(super) authority_key_id: String,
    pub(super) extensions: Vec<Extension>,
    /// Whether it may sign certificates.
    pub(super) is_authority: bool,
    /// Not before and not after, in seconds since 1970.
    pub(super) valid: (i64, i64),
}

impl CertificateNames {
    /// Reads a certificate in DER; `None` when it is none.
    pub(super) fn read(der: &[u8]) -> Option<Self> {
        let (rest, certificate) = X509Certificate::from_der(der).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let subject = certificate.subject();
        let first =
            |mut all: Vec<String>| if all.is_empty() { String::new() } else { all.remove(0) };
        let mut names = Self {
            common_name: first(texts(subject.iter_common_name())),
            units: texts(subject.iter_organizational_unit()),
            serial: certificate.serial.to_string(),
            extensions: extensions::of(&certificate),
            is_authority: certificate.is_ca(),
            valid: (
                certificate.validity().not_before.timestamp(),
                certificate.validity().not_after.timestamp(),
            ),
            ..Self::default()
        };
        for extension in certificate.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectAlternativeName(alternative) => {
                    names.take(&alternative.general_names);
                }
                ParsedExtension::SubjectKeyIdentifier(id) => names.subject_key_id = colons(id.0),
                ParsedExtension::AuthorityKeyIdentifier(id) => {
                    let id = id.key_identifier.as_ref();
                    names.authority_key_id = id.map(|id| colons(id.0)).unwrap_or_default();
                }
                _ => {}
            }
        }
        Some(names)
    }

    fn take(&mut self, general: &[GeneralName<'_>]) {
        for name in general {
            match name {
                GeneralName::DNSName(text) => self.dns.push((*text).to_owned()),
                GeneralName::RFC822Name(text) => self.emails.push((*text).to_owned()),
                GeneralName::URI(text) => self.uris.push((*text).to_owned()),
                _ => {}
            }
        }
    }
}

fn texts<'a>(
    attributes: impl Iterator<Item = &'a x509_parser::x509::AttributeTypeAndValue<'a>>,
) -> Vec<String> {
    attributes.filter_map(|attribute| attribute.as_str().ok().map(str::to_owned)).collect()
}

/// Hexadecimal digits with colons between bytes.
fn colons(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| HEXLOWER.encode(&[*byte])).collect();
    bytes.join(":")
}
