//! Three stores on one thread, with wires between them that lose what they are told to: how a cluster comes to be, how a
//! server that was away comes back, and what becomes of what was under way.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../common/mod.rs"]
mod common;
mod harness;
mod lease;
mod members;
mod removed;
mod snapshots;

use bytes::Bytes;
use kallisto_lsm::clock::Clock;
use kallisto_store::{
    Batch, Candidacy, Error, Invitation, MemberChange, MemberRole, Peer, RaftStore, Records,
    Replicated, Store,
};

use common::{put, state_of};
use harness::Cluster;

#[test]
fn a_cluster_of_one_grows_to_three_and_all_hold_the_same() {
    let cluster = Cluster::of_three();
    cluster.write("second");
    cluster.assert_replicas_are_equal();
    let members = cluster.store(3).members();
    let known: Vec<_> = members.iter().map(|m| (m.peer.clone(), m.role)).collect();
    let expected = [1, 2, 3].map(|id| (Cluster::peer(id), MemberRole::Voter));
    assert_eq!(known, expected);
    assert_eq!(cluster.store(2).get(b"first").unwrap().unwrap().value, "1");
    let refused = cluster.decide(cluster.store(2).commit(put("other", "x")));
    assert_eq!(refused, Err(Error::NotLeader));
}

/// Two of three are destroyed: the third becomes the only member, with everything that it had, and takes new ones in.
#[test]
fn who_is_left_of_a_cluster_goes_on_alone_and_grows_again() {
    let mut cluster = Cluster::of_three();
    (0..40).for_each(|n| _ = cluster.write(&format!("key-{n}")));
    cluster.assert_replicas_are_equal();
    let before = cluster.store(3).leadership().term;
    cluster.cut.extend([1, 2]);
    (0..100).for_each(|_| cluster.tick());
    assert_eq!(cluster.leader(), None, "no majority");
    cluster.stop(3);
    cluster.start_alone(3);
    cluster.until("it leads", |cluster| cluster.leader() == Some(3));
    assert!(cluster.store(3).leadership().term > before);
    assert_eq!(state_of(cluster.store(3)).len(), 41);
    cluster.write("after");
    // What its log said of other members is said no more, however often it starts.
    for _ in 0..2 {
        cluster.stop(3);
        cluster.start(3);
        cluster.until("it leads again", |cluster| cluster.leader() == Some(3));
    }
    assert_eq!(cluster.store(3).members().len(), 1);
    assert_eq!(state_of(cluster.store(3)).len(), 42);
}

/// The library would panic.
#[test]
fn a_follower_that_was_put_back_says_so_and_ends() {
    let mut cluster = Cluster::of_three();
    cluster.write("early");
    cluster.assert_replicas_are_equal();
    let leader = cluster.leader().unwrap();
    let follower = (1..=3).find(|id| *id != leader).unwrap();
    let earlier = cluster.disk(follower);
    (0..40).for_each(|n| _ = cluster.write(&format!("key-{n}")));
    cluster.assert_replicas_are_equal();
    cluster.put_back(follower, &earlier);
    (0..50).for_each(|_| cluster.tick());
    let ended = cluster.store(follower).save().wait();
    let what = ended.unwrap_err().to_string();
    assert!(what.contains("put back from an older copy"), "{what}");
}

/// As a power cut leaves a follower in batch mode: its votes were synced, and the last of its entries were not.
#[test]
fn a_follower_that_lost_entries_follows_another_leader() {
    let mut cluster = Cluster::of_three();
    cluster.write("early");
    cluster.assert_replicas_are_equal();
    let leader = cluster.leader().unwrap();
    let follower = (1..=3).find(|id| *id != leader).unwrap();
    let other = (1..=3).find(|id| ![leader, follower].contains(id)).unwrap();
    let earlier = cluster.disk(follower);
    (0..40).for_each(|n| _ = cluster.write(&format!("key-{n}")));
    cluster.assert_replicas_are_equal();
    cluster.put_back(follower, &earlier);
    (0..50).for_each(|_| cluster.tick());
    assert!(matches!(cluster.store(follower).save().wait(), Err(Error::Lost(_))));
    cluster.decide(cluster.store(leader).transfer(Some(other))).unwrap();
    cluster.put_back(follower, &earlier);
    cluster.until("it caught up", |cluster| cluster.caught_up(follower));
    cluster.write("after");
    cluster.assert_replicas_are_equal();
}

/// All are killed, and start as they were.
fn kill_all(cluster: &mut Cluster) {
    let disks = [1, 2, 3].map(|id| cluster.disk(id));
    for (id, disk) in (1..).zip(&disks) {
        cluster.put_back(id, disk);
    }
    // Once each, so that they apply what they have and nobody stands for election.
    cluster.running().for_each(|(_, store)| store.turn());
    assert_eq!(cluster.leader(), None);
}

