//! Where metrics are declared: every metric of a server at one moment, with its name and what it means.
//!
//! Names that Vault has come first and mean what they mean there; ours begin with `kallisto.` and
//! end with their unit. `docs/reference/metrics.md` lists them all, and a test compares the two. What
//! is counted on the way, and the forms in which metrics are written, is in [`crate::metrics`].

mod clients;
mod far_ends;
mod replication;
mod store;
mod usage;
mod values;
mod view;

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use kallisto_traces::SpanDrop;

use crate::metrics::{JobRecord, Metric, MetricPoint, MetricValue, SnapshotFigures};
use crate::state::Core;

pub(crate) use replication::commits;
pub(crate) use usage::namespace_of;
use values::{flag, gauge, one};

/// Collects everything; of a sealed server what it has.
pub(crate) fn collect(core: &Core, now: Timestamp) -> Vec<Metric> {
    let mut metrics = gather(core, now, Effort::Any);
    core.info.metrics.apply(&mut metrics);
    metrics
}

/// Those that cost little to collect, often and when nobody looks.
pub(crate) fn recent(core: &Core, now: Timestamp) -> Vec<Metric> {
    gather(core, now, Effort::Little)
}

/// How much collecting may cost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effort {
    Little,
    Any,
}

fn gather(core: &Core, now: Timestamp, effort: Effort) -> Vec<Metric> {
    let context = core.context.load();
    let mut metrics = vec![
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
    requests(core, &mut metrics);
    if let Some(context) = context.as_ref() {
        view::view(core, &context.view, effort, &mut metrics);
        store::reencryption(context, &mut metrics);
        usage::cluster(&context.view, &mut metrics);
        if effort == Effort::Any {
            usage::counted(core, &mut metrics);
        }
        store::barrier(context, &mut metrics);
    }
    if effort == Effort::Any {
        timers(core, now, &mut metrics);
        usage::creations(core, &mut metrics);
        usage::routes(core, &mut metrics);
    }
    metrics.push(one(
        "kallisto.audit.chains_broken",
        "Audit devices whose records were not as they had been left when the server started.",
        gauge(core.audit.broken_chains()),
    ));
    if effort == Effort::Any {
        jobs(core, &mut metrics);
        snapshots(core, &mut metrics);
    }
    clients::http(core, &mut metrics);
    clients::admission(core, &mut metrics);
    traces(core, &mut metrics);
    let named_max = core.info.metrics.usage_period.map(|_| core.info.metrics.cardinality_max);
    far_ends::far_ends(core.services.far_ends().statuses(), named_max, &mut metrics);
    let stats = core.store.stats();
    metrics.push(one(
        "kallisto.store.records",
        "About how many records there are.",
        MetricValue::Gauge(stats.records as f64),
    ));
    if let Some(stats) = &stats.raft {
        store::raft(stats, &mut metrics);
        replication::log(stats, &mut metrics);
        store::engine(&stats.engine, &mut metrics);
    }
    if let Some(stats) = &stats.database {
        store::database(stats, &mut metrics);
    }
    if let Some(commits) = stats.commits() {
        replication::committed(core, commits, &mut metrics);
    }
    if let Some(cluster) = core.store.replicated() {
        replication::members(core, &cluster.members(), cluster.leadership(), &mut metrics);
    }
    freshness(core, &mut metrics);
    process(core, &mut metrics);
    metrics
}

/// What became of the spans of requests, where requests are traced.
fn traces(core: &Core, metrics: &mut Vec<Metric>) {
    let Some(counts) = core.metrics.traces.get() else { return };
    let dropped = SpanDrop::ALL.map(|(why, word)| MetricPoint {
        labels: vec![("reason", word.to_owned())],
        value: MetricValue::Counter(counts.dropped(why)),
    });
    metrics.extend([
        one(
            "kallisto.traces.spans_waiting",
            "Spans that wait to be sent to the collector, or are on their way.",
            MetricValue::Gauge(counts.waiting() as f64),
        ),
        one(
            "kallisto.traces.spans_exported_total",
            "Spans that the collector took.",
            MetricValue::Counter(counts.exported()),
        ),
        Metric {
            name: "kallisto.traces.spans_dropped_total".into(),
            about: "Spans that were not sent: the queue was full, or the collector was not reached or refused them.",
            points: dropped.into(),
        },
    ]);
}

fn freshness(core: &Core, metrics: &mut Vec<Metric>) {
    // As long as nothing was heard it is as old as the process, at least.
    let started = || core.store.replicated().map_or(Duration::ZERO, |cluster| cluster.now());
    let age = core.age().unwrap_or_else(started);
    metrics.extend([
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

fn requests(core: &Core, metrics: &mut Vec<Metric>) {
    let durations = core.metrics.http.durations.snapshot();
    metrics.push(one(
        "vault.core.handle_request",
        "Requests over HTTP and the milliseconds they took.",
        MetricValue::Summary(durations.summary(core.services.timers.oldest_requests().as_ref())),
    ));
    metrics.push(one(
        "vault.quota.rate_limit.violation",
        "Requests that a rate limit refused.",
        MetricValue::Counter(core.metrics.over_quota.total()),
    ));
    let points = core.metrics.requests().map(|(operation, outcome, sum)| MetricPoint {
        labels: vec![("operation", operation.to_owned()), ("outcome", outcome.to_owned())],
        value: MetricValue::Counter(sum),
    });
    metrics.push(Metric {
        name: "kallisto.requests_total".into(),
        about: "Requests, by operation and what came of them.",
        points: points.collect(),
    });
}

fn jobs(core: &Core, metrics: &mut Vec<Metric>) {
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
    metrics.extend(rows.map(|(name, about, of)| {
        let points = jobs.iter().filter_map(|job| {
            let labels = vec![("job", job.facts.name.clone())];
            of(job).map(|value| MetricPoint { labels, value })
        });
        Metric { name: name.into(), about, points: points.collect() }
    }));
}

/// The leader alone knows how schedules fare.
fn snapshots(core: &Core, metrics: &mut Vec<Metric>) {
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
    metrics.extend(rows.into_iter().map(|(name, about, of)| {
        let point = |known: &SnapshotFigures| MetricPoint {
            labels: vec![("name", known.name.clone())],
            value: of(known),
        };
        Metric { name: name.into(), about, points: known.iter().map(point).collect() }
    }));
}

/// How long parts of the work took, and what was counted beside.
fn timers(core: &Core, now: Timestamp, metrics: &mut Vec<Metric>) {
    let timers = &core.services.timers;
    metrics.extend(
        timers
            .summaries()
            .map(|(name, about, summary)| one(name, about, MetricValue::Summary(summary))),
    );
    let [requests, answers] = timers.unaudited.sums();
    let certificate_end = core.metrics.listener.certificate_end.load(Ordering::Relaxed);
    metrics.extend([
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
    metrics.push(Metric {
        name: "kallisto.listener.certificate_end_time_seconds".into(),
        about: "When the first of the listeners' certificates ends, in seconds since 1970; of a server with TLS.",
        points: (certificate_end != 0)
            .then(|| MetricPoint { labels: Vec::new(), value: MetricValue::Gauge(certificate_end as f64) })
            .into_iter()
            .collect(),
    });
}

fn process(core: &Core, metrics: &mut Vec<Metric>) {
    metrics.push(Metric {
        name: "kallisto.build_info".into(),
        about: "Always 1; the version is a label.",
        points: vec![MetricPoint {
            labels: vec![("version", env!("CARGO_PKG_VERSION").to_owned())],
            value: MetricValue::Gauge(1.0),
        }],
    });
    let Some(process) = core.host.as_ref().and_then(|host| host.process()) else { return };
    metrics.extend([
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use jiff::Timestamp;
    use kallisto_auth::{Operation, Path};
    use kallisto_engine::far_end::FarEndStatus;
    use kallisto_reference::{hold, page, table};
    use kallisto_store::{
        EngineLevelStats, EngineStats, Leadership, Member, MemberRole, MemoryStore, Peer, RaftStats,
    };

    use super::*;
    use crate::api::request::{Request, TokenText};
    use crate::api::stream::Source;
    use crate::metrics::history::KEPT;
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
    fn everything() -> Vec<Metric> {
        let core = Core::new(Arc::new(MemoryStore::new()), ServerInfo::default());
        let core = core.with_host(Arc::new(AnyHost));
        core.metrics.traces.get_or_init(Arc::default);
        core.metrics.listener.certificate_end.store(1, Ordering::Relaxed);
        let root = Some("root".to_owned().into());
        pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
        let path = Path::decode("sys/quotas/lease-count/all").unwrap();
        let token = Some(TokenText::new("root"));
        let body: &[u8] = br#"{"max_leases":10}"#;
        let quota =
            Request { token, body, ..Request::new(Operation::Update, path, Timestamp::UNIX_EPOCH) };
        pollster::block_on(core.handle(&quota)).unwrap();
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
        let schedule = SnapshotFigures {
            name: "hourly".to_owned(),
            interval_secs: 3_600,
            verified_at: 0,
            bytes: 0,
            failures: 0,
            kept: 0,
        };
        *core.metrics.snapshots.lock().unwrap() = vec![schedule];
        let mut metrics = collect(&core, Timestamp::UNIX_EPOCH);
        let is_asked = |metric: &Metric| !metric.name.starts_with("kallisto.far_end.");
        metrics.retain(is_asked);
        let asked = FarEndStatus { protocol: "postgresql", ..FarEndStatus::default() };
        far_ends::far_ends(vec![asked], None, &mut metrics);
        let stats = RaftStats {
            node_id: 1,
            leader_id: 1,
            term: 1,
            last_index: 1,
            last_term: 1,
            commit_index: 1,
            applied_index: 1,
            flushed_index: 1,
            unsynced: 0,
            waiting: 0,
            log_bytes: 1,
            log_syncs: 1,
            log_entries: 1,
            commits: kallisto_store::CommitStats::default(),
            engine: EngineStats {
                levels: vec![EngineLevelStats::default()],
                ..EngineStats::default()
            },
        };
        store::raft(&stats, &mut metrics);
        replication::log(&stats, &mut metrics);
        replication::committed(&core, &stats.commits, &mut metrics);
        store::engine(&stats.engine, &mut metrics);
        let database = kallisto_store::DatabaseStats {
            epoch: 1,
            leads: true,
            is_connected: true,
            waiting: 0,
            behind: 0,
            connections_lost: 0,
            loads: 1,
            refused: 0,
            commits: kallisto_store::CommitStats::default(),
        };
        store::database(&database, &mut metrics);
        let (one, two) = (Peer { id: 1, ..Peer::default() }, Peer { id: 2, ..Peer::default() });
        let of = |peer| Member { peer, role: MemberRole::Voter, matched: 1, silent_ms: Some(1) };
        let health =
            MemberHealth { is_healthy: true, tolerance: 0, servers: vec![("one".into(), true)] };
        core.metrics.observe(|observed| observed.saw(true, Duration::ZERO, Some(health)));
        let leads = Leadership { node_id: 1, leader_id: 1, term: 1 };
        replication::members(&core, &[of(one), of(two)], leads, &mut metrics);
        metrics
    }

    #[test]
    fn the_page_of_metrics_is_what_is_told() {
        let about = "Every metric of `sys/metrics`, in the form of Prometheus. Names that Vault has mean what they mean there; each server tells \
            of itself. What to alert on is in [operations](../operations.md#metrics).";
        let mut text = page("Metrics", about, "what a server collects");
        let rows = everything().into_iter().map(|metric| {
            // A metric that nothing has a value of would stand on the page without its labels.
            let Some(point) = metric.points.first() else { panic!("{} has no value", metric.name) };
            let labels = point.labels.iter().map(|(name, _)| format!("`{name}`"));
            let labels: Vec<String> = labels.collect();
            let kind = match point.value {
                MetricValue::Counter(_) => "counter",
                MetricValue::Seconds(_) => "counter, seconds",
                MetricValue::Summary(_) => "summary, milliseconds",
                MetricValue::Histogram(_) => "histogram, seconds",
                MetricValue::Gauge(_) => "gauge",
            };
            let name = format!("`{}`", metric.name.replace('.', "_"));
            vec![name, kind.to_owned(), labels.join(", "), metric.about.to_owned()]
        });
        table(&mut text, &["name", "kind", "labels", "meaning"], rows);
        hold("metrics.md", &format!("{}\n", text.trim_end()));
    }

    #[test]
    fn the_history_keeps_metrics_that_there_are() {
        let metrics = everything();
        let names: BTreeSet<&str> = metrics.iter().map(|metric| metric.name.as_ref()).collect();
        for kept in KEPT {
            assert!(names.contains(kept), "{kept}");
        }
    }

    /// Elsewhere a metric that is gone or renamed shows nothing, and warns of nothing.
    #[test]
    fn the_page_the_alerts_and_the_dashboard_name_metrics_that_there_are() {
        let metrics = everything();
        let names: BTreeSet<String> =
            metrics.iter().map(|metric| metric.name.replace('.', "_")).collect();
        let is_known = |word: &str| {
            let part = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
            names.contains(word) || part.is_some_and(|name| names.contains(name))
        };
        for (file, text) in [
            ("metrics.tsx", include_str!("../../../../../ui/src/screens/metrics.tsx")),
            (
                "kallisto.rules.yml",
                include_str!("../../../../../contrib/prometheus/kallisto.rules.yml"),
            ),
            ("kallisto.json", include_str!("../../../../../contrib/grafana/kallisto.json")),
        ] {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let is_metric = |word: &&str| {
                ["vault_", "kallisto_", "process_"].iter().any(|of| word.starts_with(of))
            };
            let named: BTreeSet<&str> = words.filter(is_metric).collect();
            assert!(!named.is_empty(), "{file} names no metric");
            for word in named {
                assert!(is_known(word), "{file} names {word}");
            }
        }
    }

    #[test]
    fn names_are_told_once_and_labels_are_words() {
        let metrics = everything();
        let names: BTreeSet<&str> = metrics.iter().map(|metric| metric.name.as_ref()).collect();
        assert_eq!(names.len(), metrics.len());
        // Names of Vault are spelled as they are.
        for metric in metrics.iter().filter(|metric| metric.name.starts_with("kallisto.")) {
            let point = metric.points.first().map(|point| &point.value);
            let counts = matches!(point, Some(MetricValue::Counter(_) | MetricValue::Seconds(_)));
            assert_eq!(counts, metric.name.ends_with("_total"), "{}", metric.name);
        }
        let labels =
            metrics.iter().flat_map(|metric| &metric.points).flat_map(|point| &point.labels);
        for (name, value) in labels {
            let is_word = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
            assert!(value.chars().all(is_word), "{name} is {value}");
        }
        assert!(prometheus::write(&metrics).lines().count() > metrics.len());
    }
}
