//! The wires between the servers: a proxy in front of each one's cluster port, with a fault for each direction of each pair.
//!
//! TLS hides who dials, so the proxy asks the kernel which process the other end of a connection belongs to. What one
//! server says to another travels on connections that it dialled, so a fault from A to B is one of A's connections to B.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a connection looks whether its wire has a fault.
const LOOK: Duration = Duration::from_millis(5);

/// What a wire does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wire {
    /// It carries.
    #[default]
    Sound,
    /// Connections end, and no new ones come about.
    Cut,
    /// Nothing moves and nothing ends, as with packets that are all lost.
    Stalled,
    /// Every piece is late by so many milliseconds.
    Slow(u64),
    /// One piece of so many ends its connection.
    Flaky(u32),
}

/// All wires, by who dials and who is dialled.
#[derive(Default)]
pub(crate) struct Net {
    wires: Mutex<Vec<((usize, usize), Wire)>>,
    /// Which process each server is.
    pids: Mutex<Vec<(usize, u32)>>,
}

impl Net {
    /// Puts a proxy in front of server `to`, whose port is `real`; returns where the others find it.
    pub(crate) fn front(self: &Arc<Self>, to: usize, real: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let net = Arc::clone(self);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let net = Arc::clone(&net);
                std::thread::spawn(move || net.carry(stream, to, real));
            }
        });
        address
    }

    /// Says which process a server is now.
    pub(crate) fn is_process(&self, server: usize, pid: u32) {
        let mut pids = self.pids.lock().unwrap();
        pids.retain(|(known, _)| *known != server);
        pids.push((server, pid));
    }

    /// Sets what the wire from one server to another does.
    pub(crate) fn set(&self, from: usize, to: usize, wire: Wire) {
        let mut wires = self.wires.lock().unwrap();
        wires.retain(|(pair, _)| *pair != (from, to));
        wires.push(((from, to), wire));
    }

    /// Every wire carries again.
    pub(crate) fn heal(&self) {
        self.wires.lock().unwrap().clear();
    }

    fn wire(&self, from: usize, to: usize) -> Wire {
        let wires = self.wires.lock().unwrap();
        wires
            .iter()
            .find(|(pair, _)| *pair == (from, to))
            .map(|(_, wire)| *wire)
            .unwrap_or_default()
    }

    fn carry(self: Arc<Self>, dialled: TcpStream, to: usize, real: SocketAddr) {
        let Some(from) = self.who_dials(&dialled) else { return };
        while self.wire(from, to) == Wire::Stalled {
            std::thread::sleep(LOOK);
        }
        if self.wire(from, to) == Wire::Cut {
            return;
        }
        let Ok(server) = TcpStream::connect(real) else { return };
        for stream in [&dialled, &server] {
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(LOOK)).unwrap();
        }
        let (back, forth) = (dialled.try_clone().unwrap(), server.try_clone().unwrap());
        let net = Arc::clone(&self);
        std::thread::spawn(move || net.pump(&server, &back, from, to));
        self.pump(&dialled, &forth, from, to);
    }

    /// Carries one direction until either end, or the wire, ends it.
    fn pump(&self, mut source: &TcpStream, mut target: &TcpStream, from: usize, to: usize) {
        let mut piece = vec![0; 64 << 10];
        loop {
            let wire = self.wire(from, to);
            match wire {
                Wire::Cut => break,
                Wire::Stalled => {
                    std::thread::sleep(LOOK);
                    continue;
                }
                Wire::Sound | Wire::Slow(_) | Wire::Flaky(_) => {}
            }
            let length = match source.read(&mut piece) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(_) => break,
            };
            match wire {
                Wire::Slow(by) => std::thread::sleep(Duration::from_millis(by)),
                Wire::Flaky(of) if fastrand::u32(..of) == 0 => break,
                _ => {}
            }
            if target.write_all(&piece[..length]).is_err() {
                break;
            }
        }
        // Both ends hear of it, if they are there.
        let _ = (source.shutdown(Shutdown::Both), target.shutdown(Shutdown::Both));
    }

    /// The server whose process has the other end of a connection.
    fn who_dials(&self, dialled: &TcpStream) -> Option<usize> {
        let (theirs, ours) = (dialled.peer_addr().ok()?, dialled.local_addr().ok()?);
        let pids = self.pids.lock().unwrap().clone();
        let table = std::fs::read_to_string("/proc/net/tcp").ok()?;
        let (theirs, ours) = (format!(":{:04X}", theirs.port()), format!(":{:04X}", ours.port()));
        let inode = table.lines().find_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (local, remote) = (words.next()?, words.next()?);
            let inode = words.nth(6)?;
            (local.ends_with(&theirs) && remote.ends_with(&ours))
                .then(|| format!("socket:[{inode}]"))
        })?;
        let owns = |pid: u32| {
            let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
            let mut links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
            links.any(|link| link.as_os_str() == inode.as_str()).then_some(())
        };
        pids.into_iter().find(|(_, pid)| owns(*pid).is_some()).map(|(server, _)| server)
    }
}
