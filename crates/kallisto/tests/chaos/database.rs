//! Three servers without disks on one PostgreSQL, under the same load and the same judge as on disks of their own.
//!
//! Leaders are killed, stand still for longer than their lease, and are cut off from the database in the middle of commits; the
//! database is killed and started again; connections are ended by the database. Each server has a wire of its own to it.
//! Histories have to be linearizable, whatever was not answered.
//!
//! A lease lasts 5 s, so a kill takes 6. The long form, whose line is in the ledger:
//! `KALLISTO_DATABASE_KILLS=50 KALLISTO_DATABASE_RESTARTS=20 cargo test --release -p kallisto --test chaos database -- --nocapture`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::cluster::{Cluster, SERVERS};
use super::http::Client;
use super::load::{Load, STRONG};
use super::postgres::{PASSWORD, Postgres, StopMode};
use super::proxy::DatabaseWire;
use super::scenes::{Counts, Scene, conclude, perform, rest};
use super::{given, until};

/// Kills and restarts, unless somebody wants more.
const KILLS: u64 = if cfg!(debug_assertions) { 1 } else { 4 };
const RESTARTS: u64 = if cfg!(debug_assertions) { 1 } else { 3 };
const SCENES_MAX: usize = if cfg!(debug_assertions) { 3 } else { SCENES.len() };
/// Kills and restarts between two judgements: histories of keys stay short.
const ROUND: u64 = 10;

const SCENES: [(&str, Scene); 7] = [
    ("answers to the leader are lost, and its wire is cut", answers_are_lost),
    ("the leader stands still for longer than its lease", leader_stands_still),
    ("the leader hangs, and what it sent arrives late", leader_hangs),
    ("the leader is cut off from the database", leader_is_cut_off),
    ("a follower hears no notifications, then hangs", follower_is_deaf),
    ("each server is restarted in turn", rolling_restart),
    ("all servers are killed at once", all_are_killed),
];

