//! Figures about what memory holds: mounts, tokens, leases, the index and the hot table.

use kallisto_engine::Class;

use super::values::{flag, gauge, one};
use super::{Effort, usage};
use crate::metrics::{Metric, MetricPoint, MetricValue};
use crate::quotas::lease_count::LeaseSpec;
use crate::state::Core;
use crate::view::View;

pub(super) fn view(core: &Core, view: &View, effort: Effort, metrics: &mut Vec<Metric>) {
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
    if effort == Effort::Any {
        lease_counts(view, metrics);
    }
    let (mut tokens, mut leases) = view.tokens.counts();
    for inside in view.namespaces.views() {
        let (more, ending) = inside.tokens.counts();
        (tokens, leases) = (tokens + more, leases + ending);
    }
    let credentials = view.leases.counts();
    let memory = view.hot.memory();
    metrics.extend([
        Metric {
            name: "vault.core.mount_table.num_entries".into(),
            about: "Mounts, by class.",
            points: mount_table,
        },
        usage::secrets(core, view),
        one("vault.token.count", "Live tokens.", gauge(tokens)),
        one(
            "vault.expire.num_leases",
            "Tokens that end by themselves, and credentials with leases.",
            gauge(leases + credentials.all),
        ),
        one(
            "vault.expire.num_irrevocable_leases",
            "Leases whose credentials could not be taken back.",
            gauge(credentials.irrevocable),
        ),
        one(
            "kallisto.leases.revoking",
            "Leases that ended or were revoked, and whose credentials are not taken back yet.",
            gauge(credentials.revoking),
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
            "kallisto.hot.warming",
            "1 while the values of secrets are read into the hot table after an unseal.",
            flag(view.is_warming()),
        ),
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
fn lease_counts(view: &View, metrics: &mut Vec<Metric>) {
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
    metrics.extend([
        one(
            "vault.quota.lease_count.violation",
            "Leases that a lease count refused.",
            MetricValue::Counter(view.quotas.leases.refused.total()),
        ),
        Metric {
            name: "vault.quota.lease_count.counter".into(),
            about: "Leases that a lease count counts.",
            points: points(|_, count| gauge(count)),
        },
        Metric {
            name: "vault.quota.lease_count.max".into(),
            about: "Leases that a lease count allows.",
            points: points(|spec, _| MetricValue::Gauge(spec.max_leases as f64)),
        },
        Metric {
            name: "kallisto.quota.lease_count.near_max".into(),
            about: "Whether there are four fifths and more of the leases that a lease count allows.",
            points: points(|spec, count| flag(spec.is_near(count))),
        },
    ]);
}
