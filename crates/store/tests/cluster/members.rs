//! What a server says of the members, and what it learns of them.

use kallisto_store::{
    Announcement, Error, MemberChange, MemberRole, Peer, PeerClash, Replicated, Store,
};

use crate::common::put;
use crate::harness::Cluster;

#[test]
fn whoever_has_or_is_about_to_have_company_is_not_alone() {
    let cluster = Cluster::new(2);
    assert!(cluster.store(1).is_alone() && cluster.store(2).is_alone());
    cluster.join(2, MemberRole::Learner);
    assert!(!cluster.store(1).is_alone() && !cluster.store(2).is_alone());
    cluster.decide(cluster.store(1).change(vec![MemberChange::Remove(2)])).unwrap();
    assert!(cluster.store(1).is_alone());
}

/// Whoever applied that would end, at each start.
#[test]
fn the_only_voter_stays_one_whoever_learns_from_it() {
    let cluster = Cluster::new(2);
    cluster.join(2, MemberRole::Learner);
    let demoted = MemberChange::Put(Cluster::peer(1), MemberRole::Learner);
    for leaving in [MemberChange::Remove(1), demoted] {
        let refused = cluster.decide(cluster.store(1).change(vec![leaving]));
        assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    }
    cluster.decide(cluster.store(1).commit(put("key", "value"))).unwrap();
    let instead = MemberChange::Put(Cluster::peer(2), MemberRole::Voter);
    cluster.decide(cluster.store(1).change(vec![instead])).unwrap();
}

#[test]
fn a_leader_says_how_far_each_of_the_others_is() {
    let mut cluster = Cluster::of_three();
    cluster.lacks.push(3);
    let last = (0..5).map(|n| cluster.write(&format!("key-{n}"))).last().unwrap();
    cluster.tick();
    let leader = cluster.leader().unwrap();
    let members = cluster.store(leader).members();
    let matched: Vec<_> = members.iter().map(|member| (member.peer.id, member.matched)).collect();
    let of = |id| matched.iter().find(|(known, _)| *known == id).unwrap().1;
    assert!(of(1) >= last && of(2) >= last, "{matched:?}");
    assert!(of(3) < last && of(3) > 0, "{matched:?}");
    let follower = cluster.store(3).members();
    assert!(follower.iter().all(|member| member.matched == 0), "a follower does not know");
}

/// The index of the last entry of the leader's log.
fn last_index(cluster: &Cluster) -> u64 {
    let leader = cluster.store(cluster.leader().unwrap());
    leader.stats().raft.unwrap().last_index
}

fn moved(id: u64) -> Peer {
    Peer { api_address: format!("https://moved-{id}"), ..Cluster::peer(id) }
}

#[test]
fn a_member_that_moved_is_found_at_its_new_address_in_its_old_role() {
    let cluster = Cluster::of_three();
    let leader = cluster.leader().unwrap();
    let store = cluster.store(leader);
    let wants = MemberRole::Learner;
    let learner = Peer { wants, ..Cluster::peer(4) };
    cluster.decide(store.change(vec![MemberChange::Put(learner, wants)])).unwrap();
    // Those who connect do not say what they are to be.
    store.meet(moved(4));
    let follower = cluster.store(leader % 3 + 1);
    cluster.until("all know it", |_| {
        let known = |store: &dyn Replicated| {
            let members = store.members();
            members.last().is_some_and(|member| member.peer.api_address == "https://moved-4")
        };
        known(store) && known(follower)
    });
    let members = store.members();
    let member = members.last().unwrap();
    assert_eq!((member.peer.clone(), member.role), (Peer { wants, ..moved(4) }, wants));
    assert!(members[..3].iter().all(|member| member.role == MemberRole::Voter));
    store.meet(moved(2));
    cluster.until("it is known", |_| store.members()[1].peer == moved(2));
    assert_eq!(store.members()[1].role, MemberRole::Voter);
}

#[test]
fn what_is_no_news_of_a_member_changes_nothing() {
    let cluster = Cluster::of_three();
    let leader = cluster.leader().unwrap();
    let before = (last_index(&cluster), cluster.store(leader).members().len());
    for id in 1..=3 {
        cluster.store(leader).meet(Cluster::peer(id));
        cluster.store(leader).meet(moved(9));
        cluster.store(leader % 3 + 1).meet(moved(id));
    }
    (0..50).for_each(|_| cluster.tick());
    assert_eq!((last_index(&cluster), cluster.store(leader).members().len()), before);
}

/// Two members of one name cannot be told apart by whoever removes one, and of two at one address nobody reaches both.
#[test]
fn no_member_takes_the_name_or_the_address_of_another() {
    let cluster = Cluster::of_three();
    let leader = cluster.leader().unwrap();
    let (store, other) = (cluster.store(leader), leader % 3 + 1);
    let known = Cluster::peer(leader);
    let before = (last_index(&cluster), store.members());
    for (said, what) in [
        (Peer { name: known.name.clone(), ..Cluster::peer(other) }, PeerClash::Name),
        (
            Peer { cluster_address: known.cluster_address.clone(), ..Cluster::peer(other) },
            PeerClash::ClusterAddress,
        ),
    ] {
        let taken = Announcement::Taken { what, by: known.clone() };
        assert_eq!(store.announced(&said), taken);
        store.meet(said.clone());
        // Nor by any other way.
        for id in [other, 9] {
            let put = MemberChange::Put(Peer { id, ..said.clone() }, MemberRole::Voter);
            let refused = cluster.decide(store.change(vec![put]));
            assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
        }
    }
    (0..50).for_each(|_| cluster.tick());
    let peers = |members: Vec<kallisto_store::Member>| -> Vec<Peer> {
        members.into_iter().map(|member| member.peer).collect()
    };
    assert_eq!((last_index(&cluster), peers(store.members())), (before.0, peers(before.1)));
    // Whoever goes leaves both to the next.
    let gone = other % 3 + 1;
    let gone = if gone == leader { gone % 3 + 1 } else { gone };
    let next = Peer { id: 9, ..Cluster::peer(gone) };
    let changes = vec![MemberChange::Remove(gone), MemberChange::Put(next, MemberRole::Learner)];
    cluster.decide(store.change(changes)).unwrap();
}

#[test]
fn a_server_does_not_start_under_the_name_of_another_member() {
    let mut cluster = Cluster::of_three();
    cluster.write("key");
    cluster.stop(3);
    let refused = cluster.start_as(3, &Cluster::peer(2).name).unwrap_err();
    assert!(matches!(&refused, Error::Unavailable(why) if why.contains("node-2")), "{refused:?}");
    cluster.start_as(3, "other").unwrap();
}

#[test]
fn a_server_that_starts_anew_knows_where_its_peers_are() {
    let mut cluster = Cluster::of_three();
    cluster.write("key");
    for id in 1..=3 {
        cluster.stop(id);
    }
    for id in 1..=3 {
        cluster.start(id);
        let peers: Vec<_> = cluster.store(id).members().into_iter().map(|m| m.peer).collect();
        assert_eq!(peers, [1, 2, 3].map(Cluster::peer), "server {id}");
    }
}
