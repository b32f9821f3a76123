//! Letting a credential live longer: the far end first, which may refuse, then the record.
//!
//! A crash in between leaves a credential that the far end keeps longer than its lease, which ends it all the same.

use jiff::Timestamp;
use kallisto_leases::{GrantedRenewal, LeaseId, LeaseRecord, TtlLimits, decide_renewal};
use kallisto_store::{Batch, Error as StoreError};

use super::create::nanos;
use super::far_end;
use super::record::{confirm_leads, read, replace_in};
use crate::api::error::Error;
use crate::limits::CONFLICT_RETRIES_MAX;
use crate::storage::keys::{MountId, NamespaceNumber};
use crate::view::NamespaceContext;

/// Renews a lease by `increment_secs`, or when that is 0 by the default of its role, or else by what it was first given.
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
        let stored = read(site, id)?.filter(|stored| has_owner(site, &stored.record, now));
        let stored = stored.ok_or_else(|| Error::invalid("invalid lease"))?;
        // A mount or a role that is gone is told of once the lease itself could be renewed.
        let role = far_end::role_ttl(site, &stored.record, now);
        let lives = role.as_ref().copied().unwrap_or_default();
        let asked_secs = if increment_secs > 0 { increment_secs } else { lives.default_secs };
        let max_secs = max_secs(site, &stored.record, lives.max_secs);
        let renewal = decide_renewal(&stored.record, asked_secs, max_secs, nanos(now));
        let renewal = renewal.map_err(|refusal| Error::invalid(refusal.to_string()))?;
        role.map_err(refused)?;
        let end = Timestamp::from_nanosecond(renewal.term.expires_ns.into());
        let end = end.unwrap_or(Timestamp::MAX);
        let answer = far_end::renew(site, &stored.record, end, now).await;
        answer.map_err(refused)?;
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

fn refused(words: String) -> Error {
    Error::invalid(format!("failed to renew entry: {words}"))
}

/// The effective maximum by now: that of the lease's mount, and of its role where that is smaller.
fn max_secs(site: &NamespaceContext, record: &LeaseRecord, role_max_secs: u64) -> u64 {
    let mount = site.view.mounts.with_id(MountId(record.mount));
    let mount_max_secs =
        mount.map_or(u64::MAX, |mount| mount.entry.config.leases(site.leases).max_secs);
    TtlLimits { role_max_secs, mount_max_secs, ..TtlLimits::default() }.max_secs()
}

/// Whether the token that a lease ends with lives, if it ends with one.
fn has_owner(site: &NamespaceContext, record: &LeaseRecord, now: Timestamp) -> bool {
    record.owner.is_none_or(|owner| {
        let home = site.context_with(NamespaceNumber(owner.namespace));
        home.is_some_and(|home| home.view.tokens.lives(&owner.hash, now))
    })
}
