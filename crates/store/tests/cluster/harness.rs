//! Three stores on one thread, and the wires between them, which lose and break what they are told to.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use kallisto_lsm::disk::{Disk, DiskFault, FaultKind, FaultyDisk, MemDisk};
use kallisto_store::{
    ChunkSink, Chunks, Commit, Durability, Error, Invitation, MemberChange, MemberRole, Peer,
    RaftOptions, RaftStore, Replicated, Store, Transport,
};

use crate::common::{self, ManualClock, put, state_of};

/// The type of a message that brings entries, in its second byte.
const APPEND: u8 = 0;

/// What is on the wires.
#[derive(Default)]
struct Wires(Mutex<WiresState>);

#[derive(Default)]
struct WiresState {
    messages: VecDeque<(u64, u64, Bytes)>,
    fetches: Vec<(u64, u64, Box<dyn ChunkSink>)>,
}

/// One server's end of the wires.
struct End(Mutex<u64>, Arc<Wires>);

impl Transport for End {
    fn know(&self, _peers: &[Peer]) {}

    fn send(&self, to: u64, message: Vec<u8>) {
        let from = *self.0.lock().unwrap();
        self.1.0.lock().unwrap().messages.push_back((from, to, message.into()));
    }

    fn fetch_snapshot(&self, from: u64, sink: Box<dyn ChunkSink>) {
        let own = *self.0.lock().unwrap();
        self.1.0.lock().unwrap().fetches.push((own, from, sink));
    }
}

struct Node {
    id: u64,
    disk: Arc<FaultyDisk>,
    end: Arc<End>,
    store: Option<Arc<RaftStore>>,
}

pub(crate) struct Cluster {
    nodes: Vec<Node>,
    segment_bytes: u64,
    durability: Durability,
    wires: Arc<Wires>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) cut: Vec<u64>,
    /// Those whom no entries reach, though everything else does.
    pub(crate) lacks: Vec<u64>,
    /// Followers hear heartbeats and nothing that they would have to keep, as with disks that are almost full.
    pub(crate) keeps_nothing: Cell<bool>,
    /// What becomes of snapshots.
    pub(crate) break_at: Cell<Option<Break>>,
    /// Chunks that were sent, and fetches that went on where one broke off.
    pub(crate) chunks: Cell<usize>,
    pub(crate) rests: Cell<usize>,
    /// Snapshots that found no room.
    pub(crate) without_room: Cell<usize>,
}

/// Where fetches of snapshots break off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// Once, when so many chunks came.
    Once(usize),
    /// Again and again, after every chunk.
    Always,
    /// Once, at a chunk that comes damaged.
    Damaged(usize),
}

impl Cluster {
    pub(crate) fn peer(id: u64) -> Peer {
        let (name, cluster_address) = (format!("node-{id}"), format!("127.0.0.1:{id}"));
        Peer { id, name, cluster_address, ..Peer::default() }
    }

    /// The first server leads alone; the others are new.
    pub(crate) fn new(count: u64) -> Self {
        let mode = Durability::Strict;
        Self::with(count, common::inline(mode).log_segment_bytes, mode)
    }

    /// The same with segments of a size, in a mode.
    fn with(count: u64, segment_bytes: u64, durability: Durability) -> Self {
        let mut cluster = Self {
            segment_bytes,
            durability,
            nodes: Vec::new(),
            wires: Arc::default(),
            clock: Arc::default(),
            cut: Vec::new(),
            lacks: Vec::new(),
            keeps_nothing: Cell::new(false),
            break_at: Cell::new(None),
            chunks: Cell::new(0),
            rests: Cell::new(0),
            without_room: Cell::new(0),
        };
        for id in 1..=count {
            let end = Arc::new(End(Mutex::new(id), Arc::clone(&cluster.wires)));
            cluster.nodes.push(Node { id, disk: Arc::default(), end, store: None });
            cluster.start(id);
        }
        cluster
    }

    /// Starts a server as all that is left of its cluster.
    pub(crate) fn start_alone(&mut self, id: u64) {
        self.open(id, Self::peer(id), true).unwrap();
    }

    pub(crate) fn start(&mut self, id: u64) {
        self.open(id, Self::peer(id), false).unwrap();
    }

    /// The same under another name.
    pub(crate) fn start_as(&mut self, id: u64, name: &str) -> Result<(), Error> {
        self.open(id, Peer { name: name.to_owned(), ..Self::peer(id) }, false)
    }

