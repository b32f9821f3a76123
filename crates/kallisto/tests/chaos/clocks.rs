//! Clocks that are set, an hour forward and an hour back, under a load whose token has a lease.
//!
//! Nothing about who leads hangs on the time of day, so no term ends. The times of tokens do: a server whose clock is ahead
//! refuses what its clock says is over, one whose clock was ahead when it made a token lets it live that much longer, and
//! no more. Connections between the servers are made anew meanwhile, since certificates have times as well.

use std::time::Instant;

use super::cluster::{Cluster, SERVERS};
use super::faults::{Felt, Order};
use super::http::Client;
use super::load::Load;
use super::net::Wire;
use super::scenes::{Counts, Scene, conclude, perform, rest};
use super::{PATIENCE, given, until};

/// How far a clock jumps.
const HOUR: i64 = 3600;
/// How long a clock stays wrong: longer than it takes until a server looks which tokens are over.
const WRONG_MS: u64 = 1500;
/// For how long connections are cut.
const CUT_MS: u64 = 20;
/// Terms that a scene may see; each may be what a busy machine does by itself. A storm would see one every 300 ms.
const TERMS_MAX: u64 = 6;
/// The longest life of a token that is made while a clock is wrong.
const LIFE_SECS: i64 = 60;

const SCENES: [(&str, Scene); 5] = [
    ("a follower's clock is an hour ahead", |cluster, _| follower_is_off(cluster, HOUR)),
    ("a follower's clock is an hour behind", |cluster, _| follower_is_off(cluster, -HOUR)),
    ("the leader's clock is an hour ahead", |cluster, _| leader_is_off(cluster, HOUR)),
    ("the leader's clock is an hour behind", |cluster, _| leader_is_off(cluster, -HOUR)),
    ("all clocks are set at once", |cluster, _| all_are_set(cluster)),
];

