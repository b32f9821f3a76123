//! Every figure of a server at one moment.
//!
//! Names that Vault has come first and mean what they mean there; ours begin with `kallisto.` and
//! end with their unit. `docs/operations.md` lists them all, and a test compares the two.

mod replication;
mod usage;

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use kallisto_store::{EngineStats, RaftStats};

use crate::admission::SharedAmount;
use crate::metrics::{Figure, JobRecord, MetricPoint, MetricValue, SnapshotFigures};
use crate::quotas::lease_count::LeaseSpec;
use crate::state::Core;
use crate::view::NamespaceContext;
use crate::view::View;
use kallisto_engine::Class;

pub(crate) use replication::commits;
pub(crate) use usage::namespace_of;

/// Collects everything; of a sealed server what it has.
pub(crate) fn collect(core: &Core, now: Timestamp) -> Vec<Figure> {
    let mut figures = everything(core, now);
    core.info.metrics.apply(&mut figures);
    figures
}

fn everything(core: &Core, now: Timestamp) -> Vec<Figure> {
    let context = core.context.load();
    let mut figures = vec![
        one("vault.core.unsealed", "Whether the server is unsealed.", flag(context.is_some())),
        one(
            "vault.core.active",
            "Whether the server is the active one.",
            flag(context.is_some() && core.store.leads()),
        ),
        one(
            "vault.core.in_flight_requests",
            "Requests that wait for something.",
            gauge(core.metrics.in_flight.len()),
        ),
    ];
    requests(core, &mut figures);
    if let Some(context) = context.as_ref() {
        view(core, &context.view, &mut figures);
        reencryption(context, &mut figures);
        usage::cluster(&context.view, &mut figures);
        usage::counted(core, &mut figures);
        barrier(context, &mut figures);
    }
    timers(core, now, &mut figures);
    usage::creations(core, &mut figures);
    usage::routes(core, &mut figures);
    figures.push(one(
        "kallisto.audit.chains_broken",
        "Audit devices whose records were not as they had been left when the server started.",
        gauge(core.audit.broken_chains()),
    ));
    jobs(core, &mut figures);
    snapshots(core, &mut figures);
    http(core, &mut figures);
    admission(core, &mut figures);
    let stats = core.store.stats();
    figures.push(one(
        "kallisto.store.records",
        "About how many records there are.",
        MetricValue::Gauge(stats.records as f64),
    ));
    if let Some(stats) = &stats.raft {
        raft(stats, &mut figures);
        replication::log(core, stats, &mut figures);
        engine(&stats.engine, &mut figures);
    }
    if let Some(cluster) = core.store.replicated() {
        replication::members(core, &cluster.members(), cluster.leadership(), &mut figures);
    }
    freshness(core, &mut figures);
    process(core, &mut figures);
    figures
}

fn freshness(core: &Core, figures: &mut Vec<Figure>) {
    // As long as nothing was heard it is as old as the process, at least.
    let started = || core.store.replicated().map_or(Duration::ZERO, |cluster| cluster.now());
    let age = core.age().unwrap_or_else(started);
    figures.extend([
        one(
            "kallisto.raft.staleness_seconds",
            "How far in the past the view may be: since when the leader and its majority were not heard.",
            MetricValue::Gauge(age.as_secs_f64()),
        ),
        one(
            "kallisto.raft.fresh",
            "Whether the server answers from its view.",
            flag(core.is_fresh()),
        ),
        one(
            "kallisto.raft.removed",
            "Whether the cluster has let this server go.",
            flag(core.is_removed()),
        ),
        one(
            "kallisto.raft.stale_refused_total",
            "Requests that were refused because the view is too old.",
            MetricValue::Counter(core.metrics.stale_refused.total()),
        ),
        one(
            "kallisto.raft.stale_answered_total",
            "Requests that asked for stale reads and were answered from a view that is too old.",
            MetricValue::Counter(core.metrics.stale_answered.total()),
        ),
    ]);
}

fn requests(core: &Core, figures: &mut Vec<Figure>) {
    let durations = core.metrics.http.durations.snapshot();
    figures.push(one(
        "vault.core.handle_request",
        "Requests over HTTP and the milliseconds they took.",
        MetricValue::Summary(durations.summary(core.services.timers.oldest_requests().as_ref())),
    ));
    figures.push(one(
        "vault.quota.rate_limit.violation",
        "Requests that a rate limit refused.",
        MetricValue::Counter(core.metrics.over_quota.total()),
    ));
    let points = core.metrics.requests().map(|(operation, outcome, sum)| MetricPoint {
        labels: vec![("operation", operation.to_owned()), ("outcome", outcome.to_owned())],
        value: MetricValue::Counter(sum),
    });
    figures.push(Figure {
        name: "kallisto.requests_total".into(),
        about: "Requests, by operation and what came of them.",
        points: points.collect(),
    });
}

