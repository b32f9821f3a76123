//! Where a server listens: an address of the network, or a path on this machine.
//!
//! Workers share an address with `SO_REUSEPORT`, and a path by listening on the same socket. A client
//! that comes by a path counts as one at the loopback address: it is on this machine, and the file's
//! mode says who may use it.
//!
//! Invariants:
//! - An address or a path that another process listens on is refused, never shared with it.
//! - The file of a path is there while the server is, and of no other kind than a socket.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::limits::{BACKLOG, KEEPALIVE_TIME, KERNEL_UNSENT_BYTES_MAX, UNREAD_TIMEOUT};

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address and a port; port 0 takes a free one.
    Tcp(SocketAddr),
    /// A socket's file, and its mode.
    Unix {
        /// The file.
        path: PathBuf,
        /// Who may connect, as permissions of the file.
        mode: u32,
    },
}

impl ListenAddress {
    /// The address on the network, if it is one.
    pub const fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix { .. } => None,
        }
    }

    /// Whether only this machine can connect.
    pub fn is_local(&self) -> bool {
        self.tcp().is_none_or(|address| address.ip().is_loopback())
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix { path, .. } => path.display().fmt(f),
        }
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

/// A bound socket of one worker.
#[derive(Debug)]
pub(crate) enum BoundSocket {
    Tcp(std::net::TcpListener),
    Unix(UnixListener),
}

/// The same on its worker's runtime.
pub(crate) enum ListeningSocket {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

/// What a client's connection is read from and written to.
pub(crate) trait ClientStream:
    AsyncRead + AsyncWrite + Unpin + Send + Sync + 'static
{
    /// Writes in one go or not at all.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// The first of the bytes that come next, which stays where it is; `None` at the end, and where nobody looks ahead.
    fn peek(&self) -> impl Future<Output = io::Result<Option<u8>>> + Send;
}

impl ClientStream for tokio::net::TcpStream {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        Self::try_write(self, bytes)
    }

    async fn peek(&self) -> io::Result<Option<u8>> {
        let mut first = [0];
        let count = Self::peek(self, &mut first).await?;
        Ok((count > 0).then_some(first[0]))
    }
}

impl ClientStream for tokio::net::UnixStream {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        Self::try_write(self, bytes)
    }

    async fn peek(&self) -> io::Result<Option<u8>> {
        Ok(None)
    }
}

/// What came in.
pub(crate) enum Accepted {
    Tcp(tokio::net::TcpStream, SocketAddr),
    Unix(tokio::net::UnixStream, SocketAddr),
}

/// Binds a socket for each worker. Returns what is listened on, free port and all.
///
/// # Errors
/// What the operating system says when an address cannot be bound or is taken.
pub(crate) fn bind(
    address: &ListenAddress,
    workers: NonZeroUsize,
) -> io::Result<(ListenAddress, Vec<BoundSocket>)> {
    match address {
        ListenAddress::Tcp(address) => {
            refuse_taken(*address)?;
            let first = bind_tcp(*address)?;
            let address = first.local_addr()?;
            let mut sockets = vec![BoundSocket::Tcp(first)];
            for _ in 1..workers.get() {
                sockets.push(BoundSocket::Tcp(bind_tcp(address)?));
            }
            Ok((ListenAddress::Tcp(address), sockets))
        }
        ListenAddress::Unix { path, mode } => {
            remove_left_behind(path)?;
            let first = UnixListener::bind(path)?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(*mode))?;
            first.set_nonblocking(true)?;
            let sockets = (1..workers.get()).map(|_| first.try_clone().map(BoundSocket::Unix));
            let mut sockets = sockets.collect::<io::Result<Vec<_>>>()?;
            sockets.push(BoundSocket::Unix(first));
            Ok((address.clone(), sockets))
        }
    }
}

/// Removes what `bind` left in the file system.
pub(crate) fn unbind(address: &ListenAddress) {
    if let ListenAddress::Unix { path, .. } = address {
        // One that is gone already is as well.
        let _ = std::fs::remove_file(path);
    }
}

