//! The PROXY protocol, versions 1 and 2: a proxy that passes bytes on says first for whom a connection is.
//!
//! Where a listener names its proxies, a connection from one of them has to begin with the header, before TLS, and the
//! address in it is the client's for everything: places, fairness, bounds of tokens, rate limits, the audit record, and
//! `X-Forwarded-For`, whose authorized address it may be. `server` asks here before it serves a connection; the crate
//! `ppp` reads the header's fields.
//!
//! Invariants:
//! - Nobody else's header is read: to the protocols above it is a malformed request.
//! - Nothing behind the header is taken from the socket.
//! - A header is bounded in bytes and in time (`limits`).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use kallisto_core::AddressRange;
use ppp::{v1, v2};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;

use crate::clock::{SystemClock, WallClock};
use crate::limits::{PROXY_HEADER_BYTES_MAX, PROXY_HEADER_TIMEOUT};
use crate::warning_rate::WarningRate;

/// What a header of version 2 begins with.
pub(crate) const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of a header of version 2 before its addresses; the last two count those.
const FIXED_BYTES: usize = 16;
/// Longest line of version 1, with its end.
const LINE_BYTES_MAX: usize = 107;

const _: () =
    assert!(PROXY_HEADER_BYTES_MAX > FIXED_BYTES && PROXY_HEADER_BYTES_MAX > LINE_BYTES_MAX);

/// Which proxies of a listener speak the PROXY protocol.
#[derive(Clone, Debug, Default)]
pub struct ProxyProtocol {
    /// Where they are; empty: nobody speaks it.
    pub authorized: Arc<[AddressRange]>,
    /// Whether connections from elsewhere are closed.
    pub refuses_others: bool,
}

/// What a connection's peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionPeer {
    /// The client itself.
    Client,
    /// A proxy, which says who the client is.
    Proxy,
    /// Nobody to speak with.
    Stranger,
}

impl ProxyProtocol {
    pub(crate) fn peer(&self, ip: IpAddr) -> ConnectionPeer {
        if self.authorized.is_empty() {
            return ConnectionPeer::Client;
        }
        if self.authorized.iter().any(|range| range.contains(ip)) {
            ConnectionPeer::Proxy
        } else if self.refuses_others {
            ConnectionPeer::Stranger
        } else {
            ConnectionPeer::Client
        }
    }
}

/// The connection behind its header, and its client; `None` where `proxy` sent no header.
pub(crate) async fn client(
    mut stream: TcpStream,
    proxy: SocketAddr,
    warnings: &WarningRate,
) -> Option<(TcpStream, SocketAddr)> {
    let read = tokio::time::timeout(PROXY_HEADER_TIMEOUT, header(&mut stream));
    match read.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        // Of nobody else, such as a check of the proxy's own.
        Ok(None) => Some((stream, proxy)),
        Ok(Some(client)) => Some((stream, client)),
        // A check that connects and leaves.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
        Err(error) => {
            if let Some(held_back) = warnings.pass(SystemClock.instant()) {
                tracing::warn!(
                    %proxy,
                    %error,
                    held_back,
                    "a proxy's connection has no header of the PROXY protocol"
                );
            }
            None
        }
    }
}