fn jobs(core: &Core, figures: &mut Vec<Figure>) {
    type Of = fn(&JobRecord) -> Option<MetricValue>;
    let rows: [(&'static str, &'static str, Of); 4] = [
        (
            "kallisto.jobs.last_start_time_seconds",
            "When a job last began, in seconds since 1970, by job.",
            |job| job.last_start.map(|start| MetricValue::Gauge(start.as_second() as f64)),
        ),
        ("kallisto.jobs.last_duration_seconds", "How long its last run took, by job.", |job| {
            job.last_duration.map(|took| MetricValue::Gauge(took.as_secs_f64()))
        }),
        ("kallisto.jobs.runs_total", "How often a job ran on this server, by job.", |job| {
            Some(MetricValue::Counter(job.runs))
        }),
        ("kallisto.jobs.failures_total", "How often it failed, by job.", |job| {
            Some(MetricValue::Counter(job.failures))
        }),
    ];
    let jobs = core.metrics.jobs.all();
    figures.extend(rows.map(|(name, about, of)| {
        let points = jobs.iter().filter_map(|job| {
            let labels = vec![("job", job.facts.name.clone())];
            of(job).map(|value| MetricPoint { labels, value })
        });
        Figure { name: name.into(), about, points: points.collect() }
    }));
}

/// The leader alone knows how schedules fare.
fn snapshots(core: &Core, figures: &mut Vec<Figure>) {
    type Of = fn(&SnapshotFigures) -> MetricValue;
    let rows: [(&'static str, &'static str, Of); 5] = [
        (
            "kallisto.snapshots.last_verified_time_seconds",
            "When the last scheduled snapshot was written and verified, in seconds since 1970, by schedule; 0 for never.",
            |known| MetricValue::Gauge(known.verified_at as f64),
        ),
        (
            "kallisto.snapshots.interval_seconds",
            "How often a schedule asks for a snapshot.",
            |known| MetricValue::Gauge(known.interval_secs as f64),
        ),
        (
            "kallisto.snapshots.last_size_bytes",
            "Bytes of the last scheduled snapshot that was verified.",
            |known| MetricValue::Gauge(known.bytes as f64),
        ),
        ("kallisto.snapshots.failures_total", "Scheduled snapshots that failed.", |known| {
            MetricValue::Counter(known.failures)
        }),
        ("kallisto.snapshots.kept", "Files of a schedule that are there.", |known| {
            MetricValue::Gauge(known.kept as f64)
        }),
    ];
    let known = match core.store.leads() {
        true => core.metrics.snapshots.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        false => Vec::new(),
    };
    figures.extend(rows.into_iter().map(|(name, about, of)| {
        let point = |known: &SnapshotFigures| MetricPoint {
            labels: vec![("name", known.name.clone())],
            value: of(known),
        };
        Figure { name: name.into(), about, points: known.iter().map(point).collect() }
    }));
}

fn http(core: &Core, figures: &mut Vec<Figure>) {
    let (listener, http) = (&core.metrics.listener, &core.metrics.http);
    // Read first, so that what ends meanwhile does not make the difference negative.
    let closed = listener.closed.total();
    let accepted = listener.accepted.total();
    figures.extend([
        one(
            "kallisto.listener.connections",
            "Open connections.",
            MetricValue::Gauge(accepted.saturating_sub(closed) as f64),
        ),
        one(
            "kallisto.listener.connections_accepted_total",
            "Connections that were accepted.",
            MetricValue::Counter(accepted),
        ),
        one(
            "kallisto.listener.accept_errors_total",
            "Connections that could not be accepted.",
            MetricValue::Counter(listener.accept_errors.total()),
        ),
        one(
            "kallisto.listener.handshakes_failed_total",
            "TLS handshakes that failed.",
            MetricValue::Counter(listener.handshakes_failed.total()),
        ),
        one(
            "kallisto.http.request_duration_seconds",
            "Time from a request's last byte to its reply.",
            MetricValue::Histogram(http.durations.snapshot()),
        ),
    ]);
    let points = (1..).zip(http.replies.sums()).map(|(digit, sum)| MetricPoint {
        labels: vec![("class", format!("{digit}xx"))],
        value: MetricValue::Counter(sum),
    });
    figures.push(Figure {
        name: "kallisto.http.replies_total".into(),
        about: "Replies, by class of status.",
        points: points.collect(),
    });
}

