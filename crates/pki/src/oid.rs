//! The object identifiers that are written here.

use der::asn1::ObjectIdentifier;

const fn oid(text: &str) -> ObjectIdentifier {
    ObjectIdentifier::new_unwrap(text)
}

// Attributes of names.
pub(crate) const COMMON_NAME: ObjectIdentifier = oid("2.5.4.3");
pub(crate) const SERIAL_NUMBER: ObjectIdentifier = oid("2.5.4.5");
pub(crate) const COUNTRY: ObjectIdentifier = oid("2.5.4.6");
pub(crate) const LOCALITY: ObjectIdentifier = oid("2.5.4.7");
pub(crate) const PROVINCE: ObjectIdentifier = oid("2.5.4.8");
pub(crate) const STREET: ObjectIdentifier = oid("2.5.4.9");
pub(crate) const ORGANIZATION: ObjectIdentifier = oid("2.5.4.10");
pub(crate) const ORGANIZATIONAL_UNIT: ObjectIdentifier = oid("2.5.4.11");
pub(crate) const POSTAL_CODE: ObjectIdentifier = oid("2.5.4.17");
pub(crate) const USER_ID: ObjectIdentifier = oid("0.9.2342.19200300.100.1.1");
pub(crate) const EMAIL_ADDRESS: ObjectIdentifier = oid("1.2.840.113549.1.9.1");

// Extensions.
pub(crate) const SUBJECT_KEY_ID: ObjectIdentifier = oid("2.5.29.14");
pub(crate) const KEY_USAGE: ObjectIdentifier = oid("2.5.29.15");
pub(crate) const SUBJECT_ALT_NAME: ObjectIdentifier = oid("2.5.29.17");
pub(crate) const ISSUER_ALT_NAME: ObjectIdentifier = oid("2.5.29.18");
pub(crate) const BASIC_CONSTRAINTS: ObjectIdentifier = oid("2.5.29.19");
pub(crate) const CRL_NUMBER: ObjectIdentifier = oid("2.5.29.20");
pub(crate) const REASON_CODE: ObjectIdentifier = oid("2.5.29.21");
pub(crate) const DELTA_CRL_INDICATOR: ObjectIdentifier = oid("2.5.29.27");
pub(crate) const NAME_CONSTRAINTS: ObjectIdentifier = oid("2.5.29.30");
pub(crate) const CRL_DISTRIBUTION_POINTS: ObjectIdentifier = oid("2.5.29.31");
pub(crate) const CERTIFICATE_POLICIES: ObjectIdentifier = oid("2.5.29.32");
pub(crate) const POLICY_MAPPINGS: ObjectIdentifier = oid("2.5.29.33");
pub(crate) const AUTHORITY_KEY_ID: ObjectIdentifier = oid("2.5.29.35");
pub(crate) const POLICY_CONSTRAINTS: ObjectIdentifier = oid("2.5.29.36");
pub(crate) const EXT_KEY_USAGE: ObjectIdentifier = oid("2.5.29.37");
pub(crate) const FRESHEST_CRL: ObjectIdentifier = oid("2.5.29.46");
pub(crate) const INHIBIT_ANY_POLICY: ObjectIdentifier = oid("2.5.29.54");
pub(crate) const NETSCAPE_CERTIFICATE_TYPE: ObjectIdentifier = oid("2.16.840.1.113730.1.1");
pub(crate) const ACME_IDENTIFIER: ObjectIdentifier = oid("1.3.6.1.5.5.7.1.31");
pub(crate) const AUTHORITY_INFO_ACCESS: ObjectIdentifier = oid("1.3.6.1.5.5.7.1.1");
pub(crate) const EXTENSION_REQUEST: ObjectIdentifier = oid("1.2.840.113549.1.9.14");

// How to get at an issuer, and at what it says of a certificate.
pub(crate) const ACCESS_OCSP: ObjectIdentifier = oid("1.3.6.1.5.5.7.48.1");
pub(crate) const ACCESS_CA_ISSUERS: ObjectIdentifier = oid("1.3.6.1.5.5.7.48.2");
pub(crate) const OCSP_BASIC: ObjectIdentifier = oid("1.3.6.1.5.5.7.48.1.1");
pub(crate) const OCSP_NONCE: ObjectIdentifier = oid("1.3.6.1.5.5.7.48.1.2");

// What policies say.
pub(crate) const QUALIFIER_CPS: ObjectIdentifier = oid("1.3.6.1.5.5.7.2.1");
pub(crate) const QUALIFIER_NOTICE: ObjectIdentifier = oid("1.3.6.1.5.5.7.2.2");

// Keys, hashes and signatures.
pub(crate) const RSA_ENCRYPTION: ObjectIdentifier = oid("1.2.840.113549.1.1.1");
pub(crate) const RSA_SHA256: ObjectIdentifier = oid("1.2.840.113549.1.1.11");
pub(crate) const RSA_SHA384: ObjectIdentifier = oid("1.2.840.113549.1.1.12");
pub(crate) const RSA_SHA512: ObjectIdentifier = oid("1.2.840.113549.1.1.13");
pub(crate) const RSA_PSS: ObjectIdentifier = oid("1.2.840.113549.1.1.10");
pub(crate) const MGF1: ObjectIdentifier = oid("1.2.840.113549.1.1.8");
pub(crate) const EC_PUBLIC_KEY: ObjectIdentifier = oid("1.2.840.10045.2.1");
pub(crate) const P256: ObjectIdentifier = oid("1.2.840.10045.3.1.7");
pub(crate) const P384: ObjectIdentifier = oid("1.3.132.0.34");
pub(crate) const P521: ObjectIdentifier = oid("1.3.132.0.35");
pub(crate) const ECDSA_SHA256: ObjectIdentifier = oid("1.2.840.10045.4.3.2");
pub(crate) const ECDSA_SHA384: ObjectIdentifier = oid("1.2.840.10045.4.3.3");
pub(crate) const ECDSA_SHA512: ObjectIdentifier = oid("1.2.840.10045.4.3.4");
pub(crate) const ED25519: ObjectIdentifier = oid("1.3.101.112");
pub(crate) const SHA1: ObjectIdentifier = oid("1.3.14.3.2.26");
pub(crate) const SHA256: ObjectIdentifier = oid("2.16.840.1.101.3.4.2.1");
pub(crate) const SHA384: ObjectIdentifier = oid("2.16.840.1.101.3.4.2.2");
pub(crate) const SHA512: ObjectIdentifier = oid("2.16.840.1.101.3.4.2.3");

pub(crate) const TIME_STAMPING: ObjectIdentifier = oid("1.3.6.1.5.5.7.3.8");
