//! From a name to addresses, and from addresses to a connection: the only place of this crate that resolves or connects.
//!
//! Invariants:
//! - What a name resolved to is used for this connection and then forgotten.
//! - The address that a connection goes to is the one that was judged.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use kallisto_engine::far_end::{TlsUse, may_reach};
use kallisto_engine::{FarEnd, FarEndFailure};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use crate::tls;

/// Most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 8;
/// Longest that one host is tried, in seconds.
const CONNECT_SECS_MAX: u64 = 30;

/// A connection, and where it goes.
pub(crate) struct Connected {
    pub(crate) stream: TcpStream,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Connects to the first host that answers.
pub(crate) async fn connect(far_end: &FarEnd) -> Result<Connected, FarEndFailure> {
    let mut last = FarEndFailure::Unreachable("there is no host to connect to".into());
    for (host, port) in &far_end.hosts {
        match connect_to(far_end, host, *port).await {
            Ok(stream) => return Ok(Connected { stream, host: host.clone(), port: *port }),
            Err(failure) => last = failure,
        }
    }
    Err(last)
}

/// Opens a session with the first host that can be reached: one that refuses is asked in vain, whichever host it is.
pub(crate) async fn open_first<'f, S, F: Future<Output = Result<S, FarEndFailure>>>(
    far_end: &'f FarEnd,
    until: Instant,
    open: impl Fn(&'f str, u16) -> F,
) -> Result<S, FarEndFailure> {
    let mut last = FarEndFailure::Unreachable("there is no host to connect to".into());
    for (at, (host, port)) in far_end.hosts.iter().enumerate() {
        let give_up_at = give_up_at(far_end, until, far_end.hosts.len() - at);
        match timeout_at(give_up_at, open(host, *port)).await {
            Ok(Err(failure @ FarEndFailure::Unreachable(_))) => last = failure,
            Ok(opened) => return opened,
            Err(_) => {
                let late = format!("{host}:{port}: it did not answer in time");
                last = FarEndFailure::Unreachable(late);
            }
        }
    }
    Err(last)
}

/// When the next of `left` hosts is given up, so that each has its part of the time.
fn give_up_at(far_end: &FarEnd, until: Instant, left: usize) -> Instant {
    let now = Instant::now();
    let part = until.saturating_duration_since(now) / u32::try_from(left.max(1)).unwrap_or(1);
    now + part.min(patience(far_end))
}

/// A connection, with TLS where the settings say so.
pub(crate) struct Wired {
    pub(crate) wire: Box<dyn Wire>,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// What bytes go over.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// Connects to the first host that answers, with TLS from the first byte unless the settings say never.
pub(crate) async fn open_wire(far_end: &FarEnd) -> Result<Wired, FarEndFailure> {
    let Connected { stream, host, port } = connect(far_end).await?;
    if far_end.tls.usage == TlsUse::Never {
        return Ok(Wired { wire: Box::new(stream), host, port });
    }
    let unreachable = |why: &str| FarEndFailure::Unreachable(format!("{host}:{port}: {why}"));
    let config = tls::config(&far_end.tls)?;
    let name = ServerName::try_from(tls::server_name(&far_end.tls, &host).to_owned());
    let name = name.map_err(|_| unreachable("is no name for TLS"))?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let stream = stream.map_err(|error| unreachable(&error.to_string()))?;
    Ok(Wired { wire: Box::new(stream), host, port })
}

/// How long a connection to one host may take.
pub(crate) fn patience(far_end: &FarEnd) -> Duration {
    Duration::from_secs(far_end.connect_secs.clamp(1, CONNECT_SECS_MAX))
}

/// Connects to one host.
pub(crate) async fn connect_to(
    far_end: &FarEnd,
    host: &str,
    port: u16,
) -> Result<TcpStream, FarEndFailure> {
    let unreachable = |why: &str| FarEndFailure::Unreachable(format!("{host}:{port}: {why}"));
    let connecting = async {
        let mut last = unreachable("the name has no address");
        for address in addresses(far_end, host, port).await? {
            match TcpStream::connect(SocketAddr::new(address, port)).await {
                Ok(stream) => {
                    // What is sent is waited for.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => last = unreachable(&error.to_string()),
            }
        }
        Err(last)
    };
    let waited = timeout(patience(far_end), connecting).await;
    waited.unwrap_or_else(|_| Err(unreachable("no connection in time")))
}

/// The addresses of a host, each of which may be connected to.
pub(crate) async fn addresses(
    far_end: &FarEnd,
    host: &str,
    port: u16,
) -> Result<Vec<IpAddr>, FarEndFailure> {
    let unreachable = |why: String| FarEndFailure::Unreachable(format!("{host}:{port}: {why}"));
    let found = tokio::net::lookup_host((host, port)).await;
    let found = found.map_err(|error| unreachable(error.to_string()))?;
    let found: Vec<IpAddr> = found.map(|address| address.ip()).take(ADDRESSES_MAX).collect();
    match found.iter().find(|address| !may_reach(&far_end.addresses, **address)) {
        Some(refused) => Err(unreachable(format!("connections to {refused} are not allowed"))),
        None => Ok(found),
    }
}
