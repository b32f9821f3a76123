//! What each server of a cluster tells an operator of itself and of the others: its figures, and a line of its log for each
//! event, in the log where it is looked for.

use super::cluster::{Cluster, SERVERS};
use super::until;

/// Where the logs end, so that what is said later is told from what was said before.
struct Mark(Vec<usize>);

impl Mark {
    fn set(cluster: &Cluster) -> Self {
        Self((0..SERVERS).map(|server| cluster.log(server).len()).collect())
    }

    /// The lines that a server logged since which hold all of `words`.
    fn lines(&self, cluster: &Cluster, server: usize, words: &[&str]) -> Vec<String> {
        let log = cluster.log(server);
        let lines = log[self.0[server]..].lines();
        let fits = |line: &&str| words.iter().all(|word| line.contains(word));
        lines.filter(fits).map(str::to_owned).collect()
    }

    /// Waits for such a line.
    #[track_caller]
    fn hears(&self, cluster: &Cluster, server: usize, words: &[&str]) {
        until(&format!("{words:?} in the log of server {server}"), || {
            !self.lines(cluster, server, words).is_empty()
        });
    }
}

#[test]
fn each_event_is_a_line_of_the_log_and_one_server_is_active() {
    let mut cluster = Cluster::form("told");
    members_came(&cluster);
    one_is_active(&cluster);
    the_lead_changes_hands(&cluster);
    one_is_active(&cluster);
    a_peer_is_lost_and_comes_back(&mut cluster);
    the_quorum_is_lost_and_comes_back(&mut cluster);
    a_server_is_sealed_and_unsealed(&cluster);
    a_member_is_replaced(&mut cluster);
    a_backup_is_saved_and_restored(&cluster);
}

/// Every server that was there tells of each that came.
fn members_came(cluster: &Cluster) {
    let start = Mark(vec![0; SERVERS]);
    for later in 1..SERVERS {
        let server = format!("server=\"{}\"", Cluster::name(later));
        start.hears(cluster, 0, &[" INFO ", "a member was added", &server]);
        start.hears(cluster, later, &[" INFO ", "joined a cluster"]);
        start.hears(cluster, later, &[" INFO ", "another server leads", "leader=\"server-0\""]);
    }
    start.hears(cluster, 0, &[" INFO ", "this server leads", "term="]);
}

/// The server that leads says so in its figures, and it alone.
fn one_is_active(cluster: &Cluster) {
    // Another one may take over in between.
    until("one to be active and no other", || {
        let leader = cluster.some_leader();
        (0..SERVERS).all(|server| {
            let active = if server == leader { "1" } else { "0" };
            assert_eq!(figure_of(cluster, server, "vault_core_unsealed"), "1");
            let figures = ["vault_core_active", "kallisto_raft_leader"];
            figures.iter().all(|figure| figure_of(cluster, server, figure) == active)
        })
    });
}

/// What a server tells as `name`.
fn figure_of(cluster: &Cluster, server: usize, name: &str) -> String {
    let reply = cluster.client(server).good("GET", "sys/metrics?format=prometheus", "");
    let text = String::from_utf8(reply.body).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("server {server} tells no {name}")).to_owned()
}

fn the_lead_changes_hands(cluster: &Cluster) {
    let old = cluster.some_leader();
    let mark = Mark::set(cluster);
    cluster.client(old).good("PUT", "sys/step-down", "");
    let new = cluster.some_leader();
    assert_ne!(old, new);
    mark.hears(cluster, old, &[" INFO ", "this server does not lead any more"]);
    mark.hears(cluster, new, &[" INFO ", "this server leads"]);
    let name = format!("leader=\"{}\"", Cluster::name(new));
    for other in (0..SERVERS).filter(|&other| other != new) {
        mark.hears(cluster, other, &[" INFO ", "another server leads", &name]);
    }
}

