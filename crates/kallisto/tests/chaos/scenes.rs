//! What happens to the cluster while clients are at work.

use std::time::{Duration, Instant};

use kallisto_campaign::CampaignPart;
use kallisto_sim::history::{HistoryVerdict, check};

use super::cluster::{Cluster, SERVERS};
use super::load::{Load, encoded};
use super::net::Wire;
use super::{enter, given, today, until};

/// Seconds of the random part, unless somebody wants more.
const SECS: u64 = if cfg!(debug_assertions) { 1 } else { 10 };
/// Rounds, and scenes of each: a server that is not optimised takes ten times as long, and shows that the test still works.
const ROUNDS: u64 = if cfg!(debug_assertions) { 1 } else { 2 };
const SCENES_MAX: usize = if cfg!(debug_assertions) { 3 } else { SCENES.len() };
/// How long a fault lasts, in milliseconds.
const FAULT_MS: std::ops::Range<u64> = 100..1200;

/// What a run counted.
#[derive(Default)]
pub(crate) struct Counts {
    faults: u64,
    operations: usize,
    unknown: usize,
    keys: usize,
}

impl Counts {
    /// Counts a fault.
    pub(crate) fn add_fault(&mut self) {
        self.faults += 1;
    }

    /// Says what was done since `start`, and adds it to the ledger.
    pub(crate) fn tell(&self, test: &str, seed: u64, start: Instant) {
        let Self { faults, operations, unknown, keys } = self;
        let took = start.elapsed().as_secs();
        println!(
            "{faults} faults, {operations} operations on {keys} keys, {unknown} unknown, {took} s: linearizable"
        );
        enter(&format!(
            "| {} | {test} | {seed} | {faults} | {operations} | {keys} | {unknown} | 0 | {took} s |",
            today()
        ));
    }
}

