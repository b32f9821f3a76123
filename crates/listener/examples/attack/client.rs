//! A client that sends bytes as it likes: one connection, requests written by hand.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use kallisto_tls_client::ServerTrust;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use socket2::{Domain, Socket, Type};

/// Longest a reply may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Opens a connection from an address of this machine.
pub(crate) fn connect(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect_timeout(&to.into(), PATIENCE)?;
    socket.set_tcp_nodelay(true)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// The bytes of a request over HTTP.
pub(crate) fn request(method: &str, path: &str, token: &str, body: &str) -> Vec<u8> {
    let token =
        if token.is_empty() { String::new() } else { format!("X-Vault-Token: {token}\r\n") };
    let length = body.len();
    format!(
        "{method} /v1/{path} HTTP/1.1\r\nHost: a\r\n{token}Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Reads one reply: its status and its body.
pub(crate) fn reply(reader: &mut impl BufRead) -> io::Result<(u16, Vec<u8>)> {
    let mut line = String::new();
    let (mut status, mut length) = (0, 0);
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.trim_end();
        if text.is_empty() {
            break;
        }
        if status == 0 {
            status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        } else if let Some((name, value)) = text.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok((status, body))
}

/// Asks once on a connection of its own.
pub(crate) fn ask(to: SocketAddr, bytes: &[u8]) -> io::Result<(u16, Vec<u8>)> {
    let mut stream = connect(Ipv4Addr::LOCALHOST, to)?;
    stream.write_all(bytes)?;
    reply(&mut BufReader::new(stream))
}

/// Shakes hands over TLS, whoever the server says it is.
pub(crate) fn tls(
    stream: TcpStream,
    config: &Arc<ClientConfig>,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(connection, stream))
}

/// A configuration that trusts anybody and resumes nothing: every connection is a full handshake.
pub(crate) fn trusting() -> Arc<ClientConfig> {
    let config = ServerTrust::Anyone.client_config(None);
    let mut config = config.expect("the provider has the usual versions");
    config.resumption = rustls::client::Resumption::disabled();
    Arc::new(config)
}
