//! Revocation on request: of a lease, of a prefix, of a mount.
//!
//! Asynchronously, the leases are marked in batches, and the queue does the rest. Synchronously, failures are returned; a lease
//! whose credential could not be taken back stays as it was. Until that is known it is claimed: whoever leads after a crash ends it.

use std::future::poll_fn;
use std::task::Poll;

use jiff::Timestamp;
use kallisto_leases::limits::PENDING_SECS_MAX;
use kallisto_leases::{LeaseId, LeasePhase, LeaseRecord, LeaseState, Located};
use kallisto_store::{Batch, Error as StoreError};

use super::create::nanos;
use super::far_end;
use super::record::{
    StoredLease, claim, confirm_leads, delete, may_be_in_the_making, number_of, read, replace_in,
};
use crate::api::error::Error;
use crate::storage::transact::transact;
use crate::view::Closed;
use crate::view::NamespaceContext;
use kallisto_engine::pace::cooperative_yield;
use kallisto_engine::time::after;

/// Leases between two others' turns, and in one batch.
pub(super) const STEP: usize = 32;
/// Credentials that one request has taken back at the same time. A far end is nearly all waiting.
const TOGETHER: usize = 8;
/// How often a lease is claimed that somebody renews meanwhile.
const CLAIMS_MAX: usize = 8;
const _: () = assert!(TOGETHER <= kallisto_leases::limits::MOUNT_AT_WORK_MAX);

/// What came of taking credentials back one by one.
#[derive(Debug, Default)]
struct RevokeTally {
    tried: usize,
    failed: usize,
    /// The first that failed, and why.
    first: Option<(String, String)>,
}

impl RevokeTally {
    fn note(&mut self, site: &NamespaceContext, id: &LeaseId, outcome: Result<(), String>) {
        self.tried += 1;
        if let Err(error) = outcome {
            self.failed += 1;
            self.first.get_or_insert_with(|| (site.view.marked(id.to_string()), error));
        }
    }

    /// # Errors
    /// The first failure, and how many there were.
    fn finish(self) -> Result<(), Error> {
        let Self { tried, failed, first } = self;
        let Some((id, error)) = first else { return Ok(()) };
        Err(Error::invalid(format!(
            "failed to revoke \"{id}\" ({failed} / {tried}): failed to revoke entry: {error}"
        )))
    }
}

/// Takes the credential of a lease back now. Says in the far end's words why it could not be; the lease stays then.
///
/// # Errors
/// When its record cannot be read or deleted, or others change it again and again.
pub(super) async fn revoke_now(
    site: &NamespaceContext,
    id: &LeaseId,
    now: Timestamp,
) -> Result<Result<(), String>, Error> {
    confirm_leads(site).await?;
    // The queue takes up what a crash leaves, and not what is under way.
    let taken_up_ns = nanos(after(now, PENDING_SECS_MAX));
    for _ in 0..CLAIMS_MAX {
        let Some(stored) = read(site, id)? else { return Ok(Ok(())) };
        let before = stored.record.clone();
        let stored = match before.state.phase() {
            // Whoever makes it ends it, and so does the queue.
            LeasePhase::Pending => Some(stored),
            _ => claim(site, stored, taken_up_ns).await?,
        };
        let Some(claimed) = stored else { continue };
        let outcome = far_end::revoke(site, &claimed.record, now).await;
        let outcome = outcome.map_err(|failure| failure.words);
        match outcome {
            Ok(()) => delete(site, id).await?,
            Err(_) if claimed.record == before => {}
            Err(_) => give_back(site, &claimed, &before).await?,
        }
        return Ok(outcome);
    }
    Err(Error::Conflict)
}

