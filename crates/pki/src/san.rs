//! Subject alternative names.

use std::net::IpAddr;

use der::asn1::{Ia5String, ObjectIdentifier, OctetString, Utf8StringRef};
use der::{Any, Decode as _, Encode as _};
use x509_cert::ext::pkix::name::{GeneralName, GeneralNames, OtherName};

use crate::error::{Error, Result};

/// Most names of a certificate.
pub const NAMES_MAX: usize = 1024;

/// Longest URI, in bytes.
const URI_BYTES_MAX: usize = 2048;

/// A subject alternative name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum San {
    /// A DNS name, as A-labels in lower case.
    Dns(String),
    /// An e-mail address.
    Email(String),
    /// An IP address.
    Ip(IpAddr),
    /// A URI.
    Uri(String),
    /// Of a kind that an object identifier names, with a text.
    Other(ObjectIdentifier, String),
}

impl San {
    fn to_general(&self) -> Result<GeneralName> {
        let ia5 = |text: &str| {
            Ia5String::new(text)
                .map_err(|_| Error::invalid(format!("subject alternate name {text} is no ASCII")))
        };
        Ok(match self {
            Self::Dns(name) => GeneralName::DnsName(ia5(name)?),
            Self::Email(name) => GeneralName::Rfc822Name(ia5(name)?),
            Self::Uri(name) => GeneralName::UniformResourceIdentifier(ia5(name)?),
            Self::Ip(IpAddr::V4(ip)) => GeneralName::IpAddress(OctetString::new(ip.octets())?),
            Self::Ip(IpAddr::V6(ip)) => GeneralName::IpAddress(OctetString::new(ip.octets())?),
            Self::Other(oid, text) => GeneralName::OtherName(OtherName {
                type_id: *oid,
                value: Any::encode_from(&Utf8StringRef::new(text)?)?,
            }),
        })
    }
}

/// The extension's value.
///
/// # Errors
/// [`Error::Invalid`] for names that cannot stand there, or too many.
pub(crate) fn encode(names: &[San]) -> Result<Vec<u8>> {
    if names.len() > NAMES_MAX {
        return Err(Error::invalid(format!("more than {NAMES_MAX} subject alternate names")));
    }
    let general: GeneralNames = names.iter().map(San::to_general).collect::<Result<_>>()?;
    Ok(general.to_der()?)
}

/// Reads the extension's value.
///
/// # Errors
/// [`Error::Invalid`] for what cannot be read, or is of a kind that no rule is about.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<San>> {
    let unreadable = || Error::invalid("the subject alternative names cannot be read");
    let general = GeneralNames::from_der(bytes).map_err(|_| unreadable())?;
    if general.len() > NAMES_MAX {
        return Err(Error::invalid(format!("more than {NAMES_MAX} subject alternate names")));
    }
    let read = |name: GeneralName| {
        Ok(match name {
            GeneralName::DnsName(name) => San::Dns(name.as_str().to_owned()),
            GeneralName::Rfc822Name(name) => San::Email(name.as_str().to_owned()),
            GeneralName::UniformResourceIdentifier(name) => San::Uri(name.as_str().to_owned()),
            GeneralName::IpAddress(ip) => San::Ip(address(ip.as_bytes()).ok_or_else(unreadable)?),
            GeneralName::OtherName(other) => {
                let text = other.value.decode_as::<Utf8StringRef<'_>>().map_err(|_| {
                    Error::invalid("an other SAN that is no UTF8String is not supported")
                })?;
                San::Other(other.type_id, text.as_str().to_owned())
            }
            GeneralName::DirectoryName(_)
            | GeneralName::EdiPartyName(_)
            | GeneralName::RegisteredId(_) => {
                return Err(Error::invalid(
                    "a subject alternative name that is no DNS name, e-mail address, IP address, \
                     URI or other name is not supported",
                ));
            }
        })
    };
    general.into_iter().map(read).collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(v4));
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

/// Whether a text is a URI (RFC 3986) that an alternative name may be (RFC 5280, 4.2.1.6): with a scheme and more, and where it has an authority, with
/// a host.
pub fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if !is_scheme || rest.is_empty() || text.len() > URI_BYTES_MAX {
        return false;
    }
    let Some(after) = rest.strip_prefix("//") else { return is_uri_text(rest, b":@/?#") };
    let at = after.find(['/', '?', '#']).unwrap_or(after.len());
    let (authority, path) = after.split_at(at);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let fits = match host.strip_prefix('[') {
        Some(literal) => literal.split_once(']').is_some_and(|(ip, port)| {
            ip.parse::<std::net::Ipv6Addr>().is_ok() && (port.is_empty() || is_port(port))
        }),
        None => {
            let at = host.find(':').unwrap_or(host.len());
            let (name, port) = host.split_at(at);
            !name.is_empty() && is_uri_text(name, b"") && (port.is_empty() || is_port(port))
        }
    };
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    fits && is_uri_text(user, b":") && is_uri_text(path, b":@/?#")
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a text has but what may stand in a URI, and of what separates its parts only `more`.
fn is_uri_text(text: &str, more: &[u8]) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().all(|(at, byte)| match byte {
        b'%' => bytes.get(at + 1..at + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit)),
        b'#' => more.contains(byte) && bytes.iter().filter(|byte| **byte == b'#').count() == 1,
        _ => {
            byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte) || more.contains(byte)
        }
    })
}

/// An other name as requests write it: `OID;UTF8:TEXT`.
///
/// # Errors
/// [`Error::Invalid`] for anything else.
pub fn parse_other(text: &str) -> Result<(ObjectIdentifier, String)> {
    let wrong = || Error::invalid(format!("expected a semicolon in other SAN {text:?}"));
    let (oid, rest) = text.split_once(';').ok_or_else(wrong)?;
    let (kind, value) = rest
        .split_once(':')
        .ok_or_else(|| Error::invalid(format!("expected a colon in other SAN {text:?}")))?;
    if !kind.eq_ignore_ascii_case("UTF8") && !kind.eq_ignore_ascii_case("UTF-8") {
        return Err(Error::invalid(format!(
            "only UTF8 other SANs are supported; found non-UTF8 type in other SAN {text:?}"
        )));
    }
    Ok((parse_oid(oid.trim())?, value.to_owned()))
}

/// An object identifier in numbers with dots.
///
/// # Errors
/// [`Error::Invalid`] for what is none.
pub fn parse_oid(text: &str) -> Result<ObjectIdentifier> {
    ObjectIdentifier::new(text)
        .map_err(|_| Error::invalid(format!("{text:?} could not be parsed as a valid oid")))
}
