//! Letting a credential live longer: the far end first, which may refuse, then the record.
//!
//! A crash in between leaves a credential that the far end keeps longer than its lease, which ends it all the same.

use jiff::Timestamp;
use kallisto_leases::{GrantedRenewal, LeaseId, LeaseRecord, decide_renewal};
use kallisto_store::{Batch, Error as StoreError};

use super::create::nanos;
use super::far_end;
use super::record::{confirm_leads, read, replace_in};
use crate::api::error::Error;
use crate::limits::CONFLICT_RETRIES_MAX;
use crate::storage::keys::{MountId, NamespaceNumber};
use crate::view::NamespaceContext;

/// Renews a lease by `increment_secs`, or by what it was first given when that is 0.
///
/// # Errors
/// [`Error::Invalid`] in the words of the contract: for a lease that is not there or not renewable, and when the far end
/// refuses.
pub(super) async fn renew(
    site: &NamespaceContext,
    id: &LeaseId,
    increment_secs: u64,
    now: Timestamp,
) -> Result<GrantedRenewal, Error> {
    confirm_leads(site).await?;
    // A loop of its own: it waits for the far end.
    for _ in 0..CONFLICT_RETRIES_MAX {
        let stored = read(site, id)?.filter(|stored| has_owner(site, &stored.record));
        let stored = stored.ok_or_else(|| Error::invalid("invalid lease"))?;
        // A mount that is gone is told of by the far end's side.
        let mount = site.view.mounts.with_id(MountId(stored.record.mount));
        let max_secs =
            mount.map_or(u64::MAX, |mount| mount.entry.config.leases(site.leases).max_secs);
        let renewal = decide_renewal(&stored.record, increment_secs, max_secs, nanos(now));
        let renewal = renewal.map_err(|refusal| Error::invalid(refusal.to_string()))?;
        let end = Timestamp::from_nanosecond(renewal.term.expires_ns.into());
        let end = end.unwrap_or(Timestamp::MAX);
        let answer = far_end::renew(site, &stored.record, end, now).await;
        answer.map_err(|error| Error::invalid(format!("failed to renew entry: {error}")))?;
        let mut batch = Batch::new();
        let renewed = LeaseRecord { term: renewal.term, ..stored.record.clone() };
        replace_in(&mut batch, &stored, &renewed);
        match site.store.commit(batch).await {
            Ok(_) => return Ok(renewal),
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Conflict)
}

/// Whether the token that a lease ends with is there, if it ends with one.
pub(super) fn has_owner(site: &NamespaceContext, record: &LeaseRecord) -> bool {
    record.owner.is_none_or(|owner| {
        let home = site.context_with(NamespaceNumber(owner.namespace));
        home.is_some_and(|home| home.view.tokens.lives(&owner.hash))
    })
}
