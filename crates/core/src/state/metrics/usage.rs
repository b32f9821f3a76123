//! What is counted by name: tokens by policy, secrets by mount, the time that each mount takes.
//!
//! Names of mounts and policies are shown only where the configuration asks for it (`usage_gauge_period`), and at most so many of each
//! (`maximum_gauge_cardinality`), those with most first. Counting looks at every token, so that a job does it from time to time
//! (`jobs::observe`); what is here writes down what it found.

use std::collections::BTreeMap;

use super::values::{flag, gauge, one};
use crate::metrics::routes::RouteVerb;
use crate::metrics::usage::{NamedCounts, NamespacedName};
use crate::metrics::{Metric, MetricPoint, MetricValue};
use crate::records::engine_kind::EngineKind;
use crate::state::Core;
use crate::view::View;

/// Secrets by version of the engine, and by mount where that is asked for.
pub(super) fn secrets(core: &Core, root: &View) -> Metric {
    let views = root.namespaces.views();
    let views: Vec<&View> = std::iter::once(root).chain(views.iter().map(|view| &**view)).collect();
    let kinds = [("1", EngineKind::KV_V1), ("2", EngineKind::KV_V2)];
    let mut points = Vec::new();
    for (version, kind) in kinds {
        let mut by_mount = BTreeMap::new();
        for view in &views {
            for mount in view.mounts.all().iter().filter(|mount| mount.entry.kind == kind) {
                let name = [namespace_of(view), mount.entry.path.to_string()];
                *by_mount.entry(NamespacedName::from(name)).or_default() += mount.index.len();
            }
        }
        if core.info.metrics.usage_period.is_none() {
            let all: u64 = by_mount.values().sum();
            points.push(MetricPoint {
                labels: vec![("version", version.to_owned())],
                value: MetricValue::Gauge(all as f64),
            });
            continue;
        }
        let most = most(by_mount, core.info.metrics.cardinality_max);
        points.extend(most.into_iter().map(|(NamespacedName([namespace, mount]), count)| {
            MetricPoint {
                labels: vec![
                    ("version", version.to_owned()),
                    ("namespace", namespace),
                    ("mount_point", mount),
                ],
                value: MetricValue::Gauge(count as f64),
            }
        }));
    }
    let about = "Secrets, by version of the engine; by mount too where usage_gauge_period is set.";
    Metric { name: "vault.secret.kv.count".into(), about, points }
}

/// What the job counted last.
pub(super) fn counted(core: &Core, metrics: &mut Vec<Metric>) {
    let usage = core.metrics.usage();
    let max = core.info.metrics.cardinality_max;
    let named = |names: [&'static str; 2], counts: BTreeMap<NamespacedName, u64>| {
        let points =
            most(counts, max).into_iter().map(|(NamespacedName([namespace, name]), count)| {
                MetricPoint {
                    labels: vec![(names[0], namespace), (names[1], name)],
                    value: MetricValue::Gauge(count as f64),
                }
            });
        points.collect::<Vec<_>>()
    };
    let NamedCounts { by_policy, by_ttl, by_auth, aliases, is_counted: _ } = usage;
    metrics.extend([
        Metric {
            name: "vault.token.count.by_policy".into(),
            about: "Tokens with a policy; where usage_gauge_period is set.",
            points: named(["namespace", "policy"], by_policy),
        },
        Metric {
            name: "vault.token.count.by_ttl".into(),
            about: "Tokens by the lifetime they were made with; where usage_gauge_period is set.",
            points: named(["namespace", "creation_ttl"], by_ttl),
        },
        Metric {
            name: "vault.token.count.by_auth".into(),
            about: "Tokens by the method that made them; where usage_gauge_period is set.",
            points: named(["namespace", "auth_method"], by_auth),
        },
        Metric {
            name: "vault.identity.entity.alias.count".into(),
            about: "Aliases of entities by the method they are of; where usage_gauge_period is set.",
            points: named(["namespace", "auth_method"], aliases),
        },
    ]);
}

/// How long each mount takes, where that is asked for: a metric of its own for each mount and operation, as Vault has it.
pub(super) fn routes(core: &Core, metrics: &mut Vec<Metric>) {
    for (mount, durations) in core.metrics.routes.all() {
        for (operation, snapshot) in RouteVerb::NAMES.into_iter().zip(durations) {
            metrics.push(Metric {
                name: format!("vault.route.{operation}.{mount}").into(),
                about: "Requests to a mount and the milliseconds they took; where usage_gauge_period is set.",
                points: vec![MetricPoint {
                    labels: Vec::new(),
                    value: MetricValue::Summary(snapshot.summary(None)),
                }],
            });
        }
    }
}

/// Entities, in all namespaces, and how far a re-encryption is.
pub(super) fn cluster(root: &View, metrics: &mut Vec<Metric>) {
    let views = root.namespaces.views();
    let all = std::iter::once(root).chain(views.iter().map(|view| &**view));
    let entities = all.filter_map(|view| view.ask_directory(|directory| directory.entity_count()));
    metrics.push(one("vault.identity.num_entities", "Entities.", gauge(entities.sum())));
}

/// Tokens that were made, by method, lifetime and kind.
pub(super) fn creations(core: &Core, metrics: &mut Vec<Metric>) {
    let points =
        core.services.timers.creations().into_iter().map(|((method, ttl, kind), count)| {
            MetricPoint {
                labels: vec![
                    ("auth_method", method),
                    ("creation_ttl", ttl.to_owned()),
                    ("token_type", kind.to_owned()),
                ],
                value: MetricValue::Counter(count),
            }
        });
    metrics.push(Metric {
        name: "vault.token.creation".into(),
        about: "Tokens that were made, by method of login, lifetime and kind.",
        points: points.collect(),
    });
    metrics.push(one(
        "kallisto.metrics.usage_counted",
        "Whether tokens and aliases were counted by name, as usage_gauge_period asks.",
        flag(core.metrics.usage().is_counted),
    ));
}

/// The name of a namespace as labels have it.
pub(crate) fn namespace_of(view: &View) -> String {
    match view.namespace_path() {
        "" => "root".to_owned(),
        path => path.to_owned(),
    }
}

/// The `max` entries with the highest counts.
fn most(counts: BTreeMap<NamespacedName, u64>, max: usize) -> Vec<(NamespacedName, u64)> {
    let mut all: Vec<(NamespacedName, u64)> = counts.into_iter().collect();
    if all.len() > max {
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all.truncate(max);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_names_those_with_most_are_told() {
        let counts =
            (0..10_u64).map(|at| (NamespacedName::from(["root".to_owned(), at.to_string()]), at));
        let told = most(counts.collect(), 3);
        assert_eq!(told.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [9, 8, 7]);
    }
}
