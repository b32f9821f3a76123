//! What a client certificate says of its bearer (RFC 5280).
//!
//! Read after the chain was verified or to look for a match, never to decide whether to trust.

use data_encoding::HEXLOWER;
use x509_parser::asn1_rs::{Any, Tag};
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
        let mut names = Self {
            // Of several the last one, as in Vault: those before it are folders of a directory (`DC=example, CN=Users, CN=Ada`).
            common_name: texts(subject.iter_common_name()).pop().unwrap_or_default(),
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
    attributes.filter_map(|attribute| text(attribute.attr_value())).collect()
}

/// The text of a value. Authorities of old write Latin-1 and UTF-16 as well.
fn text(value: &Any<'_>) -> Option<String> {
    match value.tag() {
        Tag::TeletexString => Some(value.data.iter().copied().map(char::from).collect()),
        Tag::BmpString => {
            let (pairs, rest) = value.data.as_chunks::<2>();
            let units = pairs.iter().map(|pair| u16::from_be_bytes(*pair));
            let text = char::decode_utf16(units).collect::<Result<String, _>>().ok();
            text.filter(|_| rest.is_empty())
        }
        Tag::NumericString | Tag::PrintableString | Tag::Utf8String | Tag::Ia5String => {
            std::str::from_utf8(value.data).ok().map(str::to_owned)
        }
        _ => None,
    }
}

/// Hexadecimal digits with colons between bytes.
fn colons(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| HEXLOWER.encode(&[*byte])).collect();
    bytes.join(":")
}

#[cfg(test)]
mod tests {
    use rcgen::string::BmpString;
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};

    use super::*;

    fn common_name(values: &[(DnType, DnValue)]) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in values {
            params.distinguished_name.push(kind.clone(), value.clone());
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        CertificateNames::read(certificate.der()).unwrap().common_name
    }

    #[test]
    fn the_last_of_several_common_names_is_who_it_is() {
        let folder = DnType::CustomDnType(vec![2, 5, 4, 3]);
        let text = |text: &str| DnValue::Utf8String(text.to_owned());
        let both = [(folder, text("Users")), (DnType::CommonName, text("Ada"))];
        assert_eq!(common_name(&both), "Ada");
        assert_eq!(common_name(&[]), "");
    }

    #[test]
    fn a_common_name_is_read_in_the_alphabets_of_old_authorities() {
        let bmp = DnValue::BmpString(BmpString::try_from("Müller").unwrap());
        assert_eq!(common_name(&[(DnType::CommonName, bmp)]), "Müller");
    }
}
