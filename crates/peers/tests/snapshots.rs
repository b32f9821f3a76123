//! Two ports and a snapshot between them: whole, broken off and continued, and gone; and while a stranger holds many connections.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use kallisto_peers::limits::SILENCE;
use kallisto_peers::{ClusterAuthority, NodeKey, PeerIdentity, Port, Upper};
use kallisto_store::{Announcement, ChunkSink, Chunks, Error, Peer, Transport};
use tokio::net::TcpSocket;
use tokio::time::timeout;

const STORE: [u8; 16] = [7; 16];
/// Chunks of the snapshot, each a byte that says its number.
const CHUNKS: u8 = 6;
/// Longest wait for something on the wire.
const PATIENCE: Duration = Duration::from_secs(30);
/// Connections of a stranger, more than there are places.
const STRANGERS: usize = 600;

/// A server that sends a snapshot from a chunk on, and whose disk fails before another.
struct Sending {
    fails_at: Mutex<Option<u8>>,
}

struct TestChunks {
    next: u8,
    fails_at: Option<u8>,
}

impl Chunks for TestChunks {
    fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if self.fails_at == Some(self.next) {
            return Err(Error::Unavailable("a disk failed".into()));
        }
        self.next += 1;
        Ok((self.next <= CHUNKS).then(|| vec![self.next - 1]))
    }
}

impl Upper for Sending {
    fn receive(&self, _from: u64, _message: Bytes) {}

    fn announced(&self, _said: &Peer) -> Announcement {
        Announcement::Known
    }

    fn meet(&self, _peer: Peer) {}

    fn snapshot(&self) -> Result<Box<dyn Chunks>, Error> {
        let fails_at = self.fails_at.lock().unwrap().take();
        Ok(Box::new(TestChunks { next: 0, fails_at }))
    }

    fn snapshot_behind(&self, place: &[u8]) -> Result<Option<Box<dyn Chunks>>, Error> {
        let held = place.first().filter(|&&next| next < CHUNKS);
        Ok(held.map(|&next| Box::new(TestChunks { next, fails_at: None }) as _))
    }

    fn has_left(&self, _peer: u64) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        Box::pin(async { false })
    }

    fn removed(&self) {}

    fn answer(&self, _from: u64, request: Bytes) -> Pin<Box<dyn Future<Output = Bytes> + Send>> {
        Box::pin(async move { request })
    }
}

/// What became of a fetch, with what came.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Whole(Vec<u8>),
    Broken(Vec<u8>),
    Gone,
}

/// Keeps what comes, and tells in the end.
struct Sink {
    place: Option<u8>,
    came: Vec<u8>,
    tell: Option<Sender<Outcome>>,
}

impl Sink {
    fn tell(&mut self, outcome: Outcome) {
        if let Some(tell) = self.tell.take() {
            tell.send(outcome).unwrap();
        }
    }
}

impl ChunkSink for Sink {
    fn place(&self) -> Option<Vec<u8>> {
        self.place.map(|place| vec![place])
    }

    fn take(&mut self, chunk: Bytes) -> Result<(), Error> {
        self.came.extend_from_slice(&chunk);
        Ok(())
    }

    fn gone(mut self: Box<Self>) {
        self.tell(Outcome::Gone);
    }

    fn finish(mut self: Box<Self>) -> Result<(), Error> {
        let came = std::mem::take(&mut self.came);
        self.tell(Outcome::Whole(came));
        Ok(())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let came = std::mem::take(&mut self.came);
        self.tell(Outcome::Broken(came));
    }
}

fn fetch(port: &Port, place: Option<u8>) -> Outcome {
    let (tell, told): (_, Receiver<Outcome>) = channel();
    port.fetch_snapshot(1, Box::new(Sink { place, came: Vec::new(), tell: Some(tell) }));
    told.recv_timeout(PATIENCE).unwrap()
}

fn port(authority: &ClusterAuthority, node_id: u64) -> Port {
    let port = Port::bind((Ipv4Addr::LOCALHOST, 0).into(), Peer::default()).unwrap();
    let key = NodeKey::generate().unwrap();
    let certificate = authority.issue(node_id, &STORE, &key.public).unwrap();
    let authority = authority.certificate.clone();
    port.install(&PeerIdentity { node_id, store_id: STORE, key, certificate, authority }).unwrap();
    port
}

/// Two ports that know each other.
fn ports() -> [Port; 2] {
    let authority = ClusterAuthority::generate().unwrap();
    let ports = [port(&authority, 1), port(&authority, 2)];
    let peers = [1, 2].map(|id| Peer { id, ..ports[id as usize - 1].own().clone() });
    ports.iter().for_each(|port| port.know(&peers));
    ports
}

