//! TLS below the HTTP client.
//!
//! The client's own connector takes a list of roots and no verifier. This one stands in its place: it has a finished configuration of rustls.

use std::fmt;
use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ChainedConnector, ConnectProxyConnector, ConnectionDetails, Connector, Either,
    LazyBuffers, NextTimeout, TcpConnector, Transport, TransportAdapter,
};

use crate::trust::{CertificateAuthorities, ServerTrust};

/// What the HTTP client connects with: through a proxy where its settings name one, and by TLS where the URL says https.
#[derive(Debug)]
pub struct HttpsConnector {
    tcp: ChainedConnector<(), ConnectProxyConnector, TcpConnector>,
    tls: OnceLock<Arc<ClientConfig>>,
}

impl HttpsConnector {
    /// A connector that trusts and shows what `tls` says.
    pub fn new(tls: ClientConfig) -> Self {
        let connector = Self::of_machine();
        connector.tls.get_or_init(|| Arc::new(tls));
        connector
    }

    /// A connector that trusts the machine's authorities. They are read once something is asked by https, which takes milliseconds.
    pub fn of_machine() -> Self {
        let tcp = ConnectProxyConnector::default().chain(TcpConnector::default());
        Self { tcp, tls: OnceLock::new() }
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, Error> {
        if let Some(tls) = self.tls.get() {
            return Ok(Arc::clone(tls));
        }
        let trust = ServerTrust::Authorities(CertificateAuthorities::of_machine());
        let tls = Arc::new(trust.client_config(None)?);
        Ok(Arc::clone(self.tls.get_or_init(|| tls)))
    }
}

impl Connector<()> for HttpsConnector {
    type Out = Box<dyn Transport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<()>,
    ) -> Result<Option<Self::Out>, Error> {
        let transport: Box<dyn Transport> = match self.tcp.connect(details, chained)? {
            None => return Ok(None),
            Some(Either::A(never)) => never.boxed(),
            Some(Either::B(transport)) => transport.boxed(),
        };
        if !details.needs_tls() || transport.is_tls() {
            return Ok(Some(transport));
        }
        let host = details.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned());
        let name =
            name.map_err(|_| Error::Tls("the host's name cannot be that of a certificate"))?;
        let mut session = ClientConnection::new(self.tls()?, name)?;
        let mut socket = TransportAdapter::new(transport, Arc::clone(&details.current_time));
        socket.set_timeout(details.timeout);
        session.complete_io(&mut socket)?;
        let config = &details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        let stream = StreamOwned { conn: session, sock: socket };
        Ok(Some(Box::new(TlsTransport { buffers, stream })))
    }
}

/// A connection by TLS.
struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_timeout(timeout);
        self.stream.write_all(&self.buffers.output()[..amount])?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_timeout(timeout);
        let count = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsTransport").finish_non_exhaustive()
    }
}
