//! Making a credential with a lease, in two steps.
//!
//! ```text
//! 1. commit the lease as pending, with what takes the credential back
//! 2. the far end makes the credential
//! 3. commit the lease as live, if it is still pending, and its owner still there
//! ```
//!
//! A server that has lost the lead by then does not begin step 2, and neither does one that stood still for so long that the queue might roll the
//! lease back meanwhile ([`BEGIN_SECS_MAX`]). What fails behind it is rolled back at once, and left to the queue if that fails too; where
//! the far end is known to have made nothing, the lease is dropped and nothing is revoked. Behind a crash, or when who asked
//! has gone, the lease is pending, and the queue rolls it back after a while ([`kallisto_leases::limits::PENDING_SECS_MAX`]).

use std::time::Duration;

use jiff::Timestamp;
use kallisto_api::Json;
use kallisto_engine::far_end::CALL_SECS_MAX;
use kallisto_engine::lease::{Leftover, MadeCredential, Make, MakeFailure};
use kallisto_leases::limits::{BEGIN_SECS_MAX, PENDING_SECS_MAX, RANDOM_CHARS};
use kallisto_leases::{LeaseId, LeaseRecord, LeaseState, Located, Owner, TtlRequest, decide_ttl};
use kallisto_store::{Batch, Error as StoreError, Seqno};

use super::far_end;
use super::quota;
use super::record::{StoredLease, check_leads, locate, number_of, read, replace_in};
use super::work::settle_attempt;
use crate::api::error::{Denial, Error};
use crate::limits::CONFLICT_RETRIES_MAX;
use crate::random;
use crate::storage::barrier_store::RecordCondition;
use crate::storage::keys::{self, MountId, NamespaceNumber};
use crate::storage::transact::transact_if;
use crate::timers::Timer;
use crate::view::Closed;
use crate::view::NamespaceContext;

const NANOS_PER_SEC: u64 = 1_000_000_000;

const _: () = assert!(
    BEGIN_SECS_MAX + CALL_SECS_MAX < PENDING_SECS_MAX,
    "a call has ended when the queue rolls its lease back"
);

/// A lease that is asked for.
#[derive(Clone, Debug)]
pub(crate) struct LeaseRequest<'a> {
    /// The mount whose engine makes the credential.
    pub(crate) mount: MountId,
    /// The path of the request, with that of its mount.
    pub(crate) path: &'a str,
    /// The token it ends with; `None` for one that ends by itself only.
    pub(crate) owner: Option<Owner>,
    /// How long it shall live.
    pub(crate) ttl: TtlRequest,
    /// Whether it may be renewed.
    pub(crate) renewable: bool,
    /// What takes the credential back.
    pub(crate) revocation: Vec<u8>,
}

/// A lease that was given.
#[derive(Clone, Debug)]
pub(crate) struct GrantedLease {
    /// Its id on the wire.
    pub(crate) lease_id: String,
    /// How long it lives, in seconds.
    pub(crate) lease_secs: u64,
    /// Whether it may be renewed.
    pub(crate) renewable: bool,
    /// That it is shorter than what was asked for, and what the engine says.
    pub(crate) warnings: Vec<String>,
    /// The data of the answer.
    pub(crate) data: Json,
}

/// Says that a far end is at it, for as long as it is held.
struct Creating<'u> {
    site: &'u NamespaceContext,
    lease: Located,
}

impl<'u> Creating<'u> {
    fn begin(site: &'u NamespaceContext, record: &LeaseRecord) -> Self {
        let lease = locate(site, record);
        let mut work = site.view.leases.work();
        work.creating.insert((lease.namespace, lease.id.clone()));
        Self { site, lease }
    }
}

impl Drop for Creating<'_> {
    fn drop(&mut self) {
        let mut work = self.site.view.leases.work();
        work.creating.remove(&(self.lease.namespace, self.lease.id.clone()));
    }
}

