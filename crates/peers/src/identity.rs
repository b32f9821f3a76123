//! Who a server is to its peers: the cluster's authority, the certificates it issues, and TLS made of them.
//!
//! The authority is made once, by the first server, and its key is kept where the caller keeps secrets. A server makes its
//! own key, which never leaves it; only the public half goes to the authority. A certificate names one server of one
//! store (`node-<number>.<store>.kallisto`), and both ends check that name. It does not expire: what revokes a server is its removal
//! from the members. So both ends check it at a fixed time ([`CHECKED_AT_SECS`]), and a server whose clock is wrong by decades takes part.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm,
};
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::{RootCertStore, client, crypto, version};

/// Bytes of a public key: an uncompressed point of P-256.
const PUBLIC_KEY_BYTES: usize = 65;
/// What peers speak, in the words of TLS.
const PROTOCOL: &[u8] = b"kallisto-peer/1";

/// At which time certificates are checked, in seconds since 1970: 2026, within the validity of all of them, from 1975 to 4096.
const CHECKED_AT_SECS: u64 = 1_767_225_600;

/// The time at which certificates are checked, whatever the clock says.
#[derive(Debug)]
struct FixedTime;

impl TimeProvider for FixedTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(CHECKED_AT_SECS)))
    }
}

/// Why something about an identity failed; never holds a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortError(String);

impl PortError {
    pub(crate) fn new(what: &str, why: &dyn fmt::Display) -> Self {
        Self(format!("{what}: {why}"))
    }
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PortError {}

/// The cluster's authority. Its key is a secret; `Debug` does not show it.
pub struct ClusterAuthority {
    /// The certificate, DER.
    pub certificate: Vec<u8>,
    /// The private key, PKCS #8.
    pub key: Vec<u8>,
}

/// A server's own key. A secret; `Debug` does not show it.
pub struct NodeKey {
    /// The private key, PKCS #8.
    pub private: Vec<u8>,
    /// The public key.
    pub public: Vec<u8>,
}

/// What a server is to its peers.
pub struct PeerIdentity {
    /// Its number.
    pub node_id: u64,
    /// Its store.
    pub store_id: [u8; 16],
    /// Its key.
    pub key: NodeKey,
    /// Its certificate, DER.
    pub certificate: Vec<u8>,
    /// The authority's certificate, DER.
    pub authority: Vec<u8>,
}

impl fmt::Debug for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerIdentity").field("node_id", &self.node_id).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClusterAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterAuthority")
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeKey")
    }
}

impl NodeKey {
    /// Draws a key.
    ///
    /// # Errors
    /// When the machine gives no randomness.
    pub fn generate() -> Result<Self, PortError> {
        let key = KeyPair::generate().map_err(|error| PortError::new("draw a key", &error))?;
        Ok(Self { private: key.serialize_der(), public: key.public_key_raw().to_vec() })
    }

    /// The key whose private half is `private`.
    ///
    /// # Errors
    /// When it is none.
    pub fn from_private(private: Vec<u8>) -> Result<Self, PortError> {
        let key = KeyPair::try_from(&private[..]);
        let key = key.map_err(|error| PortError::new("a server's key", &error))?;
        Ok(Self { public: key.public_key_raw().to_vec(), private })
    }
}

/// The name that a server's certificate carries.
fn name(node_id: u64, store_id: &[u8; 16]) -> String {
    let store: String = store_id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("node-{node_id:016x}.{store}.kallisto")
}

fn authority_params() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, "Kallisto cluster authority");
    params.distinguished_name = named;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(params)
}

struct PeerPublicKey(Vec<u8>);

impl PublicKeyData for PeerPublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl ClusterAuthority {
    /// Makes the authority of a new cluster.
    ///
    /// # Errors
    /// When the machine gives no randomness.
    pub fn generate() -> Result<Self, PortError> {
        let make = || {
            let key = KeyPair::generate()?;
            let certificate = authority_params()?.self_signed(&key)?;
            Ok(Self { certificate: certificate.der().to_vec(), key: key.serialize_der() })
        };
        make().map_err(|error: rcgen::Error| PortError::new("make an authority", &error))
    }

    /// Issues the certificate of a server.
    ///
    /// # Errors
    /// When the public key is none, or this is no authority.
    pub fn issue(
        &self,
        node_id: u64,
        store_id: &[u8; 16],
        public_key: &[u8],
    ) -> Result<Vec<u8>, PortError> {
        if public_key.len() != PUBLIC_KEY_BYTES {
            return Err(PortError::new("issue a certificate", &"the public key is none of P-256"));
        }
        let make = || {
            let mut params = CertificateParams::new(vec![name(node_id, store_id)])?;
            params.distinguished_name = DistinguishedName::new();
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages =
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            let issuer = Issuer::new(authority_params()?, KeyPair::try_from(&self.key[..])?);
            Ok(params.signed_by(&PeerPublicKey(public_key.to_vec()), &issuer)?.der().to_vec())
        };
        make().map_err(|error: rcgen::Error| PortError::new("issue a certificate", &error))
    }
}