#[test]
fn a_snapshot_comes_whole_or_from_where_it_broke_off_or_is_said_to_be_gone() {
    let ports = ports();
    let fails_at = Mutex::new(Some(4));
    ports[0].serve(Arc::new(Sending { fails_at }));
    assert_eq!(fetch(&ports[1], None), Outcome::Broken(vec![0, 1, 2, 3]));
    assert_eq!(fetch(&ports[1], Some(4)), Outcome::Whole(vec![4, 5]));
    assert_eq!(fetch(&ports[1], Some(CHUNKS)), Outcome::Gone);
    assert_eq!(fetch(&ports[1], None), Outcome::Whole((0..CHUNKS).collect()));
}

#[test]
fn a_stranger_that_holds_many_connections_keeps_no_peer_out() {
    let ports = ports();
    ports[0].serve(Arc::new(Sending { fails_at: Mutex::new(None) }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let held: Vec<_> = runtime.block_on(async {
        let mut held = Vec::new();
        while held.len() < STRANGERS {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into()).unwrap();
            let connecting = socket.connect(ports[0].address());
            // Where nobody accepts, the queue of the system gets full.
            match timeout(Duration::from_millis(200), connecting).await {
                Ok(Ok(stream)) => held.push(stream),
                Ok(Err(_)) | Err(_) => break,
            }
        }
        held
    });
    assert_eq!(fetch(&ports[1], None), Outcome::Whole((0..CHUNKS).collect()));
    drop(held);
}

/// Its certificate does not end: what it may ask ends with its place among the members, also over a connection that is there.
#[test]
fn a_server_that_was_removed_is_answered_no_more() {
    let ports = ports();
    ports[0].serve(Arc::new(Sending { fails_at: Mutex::new(None) }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ask = || {
        let asked = ports[1].ask(1, Bytes::from_static(b"who leads"));
        runtime.block_on(async { timeout(PATIENCE, asked).await.unwrap() })
    };
    assert_eq!(ask(), Ok(Bytes::from_static(b"who leads")));
    ports[0].know(&[Peer { id: 1, ..ports[0].own().clone() }]);
    for _ in 0..3 {
        let answer = ask();
        assert!(answer.is_err(), "{answer:?}");
    }
}

/// A server that a member has let go, and one that hears of it.
#[derive(Default)]
struct Parted {
    is_told: AtomicBool,
    was_asked: AtomicU32,
}

impl Upper for Parted {
    fn receive(&self, _from: u64, _message: Bytes) {}

    fn announced(&self, _said: &Peer) -> Announcement {
        Announcement::Known
    }

    fn meet(&self, _peer: Peer) {}

    fn snapshot(&self) -> Result<Box<dyn Chunks>, Error> {
        Err(Error::Unavailable("there is none".into()))
    }

    fn snapshot_behind(&self, _place: &[u8]) -> Result<Option<Box<dyn Chunks>>, Error> {
        Ok(None)
    }

    fn has_left(&self, _peer: u64) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        self.was_asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { true })
    }

    fn removed(&self) {
        self.is_told.store(true, Ordering::SeqCst);
    }

    fn answer(&self, _from: u64, request: Bytes) -> Pin<Box<dyn Future<Output = Bytes> + Send>> {
        Box::pin(async move { request })
    }
}

/// One without a vote, or that is sealed, sends nothing by itself, and nobody sends to a server that was let go while it was down.
#[test]
fn a_server_that_hears_from_nobody_asks_and_is_told_that_it_was_removed() {
    let ports = ports();
    let uppers = [Arc::<Parted>::default(), Arc::<Parted>::default()];
    ports[0].know(&[Peer { id: 1, ..ports[0].own().clone() }]);
    for (port, upper) in ports.iter().zip(&uppers) {
        port.serve(Arc::clone(upper) as _);
    }
    let pause = Duration::from_millis(20);
    let mut waited = Duration::ZERO;
    while !uppers[1].is_told.load(Ordering::SeqCst) {
        assert!(waited < PATIENCE, "it was not told");
        std::thread::sleep(pause);
        waited += pause;
    }
    // It may not have believed it, so it asks again after two more seconds; and not on and on.
    std::thread::sleep(4 * SILENCE);
    assert_eq!(uppers[0].was_asked.load(Ordering::SeqCst), 2);
    assert!(!uppers[0].is_told.load(Ordering::SeqCst), "who knows of no other asks nobody");
}
