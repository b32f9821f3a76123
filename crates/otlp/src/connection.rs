//! A connection with a collector.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::delivery::ANSWER_BYTES_MAX;
use crate::endpoint::{CollectorEndpoint, OtlpProtocol};
use crate::wire::{MeteredWire, READ_BYTES_MAX, ReadAllowance};

/// Most bytes of the head of an answer.
const HEAD_BYTES_MAX: usize = 64 << 10;
// A whole answer fits.
const _: () = assert!(HEAD_BYTES_MAX + ANSWER_BYTES_MAX < READ_BYTES_MAX);
/// What is said in a TLS handshake of the protocols that follow.
const ALPN_HTTP1: &[u8] = b"http/1.1";
const ALPN_HTTP2: &[u8] = b"h2";

/// What bytes go over.
trait CollectorWire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> CollectorWire for T {}

enum RequestSender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// A connection, which ends with the value.
pub(crate) struct Connection {
    sender: RequestSender,
    allowance: ReadAllowance,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Connects; `tls` is for an endpoint of https.
    ///
    /// # Errors
    /// What went wrong.
    pub(crate) async fn open(
        endpoint: &CollectorEndpoint,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Self, String> {
        // Every address of a name is tried in turn.
        let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await;
        let stream = stream.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let wire: Box<dyn CollectorWire> = match tls.filter(|_| endpoint.is_tls) {
            None if endpoint.is_tls => return Err("there are no settings for TLS".to_owned()),
            None => Box::new(stream),
            Some(tls) => {
                let name = ServerName::try_from(endpoint.host.clone());
                let name = name.map_err(|_| "the host is no name for TLS".to_owned())?;
                let mut config = ClientConfig::clone(tls);
                config.alpn_protocols = match endpoint.protocol {
                    OtlpProtocol::Http => vec![ALPN_HTTP1.to_vec()],
                    OtlpProtocol::Grpc => vec![ALPN_HTTP2.to_vec()],
                };
                let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
                Box::new(stream.map_err(|error| error.to_string())?)
            }
        };
        let allowance = ReadAllowance::new();
        let io = TokioIo::new(MeteredWire { wire, allowance: allowance.clone() });
        // What goes wrong with a connection is told to whoever waits for an answer.
        match endpoint.protocol {
            OtlpProtocol::Http => {
                let mut builder = http1::Builder::new();
                let handshake = builder.max_buf_size(HEAD_BYTES_MAX).handshake(io).await;
                let (sender, connection) = handshake.map_err(|error| words(&error))?;
                let driver = tokio::spawn(async move { drop(connection.await) });
                Ok(Self { sender: RequestSender::Http1(sender), allowance, driver })
            }
            OtlpProtocol::Grpc => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                let limited = builder.max_header_list_size(HEAD_BYTES_MAX as u32);
                let (sender, connection) =
                    limited.handshake(io).await.map_err(|error| words(&error))?;
                let driver = tokio::spawn(async move { drop(connection.await) });
                Ok(Self { sender: RequestSender::Http2(sender), allowance, driver })
            }
        }
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Errors
    /// What went wrong; the connection is of no use then.
    pub(crate) async fn ask(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, String> {
        self.allowance.renew();
        let answer = match &mut self.sender {
            RequestSender::Http1(sender) => match sender.ready().await {
                Ok(()) => sender.send_request(request).await,
                Err(error) => Err(error),
            },
            RequestSender::Http2(sender) => match sender.ready().await {
                Ok(()) => sender.send_request(request).await,
                Err(error) => Err(error),
            },
        };
        answer.map_err(|error| words(&error))
    }
}

/// What went wrong, with its causes.
pub(crate) fn words(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
