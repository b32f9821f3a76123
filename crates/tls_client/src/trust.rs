//! Which certificates of servers are trusted.
//!
//! A chain that ends at an authority is (RFC 5280, section 6.1). So is a certificate that is itself listed among the authorities: most self-signed
//! certificates say that they are one (`openssl req -x509` writes CA:TRUE), which webpki refuses for the end of a chain, while OpenSSL and Go,
//! and with them curl and the clients of Vault, accept it. Whoever lists a certificate means it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, InconsistentKeys, OtherError,
    RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

/// Most certificates of one PEM text that are read: a machine's whole store has about 150.
const CERTIFICATES_MAX: usize = 1024;

/// Certificates that are trusted to vouch for others, and for themselves.
#[derive(Clone, Debug, Default)]
pub struct CertificateAuthorities(Vec<CertificateDer<'static>>);

impl CertificateAuthorities {
    /// Those of the machine. Single ones that cannot be read are left out.
    pub fn of_machine() -> Self {
        Self(rustls_native_certs::load_native_certs().certs)
    }

    /// Those of a PEM text, whatever else it holds; `None` when there is none or one cannot be read.
    pub fn from_pem(pem: &[u8]) -> Option<Self> {
        let all: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(pem).take(CERTIFICATES_MAX).collect();
        all.ok().filter(|all| !all.is_empty()).map(Self)
    }

    /// Adds those of `other`.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Their DER forms.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.0
    }
}

/// What a server has to show.
#[derive(Clone, Debug)]
pub enum ServerTrust {
    /// A chain to one of these, or one of these itself, for the server's name.
    Authorities(CertificateAuthorities),
    /// The same, for whatever name.
    AuthoritiesOfAnyName(CertificateAuthorities),
    /// Any certificate whose key it has.
    Anyone,
}

impl ServerTrust {
    /// Checks a server's certificate by this.
    pub fn verifier(self, provider: Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
        let (authorities, checks_name) = match self {
            Self::Authorities(authorities) => (Some(authorities), true),
            Self::AuthoritiesOfAnyName(authorities) => (Some(authorities), false),
            Self::Anyone => (None, false),
        };
        let listed = authorities.map(|authorities| {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(authorities.0.iter().cloned());
            let roots = Arc::new(roots);
            // Without any authority there is nothing that a chain could end at.
            let chains =
                WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
            ListedAuthorities { chains: chains.ok(), authorities }
        });
        Arc::new(TrustVerifier { listed, checks_name, provider })
    }

    /// A client that trusts by this and shows `identity`, if any: a chain and its key.
    ///
    /// # Errors
    /// When the key is not that of the chain.
    pub fn client_config(
        self,
        identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    ) -> Result<ClientConfig, Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(Arc::clone(&provider)));
        match identity {
            None => Ok(builder.with_no_client_auth()),
            Some((chain, key)) => {
                Ok(builder.with_client_cert_resolver(client_identity(chain, key, &provider)?))
            }
        }
    }
}

/// A chain and its key, as a client shows them. rustls has webpki read the first certificate, to compare the keys, which takes none of version 1, as
/// `openssl x509 -req` of OpenSSL 3.0 makes by itself. What it does not take is shown too: the server judges.
///
/// # Errors
/// When the key cannot be used, or is not that of the chain.
pub fn client_identity(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<Arc<dyn ResolvesClientCert>, Error> {
    let identity = CertifiedKey::new(chain, provider.key_provider.load_private_key(key)?);
    match identity.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        Err(Error::InvalidCertificate(_)) if holds_key(&identity) => {}
        Err(Error::InvalidCertificate(_)) => return Err(InconsistentKeys::KeyMismatch.into()),
        Err(error) => return Err(error),
    }
    Ok(Arc::new(SingleCertAndKey::from(identity)))
}

/// Whether a certificate that is not read has the public half of its key in it, as it stands in every certificate.
fn holds_key(identity: &CertifiedKey) -> bool {
    let (own, key) = (identity.cert.first(), identity.key.public_key());
    key.is_none_or(|key| {
        own.is_some_and(|own| own.windows(key.len()).any(|part| part == key.as_ref()))
    })
}

/// Authorities, and the check of chains to them.
#[derive(Debug)]
struct ListedAuthorities {
    chains: Option<Arc<WebPkiServerVerifier>>,
    authorities: CertificateAuthorities,
}

impl ListedAuthorities {
    fn verify(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<(), Error> {
        let chains = self.chains.as_ref();
        let chains = chains.ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        match chains.verify_server_cert(end, between, name, ocsp, now) {
            Ok(_) => Ok(()),
            // webpki looks at the time before it looks at what a certificate is for.
            Err(Error::InvalidCertificate(CertificateError::Other(why)))
                if is_authority_at_end(&why) && self.authorities.0.iter().any(|one| one == end) =>
            {
                rustls::client::verify_server_name(&ParsedCertificate::try_from(end)?, name)
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether webpki refuses a chain because its first certificate is an authority's.
fn is_authority_at_end(why: &OtherError) -> bool {
    matches!(why.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

#[derive(Debug)]
struct TrustVerifier {
    /// `None` to trust anyone.
    listed: Option<ListedAuthorities>,
    checks_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for TrustVerifier {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(listed) = &self.listed else { return Ok(ServerCertVerified::assertion()) };
        match listed.verify(end, between, name, ocsp, now) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            // The chain is judged before the name.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.checks_name => Ok(ServerCertVerified::assertion()),
            Err(error) => Err(error),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
