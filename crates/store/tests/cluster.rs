//! Three stores on one thread, with wires between them that lose what they are told to: how a cluster comes to be, how a
//! server that was away comes back, and what becomes of what was under way.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use kallisto_lsm::clock::Clock;
use kallisto_lsm::disk::{Disk, MemDisk};
use kallisto_store::{
    Candidacy, Change, ChunkSink, Chunks, Commit, Durability, Error, Invitation, Peer, RaftOptions,
    RaftStore, Records, Replicated, Role, Store, Transport,
};

use common::{ManualClock, Mirror, put, state_of};

/// The type of a message that brings entries, in its second byte.
const APPEND: u8 = 0;

/// What is on the wires.
#[derive(Default)]
struct Wires(Mutex<State>);

#[derive(Default)]
struct State {
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
    disk: Arc<MemDisk>,
    end: Arc<End>,
    store: Option<Arc<RaftStore>>,
}

struct Cluster {
    nodes: Vec<Node>,
    wires: Arc<Wires>,
    clock: Arc<ManualClock>,
    cut: Vec<u64>,
    /// Followers hear heartbeats and nothing that they would have to keep, as with disks that are almost full.
    keeps_nothing: Cell<bool>,
    /// What becomes of snapshots.
    break_at: Cell<Option<Break>>,
    /// Chunks that were sent, and fetches that went on where one broke off.
    chunks: Cell<usize>,
    rests: Cell<usize>,
}

/// Where fetches of snapshots break off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    /// Once, when so many chunks came.
    Once(usize),
    /// Again and again, after every chunk.
    Always,
    /// Once, at a chunk that comes damaged.
    Damaged(usize),
}

impl Cluster {
    fn peer(id: u64) -> Peer {
        let (name, cluster_address) = (format!("node-{id}"), format!("127.0.0.1:{id}"));
        Peer { id, name, cluster_address, ..Peer::default() }
    }

    /// The first server leads alone; the others are new.
    fn new(count: u64) -> Self {
        let mut cluster = Self {
            nodes: Vec::new(),
            wires: Arc::default(),
            clock: Arc::default(),
            cut: Vec::new(),
            keeps_nothing: Cell::new(false),
            break_at: Cell::new(None),
            chunks: Cell::new(0),
            rests: Cell::new(0),
        };
        for id in 1..=count {
            let end = Arc::new(End(Mutex::new(id), Arc::clone(&cluster.wires)));
            cluster.nodes.push(Node { id, disk: Arc::default(), end, store: None });
            cluster.start(id);
        }
        cluster
    }

    fn start(&mut self, id: u64) {
        let clock = Arc::clone(&self.clock);
        let node = self.node_mut(id);
        let options = RaftOptions {
            peer: Self::peer(id),
            transport: Arc::clone(&node.end) as Arc<dyn Transport>,
            seed: id,
            clock,
            ..common::inline(Durability::Strict)
        };
        let disk = Arc::clone(&node.disk) as Arc<dyn Disk>;
        node.store = Some(common::open(disk, &options).unwrap());
    }

    fn stop(&mut self, id: u64) {
        self.node_mut(id).store.take().unwrap().close().unwrap();
    }

    fn node_mut(&mut self, id: u64) -> &mut Node {
        self.nodes.iter_mut().find(|node| node.id == id).unwrap()
    }

    fn store(&self, id: u64) -> &RaftStore {
        self.nodes.iter().find(|node| node.id == id).unwrap().store.as_ref().unwrap()
    }

    fn running(&self) -> impl Iterator<Item = (u64, &Arc<RaftStore>)> {
        self.nodes.iter().filter_map(|node| node.store.as_ref().map(|store| (node.id, store)))
    }

    /// Lets a tick pass and delivers everything, until nothing is said any more.
    fn tick(&self) {
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
                if self.keeps_nothing.get() && message.get(1) == Some(&APPEND) {
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
            sink.take(chunk.into()).unwrap();
            came += 1;
            self.chunks.set(self.chunks.get() + 1);
        }
        sink.finish().unwrap();
    }

    /// The third server was away beyond the log: everybody else has more, and forgot what they kept for it.
    fn with_one_left_behind(values: &[String]) -> Self {
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

    fn bring_back(&mut self) {
        self.cut.clear();
        self.until("it caught up", |cluster| cluster.caught_up(3));
        self.assert_replicas_are_equal();
    }

    fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..600 {
            if done(self) {
                return;
            }
            self.tick();
        }
        panic!("it never happened: {what}");
    }