/// Reads a header and nothing behind it; the client's address, if it names one.
pub(crate) async fn header(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<SocketAddr>> {
    let mut bytes = [0; PROXY_HEADER_BYTES_MAX];
    // The shortest line of version 1 is longer than the signature of version 2.
    stream.read_exact(&mut bytes[..SIGNATURE.len()]).await?;
    let client = if bytes.starts_with(SIGNATURE) {
        stream.read_exact(&mut bytes[SIGNATURE.len()..FIXED_BYTES]).await?;
        let length =
            usize::from(u16::from_be_bytes([bytes[FIXED_BYTES - 2], bytes[FIXED_BYTES - 1]]));
        let end = FIXED_BYTES + length;
        let rest = bytes.get_mut(FIXED_BYTES..end).ok_or_else(|| invalid("it is too long"))?;
        stream.read_exact(rest).await?;
        binary(&bytes[..end])?
    } else if bytes.starts_with(b"PROXY ") {
        let mut end = SIGNATURE.len();
        while !bytes[..end].ends_with(b"\r\n") {
            if end == LINE_BYTES_MAX {
                return Err(invalid("its line has no end"));
            }
            bytes[end] = stream.read_u8().await?;
            end += 1;
        }
        line(&bytes[..end])?
    } else {
        return Err(invalid("something else came first"));
    };
    Ok(client.map(|client| SocketAddr::new(client.ip().to_canonical(), client.port())))
}

/// Version 1.
fn line(bytes: &[u8]) -> io::Result<Option<SocketAddr>> {
    let header = v1::Header::try_from(bytes).map_err(|_| invalid("its line cannot be read"))?;
    if header.addresses != v1::Addresses::Unknown && !has_plain_ports(bytes) {
        return Err(invalid("a port is not written in digits alone"));
    }
    Ok(match header.addresses {
        v1::Addresses::Unknown => None,
        v1::Addresses::Tcp4(of) => Some((of.source_address, of.source_port).into()),
        v1::Addresses::Tcp6(of) => Some((of.source_address, of.source_port).into()),
    })
}

/// Whether the ports, which come last, are of digits alone, as the specification asks; `ppp` takes `+1` too.
fn has_plain_ports(line: &[u8]) -> bool {
    let mut ports = line.trim_ascii_end().rsplit(|byte| *byte == b' ').take(2);
    ports.all(|port| port.iter().all(u8::is_ascii_digit))
}

/// Version 2.
fn binary(bytes: &[u8]) -> io::Result<Option<SocketAddr>> {
    let header = v2::Header::try_from(bytes).map_err(|_| invalid("its fields cannot be read"))?;
    if header.command == v2::Command::Local {
        return Ok(None);
    }
    Ok(match header.addresses {
        v2::Addresses::IPv4(of) => Some((of.source_address, of.source_port).into()),
        v2::Addresses::IPv6(of) => Some((of.source_address, of.source_port).into()),
        v2::Addresses::Unspecified | v2::Addresses::Unix(_) => None,
    })
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a header says, and how many bytes behind it were left.
    fn read(bytes: &[u8]) -> Result<(Option<String>, usize), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut rest = bytes;
        let client = runtime.block_on(header(&mut rest)).map_err(|error| error.to_string())?;
        Ok((client.map(|client| client.to_string()), rest.len()))
    }

    fn version_2(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let length = u16::try_from(addresses.len()).unwrap().to_be_bytes();
        [SIGNATURE.as_slice(), &[0x20 | command, family], &length, addresses].concat()
    }

    #[test]
    fn a_header_names_the_client_and_leaves_what_follows() {
        let v4 = [10, 1, 2, 3, 127, 0, 0, 1, 0x1f, 0x90, 0x20, 0x08];
        let mut v6 = [0_u8; 36];
        (v6[15], v6[31], v6[33]) = (1, 2, 80);
        let mut mapped = v6;
        mapped[..16].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3]);
        // A field of an unknown type behind the addresses.
        let with_field = [v4.as_slice(), &[0xe0, 0, 2, 7, 7]].concat();
        for (header, client) in [
            (b"PROXY TCP4 10.1.2.3 127.0.0.1 8080 8200\r\n".to_vec(), Some("10.1.2.3:8080")),
            (b"PROXY TCP6 ::1 ::2 80 8200\r\n".to_vec(), Some("[::1]:80")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ::1 ::2 80 8200\r\n".to_vec(), None),
            (version_2(1, 0x11, &v4), Some("10.1.2.3:8080")),
            (version_2(1, 0x11, &with_field), Some("10.1.2.3:8080")),
            (version_2(1, 0x21, &v6), Some("[::1]:80")),
            (version_2(1, 0x21, &mapped), Some("10.1.2.3:80")),
            (version_2(0, 0x00, &[]), None),
            (version_2(0, 0x11, &v4), None),
            (version_2(1, 0x00, &[]), None),
        ] {
            let sent = [header.as_slice(), b"GET /"].concat();
            assert_eq!(read(&sent), Ok((client.map(str::to_owned), 5)), "{header:?}");
            for cut in 0..header.len() {
                assert!(read(&header[..cut]).is_err(), "{header:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let endless = [b"PROXY TCP4 ".as_slice(), &[b'1'; 200]].concat();
        let long = version_2(1, 0x11, &[0; PROXY_HEADER_BYTES_MAX]);
        for (sent, why) in [
            (b"GET /v1/sys/health HTTP/1.1\r\n\r\n".as_slice(), "something else came first"),
            (b"*1\r\n$4\r\nPING\r\n", "something else came first"),
            (b"PROXY TCP4 10.1.2.256 127.0.0.1 1 2\r\n", "its line cannot be read"),
            (b"PROXY TCP4 ::1 ::2 1 2\r\n", "its line cannot be read"),
            (b"PROXY TCP4 10.1.2.3 127.0.0.1 99999 2\r\n", "its line cannot be read"),
            (b"PROXY TCP4 10.1.2.3 127.0.0.1 +1 2\r\n", "a port is not written in digits alone"),
            (b"PROXY TCP6 ::1 ::2 1 +2\r\n", "a port is not written in digits alone"),
            (b"PROXY TCP6 ::1 ::2 1 02\r\n", "its line cannot be read"),
            (&endless, "its line has no end"),
            (&long, "it is too long"),
            (&version_2(1, 0x11, &[1, 2, 3]), "its fields cannot be read"),
            (&version_2(7, 0x11, &[0; 12]), "its fields cannot be read"),
        ] {
            assert_eq!(read(sent), Err(why.to_owned()), "{sent:?}");
        }
    }

    #[test]
    fn only_who_is_named_is_a_proxy() {
        let authorized = ["10.0.0.0/8", "::1"].map(|text| AddressRange::parse(text).unwrap());
        let proxies =
            |refuses_others| ProxyProtocol { authorized: Arc::new(authorized), refuses_others };
        let of = |rules: &ProxyProtocol, ip: &str| rules.peer(ip.parse().unwrap());
        assert_eq!(of(&ProxyProtocol::default(), "10.0.0.1"), ConnectionPeer::Client);
        assert_eq!(of(&proxies(false), "10.0.0.1"), ConnectionPeer::Proxy);
        assert_eq!(of(&proxies(false), "::1"), ConnectionPeer::Proxy);
        assert_eq!(of(&proxies(false), "11.0.0.1"), ConnectionPeer::Client);
        assert_eq!(of(&proxies(true), "11.0.0.1"), ConnectionPeer::Stranger);
    }
}
