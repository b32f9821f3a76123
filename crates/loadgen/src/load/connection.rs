//! One connection that never blocks, plain or TLS.
//!
//! Requests are written to [`LoadConnection::output`] and leave with [`LoadConnection::send`]; what came in is in
//! [`LoadConnection::input`], from which the caller takes replies off the front.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustls::ClientConnection;

use super::poll::{Poll, PollInterest};
use super::target::LoadTarget;

/// Bytes read at once.
pub(super) const READ_BYTES: usize = 128 << 10;

/// A connection and its buffers.
pub(super) struct LoadConnection {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
    id: usize,
    interest: PollInterest,
    /// Requests that have not left.
    pub(super) output: Vec<u8>,
    /// Replies that were not taken.
    pub(super) input: Vec<u8>,
}

/// What came of looking for input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// Perhaps something.
    Open,
    /// The server closed its side.
    End,
}

impl LoadConnection {
    /// Starts to connect; what is written before it is connected leaves then.
    pub(super) fn open(target: &LoadTarget, poll: &Poll, id: usize) -> io::Result<Self> {
        let family = match target.address {
            std::net::SocketAddr::V4(_) => AddressFamily::INET,
            std::net::SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        // A closed connection leaves no trace: waiting ones would use up the ports of a run that
        // connects for each request.
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        match rustix::net::connect(&socket, &target.address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let socket = TcpStream::from(socket);
        let interest = PollInterest::InputAndRoom;
        poll.add(&socket, id, interest)?;
        let tls = target.start_tls()?.map(Box::new);
        Ok(Self { socket, tls, id, interest, output: Vec::new(), input: Vec::new() })
    }

    /// Sends as much of the output as goes.
    pub(super) fn send(&mut self, poll: &Poll) -> io::Result<()> {
        let is_done = match &mut self.tls {
            None => send_plain(&mut self.socket, &mut self.output)?,
            Some(tls) => {
                if !self.output.is_empty() {
                    tls.writer().write_all(&self.output)?;
                    self.output.clear();
                }
                send_tls(&mut self.socket, tls)?
            }
        };
        let wanted = if is_done { PollInterest::Input } else { PollInterest::InputAndRoom };
        if wanted != self.interest {
            poll.change(&self.socket, self.id, wanted)?;
            self.interest = wanted;
        }
        Ok(())
    }

    /// Reads once what has come; `scratch` is [`READ_BYTES`] long.
    pub(super) fn receive(&mut self, scratch: &mut [u8]) -> io::Result<Received> {
        match &mut self.tls {
            None => match self.socket.read(scratch) {
                Ok(0) => Ok(Received::End),
                Ok(count) => {
                    self.input.extend_from_slice(&scratch[..count]);
                    Ok(Received::Open)
                }
                Err(error) => patient(error),
            },
            Some(tls) => {
                match tls.read_tls(&mut self.socket) {
                    Ok(0) => return Ok(Received::End),
                    Ok(_) => {}
                    Err(error) => return patient(error),
                }
                tls.process_new_packets().map_err(io::Error::other)?;
                loop {
                    match tls.reader().read(scratch) {
                        Ok(0) => return Ok(Received::End),
                        Ok(count) => self.input.extend_from_slice(&scratch[..count]),
                        Err(error) => return patient(error),
                    }
                }
            }
        }
    }

    /// Takes `count` bytes off the front of the input.
    pub(super) fn consume(&mut self, count: usize) {
        if count == self.input.len() {
            self.input.clear();
        } else {
            self.input.drain(..count);
        }
    }
}

/// An error that only says that there is nothing now.
fn patient(error: io::Error) -> io::Result<Received> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(Received::Open),
        _ => Err(error),
    }
}

/// True when all was sent.
fn send_plain(socket: &mut TcpStream, output: &mut Vec<u8>) -> io::Result<bool> {
    let mut sent = 0;
    while sent < output.len() {
        match socket.write(&output[sent..]) {
            Ok(count) => sent += count,
            Err(error) if is_not_yet(&error) => {
                output.drain(..sent);
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
    }
    output.clear();
    Ok(true)
}

/// True when all was sent.
fn send_tls(socket: &mut TcpStream, tls: &mut ClientConnection) -> io::Result<bool> {
    while tls.wants_write() {
        match tls.write_tls(socket) {
            Ok(_) => {}
            Err(error) if is_not_yet(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn is_not_yet(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::NotConnected)
}