fn admission(core: &Core, figures: &mut Vec<Figure>) {
    type Of = fn(&SharedAmount) -> MetricValue;
    let rows: [(&'static str, &'static str, Of); 3] = [
        ("kallisto.admission.held", "What clients make the server hold, by kind.", |shares| {
            gauge(shares.held())
        }),
        ("kallisto.admission.max", "How much of it they may.", |shares| gauge(shares.max())),
        (
            "kallisto.admission.refused_total",
            "How often a client was refused, by what it asked for too much of.",
            |shares| MetricValue::Counter(shares.refused()),
        ),
    ];
    figures.extend(rows.map(|(name, about, of)| {
        let points = core.admission.all().map(|(kind, shares)| MetricPoint {
            labels: vec![("kind", kind.to_owned())],
            value: of(shares),
        });
        Figure { name: name.into(), about, points: points.into() }
    }));
    let listener = &core.metrics.listener;
    figures.extend([
        one(
            "kallisto.compute.offloaded_total",
            "Requests that were answered beside the workers, since they may take a processor for long.",
            MetricValue::Counter(core.metrics.offloaded.total()),
        ),
        one(
            "kallisto.compute.handshakes_total",
            "TLS handshakes that were done beside the workers, since the server's key takes a processor for long.",
            MetricValue::Counter(core.metrics.handshakes.total()),
        ),
        one(
            "kallisto.admission.waited_total",
            "Requests that waited for their turn.",
            MetricValue::Counter(listener.waited.total()),
        ),
        one(
            "kallisto.listener.timeouts_total",
            "Connections that were too slow or too long silent.",
            MetricValue::Counter(listener.timeouts.total()),
        ),
    ]);
}

/// How long parts of the work took, and what was counted beside.
fn timers(core: &Core, now: Timestamp, figures: &mut Vec<Figure>) {
    let timers = &core.services.timers;
    figures.extend(
        timers
            .summaries()
            .map(|(name, about, summary)| one(name, about, MetricValue::Summary(summary))),
    );
    let [requests, answers] = timers.unaudited.sums();
    let certificate_end = core.metrics.listener.certificate_end.load(Ordering::Relaxed);
    figures.extend([
        one(
            "vault.audit.log_request_failure",
            "Requests that no audit device took, and that were refused for it.",
            MetricValue::Counter(requests),
        ),
        one(
            "vault.audit.log_response_failure",
            "Answers that no audit device took, and that were not given for it.",
            MetricValue::Counter(answers),
        ),
        one(
            "vault.ha.rpc.client.forward.errors",
            "Requests that the leader was to answer for this server, and whose answer did not come.",
            MetricValue::Counter(timers.forward_errors.total()),
        ),
        one(
            "vault.core.locked_users",
            "Names that may not log in for now, since too many passwords for them were wrong.",
            gauge(core.services.lockouts.locked(now).len()),
        ),
    ]);
    figures.push(Figure {
        name: "kallisto.listener.certificate_end_time_seconds".into(),
        about: "When the first of the listeners' certificates ends, in seconds since 1970; of a server with TLS.",
        points: (certificate_end != 0)
            .then(|| MetricPoint { labels: Vec::new(), value: MetricValue::Gauge(certificate_end as f64) })
            .into_iter()
            .collect(),
    });
}

fn reencryption(root: &NamespaceContext, figures: &mut Vec<Figure>) {
    let progress = &root.reencryption;
    figures.extend([
        one(
            "kallisto.reencryption.running",
            "Whether records under older data keys are being written again.",
            MetricValue::Gauge(progress.running.load(Ordering::Relaxed) as f64),
        ),
        one(
            "kallisto.reencryption.records_total",
            "Records that were written again under the newest data key.",
            MetricValue::Counter(progress.done.load(Ordering::Relaxed)),
        ),
    ]);
}

