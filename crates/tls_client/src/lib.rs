//! TLS towards servers: which certificates are trusted ([`ServerTrust`]), and how the HTTP client speaks it ([`HttpsConnector`]).
//!
//! Every part of Kallisto that connects to somebody else's server asks here, so that a certificate that one of them accepts is accepted
//! by all: the command line, logins and engines with a far end, snapshots in buckets, and the load generator. Servers of one cluster have
//! an authority of their own (`peers`) and do not.
#![forbid(unsafe_code)]

mod https;
mod trust;

pub use https::HttpsConnector;
pub use trust::{CertificateAuthorities, ServerTrust, client_identity};