    fn leader(&self) -> Option<u64> {
        let mut leaders = self
            .running()
            .filter(|(id, store)| !self.cut.contains(id) && store.leads())
            .map(|(id, _)| id);
        leaders.next()
    }

    fn decide(&self, mut commit: Commit) -> Result<u64, Error> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for _ in 0..2000 {
            match std::pin::Pin::new(&mut commit).poll(&mut context) {
                std::task::Poll::Ready(outcome) => return outcome.map(|position| position.0),
                std::task::Poll::Pending => self.tick(),
            }
        }
        panic!("it was never decided");
    }

    fn join(&self, id: u64, role: Role) {
        let store_id = self.store(1).store_id();
        self.decide(self.store(id).join(Invitation {
            store_id,
            node_id: id,
            peers: vec![Self::peer(1)],
        }))
        .unwrap();
        let change = vec![Change::Put(Self::peer(id), role)];
        let leader = self.leader().unwrap();
        self.decide(self.store(leader).change(change)).unwrap();
        self.until("the new server follows", |cluster| cluster.caught_up(id));
    }

    fn caught_up(&self, id: u64) -> bool {
        let Some(leader) = self.leader() else { return false };
        self.store(id).position() == self.store(leader).position()
    }

    fn of_three() -> Self {
        let cluster = Self::new(3);
        cluster.decide(cluster.store(1).commit(put("first", "1"))).unwrap();
        for id in [2, 3] {
            cluster.join(id, Role::Learner);
            let change = vec![Change::Put(Self::peer(id), Role::Voter)];
            cluster.decide(cluster.store(1).change(change)).unwrap();
        }
        cluster
    }

    fn write(&self, key: &str) -> u64 {
        let leader = self.leader().unwrap();
        self.decide(self.store(leader).commit(put(key, "v"))).unwrap()
    }

    fn assert_replicas_are_equal(&self) {
        self.until("everybody follows", |cluster| {
            let ids: Vec<u64> = cluster.running().map(|(id, _)| id).collect();
            ids.iter().all(|&id| cluster.caught_up(id))
        });
        let mut states = self.running().map(|(_, store)| state_of(&**store));
        let first = states.next().unwrap();
        assert!(states.all(|state| state == first));
    }
}

use std::future::Future;

#[test]
fn a_cluster_of_one_grows_to_three_and_all_hold_the_same() {
    let cluster = Cluster::of_three();
    cluster.write("second");
    cluster.assert_replicas_are_equal();
    let members = cluster.store(3).members();
    let known: Vec<_> = members.iter().map(|m| (m.peer.clone(), m.role)).collect();
    let expected = [1, 2, 3].map(|id| (Cluster::peer(id), Role::Voter));
    assert_eq!(known, expected);
    assert_eq!(cluster.store(2).get(b"first").unwrap().unwrap().value, "1");
    let refused = cluster.decide(cluster.store(2).commit(put("other", "x")));
    assert_eq!(refused, Err(Error::NotLeader));
}

#[test]
fn a_leader_that_dies_is_replaced_and_comes_back_as_a_follower() {
    let mut cluster = Cluster::of_three();
    let old = cluster.leader().unwrap();
    cluster.stop(old);
    cluster.until("another leads", |cluster| cluster.leader().is_some());
    cluster.write("while it was away");
    cluster.start(old);
    cluster.until("it follows", |cluster| cluster.caught_up(old));
    cluster.assert_replicas_are_equal();
}

#[test]
fn all_servers_restarted_at_once_hold_everything_before_any_new_write() {
    let mut cluster = Cluster::of_three();
    for n in 0..50 {
        cluster.write(&format!("key-{n}"));
    }
    for _ in 0..3 {
        (1..=3).for_each(|id| cluster.stop(id));
        (1..=3).for_each(|id| cluster.start(id));
        cluster.until("somebody leads", |cluster| cluster.leader().is_some());
        cluster.assert_replicas_are_equal();
        for id in 1..=3 {
            assert_eq!(state_of(cluster.store(id)).len(), 51);
        }
    }
}

