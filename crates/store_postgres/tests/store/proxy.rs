//! A wire to the database, with faults.
//!
//! Another crate's tests use this file too.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a connection looks whether its wire has a fault.
const LOOK: Duration = Duration::from_millis(2);

/// How long a narrow wire takes for a kilobyte.
const NARROW: Duration = Duration::from_micros(600);

/// What a wire does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DatabaseWire {
    /// It carries.
    #[default]
    Sound,
    /// Connections end, and new ones end as well.
    Cut,
    /// Connections stay, new ones come about, and nothing moves.
    Hanging,
    /// What is asked arrives, and what is answered does not.
    AnswersLost,
    /// Notifications are lost, everything else arrives.
    NotificationsLost,
    /// Everything arrives, 1.6 MB of it a second.
    #[allow(dead_code, reason = "tests of another crate use their part")]
    Narrow,
}

/// A proxy in front of a database.
pub(crate) struct DatabaseProxy {
    pub(crate) address: SocketAddr,
    wire: Arc<Mutex<DatabaseWire>>,
}

impl DatabaseProxy {
    /// Puts a proxy in front of a database.
    pub(crate) fn before(database: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let wire = Arc::<Mutex<DatabaseWire>>::default();
        let shared = Arc::clone(&wire);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let wire = Arc::clone(&shared);
                std::thread::spawn(move || carry(stream, database, &wire));
            }
        });
        Self { address, wire }
    }

    /// Sets what the wire does.
    pub(crate) fn set(&self, wire: DatabaseWire) {
        *self.wire.lock().unwrap() = wire;
    }
}

fn carry(dialled: TcpStream, database: SocketAddr, wire: &Arc<Mutex<DatabaseWire>>) {
    while *wire.lock().unwrap() == DatabaseWire::Hanging {
        std::thread::sleep(LOOK);
    }
    if *wire.lock().unwrap() == DatabaseWire::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(database) else { return };
    for stream in [&dialled, &server] {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LOOK)).unwrap();
    }
    let (back, forth) = (dialled.try_clone().unwrap(), server.try_clone().unwrap());
    let answers = Arc::clone(wire);
    std::thread::spawn(move || pump(&server, &back, &answers, Flow::Answers(Vec::new())));
    pump(&dialled, &forth, wire, Flow::Questions);
}

enum Flow {
    Questions,
    /// With the beginning of a message whose end has not come.
    Answers(Vec<u8>),
}

impl Flow {
    /// What of a piece is carried.
    fn pass(&mut self, piece: &[u8], wire: DatabaseWire) -> Vec<u8> {
        let Self::Answers(pending) = self else { return piece.to_vec() };
        if wire == DatabaseWire::AnswersLost {
            return Vec::new();
        }
        pending.extend_from_slice(piece);
        let mut out = Vec::new();
        // A letter, and a length that counts itself.
        while let Some(length) = pending.get(1..5) {
            let length = 1 + u32::from_be_bytes(length.try_into().unwrap()) as usize;
            if pending.len() < length {
                break;
            }
            let message: Vec<u8> = pending.drain(..length).collect();
            if !(wire == DatabaseWire::NotificationsLost && message[0] == b'A') {
                out.extend(message);
            }
        }
        out
    }
}

/// Carries one direction until either end, or the wire, ends it.
fn pump(
    mut source: &TcpStream,
    mut target: &TcpStream,
    wire: &Mutex<DatabaseWire>,
    mut flow: Flow,
) {
    let mut piece = vec![0; 64 << 10];
    loop {
        let now = *wire.lock().unwrap();
        match now {
            DatabaseWire::Cut => break,
            DatabaseWire::Hanging => {
                std::thread::sleep(LOOK);
                continue;
            }
            _ => {}
        }
        let length = match source.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(_) => break,
        };
        // The fault may have come while this waited.
        let mut now = *wire.lock().unwrap();
        while now == DatabaseWire::Hanging {
            std::thread::sleep(LOOK);
            now = *wire.lock().unwrap();
        }
        if now == DatabaseWire::Cut {
            break;
        }
        if now == DatabaseWire::Narrow {
            std::thread::sleep(NARROW * u32::try_from(length.div_ceil(1 << 10)).unwrap());
        }
        if target.write_all(&flow.pass(&piece[..length], now)).is_err() {
            break;
        }
    }
    // Both ends hear of it, if they are there.
    let _ = (source.shutdown(Shutdown::Both), target.shutdown(Shutdown::Both));
}