fn view(core: &Core, view: &View, figures: &mut Vec<Figure>) {
    let mounts = view.mounts.all();
    let of_class = |class: Class, local: bool| {
        let fits = mounts
            .iter()
            .filter(|mount| mount.entry.kind.class() == class && mount.entry.local == local);
        gauge(fits.count())
    };
    let tables = [("auth", Class::Auth), ("logical", Class::Secret)];
    let points = tables.into_iter().flat_map(|(name, class)| {
        [false, true].map(|local| MetricPoint {
            labels: vec![("type", name.to_owned()), ("local", local.to_string())],
            value: of_class(class, local),
        })
    });
    let mount_table = points.collect();
    lease_counts(view, figures);
    let (mut tokens, mut leases) = view.tokens.counts();
    for inside in view.namespaces.views() {
        let (more, ending) = inside.tokens.counts();
        (tokens, leases) = (tokens + more, leases + ending);
    }
    let (credentials, irrevocable) = view.leases.counts();
    let memory = view.hot.memory();
    figures.extend([
        Figure {
            name: "vault.core.mount_table.num_entries".into(),
            about: "Mounts, by class.",
            points: mount_table,
        },
        usage::secrets(core, view),
        one("vault.token.count", "Live tokens.", gauge(tokens)),
        one(
            "vault.expire.num_leases",
            "Tokens that end by themselves, and credentials with leases.",
            gauge(leases + credentials),
        ),
        one(
            "vault.expire.num_irrevocable_leases",
            "Leases whose credentials could not be taken back.",
            gauge(irrevocable),
        ),
        one(
            "kallisto.index.memory_bytes",
            "Memory of the index of paths.",
            MetricValue::Gauge(
                mounts.iter().map(|mount| mount.index.memory_bytes()).sum::<u64>() as f64
            ),
        ),
        one("kallisto.hot.entries", "Secrets in the hot table.", gauge(view.hot.len())),
        one(
            "kallisto.hot.load_ratio",
            "Filled part of the hot table.",
            MetricValue::Gauge(view.hot.load_factor()),
        ),
        one(
            "kallisto.hot.entry_bytes",
            "Memory of the hot table's entries.",
            gauge(memory.entry_bytes),
        ),
        one(
            "kallisto.hot.evicted_total",
            "Secrets that left the hot table to make room.",
            MetricValue::Counter(view.evicted() as u64),
        ),
        one(
            "kallisto.hot.returned_total",
            "Secrets that were read from the store and offered to the hot table again.",
            MetricValue::Counter(view.offered()),
        ),
    ]);
}

/// The lease counts by name: what there is, what there may be, and whether that is near.
fn lease_counts(view: &View, figures: &mut Vec<Figure>) {
    let specs = view.quotas.leases.specs();
    let counts: Vec<usize> =
        specs.iter().map(|spec| view.count_leases(&spec.scope, usize::MAX)).collect();
    let points = |value: fn(&LeaseSpec, usize) -> MetricValue| {
        let point = |(spec, &count): (&LeaseSpec, &usize)| MetricPoint {
            labels: vec![("name", spec.name.clone())],
            value: value(spec, count),
        };
        specs.iter().zip(&counts).map(point).collect()
    };
    figures.extend([
        one(
            "vault.quota.lease_count.violation",
            "Leases that a lease count refused.",
            MetricValue::Counter(view.quotas.leases.refused.total()),
        ),
        Figure {
            name: "vault.quota.lease_count.counter".into(),
            about: "Leases that a lease count counts.",
            points: points(|_, count| gauge(count)),
        },
        Figure {
            name: "vault.quota.lease_count.max".into(),
            about: "Leases that a lease count allows.",
            points: points(|spec, _| MetricValue::Gauge(spec.max_leases as f64)),
        },
        Figure {
            name: "kallisto.quota.lease_count.near_max".into(),
            about: "Whether there are four fifths and more of the leases that a lease count allows.",
            points: points(|spec, count| flag(spec.is_near(count))),
        },
    ]);
}

fn barrier(context: &NamespaceContext, figures: &mut Vec<Figure>) {
    let [gets, puts, deletes, scans] = context.store.counts();
    let count = |name, about, sum| one(name, about, MetricValue::Counter(sum));
    figures.extend([
        count("vault.barrier.get_count", "Records read through the barrier.", gets),
        count("vault.barrier.put_count", "Records written through the barrier.", puts),
        count("vault.barrier.delete_count", "Records deleted through the barrier.", deletes),
        count("vault.barrier.list_count", "Scans of records through the barrier.", scans),
    ]);
}

