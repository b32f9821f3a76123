//! How old an answer is that asks for nothing: measured on every server, whatever happens to it.
//!
//! One client writes a secret and remembers when each version was acknowledged; others read it on each server, again and again, without
//! asking for anything recent. From [`BOUND`] after a version was acknowledged no server may answer an older one: time is that of this
//! machine's monotonic clock, so there is nothing to allow for. A write that nobody answered may come through late, from a server that
//! stood still: it makes a version of its own, so versions never go back as what is in them may. The same holds for a token from [`BOUND`] after its revocation was
//! acknowledged. Meanwhile servers are cut off, stopped, killed and started again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::cluster::{Cluster, SERVERS};
use super::http::Client;
use super::net::Wire;
use super::until;

/// What the servers are told: short, so that the test is.
const BOUND: Duration = Duration::from_secs(2);
/// How long a fault goes on after the bound, so that what would be answered then is seen.
const BEYOND: Duration = Duration::from_millis(700);
/// How long a probe waits for its answer.
const PROBE_PATIENCE: Duration = Duration::from_millis(400);
const PROBE_PAUSE: Duration = Duration::from_millis(15);
const WRITE_PAUSE: Duration = Duration::from_millis(30);
const SECRET: &str = "secret/data/one";

/// What is known to hold, and since when.
#[derive(Default)]
struct Facts {
    /// The versions that were acknowledged, and when: both rise.
    written: Vec<(u64, Instant)>,
    /// Tokens, and when their revocation was acknowledged.
    tokens: Vec<(String, Option<Instant>)>,
}

/// What was seen.
#[derive(Default)]
struct Seen {
    answers: u64,
    refused: u64,
    /// The oldest answer of all.
    oldest: Duration,
    /// How long after its revocation a token was let in at the latest.
    latest: Duration,
    wrong: Vec<String>,
}

/// Clients at work.
struct Probes {
    facts: Arc<Mutex<Facts>>,
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Probes {
    fn start(cluster: &Cluster) -> Self {
        let facts = Arc::<Mutex<Facts>>::default();
        let seen = Arc::<Mutex<Seen>>::default();
        let stop = Arc::<AtomicBool>::default();
        let mut threads = Vec::new();
        let addresses: Vec<_> = (0..SERVERS).map(|server| cluster.address(server)).collect();
        for (server, address) in addresses.iter().copied().enumerate() {
            let (facts, seen) = (Arc::clone(&facts), Arc::clone(&seen));
            let (stop, root) = (Arc::clone(&stop), cluster.token.clone());
            threads.push(std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let fresh = |token: &str| Client::new(address, token, PROBE_PATIENCE);
                    read_secret(&mut fresh(&root), server, &facts, &seen);
                    let token = facts.lock().unwrap().tokens.last().map(|(token, _)| token.clone());
                    if let Some(token) = token {
                        show_token(&mut fresh(&token), server, &token, &facts, &seen);
                    }
                    std::thread::sleep(PROBE_PAUSE);
                }
            }));
        }
        let (writer, stopped, root) =
            (Arc::clone(&facts), Arc::clone(&stop), cluster.token.clone());
        threads.push(std::thread::spawn(move || write(&addresses, &root, &writer, &stopped)));
        Self { facts, seen, stop, threads }
    }

    fn end(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

/// Writes, at whichever server takes it.
fn write(addresses: &[std::net::SocketAddr], root: &str, facts: &Mutex<Facts>, stop: &AtomicBool) {
    let mut at = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut client = Client::new(addresses[at], root, PROBE_PATIENCE);
        match client.send("POST", SECRET, "", br#"{"data":{"v":"1"}}"#) {
            Ok(reply) if reply.status == 200 => {
                let version = reply.at("data.version").parse().unwrap();
                facts.lock().unwrap().written.push((version, Instant::now()));
            }
            // Nobody knows what became of it: elsewhere.
            _ => at = (at + 1) % addresses.len(),
        }
        std::thread::sleep(WRITE_PAUSE);
    }
}

