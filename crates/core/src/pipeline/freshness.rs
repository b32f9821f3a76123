//! What is answered from a view that may be too old: decided here and nowhere else. Whether it is: [`NamespaceContext::is_fresh`].
//!
//! A view may be behind what others committed. The store knows up to when it holds everything ([`AsOf`](kallisto_store::AsOf)); a view that follows the
//! store holds as much, and one that was overtaken by a snapshot what the store held then ([`Outdated`](crate::view::outdated::Outdated)). Once that is further
//! in the past than [`ServerInfo::max_staleness`], a revoked token or a destroyed secret could be served that everybody else
//! refuses: so nothing is answered from the view any more, but to those who ask for stale reads by a header.
//!
//! A request is held against the time when it is looked at, after its bytes came: a server that was stopped in between judges by
//! the time of now. What needs no view is answered always: health, status, unsealing.
//!
//! [`ServerInfo::max_staleness`]: crate::ServerInfo::max_staleness

use std::sync::atomic::Ordering;

use kallisto_store::Replicated;

use crate::api::error::{Error, Stale};
use crate::api::request::Request;
use crate::cluster::{leading, quorum};
use crate::pipeline::open_routes;
use crate::state::Core;
use crate::view::NamespaceContext;

/// The header by which a client says how recent its answer has to be, in lower case.
pub const CONSISTENCY_HEADER: &str = "x-kallisto-consistency";
/// The client takes answers of any age.
pub const STALE: &str = "stale";

/// Refuses what would be answered from a view that is too old.
///
/// # Errors
/// [`Error::Stale`].
pub(crate) fn check(core: &Core, request: &Request<'_>) -> Result<(), Error> {
    let context = core.context.load();
    match context.as_ref() {
        Some(context) if !context.is_fresh() => refuse(core, context, request),
        // What is sealed refuses in its own words.
        Some(_) | None => Ok(()),
    }
}

#[cold]
fn refuse(core: &Core, context: &NamespaceContext, request: &Request<'_>) -> Result<(), Error> {
    // Whoever brings a cluster back asks who is in it when nobody can confirm anything.
    if open_routes::needs_no_view(core, request) || leading::needs_no_leader(request) {
        return Ok(());
    }
    // What is decided for everybody has to be decided on what holds.
    if asks_stale(request) && !leading::is_leaders(core, request) {
        core.metrics.stale_answered.count();
        return Ok(());
    }
    core.metrics.stale_refused.count();
    Err(Error::Stale(Stale {
        age_secs: context.age().map(|age| age.as_secs()),
        max_secs: context.info.max_staleness.as_secs(),
        reached: quorum::voters_reached(core, request),
    }))
}

/// Whether a client says that it takes what is of the past.
fn asks_stale(request: &Request<'_>) -> bool {
    request.headers.values(CONSISTENCY_HEADER).iter().any(|value| value == STALE)
}

/// Whether a request that passed is answered from a view that is too old for others, as its audit record says.
pub(crate) fn is_stale_read(context: &NamespaceContext, request: &Request<'_>) -> bool {
    !context.is_fresh() && asks_stale(request)
}

/// Says so once when the view becomes too old, and once when it is up to date again. Those who follow it are woken, to hear it.
pub(crate) fn tell(core: &Core) {
    let context = core.context.load();
    let is_stale = context.as_ref().is_some_and(|context| !context.is_fresh());
    // Relaxed: only the job looks.
    if core.told.is_stale.swap(is_stale, Ordering::Relaxed) == is_stale {
        return;
    }
    let Some(context) = context.as_ref() else { return };
    if !is_stale {
        tracing::info!("what the cluster committed is here again: answering");
        return;
    }
    let cluster = core.store.replicated();
    let silent = cluster.map(silent_peers).unwrap_or_default();
    tracing::warn!(
        age_secs = context.age().map(|age| age.as_secs()),
        max_staleness_secs = context.info.max_staleness.as_secs(),
        leader = cluster.map(|cluster| cluster.leadership().leader_id).filter(|id| *id != 0),
        silent,
        "not told what the cluster committed: requests are refused until a leader with a majority is heard"
    );
    context.view.feed.notify_watchers();
    context.view.namespaces.views().iter().for_each(|view| view.feed.notify_watchers());
}

/// The names of other members, and for how long each was not heard, in seconds.
fn silent_peers(cluster: &dyn Replicated) -> String {
    let own = cluster.leadership().node_id;
    let others = cluster.members().into_iter().filter(|member| member.peer.id != own);
    let name = |member: kallisto_store::Member| match member.silent_ms {
        Some(ms) => format!("{} ({} s)", member.peer.name, ms / 1000),
        None => format!("{} (never heard)", member.peer.name),
    };
    others.map(name).collect::<Vec<_>>().join(", ")
}
