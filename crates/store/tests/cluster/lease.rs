//! Up to when a server's state holds everything: it is never later than the first write that is missing there.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kallisto_lsm::clock::Clock;
use kallisto_store::{AsOf, Batch, Error, Records, Replicated, Store};

use crate::harness::Cluster;

/// How often the servers of these tests ask: the default of the options.
const CONFIRM_EVERY: Duration = Duration::from_secs(1);

fn age(cluster: &Cluster, id: u64) -> Option<Duration> {
    let store = cluster.store(id);
    assert_eq!(store.now(), cluster.clock.now());
    store.as_of().age(store.now())
}

fn is_fresh(cluster: &Cluster, id: u64) -> bool {
    age(cluster, id).is_some_and(|age| age <= 2 * CONFIRM_EVERY)
}

#[test]
fn who_is_alone_is_up_to_date_and_company_has_to_answer() {
    let mut cluster = Cluster::new(1);
    cluster.write("alone");
    assert_eq!(cluster.store(1).as_of(), AsOf::ALWAYS);
    cluster.clock.advance(100 * CONFIRM_EVERY);
    assert_eq!(age(&cluster, 1), Some(Duration::ZERO));
    cluster = Cluster::of_three();
    cluster.until("all are told", |cluster| (1..=3).all(|id| is_fresh(cluster, id)));
    assert_ne!(cluster.store(1).as_of(), AsOf::ALWAYS);
    for _ in 0..500 {
        cluster.tick();
        (1..=3).for_each(|id| assert!(is_fresh(&cluster, id), "{:?}", age(&cluster, id)));
    }
}

#[test]
fn who_hears_nobody_grows_old_and_so_does_a_leader_without_a_majority() {
    let mut cluster = Cluster::of_three();
    cluster.until("all are told", |cluster| (1..=3).all(|id| is_fresh(cluster, id)));
    let leader = cluster.leader().unwrap();
    let follower = (1..=3).find(|id| *id != leader).unwrap();
    for alone in [follower, leader] {
        cluster.cut.push(alone);
        let cut = cluster.clock.now();
        cluster.until("another leads", |cluster| cluster.leader().is_some());
        cluster.write(&format!("without {alone}"));
        for _ in 0..500 {
            cluster.tick();
        }
        let since = cluster.clock.now() - cut;
        assert!(age(&cluster, alone).unwrap() >= since, "nothing since then is known there");
        let others = (1..=3).filter(|id| *id != alone);
        others.for_each(|id| assert!(is_fresh(&cluster, id)));
        cluster.cut.clear();
        cluster.until("it is told", |cluster| is_fresh(cluster, alone));
        let missing = cluster.store(alone).get(format!("without {alone}").as_bytes());
        assert!(missing.unwrap().is_some(), "what it is told it holds");
    }
}

#[test]
fn who_lacks_an_entry_is_not_up_to_date_however_often_the_leader_is_heard() {
    let mut cluster = Cluster::of_three();
    let leader = cluster.leader().unwrap();
    let follower = (1..=3).find(|id| *id != leader).unwrap();
    cluster.lacks.push(follower);
    cluster.write("missing there");
    let written = cluster.clock.now();
    for _ in 0..500 {
        cluster.tick();
    }
    assert_eq!(cluster.leader(), Some(leader), "heartbeats are heard");
    assert!(cluster.store(follower).get(b"missing there").unwrap().is_none());
    assert!(age(&cluster, follower).unwrap() >= cluster.clock.now() - written);
    cluster.lacks.clear();
    cluster.until("it is told", |cluster| is_fresh(cluster, follower));
    assert!(cluster.store(follower).get(b"missing there").unwrap().is_some());
}

/// A question and its answer take time, and what was committed while they were on their way may be missing in the answer: what is
/// known is as old as the question.
#[test]
fn a_state_is_as_old_as_its_question_and_not_as_the_answer() {
    const ON_THE_WAY: Duration = Duration::from_millis(50);
    let cluster = Cluster::of_three();
    cluster.until("all are told", |cluster| (1..=3).all(|id| is_fresh(cluster, id)));
    let (mut answers, mut old) = (0, 0);
    let mut known = [1, 2, 3].map(|id| cluster.store(id).as_of());
    for _ in 0..200 {
        // Everybody says what there is to say by now, and it arrives later.
        cluster.clock.advance(2 * ON_THE_WAY);
        cluster.running().for_each(|(_, store)| store.turn());
        cluster.clock.advance(ON_THE_WAY);
        cluster.tick();
        for (id, known) in (1..=3).zip(&mut known) {
            let as_of = cluster.store(id).as_of();
            if std::mem::replace(known, as_of) != as_of {
                answers += 1;
                // But for what was asked within the tick, and answered within it.
                old += usize::from(age(&cluster, id).unwrap() >= ON_THE_WAY);
            }
        }
    }
    assert!(answers > 6 && old > answers / 3, "{old} of {answers}");
}

