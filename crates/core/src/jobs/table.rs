//! Every job there is, in the order in which they run.

use std::future::ready;

use super::{EVERY_PASS, JobRow, JobScope, JobSpec, observe};
use crate::backup::{loaded, schedule};
use crate::cluster::{self, observe as cluster_observe, removed};
use crate::engines::kv::upgrade;
use crate::engines::sys;
use crate::metrics::history;
use crate::pipeline::freshness;
use crate::records::engine_kind::EngineKind;
use crate::state::versions;
use crate::wrapping::receipts;
use crate::{leases, logins, namespaces, seal, tokens};

/// The rows, in order.
pub(super) fn rows() -> impl Iterator<Item = JobRow> {
    let of_engines = EngineKind::all()
        .flat_map(|kind| kind.jobs().iter().map(move |job| JobRow::Mounts(kind, job)));
    let first = SERVER_JOBS.iter().map(JobRow::Server);
    first.chain(of_engines).chain(LAST_JOBS.iter().map(JobRow::Server))
}

const SERVER_JOBS: &[JobSpec] = &[
    JobSpec {
        name: "view_freshness",
        about: "Says when the view becomes too old to answer from, and when it is up to date again.",
        period_secs: EVERY_PASS,
        scope: JobScope::Server(|core, _| {
            freshness::tell(core);
            Box::pin(ready(Ok(())))
        }),
    },
    JobSpec {
        name: "sealed_members",
        about: "Asks the members whether they are sealed, for the metrics.",
        period_secs: 10,
        scope: JobScope::Leader(|core, root, _| Box::pin(sys::look_for_sealed(core, root))),
    },
    JobSpec {
        name: "cluster_figures",
        about: "Looks at the lead and the members, for the metrics.",
        period_secs: EVERY_PASS,
        scope: JobScope::Server(|core, _| {
            observe::look(core);
            Box::pin(ready(Ok(())))
        }),
    },
    JobSpec {
        name: "quantiles",
        about: "Keeps the figures of this minute, which the quantiles of the metrics are of.",
        period_secs: 60,
        scope: JobScope::Server(|core, _| {
            observe::keep_moment(core);
            Box::pin(ready(Ok(())))
        }),
    },
    JobSpec {
        name: "usage_figures",
        about: "Counts tokens and aliases by name, if usage_gauge_period says so.",
        period_secs: EVERY_PASS,
        scope: JobScope::Server(|core, _| Box::pin(observe::count_usage(core))),
    },
    JobSpec {
        name: "cluster_removal",
        about: "Seals a server that its cluster has let go.",
        period_secs: EVERY_PASS,
        scope: JobScope::Server(|core, _| Box::pin(removed::retire_if_removed(core))),
    },
    JobSpec {
        name: "cluster_certificate",
        about: "Gives the leader, and each server that shares its database, its certificate for the cluster port if it has none.",
        period_secs: EVERY_PASS,
        scope: JobScope::Server(|core, _| Box::pin(cluster::keep_identity(core))),
    },
    JobSpec {
        name: "version_history",
        about: "Writes down which version serves the storage, and since when.",
        period_secs: EVERY_PASS,
        scope: JobScope::Leader(|_, root, now| Box::pin(versions::note(root, now))),
    },
    JobSpec {
        name: "namespace_sweep",
        about: "Clears what deleted namespaces have left.",
        period_secs: EVERY_PASS,
        scope: JobScope::Leader(|_, root, _| Box::pin(namespaces::sweep(root))),
    },
    JobSpec {
        name: "interrupted_revocations",
        about: "Goes on with revocations of tokens that were cut short, once a term.",
        period_secs: EVERY_PASS,
        scope: JobScope::Namespaces(|space, _| Box::pin(tokens::take_up_if_cut_short(space))),
    },
    JobSpec {
        name: "interrupted_unmounts",
        about: "Goes on with clearing what engines and logins left that were disabled or moved, where that was cut short.",
        period_secs: EVERY_PASS,
        scope: JobScope::Namespaces(|space, _| Box::pin(sys::clear_cut_short(space))),
    },
    JobSpec {
        name: "kv_upgrades",
        about: "Goes on with upgrades of mounts to KV version 2 that were cut short, once a term.",
        period_secs: EVERY_PASS,
        scope: JobScope::Namespaces(|space, now| {
            Box::pin(ready(upgrade::take_up_if_cut_short(space, now)))
        }),
    },
    JobSpec {
        name: "token_expiry",
        about: "Ends tokens whose time has come.",
        period_secs: EVERY_PASS,
        scope: JobScope::Namespaces(|space, now| Box::pin(tokens::end_due(space, now))),
    },
    JobSpec {
        name: "wrapping_receipts",
        about: "Deletes what is remembered of wrapping tokens that ended a day ago.",
        period_secs: 3_600,
        scope: JobScope::Namespaces(|space, now| Box::pin(receipts::sweep(space, now))),
    },
    JobSpec {
        name: "pending_logins",
        about: "Deletes logins whose second factor did not come in time.",
        period_secs: 60,
        scope: JobScope::Namespaces(|space, now| Box::pin(logins::sweep(space, now))),
    },
    // After the tokens: what ended now takes its leases along.
    JobSpec {
        name: "lease_revocation",
        about: "Takes credentials back whose leases have ended.",
        period_secs: EVERY_PASS,
        scope: JobScope::Leader(|_, root, now| Box::pin(leases::work_queue(root, now))),
    },
    JobSpec {
        name: "barrier_rotation",
        about: "Replaces the data key when its age or its use asks for that.",
        period_secs: EVERY_PASS,
        scope: JobScope::Leader(|core, root, now| Box::pin(sys::rotate_due(core, root, now))),
    },
    JobSpec {
        name: "reencryption",
        about: "Goes on with the re-encryption of records under older data keys.",
        period_secs: EVERY_PASS,
        scope: JobScope::Leader(|_, root, _| Box::pin(ready(seal::reencryption_due(root)))),
    },
    JobSpec {
        name: "scheduled_snapshots",
        about: "Starts snapshots that are due.",
        period_secs: EVERY_PASS,
        scope: JobScope::Leader(|core, root, now| {
            Box::pin(ready(schedule::start_due(core, root, now)))
        }),
    },
    JobSpec {
        name: "loaded_snapshots",
        about: "Unloads a snapshot whose time is over, or whose server does not lead any more.",
        period_secs: EVERY_PASS,
        scope: JobScope::Server(|core, now| {
            loaded::end_due(core, now);
            Box::pin(ready(Ok(())))
        }),
    },
    JobSpec {
        name: "dead_server_cleanup",
        about: "Removes a member that is silent for too long, if autopilot's settings say so.",
        period_secs: EVERY_PASS,
        scope: JobScope::Leader(|core, root, _| Box::pin(sys::clean_up(core, root))),
    },
];

