//! TLS for a listener: what to present, whom to believe, and changing both while serving.
//!
//! [`ListenerTls`] holds the parsed configuration behind one atomic pointer: a handshake takes the one of
//! its moment, [`ListenerTls::reload`] reads the files again and swaps it, and a file that does not parse
//! leaves the old one in use. Sessions resume by tickets (RFC 8446, section 2.2), so that a client
//! that comes back pays no signature; the core has their keys, so that any server of a cluster
//! resumes what another began. What a listener asks of its clients is part of a ticket's key: one
//! that was given where nothing was asked is of no use where a certificate is.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use kallisto_core::admission::{Crowd, Flow};
use kallisto_core::{Core, TICKET_LIFETIME_SECS, Tickets};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{Acceptor, NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
    SupportedProtocolVersion, crypto, version,
};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::clock::{SystemClock, WallClock};
use crate::limits::HANDSHAKE_TIMEOUT;
use crate::socket::ClientStream;
use crate::{client_key, http_without_tls};

/// The longest private key, as DER, that signs in less than a millisecond. Those on curves have less than 300 bytes and take
/// a twentieth of one; an RSA key of 2,048 bits has 1,220 and takes a third. One of 3,072 has 1,790 and takes 1.6 ms, one of
/// 4,096 has 2,380 and takes 3.6 ms (measured once, on one processor).
const LIGHT_KEY_BYTES_MAX: usize = 1_400;
/// What ALPN calls HTTP/2 (RFC 9113, section 3.1).
const HTTP_2: &[u8] = b"h2";

/// The protocol versions taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersions {
    /// TLS 1.2 and 1.3.
    #[default]
    From12,
    /// TLS 1.2 alone.
    Only12,
    /// TLS 1.3 alone.
    Only13,
}

/// Whether clients present certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked.
    None,
    /// They may, and prove that its key is theirs; whose it is, is for others to judge.
    #[default]
    Any,
    /// They must.
    Required(PathBuf),
}

/// Which files a listener serves TLS from; all are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, then those that lead to its root.
    pub certificate: PathBuf,
    /// The key of the first certificate: ECDSA, Ed25519 or RSA.
    pub key: PathBuf,
    /// Whether clients present certificates.
    pub client_auth: ClientAuth,
    /// The protocol versions taken.
    pub versions: TlsVersions,
}

/// What the files say.
struct ServedFiles {
    config: Arc<rustls::ServerConfig>,
    /// Whether a signature with the key takes a processor for more than a millisecond.
    is_heavy: bool,
}

/// Who does a handshake that takes a processor for long, and for whom.
pub(crate) struct Shaker {
    pub(crate) core: Arc<Core>,
    pub(crate) remote: SocketAddr,
    /// Whether HTTP is what is spoken within TLS.
    pub(crate) speaks_http: bool,
}

/// Why TLS cannot be served from the given files.
#[derive(Debug)]
pub struct TlsError {
    path: PathBuf,
    why: String,
}

/// TLS as a listener serves it; clones share one configuration.
#[derive(Clone)]
pub struct ListenerTls {
    files: Arc<TlsFiles>,
    served: Arc<ArcSwap<ServedFiles>>,
    tickets: Option<Arc<Tickets>>,
}

impl ListenerTls {
    /// Reads the files. Without `tickets` no session is resumed.
    ///
    /// # Errors
    /// [`TlsError`] naming the file and what is wrong with it.
    pub fn load(files: TlsFiles, tickets: Option<Arc<Tickets>>) -> Result<Self, TlsError> {
        let served = read(&files, tickets.clone())?;
        let served = Arc::new(ArcSwap::from_pointee(served));
        Ok(Self { files: Arc::new(files), served, tickets })
    }