    /// A server dies, and its directory is as it was at an earlier moment when it starts again.
    pub(crate) fn put_back(&mut self, id: u64, earlier: &MemDisk) {
        let node = self.node_mut(id);
        node.store = None;
        let disk = FaultyDisk::shared();
        for (path, bytes) in earlier.files() {
            disk.create(&path).unwrap().write_at(&bytes, 0).unwrap();
        }
        node.disk = disk;
        self.start(id);
    }

    pub(crate) fn disk(&self, id: u64) -> MemDisk {
        self.nodes.iter().find(|node| node.id == id).unwrap().disk.memory().fork()
    }

    fn open(&mut self, id: u64, peer: Peer, only_member: bool) -> Result<(), Error> {
        let clock = Arc::clone(&self.clock);
        let (log_segment_bytes, durability) = (self.segment_bytes, self.durability);
        let node = self.node_mut(id);
        let options = RaftOptions {
            peer,
            transport: Arc::clone(&node.end) as Arc<dyn Transport>,
            seed: id,
            clock,
            log_segment_bytes,
            only_member,
            ..common::inline(durability)
        };
        let disk = Arc::clone(&node.disk) as Arc<dyn Disk>;
        node.store = Some(common::open(disk, &options)?);
        Ok(())
    }

    pub(crate) fn stop(&mut self, id: u64) {
        self.node_mut(id).store.take().unwrap().close().unwrap();
    }

    fn node_mut(&mut self, id: u64) -> &mut Node {
        self.nodes.iter_mut().find(|node| node.id == id).unwrap()
    }

    pub(crate) fn store(&self, id: u64) -> &RaftStore {
        self.nodes.iter().find(|node| node.id == id).unwrap().store.as_ref().unwrap()
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = (u64, &Arc<RaftStore>)> {
        self.nodes.iter().filter_map(|node| node.store.as_ref().map(|store| (node.id, store)))
    }

    /// Lets a tick pass and delivers everything, until nothing is said any more.
    pub(crate) fn tick(&self) {
        self.clock.advance(Duration::from_millis(10));
        self.running().for_each(|(_, store)| store.turn());
        self.deliver();
    }

    fn deliver(&self) {
        loop {
            let (messages, fetches) = {
                let mut state = self.wires.0.lock().unwrap();
                (std::mem::take(&mut state.messages), std::mem::take(&mut state.fetches))
            };
            if messages.is_empty() && fetches.is_empty() {
                return;
            }
            let reach = |from: u64, to: u64| !self.cut.contains(&from) && !self.cut.contains(&to);
            for (from, to, message) in messages {
                let lost = self.keeps_nothing.get() || self.lacks.contains(&to);
                if lost && message.get(1) == Some(&APPEND) {
                    continue;
                }
                let store = self.running().find(|(id, _)| *id == to);
                if let Some((_, store)) = store.filter(|_| reach(from, to)) {
                    store.receive(from, message);
                }
            }
            for (own, from, sink) in fetches {
                let source =
                    self.running().find(|(id, _)| *id == from).filter(|_| reach(own, from));
                let Some((_, source)) = source else { continue };
                let chunks = match sink.place() {
                    None => Some(source.snapshot().unwrap()),
                    Some(place) => source.snapshot_behind(&place).unwrap(),
                };
                self.rests.set(self.rests.get() + usize::from(sink.place().is_some()));
                match chunks {
                    Some(chunks) => self.carry(chunks, sink),
                    None => sink.gone(),
                }
            }
            self.running().for_each(|(_, store)| store.turn());
        }
    }

    fn carry(&self, mut chunks: Box<dyn Chunks>, mut sink: Box<dyn ChunkSink>) {
        let mut came = 0;
        while let Some(mut chunk) = chunks.next_chunk().unwrap() {
            match self.break_at.get() {
                Some(Break::Once(at)) if at == came => {
                    self.break_at.set(None);
                    return;
                }
                Some(Break::Always) if came == 1 => return,
                Some(Break::Damaged(at)) if at == came => {
                    self.break_at.set(None);
                    chunk.truncate(chunk.len() - 1);
                    assert!(matches!(sink.take(chunk.into()), Err(Error::Damaged(_))));
                    return;
                }
                Some(_) | None => {}
            }
            match sink.take(chunk.into()) {
                // Its disk: it is told again.
                Err(Error::Full(_)) => {
                    self.without_room.set(self.without_room.get() + 1);
                    return;
                }
                taken => taken.unwrap(),
            }
            came += 1;
            self.chunks.set(self.chunks.get() + 1);
        }
        match sink.finish() {
            Err(Error::Full(_)) => self.without_room.set(self.without_room.get() + 1),
            finished => finished.unwrap(),
        }
    }

    /// The third server was away beyond the log: everybody else has more, and forgot what they kept for it.
    pub(crate) fn with_one_left_behind(values: &[String]) -> Self {
        let mut cluster = Self::of_three();
        cluster.cut.push(3);
        for (n, value) in values.iter().enumerate() {
            let leader = cluster.leader().unwrap();
            let batch = put(&format!("key-{n:03}"), value);
            cluster.decide(cluster.store(leader).commit(batch)).unwrap();
        }
        for id in [1, 2] {
            cluster.stop(id);
            cluster.start(id);
        }
        cluster.until("somebody leads", |cluster| cluster.leader().is_some());
        cluster
    }

    pub(crate) fn bring_back(&mut self) {
        self.cut.clear();
        self.until("it caught up", |cluster| cluster.caught_up(3));
        self.assert_replicas_are_equal();
    }

    pub(crate) fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..600 {
            if done(self) {
                return;
            }
            self.tick();
        }
        panic!("it never happened: {what}");
    }

