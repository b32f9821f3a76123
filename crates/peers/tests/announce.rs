//! Whose new address is taken: only one at which the member itself answers.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use kallisto_peers::{ClusterAuthority, NodeKey, PeerIdentity, Port, Upper};
use kallisto_store::{Announcement, Chunks, Error, Peer, Transport};

const STORE: [u8; 16] = [7; 16];
const PATIENCE: Duration = Duration::from_secs(30);
/// Where nobody listens.
const NOWHERE: &str = "127.0.0.1:9";

/// A leader that takes whatever it is told to.
#[derive(Default)]
struct Leading {
    /// The member as it is known.
    known: Mutex<Peer>,
    /// How often it said something else.
    said: AtomicU32,
}

impl Upper for Leading {
    fn receive(&self, _from: u64, _message: Bytes) {}

    fn announced(&self, said: &Peer) -> Announcement {
        let was = self.known.lock().unwrap().clone();
        if said.id != was.id || said.is_as_known(&was) {
            return Announcement::Known;
        }
        self.said.fetch_add(1, Ordering::SeqCst);
        Announcement::Changed { was }
    }

    fn meet(&self, peer: Peer) {
        *self.known.lock().unwrap() = peer;
    }

    fn snapshot(&self) -> Result<Box<dyn Chunks>, Error> {
        Err(Error::Unavailable("there is none".into()))
    }

    fn snapshot_behind(&self, _place: &[u8]) -> Result<Option<Box<dyn Chunks>>, Error> {
        Ok(None)
    }

    fn has_left(&self, _peer: u64) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        Box::pin(async { false })
    }

    fn removed(&self) {}

    fn answer(&self, _from: u64, request: Bytes) -> Pin<Box<dyn Future<Output = Bytes> + Send>> {
        Box::pin(async move { request })
    }
}

/// A port whose server says that it is reached at this address; where that is empty, where it is.
fn port(authority: &ClusterAuthority, node_id: u64, says: &str) -> Port {
    let own = Peer { cluster_address: says.to_owned(), ..Peer::default() };
    let port = Port::bind((Ipv4Addr::LOCALHOST, 0).into(), own).unwrap();
    let key = NodeKey::generate().unwrap();
    let certificate = authority.issue(node_id, &STORE, &key.public).unwrap();
    let authority = authority.certificate.clone();
    port.install(&PeerIdentity { node_id, store_id: STORE, key, certificate, authority }).unwrap();
    port
}

fn at(id: u64, address: &str) -> Peer {
    Peer { id, cluster_address: address.to_owned(), ..Peer::default() }
}

/// What the leader knows of a member in the end that was known at one address and says another.
fn known_of(known: &str, says: &dyn Fn(&Port) -> String) -> String {
    let authority = ClusterAuthority::generate().unwrap();
    let leader = port(&authority, 1, "");
    let address = says(&leader);
    let member = port(&authority, 2, &address);
    let real = member.address().to_string();
    let known = if known.is_empty() { real } else { known.to_owned() };
    let peers = [at(1, &leader.address().to_string()), at(2, &known)];
    let upper = Arc::new(Leading { known: Mutex::new(peers[1].clone()), ..Leading::default() });
    for port in [&leader, &member] {
        port.know(&peers);
    }
    leader.serve(Arc::clone(&upper) as _);
    member.serve(Arc::<Leading>::default() as _);
    let mut waited = Duration::ZERO;
    // It says so again as long as it is not taken: then the first try was in vain.
    while upper.said.load(Ordering::SeqCst) < 4
        && upper.known.lock().unwrap().cluster_address == known
    {
        assert!(waited < PATIENCE, "it said nothing");
        let pause = Duration::from_millis(20);
        std::thread::sleep(pause);
        waited += pause;
    }
    let known = upper.known.lock().unwrap().cluster_address.clone();
    match known == member.address().to_string() {
        true => "its own".to_owned(),
        false => known,
    }
}

#[test]
fn an_address_is_taken_where_its_member_answers() {
    assert_eq!(known_of(NOWHERE, &|_| String::new()), "its own");
}

#[test]
fn an_address_is_not_taken_where_nobody_answers() {
    assert_eq!(known_of("", &|_| NOWHERE.to_owned()), "its own");
}

/// In whatever way it is written.
#[test]
fn an_address_is_not_taken_where_another_member_answers() {
    let other = |leader: &Port| format!("localhost:{}", leader.address().port());
    assert_eq!(known_of("", &other), "its own");
}