    /// Reads the files again; new connections get what they say.
    ///
    /// # Errors
    /// [`TlsError`]; what was served before stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.served.store(Arc::new(read(&self.files, self.tickets.clone())?));
        Ok(())
    }

    /// Shakes hands within the deadline. A client that says nothing costs no more than its connection:
    /// `admit` is awaited when its first message is there, and what comes of it is held to the end. What is left to do
    /// then is done beside the workers where the server's key is a long one.
    pub(crate) async fn accept<S, P>(
        &self,
        mut stream: S,
        admit: impl Future<Output = Result<P, Crowd>>,
        shaker: Shaker,
    ) -> io::Result<TlsStream<S>>
    where
        S: ClientStream,
    {
        let shake = async {
            if shaker.speaks_http && http_without_tls::turn_away(&mut stream).await? {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "HTTP without TLS"));
            }
            let begun = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
            let place = admit.await;
            let _place = place.map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
            let served = self.served.load_full();
            let shaking = begun.into_stream(Arc::clone(&served.config));
            if !served.is_heavy {
                return shaking.await;
            }
            let flow = Flow::of_address(shaker.remote.ip());
            shaker.core.shake_hands(flow, shaking).await.map_err(io::Error::other)?
        };
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, shake).await {
            Ok(outcome) => outcome,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl fmt::Debug for ListenerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerTls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl TlsError {
    fn new(path: &Path, why: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), why: why.to_string() }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for TlsError {}

fn read(files: &TlsFiles, tickets: Option<Arc<Tickets>>) -> Result<ServedFiles, TlsError> {
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let versions: &[&SupportedProtocolVersion] = match files.versions {
        TlsVersions::From12 => &[&version::TLS13, &version::TLS12],
        TlsVersions::Only12 => &[&version::TLS12],
        TlsVersions::Only13 => &[&version::TLS13],
    };
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|error| TlsError::new(&files.certificate, error))?;
    let builder = match &files.client_auth {
        ClientAuth::None => builder.with_no_client_auth(),
        ClientAuth::Any => builder.with_client_cert_verifier(Arc::new(AnyClient {
            algorithms: provider.signature_verification_algorithms,
        })),
        ClientAuth::Required(path) => {
            let roots = read_roots(path)?;
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
            let verifier = verifier.build().map_err(|error| TlsError::new(path, error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let chain = read_certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            TlsError::new(&files.key, "no private key in it that is not encrypted")
        }
        other => TlsError::new(&files.key, other),
    })?;
    let is_heavy = key.secret_der().len() > LIGHT_KEY_BYTES_MAX;
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|error| TlsError::new(&files.key, error))?;
    check_key(files, &chain, &*key)?;
    let presented = SingleCertAndKey::from(CertifiedKey::new(chain, key));
    let mut config = builder.with_cert_resolver(Arc::new(presented));
    config.alpn_protocols = vec![HTTP_2.to_vec(), b"http/1.1".to_vec()];
    // Sessions are resumed by tickets or not at all: nothing is kept for clients that may never return.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    match tickets {
        Some(tickets) => {
            let context = ticket_context(&files.client_auth)?;
            config.ticketer = Arc::new(Ticketer { tickets, context, clock: SystemClock });
        }
        None => config.send_tls13_tickets = 0,
    }
    Ok(ServedFiles { config: Arc::new(config), is_heavy })
}

/// Checks that a key is that of the first certificate. rustls would have webpki read that, which takes none of version 1, as
/// `openssl x509 -req` of OpenSSL 3.0 makes by itself; what it is good for is for clients to judge.
fn check_key(
    files: &TlsFiles,
    chain: &[CertificateDer<'static>],
    key: &dyn SigningKey,
) -> Result<(), TlsError> {
    let own = chain.first().and_then(|own| client_key::public_key(own));
    let own =
        own.ok_or_else(|| TlsError::new(&files.certificate, "a certificate cannot be read"))?;
    // A key that does not say what it is the other half of cannot be compared.
    match key.public_key().is_none_or(|public| public.as_ref() == own) {
        true => Ok(()),
        false => Err(TlsError::new(&files.key, "it is the key of another certificate")),
    }
}

/// Tickets of a listener that asks one thing of its clients.
#[derive(Debug)]
struct Ticketer {
    tickets: Arc<Tickets>,
    context: Vec<u8>,
    clock: SystemClock,
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        TICKET_LIFETIME_SECS
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.tickets.seal(&self.context, self.clock.now().as_second(), plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.tickets.open(&self.context, self.clock.now().as_second(), cipher)
    }
}

/// What is asked of clients, authorities and all: a session resumed is a client not asked again.
fn ticket_context(client_auth: &ClientAuth) -> Result<Vec<u8>, TlsError> {
    let (word, roots) = match client_auth {
        ClientAuth::None => ("none", None),
        ClientAuth::Any => ("any", None),
        ClientAuth::Required(path) => ("required", Some(path)),
    };
    let mut context = word.as_bytes().to_vec();
    if let Some(path) = roots {
        for root in read_certificates(path)? {
            context.extend_from_slice(&(root.len() as u64).to_be_bytes());
            context.extend_from_slice(&root);
        }
    }
    Ok(context)
}

/// Which versions of HTTP a connection may speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HttpVersions {
    /// What its first bytes say: in plain text nothing is agreed on before them.
    #[default]
    Both,
    /// HTTP/1.1 and 1.0.
    One,
    /// HTTP/2.
    Two,
}

