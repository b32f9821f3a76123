//! Disks that fail, and disks that are full, under a load whose history is judged.
//!
//! A sync that fails ends its server: what the disk holds is unknown from then on, so it is never asked a second time. A
//! full disk ends nothing: its server neither writes nor votes, somebody else leads, what is known can be read, and once
//! there is space it goes on by itself.

use std::time::Instant;

use super::cluster::{Cluster, SERVERS};
use super::faults::{Felt, Order};
use super::load::Load;
use super::scenes::{Counts, Scene, conclude, perform};
use super::{given, until};

/// Bytes of values that fill a disk: large ones until a new segment is refused, then what the last one has room for.
const FILLER_BYTES: usize = 700 << 10;
const REST_BYTES: [usize; 2] = [64 << 10, 4 << 10];
/// Refusals that mean that a disk is full: who makes segments beforehand is refused once, who needs one asks again and again.
const REFUSALS_MIN: i64 = 10;
/// How many of each there may be: together with the large one that did not fit, they fill what is left.
const REST_COUNT: usize = 16;
/// Values that are written again and again, so that servers do not drown in them.
const FILLERS: usize = 8;

const SCENES: [(&str, Scene); 4] = [
    ("a sync fails at a follower", sync_fails_at_a_follower),
    ("a sync fails at the leader", sync_fails_at_the_leader),
    ("the leader's disk is full", leader_is_full),
    ("a follower's disk is full", follower_is_full),
];

#[test]
fn failing_and_full_disks_lose_nothing() {
    let seed = given("KALLISTO_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("seed {seed}");
    let start = Instant::now();
    let Some(mut cluster) = Cluster::form_on_bad_machines("disks") else { return };
    cluster.client(0).good("POST", "sys/mounts/secret", r#"{"type":"kv-v2"}"#);
    cluster.client(0).good("POST", "sys/mounts/filler", r#"{"type":"kv-v1"}"#);
    cluster.settle();
    let mut counts = Counts::default();
    let load = Load::start(&cluster, &cluster.token, seed);
    perform(&mut cluster, &load, &SCENES, &mut counts);
    conclude(&cluster, load, &mut counts, seed);
    counts.tell("chaos: disks", seed, start);
}

fn sync_fails_at_a_follower(cluster: &mut Cluster, _: &Load) {
    let follower = (cluster.some_leader() + 1) % SERVERS;
    sync_fails(cluster, follower);
}

fn sync_fails_at_the_leader(cluster: &mut Cluster, _: &Load) {
    let leader = cluster.some_leader();
    sync_fails(cluster, leader);
}

fn sync_fails(cluster: &mut Cluster, server: usize) {
    let before = cluster.faults(server).felt(Felt::SyncsFailed);
    cluster.faults(server).order(Order::SyncsFail, 1);
    let status = cluster.ended(server);
    assert_eq!(status.code(), Some(1), "a server whose disk fails ends, and says so: {status}");
    assert!(cluster.faults(server).felt(Felt::SyncsFailed) > before);
    assert_eq!(cluster.faults(server).felt(Felt::SyncsRetried), 0, "no sync is tried again");
    writes_are_taken(cluster, (server + 1) % SERVERS);
    cluster.faults(server).order(Order::SyncsFail, 0);
    cluster.restart(server);
    cluster.settle();
}

fn leader_is_full(cluster: &mut Cluster, _: &Load) {
    let leader = cluster.some_leader();
    most_have_space(cluster, leader);
}

fn follower_is_full(cluster: &mut Cluster, _: &Load) {
    let follower = (cluster.some_leader() + 1) % SERVERS;
    most_have_space(cluster, follower);
}

/// One disk is full, and the cluster takes writes.
fn most_have_space(cluster: &Cluster, full: usize) {
    fill(cluster, full);
    for server in (0..SERVERS).filter(|&server| server != full) {
        writes_are_taken(cluster, server);
    }
    cluster.client(full).good("GET", "secret/data/taken", "");
    make_space(cluster, full);
}

/// A write of little.
const SMALL: &[u8] = br#"{"data":{"v":"small"}}"#;

/// Fills the disk of a server, until it has refused much and nothing is left of its last segment.
fn fill(cluster: &Cluster, full: usize) {
    let felt = || cluster.faults(full).felt(Felt::WritesRefused);
    let before = felt();
    cluster.faults(full).order(Order::DiskFull, 1);
    let mut number = 0;
    until("the disk to refuse something", || {
        pour(cluster, number, FILLER_BYTES);
        number += 1;
        felt() > before + REFUSALS_MIN
    });
    for bytes in REST_BYTES {
        (0..REST_COUNT).for_each(|number| pour(cluster, number, bytes));
    }
}

/// Asks one server after the other to take a value. One that is refused is refused with a reason.
fn pour(cluster: &Cluster, number: usize, bytes: usize) {
    let body = format!(r#"{{"v":"{}"}}"#, "x".repeat(bytes));
    let path = format!("filler/{}", number % FILLERS);
    let reply = cluster.client(number % SERVERS).send("POST", &path, "", body.as_bytes()).unwrap();
    let refused = reply.status == 503 && !reply.error().is_empty();
    assert!(reply.status == 204 || refused, "{} {}", reply.status, reply.error());
}

/// Gives a server its space back: writes through each of them work again, and none of them was started anew.
fn make_space(cluster: &Cluster, full: usize) {
    cluster.faults(full).order(Order::DiskFull, 0);
    (0..SERVERS).for_each(|server| writes_are_taken(cluster, server));
    cluster.settle();
}

/// Waits until a write through a server is acknowledged.
fn writes_are_taken(cluster: &Cluster, server: usize) {
    until("a write to be taken", || {
        let reply = cluster.client(server).send("POST", "secret/data/taken", "", SMALL);
        reply.is_ok_and(|reply| reply.status == 200)
    });
}