/// Nothing waits for these, and a store that takes no usual write still takes what ends tokens: so they come last.
const LAST_JOBS: &[JobSpec] = &[
    JobSpec {
        name: "history",
        about: "Remembers figures and events of the last hour, in memory.",
        period_secs: history::EVERY_SECS,
        scope: JobScope::Server(|core, now| {
            cluster_observe::observe(core, now);
            Box::pin(ready(Ok(())))
        }),
    },
    JobSpec {
        name: "time_marks",
        about: "Writes down how far the clock has come, for batch tokens.",
        period_secs: EVERY_PASS,
        scope: JobScope::Leader(|_, root, now| Box::pin(tokens::keep_marks(root, now))),
    },
    JobSpec {
        name: "join_token_expiry",
        about: "Deletes tokens for joining the cluster that have ended.",
        period_secs: EVERY_PASS,
        scope: JobScope::Leader(|_, root, now| Box::pin(cluster::end_join_tokens(root, now))),
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_words_and_each_is_there_once() {
        let names: Vec<String> = rows().map(JobRow::name).collect();
        let once: BTreeSet<&String> = names.iter().collect();
        assert_eq!(once.len(), names.len(), "{names:?}");
        let is_word =
            |name: &String| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(names.iter().all(is_word), "{names:?}");
        assert!(rows().all(|row| row.facts().about.ends_with('.')));
    }

    #[test]
    fn what_ends_tokens_comes_before_the_marks() {
        let at = |name: &str| rows().position(|row| row.name() == name).unwrap();
        assert!(at("token_expiry") < at("time_marks"));
        assert!(at("interrupted_revocations") < at("token_expiry"));
        assert!(at("token_expiry") < at("lease_revocation"));
    }
}
