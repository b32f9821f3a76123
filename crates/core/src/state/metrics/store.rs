//! Figures about the barrier, Raft, the storage engine and a database.

use std::sync::atomic::Ordering;

use kallisto_store::{DatabaseStats, EngineStats, RaftStats};

use super::values::{flag, gauge, one};
use crate::metrics::{Metric, MetricPoint, MetricValue};
use crate::view::NamespaceContext;

pub(super) fn barrier(context: &NamespaceContext, metrics: &mut Vec<Metric>) {
    let [gets, puts, deletes, scans] = context.store.counts();
    let count = |name, about, sum| one(name, about, MetricValue::Counter(sum));
    metrics.extend([
        count("vault.barrier.get_count", "Records read through the barrier.", gets),
        count("vault.barrier.put_count", "Records written through the barrier.", puts),
        count("vault.barrier.delete_count", "Records deleted through the barrier.", deletes),
        count("vault.barrier.list_count", "Scans of records through the barrier.", scans),
    ]);
}

pub(super) fn reencryption(root: &NamespaceContext, metrics: &mut Vec<Metric>) {
    let progress = &root.reencryption;
    metrics.extend([
        one(
            "kallisto.reencryption.running",
            "Whether records under older data keys are being written again.",
            MetricValue::Gauge(progress.running.load(Ordering::Relaxed) as f64),
        ),
        one(
            "kallisto.reencryption.records_left",
            "Records under older data keys that are still to be written again.",
            MetricValue::Gauge(progress.left.load(Ordering::Relaxed) as f64),
        ),
        one(
            "kallisto.reencryption.records_total",
            "Records that were written again under the newest data key.",
            MetricValue::Counter(progress.done.load(Ordering::Relaxed)),
        ),
    ]);
}

pub(super) fn raft(stats: &RaftStats, metrics: &mut Vec<Metric>) {
    let number = |name, about, number: u64| one(name, about, MetricValue::Gauge(number as f64));
    metrics.extend([
        number("kallisto.raft.term", "Raft's term.", stats.term),
        one(
            "kallisto.raft.leader",
            "Whether this server leads.",
            flag(stats.leader_id == stats.node_id),
        ),
        number("kallisto.raft.last_index", "The last entry of the log.", stats.last_index),
        number("kallisto.raft.commit_index", "The last committed entry.", stats.commit_index),
        number("kallisto.raft.applied_index", "The last applied entry.", stats.applied_index),
        number(
            "kallisto.raft.flushed_index",
            "The last entry that the engine's files have.",
            stats.flushed_index,
        ),
        number(
            "kallisto.raft.unsynced_commits",
            "Acknowledged commits that are not on the disk.",
            stats.unsynced,
        ),
        one("kallisto.raft.waiting_batches", "Batches not proposed yet.", gauge(stats.waiting)),
        number("kallisto.raft.log_bytes", "Bytes of the log in use.", stats.log_bytes),
        one(
            "kallisto.raft.log_syncs_total",
            "Syncs of the log.",
            MetricValue::Counter(stats.log_syncs),
        ),
        one(
            "kallisto.raft.log_entries_total",
            "Entries appended to the log.",
            MetricValue::Counter(stats.log_entries),
        ),
    ]);
}

/// What a store on a database tells.
pub(super) fn database(stats: &DatabaseStats, metrics: &mut Vec<Metric>) {
    let number = |name, about, number: u64| one(name, about, MetricValue::Gauge(number as f64));
    let count = |name, about, sum| one(name, about, MetricValue::Counter(sum));
    metrics.extend([
        one(
            "kallisto.postgresql.connected",
            "Whether there is a connection to the database.",
            flag(stats.is_connected),
        ),
        one(
            "kallisto.postgresql.leader",
            "Whether this server writes to the database.",
            flag(stats.leads),
        ),
        number(
            "kallisto.postgresql.epoch",
            "How often the right to write was taken, by any server.",
            stats.epoch,
        ),
        one(
            "kallisto.postgresql.waiting_batches",
            "Batches not sent to the database yet.",
            gauge(stats.waiting),
        ),
        number(
            "kallisto.postgresql.behind_batches",
            "Batches that the database had and this server had not, when it last asked.",
            stats.behind,
        ),
        count(
            "kallisto.postgresql.connections_lost_total",
            "Connections to the database that ended, or on which an answer did not come in time.",
            stats.connections_lost,
        ),
        count(
            "kallisto.postgresql.loads_total",
            "How often all records were read from the database, the first time among them.",
            stats.loads,
        ),
        count(
            "kallisto.postgresql.refused_total",
            "Statements that the database refused.",
            stats.refused,
        ),
    ]);
}

pub(super) fn engine(stats: &EngineStats, metrics: &mut Vec<Metric>) {
    let per_level =
        |name: &'static str, about, of: fn(&kallisto_store::EngineLevelStats) -> f64| {
            let points = stats.levels.iter().enumerate().map(|(level, stats)| MetricPoint {
                labels: vec![("level", level.to_string())],
                value: MetricValue::Gauge(of(stats)),
            });
            Metric { name: name.into(), about, points: points.collect() }
        };
    let count = |name, about, sum| one(name, about, MetricValue::Counter(sum));
    metrics.extend([
        per_level("kallisto.lsm.files", "Sorted files, by level.", |level| level.files as f64),
        per_level("kallisto.lsm.level_bytes", "Their bytes, by level.", |level| level.bytes as f64),
        one("kallisto.lsm.memtable_bytes", "Memory of the memtable.", gauge(stats.memtable_bytes)),
        one(
            "kallisto.lsm.frozen_memtables",
            "Memtables that wait to be flushed.",
            gauge(stats.frozen),
        ),
        one(
            "kallisto.lsm.cache_bytes",
            "Memory of cached blocks.",
            MetricValue::Gauge(stats.cache_bytes as f64),
        ),
        count("kallisto.lsm.cache_hits_total", "Blocks found in the cache.", stats.cache_hits),
        count("kallisto.lsm.cache_misses_total", "Blocks read from files.", stats.cache_misses),
        count(
            "kallisto.lsm.filter_ruled_out_total",
            "Files that a Bloom filter ruled out.",
            stats.filter_ruled_out,
        ),
        count(
            "kallisto.lsm.filter_in_vain_total",
            "Files that a Bloom filter let through in vain.",
            stats.filter_in_vain,
        ),
        count("kallisto.lsm.flushes_total", "Memtables flushed.", stats.flushes),
        count("kallisto.lsm.compactions_total", "Merges of files.", stats.compactions),
        count(
            "kallisto.lsm.compaction_read_bytes_total",
            "Bytes read by merges.",
            stats.compaction_read_bytes,
        ),
        count(
            "kallisto.lsm.compaction_written_bytes_total",
            "Bytes written by merges.",
            stats.compaction_write_bytes,
        ),
    ]);
}