/// Has the far end make a credential by `make`, which is told when it ends, with a lease.
///
/// # Errors
/// What the far end says; [`Denial::BadToken`] when the owner is gone; [`Error::Unavailable`] when the store refuses or
/// the mount is about to go.
pub(crate) async fn create(
    site: &NamespaceContext,
    request: LeaseRequest<'_>,
    now: Timestamp,
    make: Make<'_>,
) -> Result<GrantedLease, Error> {
    let begin = site.services.timers.now();
    let now_ns = nanos(now);
    let ttl = decide_ttl(&request.ttl, request.renewable, now_ns);
    let random = random::make_base62(RANDOM_CHARS)?;
    let id = LeaseId::new(request.path.trim_end_matches('/'), &random);
    let record = LeaseRecord {
        id: id.map_err(|_| Error::invalid("no lease can have an id with this path"))?,
        mount: request.mount.0,
        owner: request.owner,
        term: ttl.term,
        state: LeaseState::Pending,
        revocation: request.revocation,
    };
    if !record.is_within_limits() {
        return Err(Error::TooLarge("what revokes the credential is over its limit".into()));
    }
    let place = quota::reserve(site, request.path)?;
    // Before the record: whoever finds it pending finds out that somebody is at it.
    let creating = Creating::begin(site, &record);
    let pending = put_pending(site, record).await?;
    drop(place);
    // Behind the commit: who removes the mount or the namespace looks for leases after it has said so.
    if is_closing(site, request.mount) {
        super::record::delete(site, &pending.record.id).await?;
        return Err(Error::Unavailable("the mount is being removed".into()));
    }
    // The commit may have been its successor's. Who leads now rolls the lease back when its time is up.
    check_leads(site)?;
    check_begins_in_time(site, begin)?;
    let end = Timestamp::from_nanosecond(ttl.term.expires_ns.into()).unwrap_or(Timestamp::MAX);
    match make_live(site, &pending, make, end).await {
        Ok((live, made)) => {
            site.services.timers.end(Timer::LeaseRegister, begin);
            Ok(GrantedLease {
                lease_id: site.view.marked(live.id.to_string()),
                lease_secs: ttl.ttl_secs.min(live.term.ttl_secs),
                renewable: request.renewable,
                warnings: ttl
                    .capped
                    .map(|capped| capped.to_string())
                    .into_iter()
                    .chain(made.warnings)
                    .collect(),
                data: made.data,
            })
        }
        Err(MakeFailure { error, left }) => {
            take_back(site, pending, left, now).await;
            drop(creating);
            Err(error)
        }
    }
}

/// Whether the mount, or the namespace, is about to go.
fn is_closing(site: &NamespaceContext, mount: MountId) -> bool {
    let work = site.view.leases.work();
    [Closed::Mount(mount.0), Closed::Namespace(number_of(site))]
        .iter()
        .any(|place| work.closing.contains(place))
}

/// Steps 2 and 3: the lease as it lives, and its credential.
async fn make_live(
    site: &NamespaceContext,
    pending: &StoredLease,
    make: Make<'_>,
    end: Timestamp,
) -> Result<(LeaseRecord, MadeCredential), MakeFailure> {
    let made = make(end).await?;
    let live = live_record(&pending.record, &made);
    let put = put_live(site, pending, &live).await;
    let left = made.revocation.clone().map_or(Leftover::AsPlanned, Leftover::Only);
    put.map(|()| (live, made)).map_err(|error| MakeFailure { error, left })
}

/// Takes back what is left of a credential that was not made, and its lease.
async fn take_back(site: &NamespaceContext, pending: StoredLease, left: Leftover, now: Timestamp) {
    match left {
        // Whose name the credential would have had is nobody's business of this lease.
        Leftover::Nothing => forget(site, &pending).await,
        Leftover::AsPlanned => roll_back(site, &pending, now).await,
        Leftover::Only(revocation) => {
            let record = with_revocation(&pending.record, Some(revocation));
            roll_back(site, &StoredLease { record, ..pending }, now).await;
        }
    }
}

