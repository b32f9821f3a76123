//! Disks that fail, and disks that are full, under a load whose history is judged.
//!
//! A sync that fails ends its server: what the disk holds is unknown from then on, so it is never asked a second time. A
//! full disk ends nothing: its server neither writes nor votes, somebody else leads, and once there is space it goes on by
//! itself. While most disks are full nothing is written anywhere, clients hear so, and what is known can be read.

use std::time::{Duration, Instant};

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
/// How long everything is refused before nothing will be taken: longer than somebody else takes to lead.
const REFUSED_MIN: Duration = Duration::from_secs(5);
/// Between two values that are refused at once.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);
/// Values of one size that a log has room for, at the most: larger ones were refused before.
const TAKEN_MAX: usize = 300;
/// A write waits for a leader for ten seconds, and for a word on it as long; then its client hears what is known.
const ANSWER_MAX: Duration = Duration::from_secs(35);
/// Values that are written again and again, so that servers do not drown in them.
const FILLERS: usize = 8;

const SCENES: [(&str, Scene); 5] = [
    ("a sync fails at a follower", sync_fails_at_a_follower),
    ("a sync fails at the leader", sync_fails_at_the_leader),
    ("the leader's disk is full", leader_is_full),
    ("a follower's disk is full", follower_is_full),
    ("two disks are full", two_are_full),
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
    fill(cluster, &[full]);
    for server in (0..SERVERS).filter(|&server| server != full) {
        writes_are_taken(cluster, server);
    }
    make_space(cluster, &[full]);
}

fn two_are_full(cluster: &mut Cluster, _: &Load) {
    let path = "secret/data/before";
    let leader = cluster.some_leader();
    let reply = cluster.client(leader).good("POST", path, r#"{"data":{"v":"there"}}"#);
    let seen = format!("X-Vault-Index: {}\r\n", reply.index.unwrap());
    for server in 0..SERVERS {
        until("what was written to be known", || {
            let reply = cluster.client(server).send("GET", path, &seen, b"");
            reply.is_ok_and(|reply| reply.status == 200)
        });
    }
    let full = [leader, (leader + 1) % SERVERS];
    fill(cluster, &full);
    // One whose log has room for a little still helps to keep what the third one writes.
    for bytes in [FILLER_BYTES, REST_BYTES[0], REST_BYTES[1]] {
        pour_until_refused(cluster, bytes);
    }
    for server in 0..SERVERS {
        let read = |headers| cluster.client(server).send("GET", path, headers, b"").unwrap();
        let reply = read("");
        // One whose disk had no room for what the others committed knows that it lacks something.
        let is_behind = full.contains(&server) && reply.status == 503;
        let reply = if is_behind { read("X-Kallisto-Consistency: stale\r\n") } else { reply };
        assert_eq!(reply.at("data.data.v"), "there", "reads go on at {server}: {}", reply.error());
    }
    make_space(cluster, &full);
}

/// A write of little.
const SMALL: &[u8] = br#"{"data":{"v":"small"}}"#;

/// Fills the disks of some servers, until each has refused something and nothing is left of its last segment.
fn fill(cluster: &Cluster, full: &[usize]) {
    let felt = |server: usize| cluster.faults(server).felt(Felt::WritesRefused);
    let before: Vec<i64> = full.iter().map(|&server| felt(server)).collect();
    full.iter().for_each(|&server| cluster.faults(server).order(Order::DiskFull, 1));
    let mut number = 0;
    until("the disks to refuse something", || {
        pour(cluster, number, FILLER_BYTES);
        number += 1;
        full.iter().zip(&before).all(|(&server, before)| felt(server) > *before + REFUSALS_MIN)
    });
    for bytes in REST_BYTES {
        // Where most disks are full, one refusal says it, and takes its time.
        let _ = (0..REST_COUNT).any(|number| pour(cluster, number, bytes) == Poured::Refused);
    }
}

/// Pours values of a size until none has been taken for [`REFUSED_MIN`]: a leader that refuses one is followed by
/// another, and the two full servers need not be full at the same place.
fn pour_until_refused(cluster: &Cluster, bytes: usize) {
    let (mut taken, mut refused) = (0, None);
    for number in 0.. {
        let asked = Instant::now();
        match pour(cluster, number, bytes) {
            Poured::Taken => (taken, refused) = (taken + 1, None),
            Poured::Refused => {
                if refused.get_or_insert(asked).elapsed() >= REFUSED_MIN {
                    return;
                }
                std::thread::sleep(REFUSED_PAUSE);
            }
        }
        assert!(taken < TAKEN_MAX, "{taken} values of {bytes} bytes, and still some are taken");
    }
}

/// What became of a value. Whoever asks hears it within [`ANSWER_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Poured {
    Taken,
    Refused,
}

/// Asks one server after the other to take a value. One that is refused is refused with a reason.
fn pour(cluster: &Cluster, number: usize, bytes: usize) -> Poured {
    let body = format!(r#"{{"v":"{}"}}"#, "x".repeat(bytes));
    let path = format!("filler/{}", number % FILLERS);
    let asked = Instant::now();
    let reply = cluster.client(number % SERVERS).send("POST", &path, "", body.as_bytes()).unwrap();
    assert!(asked.elapsed() < ANSWER_MAX, "an answer after {:?}", asked.elapsed());
    match reply.status {
        204 => Poured::Taken,
        503 if !reply.error().is_empty() => Poured::Refused,
        status => panic!("{status} {}", reply.error()),
    }
}

/// Gives servers their space back: writes through each of them work again, and none of them was started anew.
fn make_space(cluster: &Cluster, full: &[usize]) {
    full.iter().for_each(|&server| cluster.faults(server).order(Order::DiskFull, 0));
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
