//! Certificates, requests, revocation lists and answers of OCSP, as pure functions of what they are to say.
//!
//! Nothing here reads a clock, a store or a socket, or knows who asks: engines of the server do, and keep what is made here. Bytes of
//! others are read by `x509-cert` and `der`, which refuse what is not DER; signatures, keys and hashes are `aws-lc-rs`'s.
//!
//! Invariants:
//! - What decides on names is [`names`], and nothing else: names of requests and of what requests bring along go through it alike.
//! - Private keys are printed nowhere, and cleared when they are dropped.
//! - Every list that is read has a named limit.
#![forbid(unsafe_code)]

pub mod acme;
pub mod certificate;
pub mod crl;
pub mod error;
pub mod key;
pub mod names;
pub mod ocsp;
mod oid;
pub mod pem;
pub mod policy;
pub mod request;
pub mod san;
pub mod serial;
pub mod signature;
pub mod subject;
pub mod time;

pub use der::asn1::ObjectIdentifier;
pub use error::{Error, Result};
pub use key::{PkiKeyKind, PrivateKey, PrivateKeyForm, PublicKey};
pub use san::San;
pub use serial::Serial;
pub use signature::{Hash, SignatureAlgorithm, SignatureWish};
pub use subject::CertificateSubject;
pub use x509_cert::ext::pkix::KeyUsages;
