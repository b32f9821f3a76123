//! Records to a socket: a TCP or Unix stream of lines, or one datagram a record.
//!
//! A stream whose other end is gone is noticed before a group is written where the kernel knows it;
//! a group that fails is sent once more over a new connection, so a receiver may see records twice.
//! What a receiver sends means nothing here and is read away before each group: its end lies behind it.
//! What the kernel took and the receiver never read is lost without notice: who cannot bear that
//! has a file as well.

use std::io::{self, ErrorKind, Write};
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::RecvFlags;
use rustix::net::sockopt::set_socket_recv_buffer_size;

use super::{LineGroup, Sink};
use crate::chain::ChainHead;
use crate::limits::{DATAGRAM_BYTES_MAX, RECEIVER_BYTES_BUFFERED, RECEIVER_BYTES_READ_MAX};
use crate::options::SocketTransport;

pub(super) struct SocketSink {
    transport: SocketTransport,
    address: String,
    timeout: Duration,
    connection: Option<SinkConnection>,
}

enum SinkConnection {
    Tcp(TcpStream),
    Unix(UnixStream),
    Udp(UdpSocket),
}

impl SocketSink {
    /// A sink that gives up on a connection after half of the device's deadline, so that the second
    /// try fits in as well.
    pub(super) fn new(transport: SocketTransport, address: String, deadline: Duration) -> Self {
        Self { transport, address, timeout: deadline / 2, connection: None }
    }

    fn connect(&self) -> io::Result<SinkConnection> {
        Ok(match self.transport {
            SocketTransport::Unix => {
                let stream = UnixStream::connect(&self.address)?;
                stream.set_write_timeout(Some(self.timeout))?;
                SinkConnection::Unix(stream)
            }
            SocketTransport::Tcp => {
                let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
                for address in self.address.to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, self.timeout) {
                        Ok(stream) => {
                            stream.set_write_timeout(Some(self.timeout))?;
                            // Fixed, or it grows with what is read, past what one look reads away.
                            set_socket_recv_buffer_size(&stream, RECEIVER_BYTES_BUFFERED)?;
                            return Ok(SinkConnection::Tcp(stream));
                        }
                        Err(error) => last = error,
                    }
                }
                return Err(last);
            }
            SocketTransport::Udp => {
                let mut addresses = self.address.to_socket_addrs()?;
                let address = addresses.next().ok_or(ErrorKind::AddrNotAvailable)?;
                let local = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(local)?;
                socket.connect(address)?;
                SinkConnection::Udp(socket)
            }
        })
    }
}

impl SinkConnection {
    fn write(&mut self, group: &LineGroup<'_>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                check_open(&*stream)?;
                stream.write_all(group.bytes)
            }
            Self::Unix(stream) => {
                check_open(&*stream)?;
                stream.write_all(group.bytes)
            }
            Self::Udp(socket) => group.lines().try_for_each(|line| {
                if line.len() > DATAGRAM_BYTES_MAX {
                    return Err(io::Error::new(
                        ErrorKind::InvalidInput,
                        "a record is larger than a datagram",
                    ));
                }
                socket.send(line).map(|_| ())
            }),
        }
    }
}