impl BoundSocket {
    /// Registers the socket with the runtime this is called on.
    pub(crate) fn listen(self) -> io::Result<ListeningSocket> {
        Ok(match self {
            Self::Tcp(socket) => ListeningSocket::Tcp(tokio::net::TcpListener::from_std(socket)?),
            Self::Unix(socket) => {
                ListeningSocket::Unix(tokio::net::UnixListener::from_std(socket)?)
            }
        })
    }
}

impl ListeningSocket {
    /// Waits for a client.
    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        /// Where clients of a path are.
        const HERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        match self {
            Self::Tcp(listener) => {
                let (stream, remote) = listener.accept().await?;
                configure(&stream);
                // A socket for both has `::ffff:192.0.2.1` for a client that is `192.0.2.1` to everybody else.
                let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
                Ok(Accepted::Tcp(stream, remote))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok(Accepted::Unix(stream, HERE))
            }
        }
    }
}

/// Refuses an address that another process listens on. Workers share theirs, and so would two servers
/// of the same user without a word: each would get some of the other's connections.
fn refuse_taken(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Past connections of a server that has stopped do not count.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())
}

fn bind_tcp(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Removes the socket of a server that died; one that answers, or a file of another kind, is refused.
fn remove_left_behind(path: &Path) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() || UnixStream::connect(path).is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    std::fs::remove_file(path)
}

/// Sends small replies at once, ends clients that never read or vanished, and leaves what they do not read to `write_backpressure`, which
/// bounds it. A socket that refuses an option still serves.
fn configure(stream: &tokio::net::TcpStream) {
    let socket = SockRef::from(stream);
    let set = socket
        .set_tcp_nodelay(true)
        .and_then(|()| socket.set_tcp_user_timeout(Some(UNREAD_TIMEOUT)))
        .and_then(|()| socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_TIME)))
        .and_then(|()| socket.set_tcp_notsent_lowat(KERNEL_UNSENT_BYTES_MAX));
    if let Err(error) = set {
        tracing::debug!(%error, "socket option refused");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_vanished_is_noticed() {
        let (address, sockets) =
            bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into(), NonZeroUsize::MIN).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = sockets.into_iter().next().unwrap().listen().unwrap();
            let _client = std::net::TcpStream::connect(address.tcp().unwrap()).unwrap();
            let Accepted::Tcp(stream, _) = listener.accept().await.unwrap() else { panic!() };
            assert!(SockRef::from(&stream).keepalive().unwrap());
        });
    }

    #[test]
    fn an_address_of_ipv4_is_one_at_a_socket_for_both() {
        let both = SocketAddr::from(([0_u16; 8], 0));
        // A machine without IPv6 has no such socket.
        let Ok((address, sockets)) = bind(&both.into(), NonZeroUsize::MIN) else { return };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = sockets.into_iter().next().unwrap().listen().unwrap();
            let port = address.tcp().unwrap().port();
            let client = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            let Accepted::Tcp(_, remote) = listener.accept().await.unwrap() else { panic!() };
            assert_eq!(remote, client.local_addr().unwrap());
        });
    }

    #[test]
    fn a_path_is_taken_once_and_what_died_leaves_it_free() {
        let path = std::env::temp_dir().join(format!("kallisto-socket-{}", std::process::id()));
        let address = ListenAddress::Unix { path: path.clone(), mode: 0o600 };
        let one = NonZeroUsize::MIN;
        let (bound, sockets) = bind(&address, one).unwrap();
        assert_eq!(bound, address);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(bind(&address, one).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        // Its server is gone and its file is not.
        drop(sockets);
        let (_, sockets) = bind(&address, one).unwrap();
        drop(sockets);
        unbind(&address);
        assert!(!path.exists());
        std::fs::create_dir(&path).unwrap();
        assert_eq!(bind(&address, one).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        std::fs::remove_dir(&path).unwrap();
    }
}