fn read_secret(client: &mut Client, server: usize, facts: &Mutex<Facts>, seen: &Mutex<Seen>) {
    let asked = Instant::now();
    let Ok(reply) = client.send("GET", SECRET, "", b"") else { return };
    if reply.status != 200 {
        seen.lock().unwrap().refused += u64::from(reply.status == 503);
        return;
    }
    let found: u64 = reply.at("data.metadata.version").parse().unwrap();
    // The first version that is missing, if it was acknowledged before this was asked.
    let missing = {
        let written = &facts.lock().unwrap().written;
        written.get(written.partition_point(|(version, _)| *version <= found)).copied()
    };
    let age = missing.map_or(Duration::ZERO, |(_, since)| asked.saturating_duration_since(since));
    let mut seen = seen.lock().unwrap();
    seen.answers += 1;
    seen.oldest = seen.oldest.max(age);
    if age > BOUND {
        seen.wrong.push(format!("server {server} answers what is {age:?} old"));
    }
}

fn show_token(
    client: &mut Client,
    server: usize,
    token: &str,
    facts: &Mutex<Facts>,
    seen: &Mutex<Seen>,
) {
    let asked = Instant::now();
    let Ok(reply) = client.send("GET", "auth/token/lookup-self", "", b"") else { return };
    if reply.status != 200 {
        return;
    }
    let find = |facts: &Facts| facts.tokens.iter().find(|(known, _)| known == token)?.1;
    let revoked = find(&facts.lock().unwrap());
    let after = revoked.map_or(Duration::ZERO, |at| asked.saturating_duration_since(at));
    let mut seen = seen.lock().unwrap();
    seen.latest = seen.latest.max(after);
    if after > BOUND {
        seen.wrong.push(format!("server {server} lets a token in {after:?} after it was revoked"));
    }
}

/// What happens to a server, and how it is undone.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Cut,
    Stalled,
    Stopped,
    /// It hears its peers, and they do not hear it.
    Unheard,
    KilledAndStarted,
}

impl Fault {
    fn strike(self, cluster: &mut Cluster, server: usize) {
        match self {
            Self::Cut => cluster.isolate(server, Wire::Cut),
            Self::Stalled => cluster.isolate(server, Wire::Stalled),
            Self::Stopped => cluster.freeze(server),
            Self::Unheard => {
                for other in (0..SERVERS).filter(|other| *other != server) {
                    cluster.net.set(server, other, Wire::Cut);
                }
            }
            Self::KilledAndStarted => {
                cluster.isolate(server, Wire::Cut);
                cluster.kill(server);
                cluster.start(server);
                cluster.give_shares(server);
            }
        }
    }

    fn undo(self, cluster: &Cluster, server: usize) {
        cluster.thaw(server);
        cluster.net.heal();
    }
}

/// A token that every server knows.
fn make_token(cluster: &Cluster, probes: &Probes) -> String {
    let leader = cluster.some_leader();
    let policies = r#"{"policies":["default"]}"#;
    let reply = cluster.client(leader).good("POST", "auth/token/create", policies);
    let token = reply.at("auth.client_token");
    for server in 0..SERVERS {
        until("the token to be known", || {
            let mut client = Client::new(cluster.address(server), &token, PROBE_PATIENCE);
            let reply = client.send("GET", "auth/token/lookup-self", "", b"");
            reply.is_ok_and(|reply| reply.status == 200)
        });
    }
    probes.facts.lock().unwrap().tokens.push((token.clone(), None));
    token
}

