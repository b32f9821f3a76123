//! The port itself: one thread that accepts peers and keeps the connections to them, and one that answers what they relay.
//! They are apart so that Raft's messages wait for no request.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use kallisto_store::{Announcement, ChunkSink, Chunks, Error, Peer, Transport};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{mpsc, watch};

use crate::announce::Announcements;
use crate::identity::{PeerIdentity, PeerTls, PortError};
use crate::link::PeerLink;
use crate::relay::{Answering, RelayedRequest, Unanswered};
use crate::{announce, inquiry, link, relay, serve};

/// What stands above the port: it hears messages and answers requests.
pub trait Upper: Send + Sync {
    /// Takes a message.
    fn receive(&self, from: u64, message: Bytes);

    /// What is to be done with what a peer says of itself.
    fn announced(&self, said: &Peer) -> Announcement;

    /// Hears who a peer says it is; a new address of it was tried.
    fn meet(&self, peer: Peer);

    /// The state, for a peer that fell behind.
    ///
    /// # Errors
    /// What made it unreadable.
    fn snapshot(&self) -> Result<Box<dyn Chunks>, Error>;

    /// The rest of a snapshot that a peer was sent up to `place`; `None` if it is not held any more.
    ///
    /// # Errors
    /// What made it unreadable.
    fn snapshot_behind(&self, place: &[u8]) -> Result<Option<Box<dyn Chunks>>, Error>;

    /// Whether a server whose certificate is of this cluster, and that is not known here, was let go: asked of everything that
    /// was committed anywhere before. False as long as that cannot be said.
    fn has_left(&self, peer: u64) -> Pin<Box<dyn Future<Output = bool> + Send>>;

    /// A member says that the cluster has let this server go.
    fn removed(&self);

    /// Answers a request that a peer relays.
    fn answer(&self, from: u64, request: Bytes) -> Pin<Box<dyn Future<Output = Bytes> + Send>>;
}

/// The cluster port of a server. Dropping it ends its connections.
pub struct Port {
    shared: Arc<PortShared>,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the port's tasks share.
pub(crate) struct PortShared {
    pub(crate) handle: Handle,
    /// Where requests of peers are answered.
    pub(crate) answering: Handle,
    pub(crate) tls: ArcSwapOption<PeerTls>,
    /// This server as it wants to be known; the number comes with the identity.
    pub(crate) own: Peer,
    pub(crate) upper: OnceLock<Arc<dyn Upper>>,
    /// Whether a member sent a message since that was asked last.
    pub(crate) has_heard: AtomicBool,
    /// What is remembered of who members say they are.
    pub(crate) announcements: Announcements,
    state: Mutex<PortState>,
}

#[derive(Default)]
struct PortState {
    peers: BTreeMap<u64, Peer>,
    /// Where messages go, by peer.
    links: BTreeMap<u64, PeerLink>,
    /// Where requests go, by peer.
    lanes: BTreeMap<u64, mpsc::Sender<RelayedRequest>>,
}

impl PortShared {
    fn state(&self) -> MutexGuard<'_, PortState> {
        // What it guards is whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a peer is reached; `None` if it is no member.
    pub(crate) fn address_of(&self, peer: u64) -> Option<String> {
        self.state().peers.get(&peer).map(|peer| peer.cluster_address.clone())
    }

    /// What operators call a peer; its number if it has no name.
    pub(crate) fn name_of(&self, peer: u64) -> String {
        let name = self.state().peers.get(&peer).map(|peer| peer.name.clone());
        name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("{peer:016x}"))
    }

    /// The member behind one that was asked before, by their numbers and round again; `None` where there is no other, or this server has no
    /// identity to ask with.
    pub(crate) fn peer_behind(&self, last: u64) -> Option<u64> {
        let own = self.tls.load().as_ref()?.node_id;
        let state = self.state();
        let mut others = state.peers.keys().copied().filter(|&id| id != own);
        let first = others.clone().next();
        others.find(|&id| id > last).or(first)
    }

    /// This server as it says it is, and as its peers know it, where that is not the same.
    pub(crate) fn known_otherwise(&self) -> Option<(Peer, Peer)> {
        let own = Peer { id: self.tls.load().as_ref()?.node_id, ..self.own.clone() };
        let known = self.state().peers.get(&own.id)?.clone();
        (!own.is_as_known(&known)).then_some((own, known))
    }

