//! Figures about the cluster and what this server saw of it, under Vault's names.

use kallisto_store::{CommitStats, Leadership, Member, RaftStats};

use super::values::{flag, gauge, one};
use crate::counts::{BUCKET_ENDS_US, HistogramSnapshot};
use crate::metrics::{Metric, MetricPoint, MetricValue};
use crate::state::Core;

// What the store counts by are the buckets of everything else.
const _: () = {
    let mut at = 0;
    assert!(kallisto_store::COMMIT_BUCKET_ENDS_US.len() == BUCKET_ENDS_US.len());
    while at < BUCKET_ENDS_US.len() {
        assert!(kallisto_store::COMMIT_BUCKET_ENDS_US[at] == BUCKET_ENDS_US[at]);
        at += 1;
    }
};

/// How long commits took, as a snapshot like any other.
pub(crate) fn commits(stats: &CommitStats) -> HistogramSnapshot {
    HistogramSnapshot { buckets: stats.buckets, sum: stats.sum }
}

/// What a leader committed, to its log or to a database, in Vault's words.
pub(super) fn committed(core: &Core, stats: &CommitStats, metrics: &mut Vec<Metric>) {
    let before = core.services.timers.oldest_commits();
    metrics.extend([
        one(
            "vault.raft.apply",
            "Batches that this server, as the leader, put into the log or sent to the database.",
            MetricValue::Counter(stats.batches),
        ),
        one(
            "vault.raft.commitTime",
            "Groups of batches that this server, as the leader, had committed, and the milliseconds that took.",
            MetricValue::Summary(commits(stats).summary(before.as_ref())),
        ),
    ]);
}

/// What the log tells in Vault's words.
pub(super) fn log(stats: &RaftStats, metrics: &mut Vec<Metric>) {
    let number = |name, about, number: u64| one(name, about, MetricValue::Gauge(number as f64));
    metrics.extend([
        number(
            "vault.raft_storage.stats.applied_index",
            "The last entry of the log that was applied.",
            stats.applied_index,
        ),
        number(
            "vault.raft_storage.stats.commit_index",
            "The last entry of the log that is committed.",
            stats.commit_index,
        ),
        number(
            "vault.raft_storage.stats.fsm_pending",
            "Committed entries that wait to be applied.",
            stats.commit_index.saturating_sub(stats.applied_index),
        ),
    ]);
}

/// The members, and how often this server began to lead or to follow.
pub(super) fn members(core: &Core, members: &[Member], own: Leadership, metrics: &mut Vec<Metric>) {
    let seen = core.metrics.observed();
    metrics.extend([
        one("vault.raft.peers", "Members of the cluster.", gauge(members.len())),
        one(
            "vault.raft.state.leader",
            "How often this server was seen to begin to lead, looked at once a second.",
            MetricValue::Counter(seen.led),
        ),
        one(
            "vault.raft.state.follower",
            "How often this server was seen to begin to follow, looked at once a second.",
            MetricValue::Counter(seen.followed),
        ),
    ]);
    let others: Vec<&Member> = match own.is_mine() && own.leader_id != 0 {
        true => members.iter().filter(|member| member.peer.id != own.node_id).collect(),
        false => Vec::new(),
    };
    let position = core.store.position().0;
    let of_others = |of: &dyn Fn(&Member) -> f64| {
        let point = |member: &&Member| MetricPoint {
            labels: vec![("peer_id", name_of(member))],
            value: MetricValue::Gauge(of(member)),
        };
        others.iter().map(point).collect()
    };
    metrics.extend([
        Metric {
            name: "vault.raft_storage.follower.applied_index_delta".into(),
            about: "Entries that a server lacks which the leader has, by server; told by the leader.",
            points: of_others(&|member| position.saturating_sub(member.matched) as f64),
        },
        Metric {
            name: "vault.raft_storage.follower.last_heartbeat_ms".into(),
            about: "Milliseconds since the leader heard a server, by server; told by the leader.",
            points: of_others(&|member| member.silent_ms.unwrap_or_default() as f64),
        },
    ]);
    autopilot(core, metrics);
}

/// What autopilot finds; nothing on servers that do not lead.
fn autopilot(core: &Core, metrics: &mut Vec<Metric>) {
    let Some(health) = core.metrics.observed().health else { return };
    let nodes = health.servers.into_iter().map(|(name, is_healthy)| MetricPoint {
        labels: vec![("node_id", name)],
        value: flag(is_healthy),
    });
    metrics.extend([
        one(
            "vault.autopilot.healthy",
            "Whether all servers are healthy; told by the leader.",
            flag(health.is_healthy),
        ),
        one(
            "vault.autopilot.failure_tolerance",
            "Voters that may fail before no writes are taken; told by the leader.",
            gauge(health.tolerance),
        ),
        Metric {
            name: "vault.autopilot.node.healthy".into(),
            about: "Whether a server is healthy, by server; told by the leader.",
            points: nodes.collect(),
        },
    ]);
}

fn name_of(member: &Member) -> String {
    match member.peer.name.as_str() {
        "" => format!("{:016x}", member.peer.id),
        name => name.to_owned(),
    }
}
