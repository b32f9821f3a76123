//! How long a cluster takes no writes after its leader died.
//!
//! The leader is killed, and both others are asked to write every 5 ms for two seconds, then every 50 ms, each time by a client of
//! its own; what counts is the time from the kill to the first write that is acknowledged.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::cluster::{Cluster, SERVERS};
use super::http::Client;
use super::{PATIENCE, enter, given, today};

/// Leaders that are killed, unless somebody wants more.
const KILLS: u64 = if cfg!(debug_assertions) { 1 } else { 5 };
const PROBE_EVERY: Duration = Duration::from_millis(5);
/// No failover may take longer, on a machine as busy as one that tests.
const LONGEST: Duration = Duration::from_secs(20);
/// Probes after which the rest come more rarely: each waits for its answer, and has a connection of its own.
const PROBES_CLOSE: usize = 400;
const PROBE_RARELY: Duration = Duration::from_millis(50);

#[test]
fn another_server_takes_over() {
    let kills = given("KALLISTO_FAILOVER_KILLS").unwrap_or(KILLS);
    let mut cluster = Cluster::form("failover");
    cluster.client(0).good("POST", "sys/mounts/secret", r#"{"type":"kv-v2"}"#);
    let mut took: Vec<Duration> = (0..kills).map(|_| once(&mut cluster)).collect();
    took.sort();
    let at =
        |of_hundred: usize| took[(took.len() * of_hundred / 100).min(took.len() - 1)].as_millis();
    let said = format!(
        "{} ms | {} ms | {} ms | {} ms",
        took[0].as_millis(),
        at(50),
        at(99),
        took[took.len() - 1].as_millis()
    );
    println!("{kills} leaders killed: least, p50, p99, most: {said}");
    enter(&format!("| {} | failover | {kills} | {said} |", today()));
    assert!(took[took.len() - 1] < LONGEST);
}

fn once(cluster: &mut Cluster) -> Duration {
    let leader = cluster.some_leader();
    for server in 0..SERVERS {
        cluster.client(server).good("POST", "secret/data/probe", r#"{"data":{"v":"0"}}"#);
    }
    std::thread::sleep(Duration::from_millis(fastrand::u64(200..500)));
    let (tell, told) = channel();
    cluster.kill(leader);
    let killed = Instant::now();
    let mut first = None;
    for number in 0.. {
        let server = (leader + 1 + number % 2) % SERVERS;
        let (tell, address, token) = (tell.clone(), cluster.address(server), cluster.token.clone());
        std::thread::spawn(move || {
            let mut client = Client::new(address, &token, PATIENCE);
            let body = br#"{"data":{"v":"1"}}"#;
            let reply = client.send("POST", &format!("secret/data/probe-{}", number % 7), "", body);
            if reply.is_ok_and(|reply| reply.status == 200) {
                // Later ones find nobody that listens.
                let _ = tell.send(Instant::now());
            }
        });
        let pause = if number < PROBES_CLOSE { PROBE_EVERY } else { PROBE_RARELY };
        if let Ok(at) = told.recv_timeout(pause) {
            first = Some(at);
            break;
        }
        assert!(killed.elapsed() < LONGEST, "nobody takes over");
    }
    let took = first.unwrap() - killed;
    cluster.restart(leader);
    cluster.settle();
    took
}
