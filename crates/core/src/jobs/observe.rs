//! What can only be known by looking from time to time: how long the lead was held, how the members are, what there is by name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kallisto_engine::pace::cooperative_yield;
use kallisto_store::{Member, MemberRole};

use crate::api::error::Error;
use crate::engines::sys;
use crate::metrics::usage::{NamedCounts, NamespacedName, ttl_word};
use crate::state::Core;
use crate::state::metrics::{commits, namespace_of};
use crate::timers::Timer;
use crate::view::View;

/// Tokens that are looked at before others get their turn.
const TOKENS_PER_TURN: usize = 256;

/// Looks at the lead and the members. Called about once a second.
pub(super) fn look(core: &Core) {
    let leads = core.store.leads() && !core.is_sealed();
    let now = (core.stopwatch)();
    let health = match (core.store.replicated(), core.context.load().as_ref()) {
        (Some(cluster), Some(root)) if leads => {
            note_contact(core, &cluster.members(), cluster.leadership().node_id);
            sys::health(core, root, cluster).ok()
        }
        _ => None,
    };
    let led = core.metrics.observe(|observed| observed.saw(leads, now, health));
    if let Some(led) = led {
        core.services.timers.record(Timer::LeadershipLost, led);
    }
}

/// How long ago the leader heard the voter that it has not heard for longest.
fn note_contact(core: &Core, members: &[Member], own: u64) {
    let others = members
        .iter()
        .filter(|member| member.role == MemberRole::Voter && member.peer.id != own)
        .filter_map(|member| member.silent_ms);
    if let Some(longest) = others.max() {
        core.services.timers.record(Timer::LeaderLastContact, Duration::from_millis(longest));
    }
}

/// Keeps the figures of this minute, which quantiles are of.
pub(super) fn keep_moment(core: &Core) {
    let stats = core.store.stats();
    let commits = stats.commits().map(commits);
    core.services.timers.keep_moment(core.metrics.http.durations.snapshot(), commits);
}

/// Counts tokens and aliases by name, if the configuration asks for it and the time has come.
///
/// # Errors
/// None: what cannot be read is not counted.
pub(super) async fn count_usage(core: &Core) -> Result<(), Error> {
    let Some(period) = core.info.metrics.usage_period else { return Ok(()) };
    let Some(root) = core.context.load_full() else {
        core.metrics.set_usage(NamedCounts::default());
        return Ok(());
    };
    if !core.metrics.is_usage_due((core.stopwatch)(), period) {
        return Ok(());
    }
    let mut usage = NamedCounts { is_counted: true, ..NamedCounts::default() };
    count(&root.view, &mut usage).await;
    for view in root.view.namespaces.views() {
        count(&view, &mut usage).await;
    }
    core.metrics.set_usage(usage);
    Ok(())
}

async fn count(view: &Arc<View>, usage: &mut NamedCounts) {
    let namespace = namespace_of(view);
    let add = |counts: &mut BTreeMap<NamespacedName, u64>, name: &str| {
        *counts.entry(NamespacedName([namespace.clone(), name.to_owned()])).or_default() += 1;
    };
    for (at, hash) in view.tokens.hashes().into_iter().enumerate() {
        if at % TOKENS_PER_TURN == TOKENS_PER_TURN - 1 {
            cooperative_yield().await;
        }
        let Some(entry) = view.tokens.entry(&hash) else { continue };
        entry.auth.policies.iter().for_each(|policy| add(&mut usage.by_policy, policy));
        add(&mut usage.by_ttl, ttl_word(entry.ttl_secs));
        add(&mut usage.by_auth, method_at(view, &entry.auth.path));
    }
    let aliases: Vec<String> = view
        .ask_directory(|directory| {
            let entities = directory.entities();
            let accessors = entities.iter().flat_map(|entity| &entity.aliases);
            accessors.map(|alias| alias.accessor.clone()).collect()
        })
        .unwrap_or_default();
    let kinds: BTreeMap<String, &'static str> = view
        .mounts
        .all()
        .iter()
        .map(|mount| (mount.entry.accessor.clone(), mount.entry.kind.name()))
        .collect();
    for accessor in aliases {
        add(&mut usage.aliases, kinds.get(&accessor).copied().unwrap_or("unknown"));
    }
}

/// The kind of the method whose path made a token.
fn method_at(view: &View, path: &str) -> &'static str {
    view.mounts.route(path).map_or("token", |(mount, _)| mount.entry.kind.name())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::view::NamespaceContext;

    #[test]
    fn tokens_are_told_by_the_method_that_made_them() {
        let core = Core::new(
            Arc::new(kallisto_store::MemoryStore::new()),
            crate::platform::server_info::ServerInfo::default(),
        );
        pollster::block_on(core.initialize_dev(None, Timestamp::UNIX_EPOCH)).unwrap();
        let root: Arc<NamespaceContext> = core.context.load_full().unwrap();
        assert_eq!(method_at(&root.view, "auth/token/create"), "token");
        assert_eq!(method_at(&root.view, "auth/nothing/login"), "token");
        let mut usage = NamedCounts::default();
        pollster::block_on(count(&root.view, &mut usage));
        let named = |name: &str| NamespacedName(["root".to_owned(), name.to_owned()]);
        assert_eq!(usage.by_policy.get(&named("root")), Some(&1));
        assert_eq!(usage.by_ttl.get(&named("+Inf")), Some(&1));
    }
}