    /// The members besides the one of this number.
    pub(crate) fn others(&self, own: u64) -> Vec<u64> {
        self.state().peers.keys().copied().filter(|&id| id != own).collect()
    }

    /// Whether a server is a member, as far as this one knows.
    pub(crate) fn is_member(&self, peer: u64) -> bool {
        self.state().peers.contains_key(&peer)
    }
}

impl Port {
    /// Binds `address`; what listens there says nothing before it has an identity. `own` is what peers are told of this
    /// server; where it says no cluster address, it is the one bound.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn bind(address: SocketAddr, own: Peer) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let own = match own.cluster_address.is_empty() {
            true => Peer { cluster_address: address.to_string(), ..own },
            false => own,
        };
        let (connections, answers) = (runtime()?, runtime()?);
        let shared = Arc::new(PortShared {
            handle: connections.handle().clone(),
            answering: answers.handle().clone(),
            tls: ArcSwapOption::empty(),
            own,
            upper: OnceLock::new(),
            has_heard: AtomicBool::new(false),
            announcements: Announcements::default(),
            state: Mutex::default(),
        });
        let (stop, stopped) = watch::channel(false);
        let accepting = serve::accept(listener, Arc::clone(&shared));
        let asking = inquiry::ask_in_silence(Arc::clone(&shared));
        let announcing = announce::announce_again(Arc::clone(&shared));
        let all = async {
            tokio::join!(accepting, asking, announcing);
        };
        let threads = vec![
            run("peers", connections, all, stopped.clone())?,
            run("relayed", answers, std::future::pending(), stopped)?,
        ];
        Ok(Self { shared, address, stop, threads: Mutex::new(threads) })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What peers are told of this server.
    pub fn own(&self) -> &Peer {
        &self.shared.own
    }

    /// Says what stands above; peers are heard from then on. A second call changes nothing.
    pub fn serve(&self, upper: Arc<dyn Upper>) {
        let _ = self.shared.upper.set(upper);
    }

    /// Takes an identity into use.
    ///
    /// # Errors
    /// When key, certificate and authority do not fit each other.
    pub fn install(&self, identity: &PeerIdentity) -> Result<(), PortError> {
        let tls = PeerTls::new(identity)?;
        self.shared.tls.store(Some(Arc::new(tls)));
        Ok(())
    }

    /// Whether it has an identity.
    pub fn has_identity(&self) -> bool {
        self.shared.tls.load().is_some()
    }

    /// Sends a request to a peer; what comes resolves to its answer.
    pub fn ask(&self, to: u64, request: Bytes) -> Answering {
        let mut state = self.shared.state();
        if !state.peers.contains_key(&to) {
            return Answering::refused(Unanswered::NotSent);
        }
        let lane = state.lanes.entry(to).or_insert_with(|| relay::start(&self.shared, to));
        if lane.is_closed() {
            *lane = relay::start(&self.shared, to);
        }
        Answering::sent(lane, request)
    }

    /// Where tasks about peers run, for callers whose own thread has no reactor.
    pub fn handle(&self) -> &Handle {
        &self.shared.handle
    }

    /// Ends all connections.
    pub fn stop(&self) {
        self.stop.send_replace(true);
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the cluster port panicked");
            }
        }
    }
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Runs `work`, and whatever is spawned there, on a thread of its own until the port stops.
fn run(
    name: &str,
    runtime: Runtime,
    work: impl Future<Output = ()> + Send + 'static,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                () = work => {}
                _ = stopped.wait_for(|&stop| stop) => {}
            }
        });
        runtime.shutdown_background();
    })
}

impl Drop for Port {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Transport for Port {
    fn know(&self, peers: &[Peer]) {
        let mut state = self.shared.state();
        state.peers = peers.iter().map(|peer| (peer.id, peer.clone())).collect();
        let PortState { peers, links, lanes } = &mut *state;
        links.retain(|id, _| peers.contains_key(id));
        lanes.retain(|id, _| peers.contains_key(id));
    }

    fn send(&self, to: u64, message: Vec<u8>) {
        let mut state = self.shared.state();
        if !state.peers.contains_key(&to) {
            return;
        }
        let link = state.links.entry(to).or_insert_with(|| link::start(&self.shared, to));
        link.send(message);
    }

    fn fetch_snapshot(&self, from: u64, sink: Box<dyn ChunkSink>) {
        link::fetch(&self.shared, from, sink);
    }
}
