//! A server that the cluster has let go learns it, and does not forget it.

use std::time::Duration;

use kallisto_store::{MemberChange, Replicated};

use crate::harness::Cluster;

#[test]
fn a_member_is_not_talked_out_of_its_cluster() {
    let cluster = Cluster::of_three();
    cluster.until("it is up to date", |cluster| {
        let store = cluster.store(3);
        store.as_of().age(store.now()).is_some_and(|age| age.as_millis() < 500)
    });
    cluster.store(3).told_removed();
    assert!(!cluster.store(3).is_removed(), "a leader with a majority says otherwise");
    let alone = Cluster::new(1);
    alone.store(1).told_removed();
    assert!(!alone.store(1).is_removed(), "there is nobody who could say so");
}

#[test]
fn a_member_that_starts_anew_is_one_still() {
    let mut cluster = Cluster::of_three();
    for id in 1..=3 {
        cluster.stop(id);
        cluster.start(id);
        assert!(!cluster.store(id).is_removed(), "server {id}");
    }
}

#[test]
fn a_member_believes_that_it_is_none_once_it_heard_nothing_for_two_questions() {
    let mut cluster = Cluster::of_three();
    let of_three = |cluster: &Cluster| {
        let store = cluster.store(3);
        store.as_of().age(store.now()).unwrap_or_default()
    };
    cluster.until("it is up to date", |cluster| of_three(cluster) == Duration::ZERO);
    cluster.cut.push(3);
    let silence = 2 * Duration::from_secs(1);
    while of_three(&cluster) < silence {
        cluster.store(3).told_removed();
        assert!(!cluster.store(3).is_removed(), "after {:?}", of_three(&cluster));
        cluster.tick();
    }
    assert_eq!(of_three(&cluster), silence);
    cluster.store(3).told_removed();
    assert!(cluster.store(3).is_removed());
}

#[test]
fn a_removed_server_knows_it_once_it_is_told_and_after_every_start() {
    let mut cluster = Cluster::of_three();
    cluster.cut.push(3);
    let leader = cluster.leader().unwrap();
    cluster.decide(cluster.store(leader).change(vec![MemberChange::Remove(3)])).unwrap();
    (0..400).for_each(|_| cluster.tick());
    assert!(!cluster.store(3).is_removed(), "nobody told it yet");
    cluster.store(3).told_removed();
    for _ in 0..2 {
        assert!(cluster.store(3).is_removed());
        assert_eq!(cluster.store(3).as_of().age(cluster.store(3).now()), None);
        cluster.stop(3);
        cluster.start(3);
    }
    assert!(!cluster.store(leader).is_removed());
}

#[test]
fn a_server_that_sees_its_own_removal_knows_it() {
    let cluster = Cluster::of_three();
    let leader = cluster.leader().unwrap();
    cluster.decide(cluster.store(leader).transfer(Some(2))).unwrap();
    cluster.decide(cluster.store(2).change(vec![MemberChange::Remove(1)])).unwrap();
    cluster.write("later");
    // Whether the word of its own leaving still reaches it is chance: if it does, it knows.
    let left = cluster.store(1).members().iter().all(|member| member.peer.id != 1);
    assert_eq!(cluster.store(1).is_removed(), left);
}
