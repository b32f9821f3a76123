//! A driver whose store has no threads: each test calls the part that it is about.

mod leading;

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Waker};

use kallisto_lsm::Background;
use kallisto_lsm::clock::Clock;
use kallisto_lsm::disk::{Disk, DiskFault, FaultKind, FaultyDisk};
use raft::eraftpb::Entry;

use super::*;
use crate::codec::encode_batch;
use crate::raft::limits::{
    ADMITTED_MAX, HEARD_TICKS, MEMBERS_MAX, PROMOTED_WITHIN, READ_TICKS_MAX, SHORT_LOOK_TICKS,
    TRANSFER_TICKS_MAX,
};
use crate::{
    Batch, Commit, Invitation, MemberChange, MemberRole, Need, Peer, RaftOptions, RaftStore,
    Replicated, Store,
};

const SECOND: Duration = Duration::from_secs(1);
/// A leader that is nobody's store.
const LEADER: u64 = 9;

#[derive(Debug, Default)]
struct ManualClock(Mutex<Duration>);

impl ManualClock {
    fn advance(&self, by: Duration) {
        *lock(&self.0) += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *lock(&self.0)
    }

    fn sleep(&self, by: Duration) {
        self.advance(by);
    }
}

struct Bench {
    store: Arc<RaftStore>,
    clock: Arc<ManualClock>,
    disk: Arc<FaultyDisk>,
}

impl Bench {
    fn new() -> Self {
        Self::with(Durability::Strict, 16 << 20)
    }

    fn with(durability: Durability, log_segment_bytes: u64) -> Self {
        let (clock, disk) = (Arc::<ManualClock>::default(), FaultyDisk::shared());
        let engine = kallisto_lsm::Options {
            background: Background::Inline,
            ..RaftOptions::default().engine
        };
        let options = RaftOptions {
            durability,
            engine,
            log_segment_bytes,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            has_threads: false,
            ..RaftOptions::default()
        };
        let store = RaftStore::open(Arc::clone(&disk) as Arc<dyn Disk>, "s", options).unwrap();
        Self { store, clock, disk }
    }

    /// A server of another cluster that has heard of nobody.
    fn follower(durability: Durability, log_segment_bytes: u64) -> Self {
        let bench = Self::with(durability, log_segment_bytes);
        let invitation = Invitation { store_id: [7; 16], node_id: 1, peers: Vec::new() };
        bench.store.join(invitation).wait().unwrap();
        bench
    }

    /// Leads, and has this member besides.
    fn leading(member: Peer, role: MemberRole) -> Self {
        let bench = Self::new();
        bench.store.change(vec![MemberChange::Put(member, role)]).wait().unwrap();
        bench
    }

    /// Leads three voters, of which it has heard two just now.
    fn leading_three() -> Self {
        let bench = Self::leading(peer(2), MemberRole::Voter);
        let added = bench.store.change(vec![MemberChange::Put(peer(3), MemberRole::Voter)]);
        bench.acknowledge(2, 0);
        added.wait().unwrap();
        bench.driver(|driver| {
            let now = driver.shared.clock.now();
            let mut members = lock(&driver.shared.members);
            members.heard.extend([(2, now), (3, now)]);
        });
        bench
    }

    fn driver<T>(&self, with: impl FnOnce(&mut Driver) -> T) -> T {
        with(&mut lock(self.store.inline.as_ref().unwrap()).0)
    }

    fn serve(&self, request: DriverRequest) {
        self.store.shared.requests.push(request);
        self.store.turn();
    }

    /// A member says that it has everything but the last so many entries.
    fn acknowledge(&self, member: u64, but: u64) {
        let message = self.driver(|driver| {
            let standing = driver.node.standing();
            Message {
                msg_type: MessageType::MsgAppendResponse,
                from: member,
                to: 1,
                term: standing.term,
                index: standing.last_index - but,
                ..Message::default()
            }
        });
        self.serve(DriverRequest::Message(message));
    }