/// TLS of both directions, made of an identity.
pub(crate) struct PeerTls {
    pub(crate) node_id: u64,
    pub(crate) store_id: [u8; 16],
    pub(crate) client: Arc<rustls::ClientConfig>,
    pub(crate) server: Arc<rustls::ServerConfig>,
}

impl PeerTls {
    pub(crate) fn new(identity: &PeerIdentity) -> Result<Self, PortError> {
        let refuse = |error: &dyn fmt::Display| PortError::new("the cluster's TLS", error);
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from(identity.authority.clone()))
            .map_err(|error| refuse(&error))?;
        let roots = Arc::new(roots);
        let chain = vec![CertificateDer::from(identity.certificate.clone())];
        let key = || PrivateKeyDer::from(PrivatePkcs8KeyDer::from(identity.key.private.clone()));
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let verifier = verifier.build().map_err(|error| refuse(&error))?;
        let mut server =
            rustls::ServerConfig::builder_with_details(Arc::clone(&provider), Arc::new(FixedTime))
                .with_protocol_versions(&[&version::TLS13])
                .map_err(|error| refuse(&error))?
                .with_client_cert_verifier(verifier)
                .with_single_cert(chain.clone(), key())
                .map_err(|error| refuse(&error))?;
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        // Where time stands still, a session would never be too old to be resumed: each connection is made anew.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let mut client = rustls::ClientConfig::builder_with_details(provider, Arc::new(FixedTime))
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|error| refuse(&error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key())
            .map_err(|error| refuse(&error))?;
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        client.resumption = Resumption::disabled();
        Ok(Self {
            node_id: identity.node_id,
            store_id: identity.store_id,
            client: Arc::new(client),
            server: Arc::new(server),
        })
    }

    /// The name that a peer's certificate must carry.
    pub(crate) fn name_of(&self, node_id: u64) -> Result<ServerName<'static>, PortError> {
        let name = ServerName::try_from(name(node_id, &self.store_id));
        name.map_err(|error| PortError::new("a peer's name", &error))
    }

    /// Whether a certificate, which the authority issued, is that of a peer.
    pub(crate) fn belongs_to(&self, certificate: &CertificateDer<'_>, node_id: u64) -> bool {
        let (Ok(parsed), Ok(name)) =
            (ParsedCertificate::try_from(certificate), self.name_of(node_id))
        else {
            return false;
        };
        client::verify_server_name(&parsed, &name).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(authority: &ClusterAuthority, node_id: u64) -> PeerIdentity {
        let key = NodeKey::generate().unwrap();
        let certificate = authority.issue(node_id, &[1; 16], &key.public).unwrap();
        let authority = authority.certificate.clone();
        PeerIdentity { node_id, store_id: [1; 16], key, certificate, authority }
    }

    #[test]
    fn a_certificate_is_of_one_server_of_one_store() {
        let authority = ClusterAuthority::generate().unwrap();
        let identity = identity(&authority, 7);
        let tls = PeerTls::new(&identity).unwrap();
        let certificate = CertificateDer::from(identity.certificate.clone());
        assert!(tls.belongs_to(&certificate, 7));
        assert!(!tls.belongs_to(&certificate, 8));
        let other = PeerIdentity { store_id: [2; 16], ..identity };
        assert!(!PeerTls::new(&other).unwrap().belongs_to(&certificate, 7));
    }

    /// A server may start before its clock is set.
    #[test]
    fn no_certificate_is_too_new_or_too_old_for_any_clock() {
        let authority = ClusterAuthority::generate().unwrap();
        let tls = PeerTls::new(&identity(&authority, 7)).unwrap();
        let fixed = UnixTime::since_unix_epoch(Duration::from_secs(CHECKED_AT_SECS));
        assert_eq!(tls.client.time_provider.current_time(), Some(fixed));
        assert_eq!(tls.server.time_provider.current_time(), Some(fixed));
        let year = |year: i32| rcgen::date_time_ymd(year, 1, 1);
        let default = CertificateParams::default();
        // Those of earlier releases were issued for the same time.
        assert_eq!((default.not_before, default.not_after), (year(1975), year(4096)));
        assert!(
            (year(1975).unix_timestamp()..year(4096).unix_timestamp())
                .contains(&(CHECKED_AT_SECS as i64))
        );
    }

    #[test]
    fn keys_come_back_and_other_bytes_are_none() {
        let key = NodeKey::generate().unwrap();
        let again = NodeKey::from_private(key.private.clone()).unwrap();
        assert_eq!(again.public, key.public);
        assert!(NodeKey::from_private(vec![1, 2, 3]).is_err());
        let authority = ClusterAuthority::generate().unwrap();
        assert!(authority.issue(1, &[1; 16], b"short").is_err());
        assert_eq!(format!("{key:?} {authority:?}"), "NodeKey ClusterAuthority");
    }
}