/// The lease of a credential that was made.
fn live_record(pending: &LeaseRecord, made: &MadeCredential) -> LeaseRecord {
    let mut live = with_revocation(pending, made.revocation.clone());
    live.state = LeaseState::Live;
    let term = &mut live.term;
    if let Some(ends_ns) = made.ends.map(nanos).filter(|ends_ns| *ends_ns < term.expires_ns) {
        let lives_ns = ends_ns.saturating_sub(term.issued_ns);
        term.expires_ns = ends_ns;
        term.expires_ns_max = term.expires_ns_max.min(ends_ns);
        term.ttl_secs = u64::try_from(lives_ns).unwrap_or(0).div_ceil(NANOS_PER_SEC);
    }
    live
}

/// A lease with what takes its credential back now, if it has room for that.
fn with_revocation(record: &LeaseRecord, revocation: Option<Vec<u8>>) -> LeaseRecord {
    let given = revocation.map(|revocation| LeaseRecord { revocation, ..record.clone() });
    given.filter(LeaseRecord::is_within_limits).unwrap_or_else(|| record.clone())
}

/// Refuses to begin a call that might end behind the roll-back of its lease: the server, or the commit, stood still.
fn check_begins_in_time(site: &NamespaceContext, begin: Duration) -> Result<(), Error> {
    let passed = site.services.timers.now().saturating_sub(begin);
    if passed <= Duration::from_secs(BEGIN_SECS_MAX) {
        return Ok(());
    }
    let what =
        "the lease took too long to be recorded, nothing was asked of the far end: try again";
    Err(Error::Unavailable(what.into()))
}

/// Step 1.
async fn put_pending(site: &NamespaceContext, record: LeaseRecord) -> Result<StoredLease, Error> {
    let mount = keys::mount(MountId(record.mount));
    // A loop of its own: where the record was written is to be known.
    for _ in 0..CONFLICT_RETRIES_MAX {
        let Some(mounted) = site.store.get(&mount)? else {
            return Err(Error::Unavailable("the mount was removed".into()));
        };
        let mut batch = Batch::new();
        batch.expect(mount.clone(), mounted.seqno);
        batch.put(keys::lease(&record.id), record.encode());
        match site.store.commit_if(batch, owner_lives(site, &record)?).await {
            Ok(position) => return Ok(StoredLease { record, seqno: Seqno(position.0) }),
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Conflict)
}

/// Step 3.
async fn put_live(
    site: &NamespaceContext,
    pending: &StoredLease,
    live: &LeaseRecord,
) -> Result<(), Error> {
    let mut is_first = true;
    transact_if(&site.store, |batch, condition| {
        // Where it is the owner that changed, the record is still what was put.
        if !std::mem::take(&mut is_first) {
            let now = read(site, &live.id)?;
            if now.is_none_or(|now| now.seqno != pending.seqno) {
                return Err(Error::Unavailable("the lease was ended while it was made".into()));
            }
        }
        replace_in(batch, pending, live);
        *condition = owner_lives(site, live)?;
        Ok(())
    })
    .await
}

/// That the owner is there, and as it is now.
fn owner_lives(
    site: &NamespaceContext,
    record: &LeaseRecord,
) -> Result<Option<RecordCondition>, Error> {
    let Some(owner) = &record.owner else { return Ok(None) };
    let bad = || Error::Denied(Denial::BadToken);
    let home = site.context_with(NamespaceNumber(owner.namespace)).ok_or_else(bad)?;
    let key = keys::token(&owner.hash);
    let token = home.store.get(&key)?.ok_or_else(bad)?;
    Ok(Some(home.store.condition(&key, token.seqno)))
}

/// Drops a lease of nothing. Where that fails the queue revokes it.
async fn forget(site: &NamespaceContext, pending: &StoredLease) {
    if let Err(error) = super::record::delete(site, &pending.record.id).await {
        tracing::warn!(%error, namespace = number_of(site), "a lease of nothing stays pending for now");
    }
}

/// Takes back what the far end may have made. What fails is the queue's.
async fn roll_back(site: &NamespaceContext, pending: &StoredLease, now: Timestamp) {
    let outcome = far_end::revoke(site, &pending.record, now).await;
    if let Err(error) = settle_attempt(site, pending, outcome, nanos(now)).await {
        tracing::warn!(%error, namespace = number_of(site), "a lease stays pending for now");
    }
}

/// Nanoseconds since 1970.
pub(crate) fn nanos(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX)
}