    fn commit(&self, key: &str) {
        self.store.commit(put(key)).wait().unwrap();
    }

    fn fill_disk(&self) {
        self.disk.plan(Some(DiskFault { kind: FaultKind::NoSpace, from: 0, until: u64::MAX }));
    }

    /// The most bytes that the log has room for.
    fn room(&self, need: Need) -> usize {
        self.driver(|driver| {
            let fits = |bytes: usize| lock(&driver.shared.log).make_room(bytes, need).is_ok();
            let (mut fitting, mut over) = (0, 1 << 20);
            while over - fitting > 1 {
                let middle = usize::midpoint(fitting, over);
                *(if fits(middle) { &mut fitting } else { &mut over }) = middle;
            }
            fitting
        })
    }
}

fn peer(id: u64) -> Peer {
    Peer { id, name: format!("node-{id}"), ..Peer::default() }
}

fn put(key: &str) -> Batch {
    let mut batch = Batch::new();
    batch.put(key.into(), b"value".to_vec());
    batch
}

/// How it ended; `None` while it waits.
fn outcome(commit: &mut Commit) -> Option<Result<crate::Position, Error>> {
    match Pin::new(commit).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

fn entry(index: u64, bytes: usize) -> Entry {
    Entry { index, term: 1, data: vec![0; bytes].into(), ..Entry::default() }
}

fn append(behind: u64, entries: Vec<Entry>) -> DriverRequest {
    let mut message = Message {
        msg_type: MessageType::MsgAppend,
        from: LEADER,
        to: 1,
        term: 1,
        index: behind,
        log_term: u64::from(behind > 0),
        ..Message::default()
    };
    message.set_entries(entries.into());
    DriverRequest::Message(message)
}

/// An append whose one entry counts for so many bytes.
fn append_of(behind: u64, bytes: usize) -> DriverRequest {
    let empty = match append(behind, vec![entry(behind + 1, 0)]) {
        DriverRequest::Message(message) => super::log_bytes(&message),
        _ => unreachable!("it is a message"),
    };
    append(behind, vec![entry(behind + 1, bytes - empty)])
}

fn last_index(bench: &Bench) -> u64 {
    bench.driver(|driver| driver.node.standing().last_index)
}

#[test]
fn a_message_counts_for_two_frames_and_its_entries_with_their_headers() {
    let mut message = Message::default();
    assert_eq!(super::log_bytes(&message), 2 * FRAME_OVERHEAD_BYTES);
    message.set_entries(vec![entry(1, 5), entry(2, 700)].into());
    assert_eq!(super::log_bytes(&message), 2 * (FRAME_OVERHEAD_BYTES + ENTRY_HEADER_BYTES) + 705);
}

#[test]
fn only_those_who_commit_together_wait_for_each_other_and_for_half_a_sync() {
    let bench = Bench::new();
    bench.driver(|driver| {
        driver.sync_time = Duration::from_micros(400);
        for alone in [0, 1] {
            driver.gathered = alone;
            assert!(matches!(driver.gather(), Gather::Nothing), "{alone}");
        }
        for (gathered, sync_time, wait) in [
            (2, Duration::from_micros(400), Duration::from_micros(200)),
            (40, SECOND, GATHER_MAX),
        ] {
            (driver.gathered, driver.sync_time) = (gathered, sync_time);
            let gather = driver.gather();
            assert!(
                matches!(gather, Gather::Wait { wanted, patience } if wanted == gathered && patience == wait),
                "{gather:?}"
            );
        }
        driver.mode = Durability::BATCH;
        assert!(matches!(driver.gather(), Gather::Turn));
    });
}

#[test]
fn a_sync_counts_for_an_eighth_of_what_syncs_take() {
    let bench = Bench::new();
    bench.driver(|driver| driver.sync_time = Duration::from_micros(800));
    // It takes no time by this clock.
    bench.commit("a");
    assert_eq!(bench.driver(|driver| driver.sync_time), Duration::from_micros(700));
}

#[test]
fn the_memory_of_a_large_group_fades_with_the_groups_that_follow() {
    let bench = Bench::new();
    bench.driver(|driver| driver.gathered = 32);
    bench.store.read_index().wait().unwrap();
    assert_eq!(bench.driver(|driver| driver.gathered), 32, "a read is no group");
    bench.commit("a");
    assert_eq!(bench.driver(|driver| driver.gathered), 30);
}

#[test]
fn who_is_alone_rests_until_something_comes_and_others_until_the_next_tick() {
    let bench = Bench::new();
    bench.driver(|driver| {
        assert_eq!(driver.patience(), None);
        assert!(!driver.becomes_alone(), "it is");
        driver.shared.lease.forget();
        assert!(driver.becomes_alone(), "what was committed before may still be applied");
        assert!(driver.patience().is_some(), "until it is");
    });
    let bench = Bench::leading(peer(2), MemberRole::Learner);
    bench.driver(|driver| {
        assert!(!driver.becomes_alone(), "it has a member");
        driver.next_tick = driver.shared.clock.now() + SECOND;
        assert_eq!(driver.patience(), Some(SECOND));
    });
}

#[test]
fn a_tick_is_due_at_its_time() {
    let bench = Bench::leading(peer(2), MemberRole::Learner);
    bench.driver(|driver| {
        let (now, tick) = (driver.shared.clock.now(), driver.shared.tick);
        for (next, then) in [(now, now + tick), (now + tick, now + tick)] {
            driver.next_tick = next;
            driver.tick().unwrap();
            assert_eq!(driver.next_tick, then);
        }
    });
}

#[test]
fn batch_mode_syncs_at_its_time_and_at_the_end_without_another_commit() {
    let interval = Duration::from_millis(100);
    let bench = Bench::with(Durability::Batch { ops: 1000, interval }, 1 << 20);
    let unsynced = || bench.store.stats().raft.unwrap().unsynced;
    bench.commit("a");
    bench.clock.advance(interval - Duration::from_nanos(1));
    bench.store.turn();
    assert_eq!(unsynced(), 1);
    bench.clock.advance(Duration::from_nanos(1));
    bench.store.turn();
    assert_eq!(unsynced(), 0, "by time");
    bench.commit("b");
    bench.driver(|driver| driver.finish().unwrap());
    assert_eq!(unsynced(), 0, "at the end");
}

#[test]
fn messages_of_one_turn_are_written_once_per_mebibyte() {
    let part = GROUP_BYTES_MAX / 2;
    for (sizes, writes) in [
        (&[part, part, 400][..], 1),
        (&[part + 1, part, 400], 2),
        (&[part, part], 1),
        (&[part, 400, 400], 1),
        (&[GROUP_BYTES_MAX + 1, GROUP_BYTES_MAX + 1, GROUP_BYTES_MAX + 1], 3),
    ] {
        let bench = Bench::follower(Durability::Strict, 16 << 20);
        let syncs = || bench.store.stats().raft.unwrap().log_syncs;
        // Its term is on the disk before the entries are.
        bench.serve(append(0, Vec::new()));
        let before = syncs();
        let mut requests =
            sizes.iter().zip(0..).map(|(&bytes, behind)| append_of(behind, bytes)).collect();
        bench.driver(|driver| driver.turn(&mut requests).unwrap());
        assert_eq!(last_index(&bench), sizes.len() as u64);
        assert_eq!(syncs() - before, writes, "{sizes:?}");
    }
}

/// What is lost leaves its room to what follows, and what is not lost does not.
#[test]
fn a_message_for_which_the_log_has_no_room_is_lost_and_counts_no_more() {
    let bench = Bench::follower(Durability::Strict, 256 << 10);
    bench.serve(append(0, vec![entry(1, 10)]));
    bench.fill_disk();
    let room = bench.room(Need::Essential) - TURN_FRAMES * FRAME_OVERHEAD_BYTES;
    let (half, most) = (room / 2, room / 4 * 3);
    let mut requests =
        vec![append_of(1, half), append_of(2, most), append_of(2, most), append_of(2, 400)];
    bench.driver(|driver| driver.turn(&mut requests).unwrap());
    assert_eq!(last_index(&bench), 3, "the first and the last");
}

#[test]
fn a_server_without_any_room_looks_for_some_once_a_tick() {
    let bench = Bench::with(Durability::Strict, 64 << 10);
    bench.commit("a");
    bench.fill_disk();
    let taken = (0..1000).find(|n| {
        let mut batch = Batch::new();
        batch.delete(format!("{n}-{}", "x".repeat(300)).into_bytes()).set_essential();
        bench.store.commit(batch).wait().is_err()
    });
    assert!(taken.is_some(), "a full disk is noticed");
    bench.clock.advance(SECOND);
    bench.driver(|driver| {
        assert!(!driver.has_room(0).unwrap());
        driver.turn(&mut Vec::new()).unwrap();
        assert_eq!(driver.next_tick, SECOND + driver.shared.tick);
    });
}

#[test]
fn room_is_left_for_what_a_turn_writes_besides() {
    let bench = Bench::with(Durability::Strict, 256 << 10);
    bench.commit("a");
    bench.fill_disk();
    let besides = TURN_FRAMES * FRAME_OVERHEAD_BYTES;
    let (all, usual) = (bench.room(Need::Essential), bench.room(Need::Usual));
    bench.driver(|driver| {
        assert!(driver.has_room(all - besides).unwrap());
        assert!(!driver.has_room(all - besides + 1).unwrap());
        assert!(driver.lacks_room(usual - besides).unwrap().is_none());
        assert!(driver.lacks_room(usual - besides + 1).unwrap().is_some());
    });
}

fn of_bytes(bytes: usize, need: Need) -> DriverRequest {
    let (promise, _) = Commit::promised();
    DriverRequest::Commit { data: vec![0; bytes], need, promise }
}

#[test]
fn what_is_essential_has_the_room_that_usual_commits_beside_it_do_not_get() {
    let bench = Bench::with(Durability::Strict, 256 << 10);
    bench.commit("a");
    bench.fill_disk();
    let room = bench.room(Need::Essential);
    for (requests, usual, all) in [
        (vec![of_bytes(room, Need::Usual), of_bytes(100, Need::Essential)], true, false),
        (vec![of_bytes(100, Need::Usual), of_bytes(room, Need::Essential)], true, true),
        (vec![of_bytes(room, Need::Essential)], false, true),
        (vec![of_bytes(100, Need::Usual), of_bytes(100, Need::Essential)], false, false),
    ] {
        let refusal = bench.driver(|driver| driver.admit(&requests).unwrap());
        assert_eq!((refusal.usual.is_some(), refusal.all.is_some()), (usual, all), "{requests:?}");
    }
}

#[test]
fn who_is_short_looks_again_after_a_while() {
    let bench = Bench::new();
    bench.driver(|driver| {
        driver.scarce.own = Some(Error::Full("test".into()));
        driver.scarce.wait = 2;
        driver.look_for_room().unwrap();
        assert!(driver.scarce.own.is_some(), "not yet");
        driver.look_for_room().unwrap();
        assert!(driver.scarce.own.is_none());
        assert_eq!(driver.scarce.wait, SHORT_LOOK_TICKS);
    });
}

#[test]
fn voters_have_room_that_are_heard_and_do_not_say_otherwise() {
    let bench = Bench::leading_three();
    bench.driver(|driver| {
        driver.scarce.term = driver.node.standing().term;
        let most_are_short = |driver: &Driver| driver.most_are_short().is_some();
        assert_eq!(driver.voters_with_room(), [1, 2, 3]);
        assert!(!most_are_short(driver));
        driver.scarce.others.insert(2);
        assert_eq!(driver.voters_with_room(), [1, 3]);
        assert!(!most_are_short(driver), "two of three are most");
        driver.scarce.own = Some(Error::Full("test".into()));
        assert_eq!(driver.voters_with_room(), [3]);
        assert!(most_are_short(driver));
        driver.scarce.own = None;
        lock(&driver.shared.members).heard.remove(&3);
        assert_eq!(driver.voters_with_room(), [1], "the third may be gone");
        assert!(most_are_short(driver));
    });
    let bench = Bench::leading(peer(2), MemberRole::Voter);
    bench.driver(|driver| {
        driver.scarce.term = driver.node.standing().term;
        driver.scarce.others.insert(2);
        assert_eq!(driver.voters_with_room(), [1]);
        assert!(driver.most_are_short().is_some(), "one of two is not most");
    });
}

#[test]
fn a_voter_counts_as_heard_for_some_elections() {
    let bench = Bench::leading_three();
    let heard = bench.driver(|driver| driver.shared.tick * HEARD_TICKS);
    let with_room = || bench.driver(|driver| driver.voters_with_room());
    bench.clock.advance(heard);
    assert_eq!(with_room(), [1, 2, 3]);
    bench.clock.advance(Duration::from_nanos(1));
    assert_eq!(with_room(), [1]);
}

/// One that the leader does not reach asks for votes again and again, and looks well to nobody.
#[test]
fn who_asks_a_leader_for_votes_is_not_heard_by_it() {
    let bench = Bench::leading_three();
    bench.clock.advance(SECOND);
    let silent = |bench: &Bench| bench.store.members()[1].silent_ms;
    assert_eq!(silent(&bench), Some(1000));
    let term = bench.driver(|driver| driver.node.standing().term);
    for msg_type in [MessageType::MsgRequestPreVote, MessageType::MsgRequestVote] {
        let message = Message { msg_type, from: 2, to: 1, term, ..Message::default() };
        bench.serve(DriverRequest::Message(message));
        assert_eq!(silent(&bench), Some(1000), "{msg_type:?}");
    }
    bench.acknowledge(2, 0);
    assert_eq!(silent(&bench), Some(0));
}

#[test]
fn only_answers_say_whether_a_member_is_short() {
    let bench = Bench::leading_three();
    let message = |msg_type| Message { msg_type, from: 2, to: 1, ..Message::default() };
    bench.driver(|driver| {
        driver.scarce.own = Some(Error::Full("test".into()));
        for (msg_type, says) in [
            (MessageType::MsgHeartbeatResponse, true),
            (MessageType::MsgAppendResponse, true),
            (MessageType::MsgAppend, false),
            (MessageType::MsgHeartbeat, false),
        ] {
            let mut said = message(msg_type);
            driver.say_if_short(&mut said);
            assert_eq!(said.priority != 0, says, "{msg_type:?}");
            let mut heard = Message { priority: 1, ..message(msg_type) };
            driver.scarce.others.clear();
            driver.hear_if_short(&mut heard);
            assert_eq!(driver.scarce.others.contains(&2), says, "{msg_type:?}");
        }
    });
}

#[test]
fn a_commit_takes_its_bytes_and_a_header_of_the_log() {
    assert_eq!(scarce::log_bytes(&of_bytes(100, Need::Usual)), 100 + ENTRY_HEADER_BYTES);
    let (promise, _) = Commit::promised();
    assert_eq!(scarce::log_bytes(&DriverRequest::Save(promise)), FRAME_OVERHEAD_BYTES);
}

#[test]
fn a_leader_without_room_gives_way_to_a_voter_with_some() {
    let leads_after = |own_is_short: bool, other_is_heard: bool| {
        let bench = Bench::leading(peer(2), MemberRole::Voter);
        bench.driver(|driver| {
            driver.scarce.own = own_is_short.then(|| Error::Full("test".into()));
            if other_is_heard {
                lock(&driver.shared.members).heard.insert(2, driver.shared.clock.now());
            }
            driver.give_way_if_short();
            driver.node.leads()
        })
    };
    assert!(!leads_after(true, true));
    assert!(leads_after(true, false), "nobody could");
    assert!(leads_after(false, true) && leads_after(false, false), "it has some itself");
}