fn raft(stats: &RaftStats, figures: &mut Vec<Figure>) {
    let number = |name, about, number: u64| one(name, about, MetricValue::Gauge(number as f64));
    figures.extend([
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

fn engine(stats: &EngineStats, figures: &mut Vec<Figure>) {
    let per_level =
        |name: &'static str, about, of: fn(&kallisto_store::EngineLevelStats) -> f64| {
            let points = stats.levels.iter().enumerate().map(|(level, stats)| MetricPoint {
                labels: vec![("level", level.to_string())],
                value: MetricValue::Gauge(of(stats)),
            });
            Figure { name: name.into(), about, points: points.collect() }
        };
    let count = |name, about, sum| one(name, about, MetricValue::Counter(sum));
    figures.extend([
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

fn process(core: &Core, figures: &mut Vec<Figure>) {
    figures.push(Figure {
        name: "kallisto.build_info".into(),
        about: "Always 1; the version is a label.",
        points: vec![MetricPoint {
            labels: vec![("version", env!("CARGO_PKG_VERSION").to_owned())],
            value: MetricValue::Gauge(1.0),
        }],
    });
    let Some(process) = core.host.as_ref().and_then(|host| host.process()) else { return };
    figures.extend([
        one(
            "process.cpu_seconds_total",
            "Time of processors that the process used.",
            MetricValue::Seconds(process.cpu.as_secs_f64()),
        ),
        one(
            "process.resident_memory_bytes",
            "Memory of the process in RAM.",
            MetricValue::Gauge(process.resident_bytes as f64),
        ),
        one(
            "process.open_fds",
            "Open files and sockets.",
            MetricValue::Gauge(process.open_files as f64),
        ),
        one(
            "process.max_fds",
            "Most that may be open.",
            MetricValue::Gauge(process.files_max as f64),
        ),
        one("process.threads", "Threads.", MetricValue::Gauge(process.threads as f64)),
        one(
            "process.start_time_seconds",
            "When the process began, in seconds since 1970.",
            MetricValue::Gauge(process.started.as_second() as f64),
        ),
    ]);
}

fn one(name: &'static str, about: &'static str, value: MetricValue) -> Figure {
    Figure { name: name.into(), about, points: vec![MetricPoint { labels: Vec::new(), value }] }
}

fn gauge(count: usize) -> MetricValue {
    MetricValue::Gauge(count as f64)
}

const fn flag(is: bool) -> MetricValue {
    MetricValue::Gauge(if is { 1.0 } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use jiff::Timestamp;
    use kallisto_store::{Leadership, Member, MemberRole, MemoryStore, Peer};

    use kallisto_reference::{hold, page, table};

    use super::*;
    use crate::api::stream::Source;
    use crate::metrics::observed::MemberHealth;
    use crate::metrics::prometheus;
    use crate::metrics::usage::{NamedCounts, NamespacedName};
    use crate::platform::host::{Host, HostMachine, HostProcess, LogForm, LogLevel};
    use crate::platform::server_info::ServerInfo;

    struct AnyHost;

    impl Host for AnyHost {
        fn machine(&self) -> Option<HostMachine> {
            None
        }

        fn process(&self) -> Option<HostProcess> {
            Some(HostProcess {
                cpu: std::time::Duration::ZERO,
                resident_bytes: 0,
                open_files: 0,
                files_max: 0,
                threads: 0,
                started: Timestamp::UNIX_EPOCH,
            })
        }

        fn follow_log(&self, _: LogLevel, _: LogForm) -> Option<Box<dyn Source>> {
            None
        }

        fn log_levels(&self) -> Vec<(String, LogLevel)> {
            Vec::new()
        }

        fn set_log_level(&self, _: Option<&str>, _: Option<LogLevel>) -> bool {
            false
        }
    }

    /// Everything a server tells, with a replicated log, an engine and a process.
    fn everything() -> Vec<Figure> {
        let core = Core::new(Arc::new(MemoryStore::new()), ServerInfo::default());
        let core = core.with_host(Arc::new(AnyHost));
        pollster::block_on(core.initialize_dev(None, Timestamp::UNIX_EPOCH)).unwrap();
        pollster::block_on(core.run_due_jobs(Timestamp::UNIX_EPOCH)).unwrap();
        core.services.timers.count_creation(("token".to_owned(), "+Inf", "service"));
        let named = |name: &str| [(NamespacedName(["root".into(), name.into()]), 1)].into();
        core.metrics.set_usage(NamedCounts {
            by_policy: named("default"),
            by_ttl: named("1h"),
            by_auth: named("token"),
            aliases: named("userpass"),
            is_counted: true,
        });
        let mut figures = collect(&core, Timestamp::UNIX_EPOCH);
        let stats = RaftStats {
            node_id: 1,
            leader_id: 1,
            term: 1,
            last_index: 1,
            commit_index: 1,
            applied_index: 1,
            flushed_index: 1,
            unsynced: 0,
            waiting: 0,
            log_bytes: 1,
            log_syncs: 1,
            log_entries: 1,
            commits: kallisto_store::CommitStats::default(),
            engine: EngineStats::default(),
        };
        raft(&stats, &mut figures);
        replication::log(&core, &stats, &mut figures);
        engine(&stats.engine, &mut figures);
        let (one, two) = (Peer { id: 1, ..Peer::default() }, Peer { id: 2, ..Peer::default() });
        let of = |peer| Member { peer, role: MemberRole::Voter, matched: 1, silent_ms: Some(1) };
        let health =
            MemberHealth { is_healthy: true, tolerance: 0, servers: vec![("one".into(), true)] };
        core.metrics.observe(|observed| observed.saw(true, Duration::ZERO, Some(health)));
        let leads = Leadership { node_id: 1, leader_id: 1, term: 1 };
        replication::members(&core, &[of(one), of(two)], leads, &mut figures);
        figures
    }

    #[test]
    fn the_operators_page_lists_every_figure_and_no_other() {
        let page = include_str!("../../../../../docs/operations.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let is_figure = |name: &&str| {
            ["vault_", "kallisto_", "process_"].iter().any(|family| name.starts_with(family))
        };
        let listed: BTreeSet<String> =
            rows.map(|(name, _)| name).filter(is_figure).map(str::to_owned).collect();
        let told: BTreeSet<String> =
            everything().iter().map(|figure| figure.name.replace('.', "_")).collect();
        let unlisted: Vec<String> = everything()
            .iter()
            .filter(|figure| !listed.contains(&figure.name.replace('.', "_")))
            .map(row)
            .collect();
        assert!(unlisted.is_empty(), "rows that the page lacks:\n{}", unlisted.join("\n"));
        assert_eq!(listed, told);
    }

    /// The row of the operators' page for a figure.
    fn row(figure: &Figure) -> String {
        let name = figure.name.replace('.', "_");
        let first = figure.points.first();
        let kind = match first.map(|point| &point.value) {
            Some(MetricValue::Counter(_)) => "counter",
            Some(MetricValue::Seconds(_)) => "counter, seconds",
            Some(MetricValue::Summary(_)) => "summary, milliseconds",
            Some(MetricValue::Histogram(_)) => "histogram, seconds",
            Some(MetricValue::Gauge(_)) | None => "gauge",
        };
        let labels = first.map_or(&[][..], |point| &point.labels);
        let labels: Vec<String> = labels.iter().map(|(name, _)| format!("`{name}`")).collect();
        format!("| `{name}` | {kind} | {} | {} |", labels.join(", "), figure.about)
    }

    #[test]
    fn the_page_of_metrics_is_what_is_told() {
        let about = "Every metric of `sys/metrics`, in the form of Prometheus. Names that Vault has mean what they mean there; each server tells \
            of itself. What to alert on is in [operations](../operations.md#metrics).";
        let mut text = page("Metrics", about, "what a server collects");
        let rows = everything().into_iter().map(|figure| {
            let point = figure.points.first();
            let labels = point.map(|point| point.labels.as_slice()).unwrap_or_default();
            let labels: Vec<String> = labels.iter().map(|(name, _)| format!("`{name}`")).collect();
            let kind = match point.map(|point| &point.value) {
                Some(MetricValue::Gauge(_)) => "gauge",
                Some(MetricValue::Counter(_) | MetricValue::Seconds(_)) => "counter",
                Some(MetricValue::Summary { .. }) => "summary",
                Some(MetricValue::Histogram(_)) => "histogram",
                None => "gauge",
            };
            let name = format!("`{}`", figure.name.replace('.', "_"));
            vec![name, kind.to_owned(), labels.join(", "), figure.about.to_owned()]
        });
        table(&mut text, &["name", "kind", "labels", "meaning"], rows);
        hold("metrics.md", &format!("{}\n", text.trim_end()));
    }

    #[test]
    fn names_are_told_once_and_labels_are_words() {
        let figures = everything();
        let names: BTreeSet<&str> = figures.iter().map(|figure| figure.name.as_ref()).collect();
        assert_eq!(names.len(), figures.len());
        let labels =
            figures.iter().flat_map(|figure| &figure.points).flat_map(|point| &point.labels);
        for (name, value) in labels {
            let is_word = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
            assert!(value.chars().all(is_word), "{name} is {value}");
        }
        assert!(prometheus::write(&figures).lines().count() > figures.len());
    }
}
