//! Every route at a member of a cluster that is cut off from the others, that was removed, and whose disk is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use kallisto_auth::Operation::{Delete, Read, Update};
use kallisto_engine::route::ServedBy;
use kallisto_store::{Batch, Commit, Error as StoreError, MemoryStore, Need, Store, StoreLayer};

use super::states::{
    NO_SPACE, StateVerdict, check_sealed, every_request, expect, is_leaders, verdict_of,
};
use super::{Site, UNAUDITED, settings};
use crate::api::error::Error;
use crate::platform::server_info::RouteAccess;
use crate::routes::tests::{ROOT, request};

#[expect(dead_code, reason = "other tests ask more of it")]
#[path = "../../../../tests/core/aged.rs"]
mod aged;
pub(super) use aged::AgedStore;

pub(super) fn aged_site() -> (Arc<AgedStore>, Site) {
    let store = Arc::<AgedStore>::default();
    let site = Site::over(Arc::clone(&store) as Arc<_>, settings(RouteAccess::Token));
    (store, site)
}

/// What a server that is cut off answers whoever asks: how it is, and what gets it out of there.
const NEEDS_NO_VIEW: [&str; 6] = [
    "sys/health",
    "sys/init",
    "sys/leader",
    "sys/seal-status",
    "sys/storage/raft/join",
    "sys/unseal",
];

/// A server that was not told for too long what the cluster committed answers what needs no view, and who the members are; all else it refuses,
/// writes down, and leaves as it was.
#[test]
fn a_server_that_is_cut_off_answers_nothing_from_its_view_and_changes_nothing() {
    let (store, site) = aged_site();
    store.lose_leader();
    store.age(Duration::from_secs(3600));
    every_request(|route, base, request| {
        let before = site.core.store.position();
        let (records, answer) = site.recorded(|| site.ask(request));
        let is_of_members =
            base == "sys/" && route.served_by == ServedBy::LeaderIfAny && request.operation == Read;
        if site.core.store.position() != before {
            return Err("it changed something".to_owned());
        }
        let row = format!("{base}{}", route.pattern);
        if is_of_members || NEEDS_NO_VIEW.contains(&row.as_str()) {
            return match verdict_of(&answer) {
                StateVerdict::Stale => Err(format!("{row} needs no view that is recent")),
                _ => Ok(()),
            };
        }
        // What only the leader answers waits for one, who writes it down.
        let expected = match verdict_of(&answer) {
            StateVerdict::NotLeader if is_leaders(route, request.operation) => {
                StateVerdict::NotLeader
            }
            _ => StateVerdict::Stale,
        };
        expect(verdict_of(&answer), expected, &answer)?;
        let is_unaudited = UNAUDITED.contains(&(request.path.as_str(), request.operation));
        match records.len() {
            0 if expected == StateVerdict::NotLeader || is_unaudited => Ok(()),
            2 if expected == StateVerdict::Stale => Ok(()),
            count => Err(format!("{count} records: {answer:?}")),
        }
    });
}

/// A server that its cluster let go seals itself, is as any sealed one, and stays so.
#[test]
fn a_server_that_was_removed_is_sealed_and_changes_nothing() {
    let (store, site) = aged_site();
    kallisto_store::Replicated::told_removed(&*store);
    pollster::block_on(site.core.run_due_jobs(Timestamp::UNIX_EPOCH)).unwrap();
    check_sealed(&site);
    let share = format!(r#"{{"key":"{}"}}"#, site.share);
    let unsealed = site.ask(&request(None, Update, "sys/unseal", &share));
    assert!(matches!(unsealed, Err(Error::Invalid(_))) && site.core.is_sealed(), "{unsealed:?}");
}

/// A store that has room for what is essential alone, once it is full.
#[derive(Default)]
struct FullStore {
    inner: MemoryStore,
    is_full: AtomicBool,
    /// Whether it took something essential.
    took: AtomicBool,
}

impl StoreLayer for FullStore {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn commit(&self, batch: Batch) -> Commit {
        if self.is_full.load(Ordering::SeqCst) {
            if batch.need() != Need::Essential {
                return Commit::decided(Err(StoreError::Unavailable(NO_SPACE.into())));
            }
            self.took.store(true, Ordering::SeqCst);
        }
        self.inner.commit(batch)
    }
}

/// Rows that take something away and do not delete: of those that the requests of this test come through to.
const TAKES_AWAY: [&str; 1] = ["auth/token/revoke-self"];

/// With a full disk every request is answered and written down; what changes something is refused, unless it takes something away.
#[test]
fn a_full_disk_changes_nothing_but_what_takes_something_away() {
    let begin = || {
        let store = Arc::<FullStore>::default();
        let site = Site::over(Arc::clone(&store) as Arc<_>, settings(RouteAccess::Token));
        store.is_full.store(true, Ordering::SeqCst);
        (store, site)
    };
    let (mut store, mut site) = begin();
    every_request(|route, base, request| {
        store.took.store(false, Ordering::SeqCst);
        let before = site.core.store.position();
        let (records, answer) = site.recorded(|| site.ask(request));
        let changed = site.core.store.position() != before;
        let row = format!("{base}{}", route.pattern);
        let took = store.took.load(Ordering::SeqCst);
        if request.token.is_some_and(|token| token.expose() == ROOT) && !site.is_whole() {
            (store, site) = begin();
        }
        if changed && !took {
            return Err(format!("it changed something: {answer:?}"));
        }
        let may_take = request.operation == Delete || TAKES_AWAY.contains(&row.as_str());
        if took && !may_take {
            return Err(format!("{row} takes from the reserve: {answer:?}"));
        }
        if verdict_of(&answer) == StateVerdict::Full && changed {
            return Err("it is refused and changed something".to_owned());
        }
        match records.len() {
            0 if UNAUDITED.contains(&(request.path.as_str(), request.operation)) => Ok(()),
            2 => Ok(()),
            count => Err(format!("{count} records: {answer:?}")),
        }
    });
}
