//! A server that was away beyond the log: it is sent a snapshot, whole or in parts, and what becomes of one that breaks off.

use std::sync::Arc;
use std::time::Duration;

use kallisto_store::{Error, Invitation, MemberRole, Replicated, Store};

use crate::common::{Mirror, put};
use crate::harness::{Break, Cluster};

#[test]
fn who_was_away_beyond_the_log_catches_up_by_a_snapshot_and_its_fold_is_told() {
    struct ReplacementFold(Arc<Mirror>, std::sync::atomic::AtomicBool);
    impl kallisto_store::Fold for ReplacementFold {
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
    let mirror = Arc::new(ReplacementFold(Arc::default(), false.into()));
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

/// A cluster with one left behind, whose snapshot will not come whole.
fn with_wires_that(breaks: Break) -> Cluster {
    let cluster = Cluster::with_one_left_behind(&large_values());
    cluster.chunks.set(0);
    cluster.break_at.set(Some(breaks));
    cluster
}

/// Lets the third server hear the others until its snapshot broke off.
fn break_off(cluster: &mut Cluster) {
    cluster.cut.clear();
    cluster.until("it breaks off", |cluster| cluster.break_at.get().is_none());
}

#[test]
fn a_snapshot_that_breaks_off_between_two_chunks_goes_on_there() {
    let whole = chunks_of_one();
    assert!(whole >= 5, "a head, several chunks and an end, not {whole}");
    for at in 1..whole {
        let mut cluster = with_wires_that(Break::Once(at));
        cluster.bring_back();
        assert_eq!((cluster.rests.get(), cluster.chunks.get()), (1, whole), "broken at {at}");
        cluster.stop(3);
        cluster.start(3);
        cluster.assert_replicas_are_equal();
    }
    // Before anything came there is nothing to go on from.
    let mut cluster = with_wires_that(Break::Once(0));
    cluster.bring_back();
    assert_eq!((cluster.rests.get(), cluster.chunks.get()), (0, whole));
}

#[test]
fn a_snapshot_that_breaks_off_after_every_chunk_still_comes() {
    let whole = chunks_of_one();
    let mut cluster = with_wires_that(Break::Always);
    cluster.bring_back();
    // Behind the last chunk nothing is left to break.
    assert_eq!((cluster.rests.get(), cluster.chunks.get()), (whole - 1, whole));
}

#[test]
fn the_log_behind_a_snapshot_that_broke_off_is_kept() {
    let whole = chunks_of_one();
    let mut cluster = with_wires_that(Break::Once(3));
    break_off(&mut cluster);
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
    let mut cluster = with_wires_that(Break::Damaged(3));
    cluster.bring_back();
    assert_eq!((cluster.rests.get(), cluster.chunks.get()), (0, 3 + whole));
}

#[test]
fn the_rest_of_a_snapshot_that_its_sender_forgot_comes_anew() {
    let whole = chunks_of_one();
    let mut cluster = with_wires_that(Break::Once(3));
    break_off(&mut cluster);
    let leader = cluster.leader().unwrap();
    cluster.stop(leader);
    cluster.start(leader);
    cluster.bring_back();
    assert_eq!(cluster.chunks.get(), 3 + whole);
}

#[test]
fn the_rest_of_a_snapshot_is_asked_of_its_sender_alone() {
    let mut cluster = with_wires_that(Break::Once(3));
    break_off(&mut cluster);
    cluster.cut.push(3);
    let sender = cluster.leader().unwrap();
    cluster.decide(cluster.store(sender).transfer(None)).unwrap();
    cluster.until("another leads", |cluster| cluster.leader().is_some_and(|id| id != sender));
    cluster.bring_back();
    assert_eq!(cluster.rests.get(), 0);
}

#[test]
fn a_snapshot_of_a_follower_that_starts_anew_says_the_same_term() {
    let mut cluster = Cluster::of_three();
    cluster.decide(cluster.store(1).transfer(Some(2))).unwrap();
    cluster.write("key");
    cluster.assert_replicas_are_equal();
    let head = |cluster: &Cluster| cluster.store(3).snapshot().unwrap().next_chunk().unwrap();
    let before = head(&cluster);
    cluster.stop(3);
    cluster.start(3);
    assert_eq!(head(&cluster), before);
}

/// The directories of engines in which a server has files.
fn engines(cluster: &Cluster, id: u64) -> std::collections::BTreeSet<std::path::PathBuf> {
    let files = cluster.disk(id).files();
    let is_data = |path: &&std::path::PathBuf| path.extension().is_some_and(|end| end == "sst");
    let dirs = files.keys().filter(is_data).filter_map(|path| path.parent());
    dirs.map(Into::into).collect()
}

#[test]
fn an_engine_that_was_replaced_is_removed_once_nobody_reads_it() {
    let mut cluster = Cluster::with_one_left_behind(&large_values());
    cluster.cut.clear();
    // Whoever reads still goes on reading the state of then.
    let mut reader = cluster.store(3).snapshot().unwrap();
    cluster.until("it caught up", |cluster| cluster.caught_up(3));
    let value = "x".repeat(30_000);
    let flush = |cluster: &Cluster| {
        for _ in 0..10 {
            let leader = cluster.leader().unwrap();
            cluster.decide(cluster.store(leader).commit(put("more", &value))).unwrap();
        }
        cluster.until("it caught up", |cluster| cluster.caught_up(3));
    };
    flush(&cluster);
    while reader.next_chunk().unwrap().is_some() {}
    drop(reader);
    // It is held for a while, for a member that wants the rest of it.
    cluster.clock.advance(Duration::from_secs(100));
    drop(cluster.store(3).snapshot_behind(b"no place"));
    drop(cluster.store(3).snapshot().unwrap());
    cluster.until("somebody leads", |cluster| cluster.leader().is_some());
    flush(&cluster);
    assert_eq!(engines(&cluster, 3).len(), 1, "{:?}", engines(&cluster, 3));
}

#[test]
fn a_full_disk_without_room_for_a_directory_waits_for_space_and_takes_the_snapshot_then() {
    let mut cluster = Cluster::with_one_left_behind(&large_values());
    cluster.fill_disks(&[3]);
    cluster.cut.clear();
    (0..300).for_each(|_| cluster.tick());
    assert!(!cluster.caught_up(3));
    assert_ne!(cluster.store(3).leadership().leader_id, 0, "it lives and follows");
    cluster.make_space();
    cluster.bring_back();
    cluster.write("after");
    cluster.assert_replicas_are_equal();
}

/// The whole state would be sent again with each heartbeat.
#[test]
fn a_disk_that_fills_up_within_a_snapshot_is_tried_again_after_a_pause() {
    let filled = (5..14).map(|power| {
        let mut cluster = Cluster::with_one_left_behind(&large_values());
        cluster.chunks.set(0);
        cluster.fill_disk_after(3, 1 << power);
        cluster.cut.clear();
        (0..300).for_each(|_| cluster.tick());
        cluster
    });
    let fills_within = |cluster: &Cluster| {
        cluster.chunks.get() > 1 && cluster.without_room.get() > 0 && !cluster.caught_up(3)
    };
    let mut cluster = filled.into_iter().find(fills_within).unwrap();
    assert_eq!(cluster.without_room.get(), 1, "in three seconds");
    (0..3000).for_each(|_| cluster.tick());
    let tried = cluster.without_room.get();
    assert!((1..6).contains(&tried), "{tried} times in half a minute");
    cluster.make_space();
    cluster.clock.advance(Duration::from_secs(300));
    cluster.bring_back();
}

#[test]
fn a_server_without_room_joins_nobody_and_goes_on_as_it_was() {
    let cluster = Cluster::new(2);
    cluster.decide(cluster.store(1).commit(put("first", "1"))).unwrap();
    cluster.fill_disks(&[2]);
    let invitation = || Invitation {
        store_id: cluster.store(1).store_id(),
        node_id: 2,
        peers: vec![Cluster::peer(1)],
    };
    let joined = cluster.decide(cluster.store(2).join(invitation()));
    assert!(matches!(joined, Err(Error::Full(_))), "{joined:?}");
    cluster.make_space();
    cluster.join(2, MemberRole::Learner);
    cluster.assert_replicas_are_equal();
}
