//! Ports for servers that are told where to listen, and that listen there again after a restart.
//!
//! What the system gives out for port 0 it also gives to clients as the port they call from: between the question and
//! the server's start, or between its end and its next start, another test's connection may sit on it. These ports are
//! from below that range, which starts at 32768 on Linux (`ip_local_port_range`).

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// The first port, and how many there are.
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;

/// An address on this machine where nobody listens, and which this process was not given before.
pub(crate) fn free_address() -> SocketAddr {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Processes that run side by side have close ids, and take some dozens of ports each.
    let start = std::process::id().wrapping_mul(97);
    let ports = std::iter::repeat_with(|| {
        let at = start.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        u16::try_from(FIRST + at % COUNT).unwrap()
    });
    let mut addresses = ports.take(COUNT as usize).map(|port| (Ipv4Addr::LOCALHOST, port).into());
    addresses.find(|address: &SocketAddr| TcpListener::bind(address).is_ok()).unwrap()
}