#[test]
fn servers_on_a_database_under_faults_are_linearizable() {
    let Some(mut database) = Postgres::start("chaos") else { return };
    let seed = given("KALLISTO_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let kills = given("KALLISTO_DATABASE_KILLS").unwrap_or(KILLS);
    let restarts = given("KALLISTO_DATABASE_RESTARTS").unwrap_or(RESTARTS);
    println!("seed {seed}");
    let start = Instant::now();
    let mut cluster = Cluster::form_on_database_saying("database", &database, "");
    cluster.client(0).good("POST", "sys/mounts/secret", r#"{"type":"kv-v2"}"#);
    cluster.settle();
    let mut counts = Counts::default();
    let load = Load::start(&cluster, &cluster.token, seed);
    perform(&mut cluster, &load, &SCENES[..SCENES_MAX], &mut counts);
    connections_are_ended(&database, &cluster);
    counts.add_fault();
    conclude(&cluster, load, &mut counts, seed);
    let (mut killed, mut restarted, mut round) = (0, 0, 0);
    while killed < kills || restarted < restarts {
        round += 1;
        let load = Load::start(&cluster, &cluster.token, seed.wrapping_add(round));
        for _ in 0..ROUND {
            if killed < kills {
                leader_is_killed(&mut cluster);
                killed += 1;
                counts.add_fault();
            }
            if restarted < restarts && (restarted * kills <= killed * restarts || killed == kills) {
                let modes = [StopMode::Killed, StopMode::Immediate, StopMode::Fast];
                database.stop(modes[restarted as usize % modes.len()]);
                rest(300);
                database.run();
                cluster.some_leader();
                restarted += 1;
                counts.add_fault();
            }
        }
        conclude(&cluster, load, &mut counts, seed);
    }
    for server in 0..SERVERS {
        assert!(!cluster.log(server).contains(PASSWORD), "a password in a log");
    }
    counts.tell(
        &format!("on PostgreSQL, {killed} leaders killed, {restarted} restarts"),
        seed,
        start,
    );
}

fn leader_is_killed(cluster: &mut Cluster) {
    let leader = cluster.some_leader();
    cluster.kill(leader);
    assert_ne!(cluster.some_leader(), leader);
    cluster.restart(leader);
}

fn connections_are_ended(database: &Postgres, cluster: &Cluster) {
    for _ in 0..5 {
        database.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'kallisto'",
        );
        rest(200);
    }
    cluster.some_leader();
}

fn answers_are_lost(cluster: &mut Cluster, _: &Load) {
    let leader = cluster.some_leader();
    for wire in [DatabaseWire::Cut, DatabaseWire::Sound].repeat(3) {
        cluster.wire(leader, DatabaseWire::AnswersLost);
        rest(100);
        cluster.wire(leader, wire);
        rest(150);
    }
    cluster.some_leader();
}

fn leader_stands_still(cluster: &mut Cluster, _: &Load) {
    rest(300);
    let old = cluster.some_leader();
    cluster.freeze(old);
    until("another one to lead", || {
        (0..SERVERS).filter(|&server| server != old).any(|server| {
            cluster.ask(server, "sys/leader").is_ok_and(|reply| reply.at("is_self") == "true")
        })
    });
    rest(500);
    cluster.thaw(old);
    until("the old one to follow", || {
        cluster.ask(old, "sys/leader").is_ok_and(|reply| reply.at("is_self") == "false")
    });
}

fn leader_hangs(cluster: &mut Cluster, _: &Load) {
    let old = cluster.some_leader();
    cluster.wire(old, DatabaseWire::Hanging);
    until("another one to lead", || cluster.leader().is_some_and(|leader| leader != old));
    rest(500);
    cluster.wire(old, DatabaseWire::Sound);
    rest(500);
    cluster.some_leader();
}

fn leader_is_cut_off(cluster: &mut Cluster, _: &Load) {
    for millis in [200, 7000] {
        let leader = cluster.some_leader();
        cluster.wire(leader, DatabaseWire::Cut);
        rest(millis);
        cluster.wire(leader, DatabaseWire::Sound);
        cluster.some_leader();
    }
}

fn follower_is_deaf(cluster: &mut Cluster, _: &Load) {
    let follower = (cluster.some_leader() + 1) % SERVERS;
    for wire in [DatabaseWire::NotificationsLost, DatabaseWire::Hanging] {
        cluster.wire(follower, wire);
        rest(1500);
    }
    cluster.wire(follower, DatabaseWire::Sound);
}

fn rolling_restart(cluster: &mut Cluster, _: &Load) {
    for server in 0..SERVERS {
        cluster.stop(server);
        cluster.restart(server);
        cluster.some_leader();
    }
}

fn all_are_killed(cluster: &mut Cluster, _: &Load) {
    (0..SERVERS).for_each(|server| cluster.kill(server));
    (0..SERVERS).for_each(|server| cluster.start(server));
    (0..SERVERS).for_each(|server| cluster.unseal(server));
    cluster.some_leader();
    cluster.all_answer();
}

/// How long reads may go on without the database, and how much longer they did: a look is 50 ms.
const STALENESS: Duration = Duration::from_secs(3);
const LEASE: Duration = Duration::from_secs(5);
const LATE: Duration = Duration::from_millis(700);

/// Reads that ask for nothing stop when the view is too old, on leader and followers, however the database went away.
#[test]
fn without_the_database_reads_stop_when_the_view_is_too_old() {
    let Some(mut database) = Postgres::start("staleness") else { return };
    let cluster =
        Cluster::form_on_database_saying("database-staleness", &database, "max_staleness = \"3s\"");
    cluster.client(0).good("POST", "sys/mounts/secret", r#"{"type":"kv-v2"}"#);
    cluster.client(0).good("POST", "secret/data/kept", r#"{"data":{"v":"1"}}"#);
    cluster.settle();
    let read = |cluster: &Cluster, server, headers: &str| {
        let mut client =
            Client::new(cluster.address(server), &cluster.token, Duration::from_secs(2));
        client.send("GET", "secret/data/kept", headers, b"").map_or(0, |reply| reply.status)
    };
    for server in 0..SERVERS {
        until("the value", || read(&cluster, server, "") == 200);
    }
    for fault in ["cut", "hanging", "killed"] {
        // So that every view is of now.
        for server in 0..SERVERS {
            until("a strong read", || read(&cluster, server, STRONG) == 200);
        }
        let struck = Instant::now();
        match fault {
            "cut" => (0..SERVERS).for_each(|server| cluster.wire(server, DatabaseWire::Cut)),
            "hanging" => {
                (0..SERVERS).for_each(|server| cluster.wire(server, DatabaseWire::Hanging))
            }
            _ => database.stop(StopMode::Killed),
        }
        let gone = Instant::now();
        let mut last = [Duration::ZERO; SERVERS];
        let mut first_refused = Duration::MAX;
        while gone.elapsed() < LEASE + STALENESS + LATE {
            for (server, last) in last.iter_mut().enumerate() {
                let asked = gone.elapsed();
                match read(&cluster, server, "") {
                    200 => *last = asked,
                    // No answer is no refusal.
                    0 => {}
                    _ => first_refused = first_refused.min(struck.elapsed()),
                }
            }
            rest(50);
        }
        println!("  {fault}: reads went on for {last:?}");
        // A leader's view is of now until the lease that it had is over.
        assert!(last.iter().all(|last| *last <= LEASE + STALENESS + LATE), "{fault}: {last:?}");
        let mut followers = last;
        followers.sort();
        assert!(followers[SERVERS - 2] <= STALENESS + LATE, "{fault}: {last:?}");
        assert!(first_refused >= STALENESS - Duration::from_millis(1300), "{fault}: {last:?}");
        assert_ne!(read(&cluster, 0, STRONG), 200, "{fault}");
        match fault {
            "killed" => database.run(),
            _ => (0..SERVERS).for_each(|server| cluster.wire(server, DatabaseWire::Sound)),
        }
        for server in 0..SERVERS {
            until("reads again", || read(&cluster, server, STRONG) == 200);
        }
    }
    // One leader that only it does not reach: it is the one whose reads stop, the others go on.
    let leader = cluster.some_leader();
    cluster.wire(leader, DatabaseWire::Hanging);
    until("another leader", || cluster.leader().is_some_and(|other| other != leader));
    until("its reads to stop", || read(&cluster, leader, "") != 200);
    for server in (0..SERVERS).filter(|&server| server != leader) {
        until("the others to go on", || read(&cluster, server, "") == 200);
    }
    cluster.wire(leader, DatabaseWire::Sound);
}

#[test]
fn a_database_that_is_away_is_named_by_the_server_and_by_diagnose_without_its_password() {
    let Some(mut database) = Postgres::start("diagnosed") else { return };
    let address = super::ports::free_address();
    let config = super::postgres::own_directory("diagnosed").join("server.hcl");
    let text = format!(
        "storage \"postgresql\" {{\n connection_url = \"{}\"\n ha_enabled = \"false\"\n}}\n\
         listener \"tcp\" {{\n address = \"{address}\"\n tls_disable = true\n}}\n",
        database.url()
    );
    std::fs::write(&config, text).unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kallisto"));
        let command = command.args(words).arg(format!("-config={}", config.display())).env_clear();
        let done = command.stdin(Stdio::null()).output().unwrap();
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(!said.contains(PASSWORD), "{said}");
        (done.status.code(), said)
    };
    let (code, said) = run(&["operator", "diagnose"]);
    assert!(matches!(code, Some(0 | 2)), "{said}");
    for found in ["Check Database Connection: 127.0.0.1", "as kallisto", "will be made"] {
        assert!(said.contains(found), "{said}");
    }
    database.stop(StopMode::Fast);
    for (words, expected) in [(&["operator", "diagnose"][..], "fail"), (&["server"], "storage at")]
    {
        let (code, said) = run(words);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(expected) && said.contains("Connection refused"), "{said}");
    }
    std::fs::remove_dir_all(config.parent().unwrap()).unwrap();
}