/// Makes a claimed lease what it was before, unless somebody else changed it.
async fn give_back(
    site: &NamespaceContext,
    claimed: &StoredLease,
    before: &LeaseRecord,
) -> Result<(), Error> {
    let mut batch = Batch::new();
    batch.set_essential();
    replace_in(&mut batch, claimed, before);
    match site.store.commit(batch).await {
        Ok(_) | Err(StoreError::Conflict) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Marks leases to be taken back, a bounded batch at a time; how many. Those that are being made, or marked already, are passed by.
///
/// # Errors
/// When a record cannot be read, or the store refuses.
pub(super) async fn mark(
    site: &NamespaceContext,
    leases: &[Located],
    now_ns: i64,
) -> Result<usize, Error> {
    let mut count = 0;
    for leases in leases.chunks(STEP) {
        let mut batch = Batch::new();
        batch.set_essential();
        let mut marked = Vec::new();
        for lease in leases {
            if let Some(stored) = to_mark(site, lease, now_ns)? {
                replace_in(&mut batch, &stored, &stored.record.to_revoking(now_ns));
                marked.push(stored);
            }
        }
        if marked.is_empty() {
            continue;
        }
        count += marked.len();
        match site.store.commit(batch).await {
            Ok(_) => {}
            Err(StoreError::Conflict) => {
                // One of them was renewed or went meanwhile: each by itself.
                for stored in marked {
                    mark_one(site, stored, now_ns).await?;
                }
            }
            Err(error) => return Err(error.into()),
        }
        cooperative_yield().await;
    }
    Ok(count)
}

fn to_mark(
    site: &NamespaceContext,
    lease: &Located,
    now_ns: i64,
) -> Result<Option<StoredLease>, Error> {
    if site.view.leases.is_creating(lease) {
        return Ok(None);
    }
    let stored = read(site, &lease.id)?;
    Ok(stored.filter(|StoredLease { record, .. }| {
        record.state.phase() != LeasePhase::Revoking && !may_be_in_the_making(record, now_ns)
    }))
}

async fn mark_one(site: &NamespaceContext, stored: StoredLease, now_ns: i64) -> Result<(), Error> {
    let (id, mut known) = (stored.record.id.clone(), Some(stored));
    transact(&site.store, |batch| {
        // What is known already need not be read, but once somebody was faster.
        let found = match known.take() {
            Some(known) => Some(known),
            None => read(site, &id)?,
        };
        let Some(found) = found else { return Ok(()) };
        batch.set_essential();
        replace_in(batch, &found, &found.record.to_revoking(now_ns));
        Ok(())
    })
    .await
}

/// The outcomes of futures that run together, in their order. There are few of them: all are asked when one may go on.
pub(crate) async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        for (future, outcome) in running.iter_mut().filter(|(_, outcome)| outcome.is_none()) {
            if let Poll::Ready(ready) = future.as_mut().poll(context) {
                *outcome = Some(ready);
            }
        }
        match running.iter().all(|(_, outcome)| outcome.is_some()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    running.into_iter().filter_map(|(_, outcome)| outcome).collect()
}

/// What is done to each lease of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RevokeWay {
    /// It is marked.
    Mark,
    /// Its credential is taken back.
    Wait,
    /// The same, and it goes whatever the far end says.
    Forget,
}

/// Marks the leases at `prefix` and below to be taken back.
///
/// # Errors
/// As [`mark`].
pub(crate) async fn mark_below(
    site: &NamespaceContext,
    prefix: &str,
    now: Timestamp,
) -> Result<(), Error> {
    walk(site, prefix, now, RevokeWay::Mark).await
}

/// Takes back the credentials of the leases at `prefix` and below. One that fails stops no other.
///
/// # Errors
/// The first failure, and how many there were.
pub(crate) async fn revoke_below(
    site: &NamespaceContext,
    prefix: &str,
    now: Timestamp,
) -> Result<(), Error> {
    walk(site, prefix, now, RevokeWay::Wait).await
}

/// Forgets the leases at `prefix` and below, after a try to take their credentials back.
///
/// # Errors
/// When a record cannot be read or deleted.
pub(crate) async fn forget_below(
    site: &NamespaceContext,
    prefix: &str,
    now: Timestamp,
) -> Result<(), Error> {
    walk(site, prefix, now, RevokeWay::Forget).await
}

async fn walk(
    site: &NamespaceContext,
    prefix: &str,
    now: Timestamp,
    way: RevokeWay,
) -> Result<(), Error> {
    let mut tally = RevokeTally::default();
    let mut cursor = None;
    loop {
        let (found, next) =
            site.view.leases.table().below(number_of(site), prefix, cursor.as_ref(), STEP);
        match way {
            RevokeWay::Mark => {
                mark(site, &found, nanos(now)).await?;
            }
            RevokeWay::Wait | RevokeWay::Forget => {
                // One that is being made is ended by who makes it, or by the queue: an operator who forces does not wait for either.
                let is_meant = |lease: &&Located| {
                    !site.view.leases.is_creating(lease)
                        && (way == RevokeWay::Forget || lease.phase != LeasePhase::Pending)
                };
                let leases: Vec<&Located> = found.iter().filter(is_meant).collect();
                for together in leases.chunks(TOGETHER) {
                    let each = together.iter().map(|lease| revoke_now(site, &lease.id, now));
                    for (lease, outcome) in together.iter().zip(join_all(each).await) {
                        match (way, outcome?) {
                            (RevokeWay::Forget, Err(error)) => {
                                tracing::warn!(id = %lease.id, error, "forgot a lease, not its credential");
                                delete(site, &lease.id).await?;
                            }
                            (_, outcome) => tally.note(site, &lease.id, outcome),
                        }
                    }
                }
                cooperative_yield().await;
            }
        }
        cursor = next;
        if cursor.is_none() {
            return tally.finish();
        }
    }
}

/// Says that something is being removed, for as long as it is held: no lease is created there.
pub(crate) struct Closing<'u> {
    site: &'u NamespaceContext,
    place: Closed,
}

