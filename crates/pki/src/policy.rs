//! Certificate policies (RFC 5280, 4.2.1.4): what a certificate was issued by, and where that is to be read.

use der::asn1::{Ia5StringRef, ObjectIdentifier, Utf8StringRef};
use der::{Any, Sequence};
use x509_cert::ext::pkix::certpolicy::{PolicyInformation, PolicyQualifierInfo};

use crate::error::{Error, Result};
use crate::oid;

/// Longest URL of a practice statement, in bytes.
const CPS_BYTES_MAX: usize = 2048;
/// Longest notice, in characters.
const NOTICE_CHARS_MAX: usize = 200;

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificatePolicy {
    id: ObjectIdentifier,
    cps: String,
    notice: String,
}

#[derive(Sequence)]
struct UserNotice<'a> {
    text: Utf8StringRef<'a>,
}

impl CertificatePolicy {
    /// A policy, with the URL of its practice statement and a text for who relies on the certificate; either may be empty.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what cannot stand there.
    pub fn new(id: ObjectIdentifier, cps: &str, notice: &str) -> Result<Self> {
        let is_url = cps.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_url || cps.len() > CPS_BYTES_MAX {
            return Err(Error::invalid(format!("the cps of the policy {id} is no URL in ASCII")));
        }
        let has_control = notice.chars().any(char::is_control);
        if has_control || notice.chars().count() > NOTICE_CHARS_MAX {
            return Err(Error::invalid(format!(
                "the notice of the policy {id} has more than {NOTICE_CHARS_MAX} characters, or \
                 control characters"
            )));
        }
        Ok(Self { id, cps: cps.to_owned(), notice: notice.to_owned() })
    }

    fn information(&self) -> Result<PolicyInformation> {
        let mut qualifiers = Vec::new();
        if !self.cps.is_empty() {
            let url = Any::encode_from(&Ia5StringRef::new(&self.cps)?)?;
            qualifiers.push(qualifier(oid::QUALIFIER_CPS, url));
        }
        if !self.notice.is_empty() {
            let notice = UserNotice { text: Utf8StringRef::new(&self.notice)? };
            qualifiers.push(qualifier(oid::QUALIFIER_NOTICE, Any::encode_from(&notice)?));
        }
        let policy_qualifiers = (!qualifiers.is_empty()).then_some(qualifiers);
        Ok(PolicyInformation { policy_identifier: self.id, policy_qualifiers })
    }
}

const fn qualifier(id: ObjectIdentifier, value: Any) -> PolicyQualifierInfo {
    PolicyQualifierInfo { policy_qualifier_id: id, qualifier: Some(value) }
}

/// The policies as the extension has them, each once.
pub(crate) fn informations(policies: &[CertificatePolicy]) -> Result<Vec<PolicyInformation>> {
    let first = |(at, one): &(usize, &CertificatePolicy)| {
        !policies[..*at].iter().any(|before| before.id == one.id)
    };
    policies.iter().enumerate().filter(first).map(|(_, one)| one.information()).collect()
}
