//! Two builds in one cluster: servers are moved to this build one at a time and back, while clients are at work.
//!
//! `KALLISTO_CHAOS_OTHER` names the binary of the other build, which `cargo x mixed` builds from another commit; without it there is nothing
//! to do. The cluster begins on the other build, so what it wrote is read by this one and the other way round, each as leader and as follower.

use std::path::PathBuf;
use std::time::Instant;

use super::cluster::{Cluster, SERVERS};
use super::given;
use super::load::Load;
use super::scenes::{Counts, Scene, conclude, perform, rest};

/// There, back in part, and there again.
const SCENES: [(&str, Scene); 5] = [
    ("each server is moved to this build", |cluster, _| move_each(cluster)),
    ("the leader is killed among servers of this build", leader_is_killed),
    ("two servers go back", |cluster, _| move_back(cluster, 2)),
    ("the leader is killed among servers of both builds", leader_is_killed),
    ("each server is moved to this build again", |cluster, _| move_each(cluster)),
];

#[test]
fn a_cluster_of_two_builds_is_linearizable() {
    let Ok(other) = std::env::var("KALLISTO_CHAOS_OTHER") else {
        println!("SKIPPED: KALLISTO_CHAOS_OTHER names no other build (cargo x mixed makes one)");
        return;
    };
    let seed = given("KALLISTO_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("seed {seed}, other build {other}");
    let start = Instant::now();
    let mut cluster = Cluster::form_of_build("builds", PathBuf::from(other));
    cluster.client(0).good("POST", "sys/mounts/secret", r#"{"type":"kv-v2"}"#);
    cluster.settle();
    let mut counts = Counts::default();
    let load = Load::start(&cluster, &cluster.token, seed);
    perform(&mut cluster, &load, &SCENES, &mut counts);
    conclude(&cluster, load, &mut counts, seed);
    counts.tell("two builds", seed, start);
}

/// Moves servers to this build one at a time, the leader last.
fn move_each(cluster: &mut Cluster) {
    let leader = cluster.some_leader();
    for server in (1..=SERVERS).map(|step| (leader + step) % SERVERS) {
        cluster.stop(server);
        cluster.set_build(server, None);
        cluster.restart(server);
        cluster.settle();
        rest(300);
    }
}

/// Moves so many servers to the other build, beginning with the leader.
fn move_back(cluster: &mut Cluster, count: usize) {
    let other = cluster.other_build();
    for _ in 0..count {
        let leader = cluster.some_leader();
        cluster.stop(leader);
        cluster.set_build(leader, other.clone());
        cluster.restart(leader);
        cluster.settle();
        rest(300);
    }
}

fn leader_is_killed(cluster: &mut Cluster, _: &Load) {
    rest(300);
    let leader = cluster.some_leader();
    cluster.kill(leader);
    assert_ne!(cluster.some_leader(), leader);
    rest(300);
    cluster.restart(leader);
    cluster.settle();
}