#[test]
fn clocks_that_are_set_lose_nothing_and_end_no_term() {
    let seed = given("KALLISTO_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("seed {seed}");
    let start = Instant::now();
    let Some(mut cluster) = Cluster::form_on_bad_machines("clocks") else { return };
    cluster.client(0).good("POST", "sys/mounts/secret", r#"{"type":"kv-v2"}"#);
    let leased = make_token(&cluster, r#"{"ttl":"3h","explicit_max_ttl":"6h"}"#);
    cluster.settle();
    let mut counts = Counts::default();
    let load = Load::start(&cluster, &leased, seed);
    perform(&mut cluster, &load, &SCENES, &mut counts);
    conclude(&cluster, load, &mut counts, seed);
    (0..SERVERS).for_each(|server| renews(&cluster, server, &leased));
    counts.tell("chaos: clocks", seed, start);
}

fn follower_is_off(cluster: &Cluster, secs: i64) {
    let follower = (cluster.some_leader() + 1) % SERVERS;
    let short = make_token(cluster, r#"{"ttl":"10m"}"#);
    let others = (0..SERVERS).filter(|&server| server != follower);
    let terms = is_off(cluster, follower, secs, || {
        others.for_each(|server| lives(cluster, server, &short));
        if secs > 0 {
            is_over(cluster, follower, &short);
        } else {
            lives(cluster, follower, &short);
        }
    });
    // Only the leader ends tokens, by its own clock. Where another term began, this server may have led.
    if terms == 0 {
        (0..SERVERS).for_each(|server| renews(cluster, server, &short));
    }
}

fn leader_is_off(cluster: &Cluster, secs: i64) {
    let leader = cluster.some_leader();
    let lasting = make_token(cluster, r#"{"ttl":"2h","explicit_max_ttl":"4h"}"#);
    let mut brief = String::new();
    let terms = is_off(cluster, leader, secs, || {
        (0..SERVERS).for_each(|server| renews(cluster, server, &lasting));
        brief = make_brief_token(cluster);
    });
    (0..SERVERS).for_each(|server| renews(cluster, server, &lasting));
    if terms > 0 {
        println!("    who made the brief token is not known");
    } else if secs < 0 {
        (0..SERVERS).for_each(|server| is_over(cluster, server, &brief));
    } else {
        // It was made an hour in the future, and lives until then and its own life longer: not a second more.
        (0..SERVERS).for_each(|server| renews(cluster, server, &brief));
        let end = secs + LIFE_SECS + 1;
        (0..SERVERS).for_each(|server| set(cluster, server, end));
        (0..SERVERS).for_each(|server| is_over(cluster, server, &brief));
        (0..SERVERS).for_each(|server| set(cluster, server, 0));
    }
}

fn all_are_set(cluster: &Cluster) {
    let lasting = make_token(cluster, r#"{"ttl":"2h","explicit_max_ttl":"4h"}"#);
    let term = term(cluster);
    for secs in [HOUR, -HOUR, 0] {
        (0..SERVERS).for_each(|server| set(cluster, server, secs));
        rest(WRONG_MS);
        (0..SERVERS).for_each(|server| renews(cluster, server, &lasting));
    }
    hardly_anything_changed(cluster, term);
}

/// Does something while a clock is wrong and connections are made anew, and sets it right again. How many terms ended meanwhile.
fn is_off(cluster: &Cluster, server: usize, secs: i64, something: impl FnOnce()) -> u64 {
    let term = term(cluster);
    let told = cluster.faults(server).felt(Felt::ClockTold);
    set(cluster, server, secs);
    cluster.isolate(server, Wire::Cut);
    rest(CUT_MS);
    cluster.net.heal();
    rest(WRONG_MS);
    something();
    assert!(cluster.faults(server).felt(Felt::ClockTold) > told);
    set(cluster, server, 0);
    rest(WRONG_MS);
    hardly_anything_changed(cluster, term)
}

/// Sets a server's clock, and sees that the server believes it.
fn set(cluster: &Cluster, server: usize, secs: i64) {
    cluster.faults(server).order(Order::ClockSecs, secs);
    until("a server to tell its time", || {
        let ours = jiff::Timestamp::now().as_second();
        let Ok(reply) = cluster.ask(server, "sys/health?standbyok=true") else { return false };
        let theirs: i64 = reply.at("server_time_utc").parse().unwrap();
        assert!((theirs - ours - secs).abs() < 60, "{} is {} off", theirs, theirs - ours);
        true
    });
}

fn term(cluster: &Cluster) -> u64 {
    let leader = cluster.some_leader();
    let reply = cluster.client(leader).good("GET", "sys/metrics?format=prometheus", "");
    let text = String::from_utf8(reply.body).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("kallisto_raft_term "));
    line.unwrap().parse().unwrap()
}

fn hardly_anything_changed(cluster: &Cluster, before: u64) -> u64 {
    let terms = term(cluster) - before;
    println!("    {terms} terms ended");
    assert!(terms <= TERMS_MAX, "an election storm: {terms} terms");
    terms
}

/// Makes a renewable token, by whoever leads.
fn make_token(cluster: &Cluster, body: &str) -> String {
    let made = cluster.client(cluster.some_leader()).good("POST", "auth/token/create", body);
    let token = made.at("auth.client_token");
    (0..SERVERS).for_each(|server| lives(cluster, server, &token));
    token
}

/// Makes a token that lives [`LIFE_SECS`] by the clock of whoever leads.
fn make_brief_token(cluster: &Cluster) -> String {
    let body = format!(r#"{{"ttl":"{LIFE_SECS}s","explicit_max_ttl":"{LIFE_SECS}s"}}"#);
    let made = cluster.client(cluster.some_leader()).good("POST", "auth/token/create", &body);
    made.at("auth.client_token")
}

/// Renews a token through a server; only the lack of a leader is waited for.
#[track_caller]
fn renews(cluster: &Cluster, server: usize, token: &str) {
    until("a token to be renewed", || {
        let mut client = Client::new(cluster.address(server), token, PATIENCE);
        let reply = client.send("POST", "auth/token/renew-self", "", b"{}").unwrap();
        assert!(matches!(reply.status, 200 | 503), "{} {}", reply.status, reply.error());
        reply.status == 200
    });
}

/// What a server says to a token.
fn looked_up(cluster: &Cluster, server: usize, token: &str) -> u16 {
    let mut client = Client::new(cluster.address(server), token, PATIENCE);
    client.send("GET", "auth/token/lookup-self", "", b"").unwrap().status
}

#[track_caller]
fn lives(cluster: &Cluster, server: usize, token: &str) {
    until("a token to live", || looked_up(cluster, server, token) == 200);
}

#[track_caller]
fn is_over(cluster: &Cluster, server: usize, token: &str) {
    until("a token to be over", || looked_up(cluster, server, token) == 403);
}