/// Has a token revoked by any server but one.
fn revoke(cluster: &Cluster, probes: &Probes, token: &str, but: usize) {
    let body = format!(r#"{{"token":"{token}"}}"#);
    until("somebody to revoke", || {
        (0..SERVERS).filter(|other| *other != but).any(|other| {
            let mut client = Client::new(cluster.address(other), &cluster.token, PROBE_PATIENCE);
            let reply = client.send("POST", "auth/token/revoke", "", body.as_bytes());
            // A second try finds it gone.
            reply.is_ok_and(|reply| matches!(reply.status, 204 | 400))
        })
    });
    let revoked = Instant::now();
    if let Some(last) = probes.facts.lock().unwrap().tokens.last_mut() {
        last.1 = Some(revoked);
    }
}

/// Has a token revoked while something is wrong with a server.
fn revoke_under(cluster: &mut Cluster, probes: &Probes, fault: Fault, server: usize) {
    let token = make_token(cluster, probes);
    fault.strike(cluster, server);
    revoke(cluster, probes, &token, server);
    std::thread::sleep(BOUND + BEYOND);
    if !matches!(fault, Fault::Stopped) {
        until("it to say that it is too old", || cluster.health(server) == 474);
    }
    fault.undo(cluster, server);
    cluster.all_answer();
    for server in 0..SERVERS {
        let mut client = Client::new(cluster.address(server), &token, super::PATIENCE);
        until("a revoked token to be refused", || {
            let reply = client.send("GET", "auth/token/lookup-self", "", b"").unwrap();
            assert_ne!(reply.status, 200, "{fault:?}");
            reply.status == 403
        });
    }
}

/// A server is removed while it reaches nobody: it answers no longer than any, and learns what it is once it reaches somebody, and
/// knows it after its next start.
fn remove(cluster: &mut Cluster, probes: &Probes) {
    let leader = cluster.some_leader();
    let gone = (leader + 1) % SERVERS;
    let token = make_token(cluster, probes);
    cluster.isolate(gone, Wire::Cut);
    let body = format!(r#"{{"server_id":"{}"}}"#, Cluster::name(gone));
    cluster.client(leader).good("POST", "sys/storage/raft/remove-peer", &body);
    revoke(cluster, probes, &token, gone);
    std::thread::sleep(BOUND + BEYOND);
    until("it to say that it is too old", || {
        let health = cluster.health(gone);
        assert_ne!(health, 530, "it cannot know yet");
        health == 474
    });
    cluster.net.heal();
    for start in 0..2 {
        until("it to know that it was removed", || cluster.health(gone) == 530);
        until("it to be sealed", || {
            let status = cluster.ask(gone, "sys/seal-status");
            status.is_ok_and(|status| {
                assert_eq!(status.at("removed_from_cluster"), "true", "start {start}");
                status.at("sealed") == "true"
            })
        });
        let mut client = Client::new(cluster.address(gone), &token, super::PATIENCE);
        assert_eq!(client.send("GET", "auth/token/lookup-self", "", b"").unwrap().status, 503);
        cluster.give_shares(gone);
        until("it to answer", || {
            let health = cluster.health(gone);
            assert!(matches!(health, 0 | 530), "no share opens it: {health}");
            health == 530
        });
        cluster.kill(gone);
        cluster.start(gone);
    }
}

/// Whom something happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    Leader,
    Follower,
}

#[test]
fn nothing_older_than_the_bound_is_answered_and_revoked_is_revoked() {
    let plan = [
        (Fault::Cut, Whom::Follower),
        (Fault::Stopped, Whom::Leader),
        (Fault::KilledAndStarted, Whom::Follower),
        (Fault::Stalled, Whom::Leader),
        (Fault::Unheard, Whom::Follower),
        (Fault::Cut, Whom::Leader),
        (Fault::Stopped, Whom::Follower),
    ];
    let plan = if cfg!(debug_assertions) { &plan[..3] } else { &plan[..] };
    let start = Instant::now();
    let line = format!("max_staleness = \"{}s\"", BOUND.as_secs());
    let mut cluster = Cluster::form_saying("staleness", &line);
    cluster.client(0).good("POST", "sys/mounts/secret", r#"{"type":"kv-v2"}"#);
    until("a first write", || {
        let body = br#"{"data":{"v":"0"}}"#;
        let reply = cluster.client(0).send("POST", SECRET, "", body);
        reply.is_ok_and(|reply| reply.status == 200)
    });
    let probes = Probes::start(&cluster);
    for (fault, whom) in plan {
        let leader = cluster.some_leader();
        let server = if *whom == Whom::Leader { leader } else { (leader + 1) % SERVERS };
        revoke_under(&mut cluster, &probes, *fault, server);
    }
    remove(&mut cluster, &probes);
    let seen = probes.end();
    println!(
        "{} faults, {} answers, {} refused as too old; the oldest was {:?} old, a revoked token was last let in after {:?}, {} s",
        plan.len(),
        seen.answers,
        seen.refused,
        seen.oldest,
        seen.latest,
        start.elapsed().as_secs()
    );
    assert!(seen.wrong.is_empty(), "{:#?}", seen.wrong);
    assert!(seen.refused > 0, "nobody was ever refused: nothing was measured");
}