/// Sealed servers elect nobody who could tell them, and their seal is a record like others.
#[test]
fn servers_that_were_all_killed_know_what_was_committed_before_anybody_leads() {
    let mut cluster = Cluster::of_three();
    cluster.write("last");
    (0..5).for_each(|_| cluster.tick());
    kill_all(&mut cluster);
    for id in [1, 2, 3] {
        assert!(cluster.store(id).get(b"last").unwrap().is_some(), "server {id}");
    }
}

/// The same at once, where another commit came after.
#[test]
fn most_of_those_that_were_all_killed_know_what_was_followed_by_another_commit() {
    let mut cluster = Cluster::of_three();
    cluster.write("last");
    let leader = cluster.leader().unwrap();
    cluster.decide(cluster.store(leader).commit(Batch::new())).unwrap();
    kill_all(&mut cluster);
    let knows = |id: &u64| cluster.store(*id).get(b"last").unwrap().is_some();
    assert!([1, 2, 3].iter().filter(|id| knows(id)).count() >= 2);
}

/// What a full disk refuses a secret it does not refuse a revocation, whoever of three has how much room.
#[test]
fn what_is_essential_is_taken_while_most_disks_are_full() {
    for full in [&[1, 2][..], &[2, 3], &[1, 3], &[1, 2, 3]] {
        let cluster = Cluster::of_three_with_segments(64 << 10);
        (0..8).for_each(|n| _ = cluster.write(&format!("key-{n}")));
        cluster.fill_disks(full);
        // Whoever has room leads, so a refusal may be followed by another leader's word.
        let mut refused = 0;
        for n in 0..2000 {
            let Some(leader) = cluster.leader() else {
                cluster.tick();
                continue;
            };
            let batch = put(&format!("filler-{}", n % 7), &"x".repeat(500));
            match cluster.decide(cluster.store(leader).commit(batch)) {
                Ok(_) => refused = 0,
                Err(Error::Full(_)) => refused += 1,
                Err(Error::NotLeader) => {}
                Err(other) => panic!("{full:?}: {other}"),
            }
            if refused > 50 {
                break;
            }
        }
        assert!(refused > 50, "{full:?}: the disks are full");
        for n in 0..8 {
            cluster.until("somebody leads", |cluster| cluster.leader().is_some());
            let mut batch = Batch::new();
            batch.delete(format!("key-{n}").into_bytes()).set_essential();
            let leader = cluster.leader().unwrap();
            let taken = cluster.decide(cluster.store(leader).commit(batch));
            assert!(taken.is_ok(), "{full:?}, {n}: {taken:?}");
        }
        cluster.make_space();
        cluster.until("there is room again", |cluster| {
            let Some(leader) = cluster.leader() else { return false };
            cluster.decide(cluster.store(leader).commit(put("after", "v"))).is_ok()
        });
        cluster.assert_replicas_are_equal();
    }
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
    let changes =
        vec![MemberChange::Remove(3), MemberChange::Put(Cluster::peer(2), MemberRole::Learner)];
    cluster.decide(cluster.store(1).change(changes)).unwrap();
    cluster.until("the joint state is left", |cluster| {
        let members = cluster.store(1).members();
        members.len() == 2 && members[1].role == MemberRole::Learner
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
    cluster.join(2, MemberRole::Learner);
    let role = |cluster: &Cluster, id: u64| {
        let members = cluster.store(1).members();
        members.iter().find(|member| member.peer.id == id).map(|member| member.role)
    };
    cluster.until("it votes", |cluster| role(cluster, 2) == Some(MemberRole::Voter));
    let stays = Peer { wants: MemberRole::Learner, ..Cluster::peer(3) };
    let store_id = cluster.store(1).store_id();
    let invitation = Invitation { store_id, node_id: 3, peers: vec![Cluster::peer(1)] };
    cluster.decide(cluster.store(3).join(invitation)).unwrap();
    cluster
        .decide(cluster.store(1).change(vec![MemberChange::Put(stays, MemberRole::Learner)]))
        .unwrap();
    (0..100).for_each(|_| cluster.tick());
    assert_eq!(role(&cluster, 3), Some(MemberRole::Learner));
    assert!(cluster.caught_up(3));
}

/// Its vote would count although it is not there: of two servers that is a majority lost.
#[test]
fn a_learner_that_was_never_heard_does_not_vote() {
    let mut cluster = Cluster::new(2);
    cluster.cut.push(2);
    let added = vec![MemberChange::Put(Cluster::peer(2), MemberRole::Learner)];
    cluster.decide(cluster.store(1).change(added)).unwrap();
    for _ in 0..100 {
        cluster.tick();
        let members = cluster.store(1).members();
        let roles: Vec<_> = members.iter().map(|member| (member.peer.id, member.role)).collect();
        assert_eq!(roles, [(1, MemberRole::Voter), (2, MemberRole::Learner)]);
    }
    cluster.decide(cluster.store(1).commit(put("x", "1"))).unwrap();
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