/// What a handshake settled; without TLS, nothing.
#[derive(Debug, Default)]
pub(crate) struct HandshakeOutcome {
    /// The certificates that the client presented, its own first.
    pub(crate) client_chain: Arc<[Vec<u8>]>,
    pub(crate) versions: HttpVersions,
}

impl HandshakeOutcome {
    /// What both sides of a connection agreed on. Within TLS it is ALPN that chooses HTTP/2 (RFC 9113, section 3.2): a proxy in front that
    /// judges by what was agreed on is not to be told otherwise by what comes after.
    pub(crate) fn of<S>(stream: &TlsStream<S>) -> Self {
        let connection = stream.get_ref().1;
        let presented = connection.peer_certificates().unwrap_or_default();
        let versions = match connection.alpn_protocol() {
            Some(HTTP_2) => HttpVersions::Two,
            _ => HttpVersions::One,
        };
        Self {
            client_chain: presented.iter().map(|certificate| certificate.to_vec()).collect(),
            versions,
        }
    }
}

/// Takes any client certificate whose key the client proves to have, and trusts it with nothing:
/// what it is good for, a login method decides by its own authorities.
#[derive(Debug)]
struct AnyClient {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        client_key::verify_tls12(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        client_key::verify_tls13(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| TlsError::new(path, error))?;
    if certificates.is_empty() {
        return Err(TlsError::new(path, "no certificate in it"));
    }
    Ok(certificates)
}

fn read_roots(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(path)? {
        roots.add(certificate).map_err(|error| TlsError::new(path, error))?;
    }
    Ok(Arc::new(roots))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION_1: &str = include_str!("../../../tests/certificates/version_1.pem");
    const KEY_OF_VERSION_1: &str = include_str!("../../../tests/certificates/version_1.key.pem");
    const OTHER_KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIO51DMfO6Ife9pTDS+UoZTyvZkh00k1jZhlV9W42BIAS
-----END PRIVATE KEY-----
";

    #[test]
    #[expect(clippy::disallowed_methods, reason = "files of the test's own folder")]
    fn a_certificate_of_version_1_is_served_with_its_own_key_alone() {
        let directory = std::env::temp_dir().join(format!("kallisto-tls-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let load = |key: &str| {
            let files = TlsFiles {
                certificate: write("cert.pem", VERSION_1),
                key: write("key.pem", key),
                client_auth: ClientAuth::None,
                versions: TlsVersions::From12,
            };
            ListenerTls::load(files, None).map(drop).map_err(|error| error.to_string())
        };
        let (loaded, refused) = (load(KEY_OF_VERSION_1), load(OTHER_KEY));
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(loaded, Ok(()));
        assert!(refused.unwrap_err().ends_with("key.pem: it is the key of another certificate"));
    }

    #[test]
    fn a_missing_or_empty_file_is_named() {
        let files = TlsFiles {
            certificate: "/nonexistent/cert.pem".into(),
            key: "/nonexistent/key.pem".into(),
            client_auth: ClientAuth::None,
            versions: TlsVersions::Only13,
        };
        let error = ListenerTls::load(files.clone(), None).unwrap_err().to_string();
        assert!(error.starts_with("/nonexistent/cert.pem: "), "{error}");
        let files = TlsFiles { certificate: "/dev/null".into(), ..files };
        let error = ListenerTls::load(files, None).unwrap_err().to_string();
        assert_eq!(error, "/dev/null: no certificate in it");
    }
}