#[test]
fn who_was_away_beyond_the_log_catches_up_by_a_snapshot_and_its_fold_is_told() {
    struct Told(Arc<Mirror>, std::sync::atomic::AtomicBool);
    impl kallisto_store::Fold for Told {
        fn load(
            &self,
            position: kallisto_store::Position,
            records: &dyn kallisto_store::Records,
        ) -> Result<(), Error> {
            self.0.load(position, records)
        }
        fn fold(
            &self,
            position: kallisto_store::Position,
            batch: &kallisto_store::Batch,
            records: &dyn kallisto_store::Records,
        ) {
            self.0.fold(position, batch, records);
        }
        fn replaced(&self, why: kallisto_store::Replaced) {
            assert_eq!(why, kallisto_store::Replaced::CaughtUp);
            self.1.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let mut cluster = Cluster::of_three();
    let mirror = Arc::new(Told(Arc::default(), false.into()));
    cluster.store(3).attach(Arc::clone(&mirror) as _).unwrap();
    cluster.cut.push(3);
    // Large enough for flushes, so that the leader's log is purged; beyond what is kept for who is away.
    let large = "x".repeat(30_000);
    for n in 0..40 {
        let leader = cluster.leader().unwrap();
        cluster.decide(cluster.store(leader).commit(put(&format!("key-{n}"), &large))).unwrap();
    }
    let stats = cluster.store(1).stats().raft.unwrap();
    assert!(stats.flushed_index > 30, "{stats:?}");
    // The others start anew, and with it forget what they kept for the third.
    for id in [1, 2] {
        cluster.stop(id);
        cluster.start(id);
    }
    cluster.until("somebody leads", |cluster| cluster.leader().is_some());
    for n in 0..20 {
        let leader = cluster.leader().unwrap();
        cluster.decide(cluster.store(leader).commit(put(&format!("more-{n}"), &large))).unwrap();
    }
    cluster.cut.clear();
    cluster.until("it caught up", |cluster| cluster.caught_up(3));
    assert!(mirror.1.load(std::sync::atomic::Ordering::Relaxed), "the fold heard of it");
    cluster.write("after");
    cluster.assert_replicas_are_equal();
    for _ in 0..2 {
        cluster.stop(3);
        cluster.start(3);
        cluster.until("it follows", |cluster| cluster.caught_up(3));
    }
    cluster.assert_replicas_are_equal();
}

/// Enough for a snapshot of several chunks.
fn large_values() -> Vec<String> {
    (0..40).map(|n: u8| char::from(b'a' + n % 26).to_string().repeat(30_000)).collect()
}

/// How many chunks the snapshot has that brings the third server back.
fn chunks_of_one() -> usize {
    let mut cluster = Cluster::with_one_left_behind(&large_values());
    cluster.chunks.set(0);
    cluster.bring_back();
    assert_eq!(cluster.rests.get(), 0);
    cluster.chunks.get()
}

#[test]
fn a_snapshot_that_breaks_off_between_two_chunks_goes_on_there() {
    let whole = chunks_of_one();
    assert!(whole >= 5, "a head, several chunks and an end, not {whole}");
    for at in 1..whole {
        let mut cluster = Cluster::with_one_left_behind(&large_values());
        cluster.chunks.set(0);
        cluster.break_at.set(Some(Break::Once(at)));
        cluster.bring_back();
        assert_eq!((cluster.rests.get(), cluster.chunks.get()), (1, whole), "broken at {at}");
        cluster.stop(3);
        cluster.start(3);
        cluster.assert_replicas_are_equal();
    }
    // Before anything came there is nothing to go on from.
    let mut cluster = Cluster::with_one_left_behind(&large_values());
    cluster.chunks.set(0);
    cluster.break_at.set(Some(Break::Once(0)));
    cluster.bring_back();
    assert_eq!((cluster.rests.get(), cluster.chunks.get()), (0, whole));
}

#[test]
fn a_snapshot_that_breaks_off_after_every_chunk_still_comes() {
    let whole = chunks_of_one();
    let mut cluster = Cluster::with_one_left_behind(&large_values());
    cluster.chunks.set(0);
    cluster.break_at.set(Some(Break::Always));
    cluster.bring_back();
    // Behind the last chunk nothing is left to break.
    assert_eq!((cluster.rests.get(), cluster.chunks.get()), (whole - 1, whole));
}

#[test]
fn the_log_behind_a_snapshot_that_broke_off_is_kept() {
    let whole = chunks_of_one();
    let mut cluster = Cluster::with_one_left_behind(&large_values());
    cluster.chunks.set(0);
    cluster.break_at.set(Some(Break::Once(3)));
    cluster.cut.clear();
    cluster.until("it breaks off", |cluster| cluster.break_at.get().is_none());
    cluster.cut.push(3);
    for value in large_values() {
        let leader = cluster.leader().unwrap();
        cluster.decide(cluster.store(leader).commit(put("meanwhile", &value))).unwrap();
    }
    let leader = cluster.store(cluster.leader().unwrap()).stats().raft.unwrap();
    assert!(leader.applied_index - leader.flushed_index < 10, "much is in files: {leader:?}");
    cluster.bring_back();
    assert_eq!((cluster.rests.get(), cluster.chunks.get()), (1, whole), "and no second one");
}

#[test]
fn a_snapshot_is_held_for_a_minute_after_the_last_byte_and_only_the_last_few() {
    let cluster = Cluster::of_three();
    let store = cluster.store(1);
    let held = |index: u64| {
        let term = store.leadership().term;
        let place = [&[1][..], &index.to_le_bytes(), &term.to_le_bytes(), &[0; 12]].concat();
        store.snapshot_behind(&place).unwrap().is_some()
    };
    let first = cluster.write("first");
    assert!(!held(first), "nobody was sent it");
    let chunks = store.snapshot().unwrap();
    cluster.clock.advance(Duration::from_secs(100));
    assert!(held(first), "it is on its way");
    drop(chunks);
    cluster.clock.advance(Duration::from_secs(59));
    assert!(held(first));
    cluster.clock.advance(Duration::from_secs(61));
    assert!(!held(first));
    cluster.until("somebody leads", |cluster| cluster.leader() == Some(1));
    let indexes: Vec<u64> = (0..5)
        .map(|_| {
            drop(store.snapshot().unwrap());
            let index = store.position().0;
            cluster.write("next");
            index
        })
        .collect();
    let found: Vec<bool> = indexes.iter().map(|&index| held(index)).collect();
    assert_eq!(found, [false, true, true, true, true]);
    assert!(store.snapshot_behind(b"no place").unwrap().is_none());
}

#[test]
fn a_snapshot_of_which_a_chunk_comes_damaged_comes_anew() {
    let whole = chunks_of_one();
    let mut cluster = Cluster::with_one_left_behind(&large_values());
    cluster.chunks.set(0);
    cluster.break_at.set(Some(Break::Damaged(3)));
    cluster.bring_back();
    assert_eq!((cluster.rests.get(), cluster.chunks.get()), (0, 3 + whole));
}

#[test]
fn the_rest_of_a_snapshot_that_its_sender_forgot_comes_anew() {
    let whole = chunks_of_one();
    let mut cluster = Cluster::with_one_left_behind(&large_values());
    cluster.chunks.set(0);
    cluster.break_at.set(Some(Break::Once(3)));
    cluster.cut.clear();
    cluster.until("it breaks off", |cluster| cluster.break_at.get().is_none());
    let leader = cluster.leader().unwrap();
    cluster.stop(leader);
    cluster.start(leader);
    cluster.bring_back();
    assert_eq!(cluster.chunks.get(), 3 + whole);
}

#[test]
fn a_commit_that_its_leader_lost_says_so_once_another_leads() {
    let mut cluster = Cluster::of_three();
    let old = cluster.leader().unwrap();
    cluster.cut.push(old);
    let lost = cluster.store(old).commit(put("lost", "1"));
    cluster.until("another leads", |cluster| cluster.leader().is_some());
    cluster.write("kept");
    cluster.cut.clear();
    assert_eq!(cluster.decide(lost), Err(Error::NotLeader), "nothing came of it");
    cluster.assert_replicas_are_equal();
    assert_eq!(cluster.store(old).get(b"lost").unwrap(), None);
}

#[test]
fn a_leader_whom_nobody_hears_says_so_after_a_while_and_then_at_once() {
    let cluster = Cluster::of_three();
    let leader = cluster.leader().unwrap();
    cluster.keeps_nothing.set(true);
    let since = cluster.clock.now();
    let lost = cluster.decide(cluster.store(leader).commit(put("lost", "from sight")));
    assert!(matches!(lost, Err(Error::Unknown(_))), "it may happen yet: {lost:?}");
    let waited = cluster.clock.now() - since;
    assert!((9..12).contains(&waited.as_secs()), "{waited:?}");
    assert_eq!(cluster.leader(), Some(leader), "heartbeats are heard");
    let since = cluster.clock.now();
    let refused = cluster.decide(cluster.store(leader).commit(put("refused", "")));
    assert!(matches!(refused, Err(Error::Unavailable(_))), "nothing happened: {refused:?}");
    assert_eq!(cluster.clock.now(), since, "at once");
    cluster.keeps_nothing.set(false);
    cluster.until("what was lost from sight is decided", |cluster| {
        cluster.store(leader).get(b"lost").unwrap().is_some()
    });
    cluster.write("taken");
    cluster.assert_replicas_are_equal();
    assert!(cluster.store(leader).get(b"refused").unwrap().is_none());
}

#[test]
fn leadership_is_handed_over_at_once() {
    let cluster = Cluster::of_three();
    for _ in 0..4 {
        let old = cluster.leader().unwrap();
        cluster.decide(cluster.store(old).transfer(None)).unwrap();
        let new = cluster.leader().unwrap();
        assert_ne!(old, new);
        cluster.write("x");
    }
    cluster.assert_replicas_are_equal();
}

#[test]
fn members_go_and_change_together() {
    let cluster = Cluster::of_three();
    let changes = vec![Change::Remove(3), Change::Put(Cluster::peer(2), Role::Learner)];
    cluster.decide(cluster.store(1).change(changes)).unwrap();
    cluster.until("the joint state is left", |cluster| {
        let members = cluster.store(1).members();
        members.len() == 2 && members[1].role == Role::Learner
    });
    cluster.write("x");
    cluster.until("the learner follows", |cluster| cluster.caught_up(2));
}

#[test]
fn who_is_reluctant_votes_and_leads_nobody() {
    let mut cluster = Cluster::of_three();
    cluster.store(3).stand(Candidacy::Reluctant);
    cluster.store(1).stand(Candidacy::Reluctant);
    cluster.until("the willing one leads", |cluster| cluster.leader() == Some(2));
    cluster.stop(1);
    for _ in 0..300 {
        cluster.tick();
        assert_eq!(cluster.leader(), Some(2));
    }
    cluster.start(1);
    cluster.stop(2);
    cluster.until("the third votes for the first", |cluster| cluster.leader() == Some(1));
    cluster.start(2);
    cluster.assert_replicas_are_equal();
}

#[test]
fn a_learner_that_is_to_vote_is_promoted_once_it_caught_up() {
    let cluster = Cluster::new(3);
    cluster.decide(cluster.store(1).commit(put("x", "1"))).unwrap();
    cluster.join(2, Role::Learner);
    let role = |cluster: &Cluster, id: u64| {
        let members = cluster.store(1).members();
        members.iter().find(|member| member.peer.id == id).map(|member| member.role)
    };
    cluster.until("it votes", |cluster| role(cluster, 2) == Some(Role::Voter));
    let stays = Peer { wants: Role::Learner, ..Cluster::peer(3) };
    let store_id = cluster.store(1).store_id();
    let invitation = Invitation { store_id, node_id: 3, peers: vec![Cluster::peer(1)] };
    cluster.decide(cluster.store(3).join(invitation)).unwrap();
    cluster.decide(cluster.store(1).change(vec![Change::Put(stays, Role::Learner)])).unwrap();
    (0..100).for_each(|_| cluster.tick());
    assert_eq!(role(&cluster, 3), Some(Role::Learner));
    assert!(cluster.caught_up(3));
}

#[test]
fn who_holds_something_joins_nobody() {
    let cluster = Cluster::new(2);
    for id in [1, 2] {
        cluster.decide(cluster.store(id).commit(put("x", "y"))).unwrap();
    }
    let store_id = cluster.store(1).store_id();
    let joined = cluster.store(2).join(Invitation { store_id, node_id: 2, peers: Vec::new() });
    assert_eq!(cluster.decide(joined), Err(Error::Conflict));
}

#[test]
fn a_read_through_the_leader_shows_a_follower_what_was_committed_before() {
    let mut cluster = Cluster::of_three();
    cluster.write("one");
    for id in 1..=3 {
        let leader = cluster.leader().unwrap();
        let committed = cluster.store(leader).position().0;
        let read = cluster.decide(cluster.store(id).read_index()).unwrap();
        assert!(read >= committed, "server {id}");
    }
    let old = cluster.leader().unwrap();
    cluster.cut.push(old);
    let deposed = cluster.store(old).read_index();
    cluster.until("another leads", |cluster| cluster.leader().is_some());
    cluster.write("two");
    assert_eq!(cluster.decide(deposed), Err(Error::NotLeader), "it does not lead any more");
}

/// The records of a backup, as whoever restores one reads it.
fn read_backup(store: &RaftStore) -> (Vec<Vec<(Bytes, Bytes)>>, u64) {
    let mut reader = kallisto_store::BackupReader::default();
    let mut chunks = store.backup().unwrap().1;
    let mut records = Vec::new();
    while let Some(chunk) = chunks.next_chunk().unwrap() {
        let taken = reader.take(&chunk.into()).unwrap();
        records.extend((!taken.is_empty()).then_some(taken));
    }
    (records, reader.records().unwrap())
}

fn keys_and_values(store: &RaftStore) -> Vec<(Vec<u8>, Vec<u8>)> {
    state_of(store).into_iter().map(|(key, (value, _))| (key, value)).collect()
}

#[test]
fn a_backup_takes_the_place_of_everything_on_every_member_and_stays_so_after_a_restart() {
    let mut cluster = Cluster::of_three();
    for n in 0..30 {
        cluster.write(&format!("key-{n}"));
    }
    let leader = cluster.leader().unwrap();
    let before = keys_and_values(cluster.store(leader));
    let (staged, count) = read_backup(cluster.store(leader));
    assert_eq!(count, before.len() as u64);
    cluster.write("later");
    let leader = cluster.leader().unwrap();
    let store = cluster.store(leader);
    let generation = store.generation();
    let given_up = kallisto_store::Position(cluster.decide(store.begin_restore()).unwrap());
    cluster.decide(store.stage(given_up, staged[0].clone())).unwrap();
    let this = kallisto_store::Position(cluster.decide(store.begin_restore()).unwrap());
    let late = cluster.decide(store.stage(given_up, staged[0].clone()));
    assert_eq!(late, Err(Error::Conflict), "another restore began since");
    let short = cluster.decide(store.finish_restore(this, count));
    assert_eq!(short, Err(Error::Conflict), "nothing is staged yet");
    assert!(store.get(b"later").unwrap().is_some(), "nothing has changed");
    for records in staged {
        cluster.decide(store.stage(this, records)).unwrap();
    }
    let mut decided_before = put("decided-before", "1");
    decided_before.expect(kallisto_store::GENERATION_KEY.to_vec(), generation);
    cluster.decide(store.finish_restore(this, count)).unwrap();
    assert_eq!(store.generation().0, this.0);
    assert_eq!(cluster.decide(store.commit(decided_before)), Err(Error::Conflict));
    let mut decided_after = put("decided-after", "1");
    decided_after.expect(kallisto_store::GENERATION_KEY.to_vec(), store.generation());
    cluster.decide(store.commit(decided_after)).unwrap();
    let mut expected = before;
    expected.push((b"decided-after".to_vec(), b"1".to_vec()));
    expected.sort();
    cluster.until("all have it", |cluster| (1..=3).all(|id| cluster.caught_up(id)));
    for id in 1..=3 {
        assert_eq!(keys_and_values(cluster.store(id)), expected, "server {id}");
    }
    for id in 1..=3 {
        cluster.stop(id);
        cluster.start(id);
        assert_eq!(keys_and_values(cluster.store(id)), expected, "server {id}");
    }
    cluster.until("somebody leads", |cluster| cluster.leader().is_some());
    cluster.write("after");
    let again = read_backup(cluster.store(1));
    assert_eq!(again.1, expected.len() as u64 + 1, "a restored store is backed up again");
    cluster.assert_replicas_are_equal();
}

#[test]
fn a_leader_whose_peers_are_gone_is_told_that_nobody_takes_over() {
    let mut cluster = Cluster::of_three();
    let last = cluster.leader().unwrap();
    for id in (1..=3).filter(|&id| id != last) {
        cluster.stop(id);
    }
    let handed_over = cluster.decide(cluster.store(last).transfer(None));
    assert!(matches!(handed_over, Err(Error::Unavailable(_))), "{handed_over:?}");
}