fn a_peer_is_lost_and_comes_back(cluster: &mut Cluster) {
    let leader = cluster.some_leader();
    let gone = (leader + 1) % SERVERS;
    let name = format!("peer=\"{}\"", Cluster::name(gone));
    let mark = Mark::set(cluster);
    cluster.kill(gone);
    let lost = [" WARN ", "a peer is not reached", &name, "address="];
    mark.hears(cluster, leader, &lost);
    cluster.restart(gone);
    mark.hears(cluster, leader, &[" INFO ", "a peer is reached again", &name]);
    assert_eq!(mark.lines(cluster, leader, &lost).len(), 1, "once for the change");
    cluster.settle();
}

fn the_quorum_is_lost_and_comes_back(cluster: &mut Cluster) {
    let leader = cluster.some_leader();
    let others = [(leader + 1) % SERVERS, (leader + 2) % SERVERS];
    let mark = Mark::set(cluster);
    cluster.kill(others[0]);
    cluster.kill(others[1]);
    mark.hears(cluster, leader, &[" INFO ", "this server does not lead any more"]);
    mark.hears(cluster, leader, &[" WARN ", "no quorum", "reached=1", "voters=3"]);
    cluster.restart(others[0]);
    until("a leader again", || {
        [leader, others[0]]
            .iter()
            .any(|&server| !mark.lines(cluster, server, &["this server leads"]).is_empty())
    });
    // Who follows now loses its leader.
    let follows = if cluster.some_leader() == leader { others[0] } else { leader };
    let known = format!("leader=\"{}\"", Cluster::name(leader + others[0] - follows));
    mark.hears(cluster, follows, &[" INFO ", "another server leads", &known]);
    let mark = Mark::set(cluster);
    cluster.kill(leader + others[0] - follows);
    mark.hears(cluster, follows, &[" WARN ", "no leader is known", "voters=3"]);
    cluster.restart(leader + others[0] - follows);
    cluster.restart(others[1]);
    cluster.settle();
}

fn a_server_is_sealed_and_unsealed(cluster: &Cluster) {
    let server = (cluster.some_leader() + 1) % SERVERS;
    let mark = Mark::set(cluster);
    cluster.client(server).good("PUT", "sys/seal", "");
    mark.hears(cluster, server, &[" INFO ", ": sealed"]);
    cluster.unseal(server);
    mark.hears(cluster, server, &[" INFO ", ": unsealed"]);
    let waits = mark.lines(cluster, server, &["a request still runs"]);
    assert!(waits.is_empty(), "it waited for itself: {waits:?}");
}

fn a_member_is_replaced(cluster: &mut Cluster) {
    let leader = cluster.some_leader();
    let (gone, other) = ((leader + 1) % SERVERS, (leader + 2) % SERVERS);
    let mark = Mark::set(cluster);
    cluster.kill(gone);
    let body = format!(r#"{{"server_id":"{}"}}"#, Cluster::name(gone));
    cluster.client(leader).good("POST", "sys/storage/raft/remove-peer", &body);
    let server = format!("server=\"{}\"", Cluster::name(gone));
    for told in [leader, other] {
        mark.hears(cluster, told, &[" INFO ", "a member was removed", &server]);
    }
    cluster.wipe(gone);
    cluster.start(gone);
    cluster.join(gone);
    cluster.settle();
    for told in [leader, other] {
        mark.hears(cluster, told, &[" INFO ", "a member was added", &server]);
    }
    mark.hears(cluster, gone, &[" INFO ", "a snapshot was taken", "peer=", "bytes="]);
    let peer = format!("peer=\"{}\"", Cluster::name(gone));
    let sent = [" INFO ", "a snapshot was sent", &peer, "bytes="];
    until("a snapshot that was sent", || {
        [leader, other].iter().any(|&from| !mark.lines(cluster, from, &sent).is_empty())
    });
}

fn a_backup_is_saved_and_restored(cluster: &Cluster) {
    let leader = cluster.some_leader();
    let mut client = cluster.client(leader);
    let mark = Mark::set(cluster);
    let backup = client.good("GET", "sys/storage/raft/snapshot", "").body;
    mark.hears(cluster, leader, &[" INFO ", "a backup was read", "index="]);
    let restored = client.send("POST", "sys/storage/raft/snapshot", "", &backup).unwrap();
    assert_eq!(restored.status, 204);
    mark.hears(cluster, leader, &[" WARN ", "restored a snapshot", "records="]);
}