impl<'u> Closing<'u> {
    /// From now on nothing is created there.
    pub(crate) fn begin(site: &'u NamespaceContext, place: Closed) -> Self {
        site.view.leases.work().closing.insert(place);
        Self { site, place }
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.site.view.leases.work().closing.remove(&self.place);
    }
}

/// Whether a mount goes although credentials of it stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmount {
    /// It does not.
    WhenRevoked,
    /// It does; their leases are irrevocable from then on.
    Forced,
}

/// Takes back all credentials of a mount that is being unmounted ([`Closing`]).
///
/// # Errors
/// [`Error::Invalid`] for the first that cannot be taken back, unless it is forced; [`Error::Unavailable`] while some are
/// being made, and where the view shows nothing new.
pub(crate) async fn revoke_mount(
    site: &NamespaceContext,
    mount: u32,
    unmount: Unmount,
    now: Timestamp,
) -> Result<(), Error> {
    loop {
        site.check_follows()?;
        let leases = {
            let table = site.view.leases.table();
            let mut leases = table.of_mount(mount, STEP);
            if leases.is_empty() && unmount == Unmount::WhenRevoked {
                leases = table.irrevocable_of(mount, STEP);
            }
            leases
        };
        if leases.is_empty() {
            return Ok(());
        }
        if leases.iter().any(|lease| site.view.leases.is_creating(lease)) {
            return Err(being_made());
        }
        for lease in &leases {
            // Its creation may be under way on a server that led before.
            if lease.phase == LeasePhase::Pending
                && unmount == Unmount::WhenRevoked
                && let Some(stored) = read(site, &lease.id)?
                && may_be_in_the_making(&stored.record, nanos(now))
            {
                return Err(being_made());
            }
            let outcome = revoke_now(site, &lease.id, now).await?;
            match (outcome, unmount) {
                (Ok(()), _) => {}
                (Err(error), Unmount::Forced) => give_up(site, &lease.id, &error).await?,
                (outcome @ Err(_), Unmount::WhenRevoked) => {
                    let mut tally = RevokeTally::default();
                    tally.note(site, &lease.id, outcome);
                    return tally.finish();
                }
            }
        }
        cooperative_yield().await;
    }
}

fn being_made() -> Error {
    Error::Unavailable("credentials are being made at this mount".into())
}

/// Makes a lease irrevocable.
async fn give_up(site: &NamespaceContext, id: &LeaseId, error: &str) -> Result<(), Error> {
    transact(&site.store, |batch| {
        let Some(stored) = read(site, id)? else { return Ok(()) };
        let given_up =
            LeaseRecord { state: LeaseState::irrevocable(error), ..stored.record.clone() };
        batch.set_essential();
        replace_in(batch, &stored, &given_up);
        Ok(())
    })
    .await
}