#[test]
fn a_cluster_under_faults_is_linearizable_twice_on_the_same_directories() {
    let seed = given("KALLISTO_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    run(seed, given("KALLISTO_CHAOS_SECS").unwrap_or(SECS));
}

#[test]
#[ignore = "`cargo x campaign chaos` runs it"]
fn a_cluster_under_faults_of_any_seed_is_linearizable() {
    let part = CampaignPart::of_environment().unwrap().expect("a part of a campaign");
    // Both rounds of a run draw by numbers of their own.
    println!("{}", part.run_on(1, |seed| run(seed * ROUNDS, SECS).keys as u64));
}

fn run(seed: u64, secs: u64) -> Counts {
    println!("seed {seed}");
    let start = Instant::now();
    let mut cluster = Cluster::form("scenes");
    let mut counts = Counts::default();
    for round in 0..ROUNDS {
        if round > 0 {
            (0..SERVERS).for_each(|server| cluster.stop(server));
            (0..SERVERS).for_each(|server| cluster.start(server));
            (0..SERVERS).for_each(|server| cluster.unseal(server));
            cluster.settle();
        }
        odd_names_come_through(&cluster);
        play(&mut cluster, &mut counts, seed.wrapping_add(round), secs);
        a_backup_comes_back(&mut cluster);
    }
    counts.tell("chaos", seed, start);
    counts
}

/// One round: the set scenes, then faults as the dice fall, and what the clients make of it.
fn play(cluster: &mut Cluster, counts: &mut Counts, seed: u64, secs: u64) {
    let load = Load::start(cluster, &cluster.token, seed);
    perform(cluster, &load, &SCENES[..SCENES_MAX], counts);
    let mut dice = fastrand::Rng::with_seed(seed);
    let end = Instant::now() + Duration::from_secs(secs);
    while Instant::now() < end {
        random_fault(cluster, &mut dice);
        counts.faults += 1;
    }
    conclude(cluster, load, counts, seed);
}

/// Has scenes happen under a load, one after the other.
pub(crate) fn perform(
    cluster: &mut Cluster,
    load: &Load,
    scenes: &[(&str, Scene)],
    counts: &mut Counts,
) {
    for (name, scene) in scenes {
        let began = Instant::now();
        scene(cluster, load);
        counts.faults += 1;
        println!("  {name}: {} ms", began.elapsed().as_millis());
    }
}

/// Ends a load, and judges what its clients saw.
pub(crate) fn conclude(cluster: &Cluster, load: Load, counts: &mut Counts, seed: u64) {
    cluster.settle();
    let (history, said) = load.finish();
    println!("  {said}");
    match check(&history) {
        HistoryVerdict::Linearizable(figures) => {
            counts.operations += figures.operations;
            counts.unknown += figures.unknown;
            counts.keys += figures.keys;
        }
        verdict => panic!("seed {seed}: {verdict}"),
    }
}

pub(crate) type Scene = fn(&mut Cluster, &Load);

const SCENES: [(&str, Scene); 9] = [
    ("the leader is killed under writes", leader_is_killed),
    ("the leader stands still, and writes come during the election", leader_stands_still),
    ("the leader is cut off, and comes back", leader_is_cut_off),
    ("the leader hears nobody, then nobody hears it", one_way),
    ("wires are slow, and lose connections", bad_wires),
    ("a server is replaced by a new one", member_is_replaced),
    ("each server is restarted in turn", rolling_restart),
    ("all servers are killed at once, and every key is there before any write", all_are_killed),
    ("a server comes back, and the leader is killed at once", restart_then_kill),
];

/// Lets time pass.
pub(crate) fn rest(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

fn leader_is_killed(cluster: &mut Cluster, _: &Load) {
    rest(300);
    let leader = cluster.some_leader();
    cluster.kill(leader);
    assert_ne!(cluster.some_leader(), leader);
    cluster.restart(leader);
}

fn leader_stands_still(cluster: &mut Cluster, _: &Load) {
    let leader = cluster.some_leader();
    cluster.freeze(leader);
    rest(1000);
    cluster.thaw(leader);
    rest(200);
}

fn leader_is_cut_off(cluster: &mut Cluster, _: &Load) {
    let leader = cluster.some_leader();
    cluster.isolate(leader, Wire::Cut);
    rest(1000);
    cluster.isolate(leader, Wire::Stalled);
    rest(500);
    cluster.net.heal();
    cluster.settle();
}

fn one_way(cluster: &mut Cluster, _: &Load) {
    for hears in [false, true] {
        let leader = cluster.some_leader();
        for other in (0..SERVERS).filter(|&other| other != leader) {
            let (from, to) = if hears { (leader, other) } else { (other, leader) };
            cluster.net.set(from, to, Wire::Stalled);
        }
        rest(800);
        cluster.net.heal();
        cluster.some_leader();
    }
}

fn bad_wires(cluster: &mut Cluster, _: &Load) {
    for wire in [Wire::Slow(15), Wire::Flaky(20)] {
        (0..SERVERS).for_each(|server| cluster.isolate(server, wire));
        rest(800);
        cluster.net.heal();
    }
}

fn member_is_replaced(cluster: &mut Cluster, _: &Load) {
    let leader = cluster.some_leader();
    let gone = (leader + 1) % SERVERS;
    cluster.kill(gone);
    let body = format!(r#"{{"server_id":"{}"}}"#, Cluster::name(gone));
    cluster.client(leader).good("POST", "sys/storage/raft/remove-peer", &body);
    cluster.wipe(gone);
    cluster.start(gone);
    cluster.join(gone);
    cluster.settle();
}

fn rolling_restart(cluster: &mut Cluster, _: &Load) {
    for server in 0..SERVERS {
        cluster.stop(server);
        cluster.restart(server);
        cluster.settle();
    }
}

fn all_are_killed(cluster: &mut Cluster, load: &Load) {
    (0..SERVERS).for_each(|server| cluster.kill(server));
    load.pause();
    let values = load.settled_values();
    (0..SERVERS).for_each(|server| cluster.start(server));
    (0..SERVERS).for_each(|server| cluster.unseal(server));
    cluster.all_answer();
    for (key, (value, version)) in &values {
        // Each of the servers holds everything once it is told what is committed: before any new write.
        for server in 0..SERVERS {
            let path = format!("secret/data/{}", encoded(key));
            let reply = cluster.client(server).good("GET", &path, "");
            assert_eq!(reply.at("data.metadata.version"), version.to_string(), "{key} at {server}");
            assert_eq!(reply.at("data.data.v"), value.clone().unwrap(), "{key} at {server}");
        }
    }
    assert!(!values.is_empty(), "something was written before");
    load.go_on();
}

fn restart_then_kill(cluster: &mut Cluster, _: &Load) {
    let leader = cluster.some_leader();
    let other = (leader + 1) % SERVERS;
    cluster.kill(other);
    rest(300);
    cluster.restart(other);
    cluster.kill(leader);
    cluster.some_leader();
    cluster.restart(leader);
    cluster.settle();
}

fn random_fault(cluster: &mut Cluster, dice: &mut fastrand::Rng) {
    let lasts = dice.u64(FAULT_MS);
    let server = match dice.bool() {
        true => cluster.some_leader(),
        false => dice.usize(..SERVERS),
    };
    match dice.u32(..7) {
        0 | 1 => {
            cluster.kill(server);
            rest(lasts);
            cluster.restart(server);
        }
        2 => {
            cluster.freeze(server);
            rest(lasts);
            cluster.thaw(server);
        }
        3 => {
            cluster.isolate(server, Wire::Cut);
            rest(lasts);
        }
        4 => {
            let other = (server + dice.usize(1..SERVERS)) % SERVERS;
            cluster.net.set(server, other, Wire::Stalled);
            rest(lasts);
        }
        5 => {
            (0..SERVERS).for_each(|server| cluster.isolate(server, Wire::Flaky(30)));
            rest(lasts);
        }
        _ => {
            let leader = cluster.some_leader();
            // It may have lost its place already.
            let _ = cluster.client(leader).send("PUT", "sys/step-down", "", b"");
        }
    }
    cluster.net.heal();
    rest(dice.u64(FAULT_MS) / 4);
}

/// Names and values that mean something in a URL, written through a follower and read everywhere.
fn odd_names_come_through(cluster: &Cluster) {
    let leader = cluster.some_leader();
    let follower = (leader + 1) % SERVERS;
    // A second mount on the second round is refused, and there.
    let _ = cluster.client(follower).send("POST", "sys/mounts/secret", "", br#"{"type":"kv-v2"}"#);
    let name = "a b&c=d%e/f+g?h#i";
    let value = "1 2&3=4%255/6+7";
    let path = format!("secret/data/{}", encoded(name));
    let body = format!(r#"{{"data":{{"{value}":"{value}"}}}}"#);
    let mut seen = None;
    until("the mount to be there", || {
        let reply = cluster.client(follower).send("POST", &path, "", body.as_bytes()).unwrap();
        seen = reply.index.clone().filter(|_| reply.status == 200);
        seen.is_some()
    });
    let seen = format!("X-Vault-Index: {}\r\n", seen.unwrap());
    for server in 0..SERVERS {
        until("what was written to be known", || {
            let reply = cluster.client(server).send("GET", &path, &seen, b"").unwrap();
            let body = String::from_utf8_lossy(&reply.body);
            let is_known = reply.status == 200;
            assert!(!is_known || body.contains(&format!(r#""{value}":"{value}""#)), "{body}");
            is_known
        });
    }
}

/// What a backup holds is on every server again, and what was written after it is not.
fn a_backup_comes_back(cluster: &mut Cluster) {
    let server = cluster.some_leader();
    let mut client = cluster.client(server);
    client.good("POST", "secret/data/backup", r#"{"data":{"v":"before"}}"#);
    let follower = (server + 1) % SERVERS;
    let backup = cluster.client(follower).good("GET", "sys/storage/raft/snapshot", "").body;
    client.good("POST", "secret/data/backup", r#"{"data":{"v":"after"}}"#);
    client.good("POST", "secret/data/backup-later", r#"{"data":{"v":"after"}}"#);
    let restore = |bytes: &[u8]| {
        let mut client = cluster.client(server);
        client.send("POST", "sys/storage/raft/snapshot", "", bytes).unwrap().status
    };
    let mut damaged = backup.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    assert_eq!(restore(&damaged), 400);
    assert_eq!(restore(&backup[..backup.len() - 20]), 400);
    let path = "secret/data/backup";
    assert_eq!(client.good("GET", path, "").at("data.data.v"), "after", "nothing has changed");
    assert_eq!(restore(&backup), 204);
    for server in 0..SERVERS {
        until("the backup's value on every server", || {
            let reply = cluster.client(server).send("GET", path, "", b"").unwrap();
            reply.at("data.data.v") == "before"
        });
        let later = cluster.client(server).send("GET", "secret/data/backup-later", "", b"");
        assert_eq!(later.unwrap().status, 404);
    }
    client.good("POST", path, r#"{"data":{"v":"again"}}"#);
    cluster.settle();
}
