//! What the leader does about leases by the clock: it looks for owners that are gone, and works the queue.
//!
//! A worker is a task of its own ([`Threads`](crate::platform::threads::Threads)) that takes back one credential after another
//! of one mount, so a far end that hangs delays no other mount. How many there are, and how fast they go,
//! the queue says. Sealing waits for a worker as it does for a request: for a bounded time.
//!
//! After a backup was restored nothing is taken back by the clock: the credentials may be in use by the cluster that the
//! backup was made of. An operator's `sys/leases/tidy` with `after_restore` ends that, which is a record, so that it
//! holds for every server and after a restart.

use std::sync::{Arc, Weak};

use jiff::Timestamp;
use kallisto_leases::{
    LeasePhase, LeaseRecord, LeaseState, Located, Owner, RevocationOutcome, RevocationQueue,
    decide_revocation,
};
use kallisto_store::{Batch, Error as StoreError, Seqno};

use super::create::nanos;
use super::far_end::{self, RevokeFailure};
use super::record::{StoredLease, claim, delete, locate, read, replace_in};
use super::revoke::{STEP, mark};
use crate::api::error::Error;
use crate::platform::threads::outcome_of;
use crate::random;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::{MountId, NamespaceNumber};
use crate::view::LeaseView;
use crate::view::NamespaceContext;

/// The record of the last restore after which an operator said that leases end again: its generation, u64 big-endian.
const RELEASED: &str = "lease-release";

/// Does what is due at `now`; `root` is the root namespace, and this server leads.
///
/// # Errors
/// The store's refusal; the next call goes on.
pub(crate) async fn work_queue(root: &Arc<NamespaceContext>, now: Timestamp) -> Result<(), Error> {
    begin_term(root, nanos(now));
    let ended = end_leases_of_gone(root, now).await;
    start_due(root, now)?;
    ended
}

/// Starts workers for what is due.
fn start_due(root: &Arc<NamespaceContext>, now: Timestamp) -> Result<(), Error> {
    let held = is_held(root)?;
    for lease in take(&root.view.leases, held, nanos(now)) {
        start_worker(root, lease, now);
    }
    Ok(())
}

/// Takes up what a request marked, which would else wait for the job: up to a second. What goes wrong here the job does again.
pub(crate) fn start_marked(site: &NamespaceContext, now: Timestamp) {
    let Some(root) = site.top.upgrade() else { return };
    // The job begins a term, and knows what of an earlier one is still at work.
    let is_begun = root.view.leases.work().term == root.store.term();
    if !is_begun || !root.store.below().leads() {
        return;
    }
    if let Err(error) = start_due(&root, now) {
        tracing::debug!(%error, "leases that were marked are taken up later");
    }
}

/// Begins anew in a new term: another server may have been at it.
fn begin_term(root: &NamespaceContext, now_ns: i64) {
    let term = root.store.term();
    let mut work = root.view.leases.work();
    if work.term == term {
        return;
    }
    work.term = term;
    work.queue = RevocationQueue::new(now_ns);
    drop(work);
    root.view.leases.look_at_all_owners();
}

/// Whether nothing is taken back by the clock, since a restore.
fn is_held(root: &NamespaceContext) -> Result<bool, Error> {
    let generation = root.store.below().generation();
    if generation == Seqno::ABSENT {
        return Ok(false);
    }
    let released = EngineStorage::builtin(root, MountId::SYSTEM)?.get(RELEASED)?;
    Ok(released.is_none_or(|record| *record.value != generation.0.to_be_bytes()))
}

/// Says that leases end by the clock again, after the last restore.
///
/// # Errors
/// The store's refusal.
pub(super) async fn release(root: &NamespaceContext) -> Result<(), Error> {
    let generation = root.store.below().generation().0.to_be_bytes().to_vec();
    EngineStorage::builtin(root, MountId::SYSTEM)?.put(RELEASED, generation).await
}

fn take(leases: &LeaseView, held: bool, now_ns: i64) -> Vec<Located> {
    let mut work = leases.work();
    match held {
        true => work.queue.hold(),
        false => work.queue.release(),
    }
    work.queue.take(&leases.table(), now_ns, usize::MAX)
}

/// Marks the leases of owners that are gone, or whose time is over.
async fn end_leases_of_gone(root: &NamespaceContext, now: Timestamp) -> Result<(), Error> {
    let (noted, all) = root.view.leases.owners_to_look_at();
    let is_gone = |owner: &Owner| {
        let home = root.context_with(NamespaceNumber(owner.namespace));
        home.is_none_or(|home| !home.view.tokens.lives(&owner.hash, now))
    };
    let found = all.into_iter().filter(is_gone).map(|owner| owner.hash);
    let mut outcome = Ok(());
    for hash in noted.into_iter().chain(found) {
        match end_leases_of(root, &hash, nanos(now)).await {
            Ok(()) => {}
            // What is damaged keeps no other waiting.
            Err(error @ Error::Internal(_)) => {
                root.view.leases.owner_is_gone(&hash);
                outcome = outcome.and(Err(error));
            }
            Err(error) => {
                // Who was noted and not dealt with is met again by looking at all.
                root.view.leases.look_at_all_owners();
                return Err(error);
            }
        }
    }
    outcome
}