    pub(crate) fn leader(&self) -> Option<u64> {
        let mut leaders = self
            .running()
            .filter(|(id, store)| !self.cut.contains(id) && store.leads())
            .map(|(id, _)| id);
        leaders.next()
    }

    pub(crate) fn decide(&self, mut commit: Commit) -> Result<u64, Error> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for _ in 0..2000 {
            match std::pin::Pin::new(&mut commit).poll(&mut context) {
                std::task::Poll::Ready(outcome) => return outcome.map(|position| position.0),
                std::task::Poll::Pending => self.tick(),
            }
        }
        panic!("it was never decided");
    }

    pub(crate) fn join(&self, id: u64, role: MemberRole) {
        let store_id = self.store(1).store_id();
        self.decide(self.store(id).join(Invitation {
            store_id,
            node_id: id,
            peers: vec![Self::peer(1)],
        }))
        .unwrap();
        let change = vec![MemberChange::Put(Self::peer(id), role)];
        let leader = self.leader().unwrap();
        self.decide(self.store(leader).change(change)).unwrap();
        self.until("the new server follows", |cluster| cluster.caught_up(id));
    }

    pub(crate) fn caught_up(&self, id: u64) -> bool {
        let Some(leader) = self.leader() else { return false };
        self.store(id).position() == self.store(leader).position()
    }

    /// The disks of these servers hold what they hold, and no more.
    pub(crate) fn fill_disks(&self, ids: &[u64]) {
        for node in self.nodes.iter().filter(|node| ids.contains(&node.id)) {
            node.disk.plan(Some(DiskFault { kind: FaultKind::NoSpace, from: 0, until: u64::MAX }));
        }
    }

    /// The disk of a server fills up with its next changes.
    pub(crate) fn fill_disk_after(&self, id: u64, changes: u64) {
        let node = self.nodes.iter().find(|node| node.id == id).unwrap();
        let kind = FaultKind::NoSpace;
        node.disk.plan(Some(DiskFault { kind, from: changes, until: u64::MAX }));
    }

    pub(crate) fn make_space(&self) {
        self.nodes.iter().for_each(|node| node.disk.plan(None));
    }

    pub(crate) fn of_three() -> Self {
        Self::grown(Self::new(3))
    }

    /// Three servers whose log segments have room for more than one group.
    pub(crate) fn of_three_with_segments(segment_bytes: u64) -> Self {
        Self::grown(Self::with(3, segment_bytes, Durability::Strict))
    }

    fn grown(cluster: Self) -> Self {
        cluster.decide(cluster.store(1).commit(put("first", "1"))).unwrap();
        for id in [2, 3] {
            cluster.join(id, MemberRole::Learner);
            let change = vec![MemberChange::Put(Self::peer(id), MemberRole::Voter)];
            cluster.decide(cluster.store(1).change(change)).unwrap();
        }
        cluster
    }

    pub(crate) fn write(&self, key: &str) -> u64 {
        let leader = self.leader().unwrap();
        self.decide(self.store(leader).commit(put(key, "v"))).unwrap()
    }

    pub(crate) fn assert_replicas_are_equal(&self) {
        self.until("everybody follows", |cluster| {
            let ids: Vec<u64> = cluster.running().map(|(id, _)| id).collect();
            ids.iter().all(|&id| cluster.caught_up(id))
        });
        let mut states = self.running().map(|(_, store)| state_of(&**store));
        let first = states.next().unwrap();
        assert!(states.all(|state| state == first));
    }
}