/// Fails when the other end has closed the stream. What it sent before is read and dropped; a
/// receiver that sends faster than that is there, and is looked at again with the next group.
fn check_open(stream: &impl std::os::fd::AsFd) -> io::Result<()> {
    let mut dropped = [0_u8; 8 << 10];
    let mut read = 0;
    while read < RECEIVER_BYTES_READ_MAX {
        match rustix::net::recv(stream, &mut dropped[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(ErrorKind::ConnectionReset.into()),
            Ok((bytes, _)) => read += bytes,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl Sink for SocketSink {
    fn open(&mut self) -> io::Result<Option<ChainHead>> {
        self.connection = None;
        self.connection = Some(self.connect()?);
        Ok(None)
    }

    fn line_bytes_max(&self) -> usize {
        match self.transport {
            SocketTransport::Udp => DATAGRAM_BYTES_MAX,
            SocketTransport::Tcp | SocketTransport::Unix => usize::MAX,
        }
    }

    fn write(&mut self, group: &LineGroup<'_>) -> io::Result<()> {
        if let Some(mut connection) = self.connection.take() {
            match connection.write(group) {
                Ok(()) => {
                    self.connection = Some(connection);
                    return Ok(());
                }
                // A peer that takes nothing in time is not asked again.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::InvalidInput
                    ) =>
                {
                    return Err(error);
                }
                Err(error) => {
                    tracing::debug!(%error, "an audit connection broke; trying a new one")
                }
            }
        }
        let mut connection = self.connect()?;
        connection.write(group)?;
        self.connection = Some(connection);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(20);

    fn send(sink: &mut SocketSink, lines: &[&str]) -> io::Result<()> {
        let bytes = lines.concat().into_bytes();
        let mut end = 0;
        let ends: Vec<usize> = lines
            .iter()
            .map(|line| {
                end += line.len();
                end
            })
            .collect();
        sink.write(&LineGroup { bytes: &bytes, ends: &ends })
    }

    fn lines(from: impl io::Read, count: usize) -> Vec<String> {
        BufReader::new(from).lines().take(count).map(|line| line.unwrap()).collect()
    }

    #[test]
    fn a_datagram_is_one_record() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(DEADLINE)).unwrap();
        let address = receiver.local_addr().unwrap().to_string();
        let mut sink = SocketSink::new(SocketTransport::Udp, address, DEADLINE);
        sink.open().unwrap();
        send(&mut sink, &["one\n", "two\n"]).unwrap();
        let mut buffer = [0; 16];
        for expected in ["one", "two"] {
            let taken = receiver.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..taken], expected.as_bytes());
        }
        let long = "x".repeat(DATAGRAM_BYTES_MAX + 1);
        assert_eq!(send(&mut sink, &[&long]).unwrap_err().kind(), ErrorKind::InvalidInput);
        send(&mut sink, &["three\n"]).unwrap();
        let taken = receiver.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..taken], b"three");
        send(&mut sink, &[&format!("{}\n", "x".repeat(DATAGRAM_BYTES_MAX))]).unwrap();
        let mut largest = vec![0; 1 << 16];
        assert_eq!(receiver.recv(&mut largest).unwrap(), DATAGRAM_BYTES_MAX);
    }

    #[test]
    fn a_unix_stream_takes_lines_and_is_opened_again_when_it_broke() {
        let directory = std::env::temp_dir().join(format!("kallisto-sink-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("audit.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let address = path.to_str().unwrap().to_owned();
        let mut sink = SocketSink::new(SocketTransport::Unix, address, DEADLINE);
        sink.open().unwrap();
        send(&mut sink, &["one\n", "two\n"]).unwrap();
        let (first, _) = listener.accept().unwrap();
        assert_eq!(lines(&first, 2), ["one", "two"]);
        drop(first);
        send(&mut sink, &["three\n"]).unwrap();
        let (second, _) = listener.accept().unwrap();
        assert_eq!(lines(&second, 1), ["three"]);
        drop((second, listener));
        assert!(send(&mut sink, &["four\n"]).is_err(), "nobody listens any more");
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_tcp_stream_takes_lines_and_is_opened_again_when_it_broke() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut sink = SocketSink::new(SocketTransport::Tcp, address, DEADLINE);
        sink.open().unwrap();
        send(&mut sink, &["one\n"]).unwrap();
        let (first, _) = listener.accept().unwrap();
        assert_eq!(lines(&first, 1), ["one"]);
        drop(first);
        send(&mut sink, &["two\n"]).unwrap();
        let (second, _) = listener.accept().unwrap();
        assert_eq!(lines(&second, 1), ["two"]);
    }

    /// A receiver and what is connected to it.
    fn receiver() -> (TcpListener, SocketSink) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut sink = SocketSink::new(SocketTransport::Tcp, address, DEADLINE);
        sink.open().unwrap();
        (listener, sink)
    }

    #[test]
    fn a_receiver_that_takes_nothing_is_given_half_of_the_deadline_and_is_not_asked_again() {
        let (listener, sink) = receiver();
        let Some(SinkConnection::Tcp(connection)) = &sink.connection else {
            panic!("it is connected");
        };
        assert_eq!(connection.write_timeout().unwrap(), Some(DEADLINE / 2));
        let address = listener.local_addr().unwrap().to_string();
        let (_first, _) = listener.accept().unwrap();
        let brief = Duration::from_millis(40);
        let mut sink = SocketSink::new(SocketTransport::Tcp, address, brief);
        sink.open().unwrap();
        let (_second, _) = listener.accept().unwrap();
        // More than the kernel keeps for who does not read.
        let error = send(&mut sink, &[&"x".repeat(64 << 20)]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "no third");
    }

    #[test]
    fn a_receiver_that_talked_and_hung_up_is_left_before_a_record_is_written() {
        let talk = vec![b'x'; 48 << 10];
        let (listener, mut sink) = receiver();
        let (mut first, _) = listener.accept().unwrap();
        first.write_all(&talk).unwrap();
        drop(first);
        send(&mut sink, &["one\n"]).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (second, _) = listener.accept().expect("the record goes over a new connection");
        second.set_nonblocking(false).unwrap();
        assert_eq!(lines(&second, 1), ["one"]);

        let path = std::env::temp_dir().join(format!("kallisto-talks-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let address = path.to_str().unwrap().to_owned();
        let mut sink = SocketSink::new(SocketTransport::Unix, address, DEADLINE);
        sink.open().unwrap();
        let (mut first, _) = listener.accept().unwrap();
        first.write_all(&talk).unwrap();
        drop(first);
        send(&mut sink, &["one\n"]).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (second, _) = listener.accept().expect("the record goes over a new connection");
        second.set_nonblocking(false).unwrap();
        assert_eq!(lines(&second, 1), ["one"]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_receiver_that_talks_for_ever_stays_in_use_and_takes_little_memory() {
        const GROUPS: usize = 200;
        let (listener, mut sink) = receiver();
        let (stream, _) = listener.accept().unwrap();
        let mut talker = stream.try_clone().unwrap();
        let talking = std::thread::spawn(move || {
            let talk = vec![b'x'; 64 << 10];
            // Until the other end goes.
            while talker.write_all(&talk).is_ok() {}
        });
        let reading = std::thread::spawn(move || lines(&stream, GROUPS));
        for n in 0..GROUPS {
            send(&mut sink, &[&format!("{n}\n")]).unwrap();
        }
        let expected: Vec<String> = (0..GROUPS).map(|n| n.to_string()).collect();
        assert_eq!(reading.join().unwrap(), expected, "all over the one connection");
        let Some(SinkConnection::Tcp(connection)) = &sink.connection else {
            panic!("it is still connected");
        };
        let buffer = rustix::net::sockopt::socket_recv_buffer_size(connection).unwrap();
        assert!(
            buffer <= 2 * RECEIVER_BYTES_BUFFERED,
            "{buffer}: the kernel doubles what is asked"
        );
        drop(sink);
        talking.join().unwrap();
    }
}
