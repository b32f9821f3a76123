//! The certificate of tls-alpn-01 (RFC 8737, section 3): what proves that whoever answers for a name has the key of an account.
//!
//! Called by the engine with what a probe found. Such a certificate signs itself and is for one name; a critical extension has the hash of the
//! key authorization.

use der::Decode as _;
use der::asn1::OctetStringRef;
use x509_cert::Certificate;

use crate::certificate::ParsedCertificate;
use crate::error::{Error, Result};
use crate::oid;
use crate::san::{self, San};

/// Bytes of the hash in it.
const HASH_BYTES: usize = 32;

/// What such a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeCertificate {
    /// The one name that it is for.
    pub name: San,
    /// SHA-256 of the key authorization.
    pub hash: [u8; HASH_BYTES],
}

impl AcmeCertificate {
    /// Reads one.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no such certificate.
    pub fn from_der(bytes: &[u8]) -> Result<Self> {
        let none = || Error::invalid("no certificate of tls-alpn-01");
        let certificate = Certificate::from_der(bytes).map_err(|_| none())?;
        let tbs = certificate.tbs_certificate();
        let extensions = tbs.extensions().map_or(&[][..], Vec::as_slice);
        let only = |id| {
            let mut found = extensions.iter().filter(|extension| extension.extn_id == id);
            found.next().filter(|_| found.next().is_none())
        };
        let hash = only(oid::ACME_IDENTIFIER).filter(|extension| extension.critical);
        let hash = hash.ok_or_else(none)?.extn_value.as_bytes();
        let hash = <&OctetStringRef>::from_der(hash).map_err(|_| none())?.as_bytes();
        let hash = hash.try_into().map_err(|_| none())?;
        let names = only(oid::SUBJECT_ALT_NAME).ok_or_else(none)?.extn_value.as_bytes();
        let names = san::decode(names).map_err(|_| none())?;
        let [name] = &names[..] else { return Err(none()) };
        if !ParsedCertificate::from_der(bytes).map_err(|_| none())?.is_self_signed() {
            return Err(none());
        }
        Ok(Self { name: name.clone(), hash })
    }
}