/// One entry is enough: a read that has to see everything waits for the last one too, and the state is as old as the question that
/// was answered before it.
#[test]
fn who_lacks_the_last_entry_alone_answers_no_read_that_has_to_see_it() {
    let mut cluster = Cluster::of_three();
    cluster.until("all are told", |cluster| (1..=3).all(|id| is_fresh(cluster, id)));
    let leader = cluster.leader().unwrap();
    let follower = (1..=3).find(|id| *id != leader).unwrap();
    cluster.until("it has everything", |cluster| cluster.caught_up(follower));
    cluster.lacks.push(follower);
    let held = cluster.store(follower).position();
    let asked_before = cluster.clock.now();
    let position = cluster.write("the last one");
    assert_eq!(position, held.0 + 1, "it lacks exactly one entry");
    let mut read = cluster.store(follower).read_index();
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..300 {
        cluster.tick();
        match Pin::new(&mut read).poll(&mut context) {
            Poll::Pending => {}
            // The question may be given up, and asked again.
            Poll::Ready(Err(Error::NotLeader)) => read = cluster.store(follower).read_index(),
            Poll::Ready(other) => panic!("answered without the last entry: {other:?}"),
        }
        let now = cluster.clock.now();
        assert!(age(&cluster, follower).is_none_or(|age| age >= now - asked_before));
        assert_eq!(cluster.store(follower).position(), held);
    }
    cluster.lacks.clear();
    let seen = cluster.decide(cluster.store(follower).read_index());
    if let Ok(seen) = seen {
        assert!(seen >= position);
        assert!(cluster.store(follower).get(b"the last one").unwrap().is_some());
    }
    cluster.until("it is told", |cluster| is_fresh(cluster, follower));
    assert!(cluster.store(follower).get(b"the last one").unwrap().is_some());
}

#[test]
fn a_stopped_server_finds_its_clock_gone_on_and_a_new_start_knows_nothing() {
    let mut cluster = Cluster::of_three();
    cluster.until("all are told", |cluster| (1..=3).all(|id| is_fresh(cluster, id)));
    let leader = cluster.leader().unwrap();
    cluster.clock.advance(60 * CONFIRM_EVERY);
    assert!(cluster.store(leader).leads(), "nobody told it otherwise");
    assert!(age(&cluster, leader).unwrap() >= 60 * CONFIRM_EVERY);
    (1..=3).for_each(|id| cluster.stop(id));
    cluster.start(1);
    (0..500).for_each(|_| cluster.tick());
    assert_eq!(age(&cluster, 1), None, "it reached nobody yet");
    cluster.start(2);
    cluster.until("a majority is enough", |cluster| is_fresh(cluster, 1) && is_fresh(cluster, 2));
}

/// A server that cannot write a byte still says that it hears its leader: what is known can be read.
#[test]
fn who_has_everything_is_up_to_date_though_most_disks_have_no_room_left() {
    for full in [&[1, 2][..], &[2, 3], &[1, 3]] {
        let cluster = Cluster::of_three_with_segments(64 << 10);
        cluster.until("all are told", |cluster| (1..=3).all(|id| is_fresh(cluster, id)));
        cluster.fill_disks(full);
        // What is essential goes into the reserve, and uses it up.
        let mut refused = 0;
        for n in 0..5000 {
            let Some(leader) = cluster.leader() else {
                cluster.tick();
                continue;
            };
            let mut batch = Batch::new();
            batch.delete(format!("{n}-{}", "x".repeat(500)).into_bytes()).set_essential();
            match cluster.decide(cluster.store(leader).commit(batch)) {
                Ok(_) => refused = 0,
                Err(
                    Error::Full(_) | Error::NotLeader | Error::Unknown(_) | Error::Unavailable(_),
                ) => {
                    refused += 1;
                }
                Err(other) => panic!("{full:?}: {other}"),
            }
            if refused > 50 {
                break;
            }
        }
        assert!(refused > 50, "{full:?}: the disks are full");
        let before = cluster.clock.now();
        (0..1500).for_each(|_| cluster.tick());
        assert!(cluster.clock.now() - before > 10 * CONFIRM_EVERY);
        let committed = (1..=3).map(|id| cluster.store(id).position()).max();
        for id in 1..=3 {
            let (holds, age) = (cluster.store(id).position(), age(&cluster, id));
            let is_fresh = is_fresh(&cluster, id);
            assert_eq!(is_fresh, Some(holds) == committed, "{full:?}, {id}: {holds:?} {age:?}");
        }
        cluster.make_space();
        cluster.until("all are told", |cluster| (1..=3).all(|id| is_fresh(cluster, id)));
        cluster.assert_replicas_are_equal();
    }
}