async fn end_leases_of(root: &NamespaceContext, hash: &[u8; 32], now_ns: i64) -> Result<(), Error> {
    let mut is_progress = true;
    while is_progress {
        is_progress = false;
        let leases = &root.view.leases;
        // Those that are being made end by themselves: their owner is gone.
        let mut ending = leases.table().owned_by(hash, &[LeasePhase::Live], STEP);
        ending.sort_unstable_by_key(|lease| lease.namespace);
        if ending.is_empty() {
            return Ok(());
        }
        for of_one in ending.chunk_by(|a, b| a.namespace == b.namespace) {
            let site = of_one.first().and_then(|lease| namespace_context(root, lease));
            let Some(site) = site else { return Ok(()) };
            is_progress |= mark(&site, of_one, now_ns).await? > 0;
        }
    }
    // Those that are left are still held by who makes them, or the store knows better than a view that something took the place of: the
    // next run looks again.
    root.view.leases.owner_is_gone(hash);
    Ok(())
}

/// The namespace of a lease; `None` when it is deleted.
fn namespace_context(root: &NamespaceContext, lease: &Located) -> Option<Arc<NamespaceContext>> {
    root.context_with(NamespaceNumber(lease.namespace))
}

/// What a worker has while it waits.
struct LeaseWorker {
    root: Weak<NamespaceContext>,
    leases: Arc<LeaseView>,
    now: Timestamp,
}

/// Whether a worker goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextWork {
    Lease,
    Nothing,
}

/// Frees the place of a lease in the queue, however its revocation went.
struct AtWork<'w>(&'w LeaseView, &'w Located);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.work().queue.finish(self.1);
    }
}

fn start_worker(root: &Arc<NamespaceContext>, lease: Located, now: Timestamp) {
    let worker =
        LeaseWorker { root: Arc::downgrade(root), leases: Arc::clone(&root.view.leases), now };
    let (threads, first) = (Arc::clone(&root.threads), lease.clone());
    let run = Box::new(move || {
        // Without an outcome the server is going down.
        let _ = outcome_of(&*threads, worker.run(first));
    });
    if let Err(error) = root.threads.start("lease-revoke", run) {
        tracing::warn!(%error, "no thread to revoke a lease on");
        root.view.leases.work().queue.finish(&lease);
    }
}

impl LeaseWorker {
    async fn run(&self, first: Located) {
        let mut lease = first;
        // Ends with what is due, or with the queue's rate.
        loop {
            let next = {
                let _at_work = AtWork(&self.leases, &lease);
                self.revoke(&lease).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "a lease is revoked later");
                    NextWork::Nothing
                })
            };
            if next == NextWork::Nothing {
                return;
            }
            let mut work = self.leases.work();
            let taken = work.queue.take_of(&self.leases.table(), lease.mount, nanos(self.now));
            drop(work);
            match taken {
                Some(taken) => lease = taken,
                None => return,
            }
        }
    }

    async fn revoke(&self, lease: &Located) -> Result<NextWork, Error> {
        let Some(site) = self.site(lease) else { return Ok(NextWork::Nothing) };
        if self.leases.is_creating(lease) {
            return Ok(NextWork::Nothing);
        }
        let (stored, now_ns) = (read(&site, &lease.id)?, nanos(self.now));
        let is_due = |stored: &StoredLease| stored.record.due_ns().is_some_and(|due| due <= now_ns);
        let Some(stored) = stored.filter(is_due) else { return Ok(NextWork::Nothing) };
        let Some(stored) = claim(&site, stored, now_ns).await? else {
            return Ok(NextWork::Nothing);
        };
        let outcome = far_end::revoke(&site, &stored.record, self.now).await;
        settle_attempt(&site, &stored, outcome, now_ns).await?;
        Ok(NextWork::Lease)
    }

    /// The namespace of a lease, while the server is unsealed and leads.
    fn site(&self, lease: &Located) -> Option<Arc<NamespaceContext>> {
        let root = self.root.upgrade().filter(|root| root.store.below().leads())?;
        namespace_context(&root, lease)
    }
}

/// Writes down what came of an attempt to take a credential back.
///
/// # Errors
/// The store's refusal.
pub(super) async fn settle_attempt(
    site: &NamespaceContext,
    stored: &StoredLease,
    outcome: Result<(), RevokeFailure>,
    now_ns: i64,
) -> Result<(), Error> {
    let random = u32::from_le_bytes(random::make_bytes()?);
    let outcome = outcome.as_ref().copied().map_err(RevokeFailure::to_attempt);
    let state = match decide_revocation(&stored.record.state, outcome, now_ns, random) {
        RevocationOutcome::Forget => return delete(site, &stored.record.id).await,
        RevocationOutcome::Keep(state) => state,
        RevocationOutcome::Wait(until_ns) => {
            site.view.leases.table().postpone(&locate(site, &stored.record), until_ns);
            return Ok(());
        }
    };
    if let LeaseState::Irrevocable { error } = &state {
        tracing::error!(id = %stored.record.id, %error, "a lease cannot be revoked");
    }
    let mut batch = Batch::new();
    batch.set_essential();
    replace_in(&mut batch, stored, &LeaseRecord { state, ..stored.record.clone() });
    match site.store.commit(batch).await {
        // Somebody else was faster: their word counts.
        Ok(_) | Err(StoreError::Conflict) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
