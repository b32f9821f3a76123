//! Reading and replacing the records of leases.

use kallisto_leases::{LeaseId, LeasePhase, LeaseRecord, Located};
use kallisto_store::{Batch, Error as StoreError, Seqno};

use crate::api::error::Error;
use crate::storage::keys;
use crate::view::NamespaceContext;

/// A lease as it is stored, and since when.
pub(super) struct StoredLease {
    pub(super) record: LeaseRecord,
    pub(super) seqno: Seqno,
}

/// The lease with this id in the namespace of `site`.
///
/// # Errors
/// When its record cannot be read, or is damaged.
pub(super) fn read(site: &NamespaceContext, id: &LeaseId) -> Result<Option<StoredLease>, Error> {
    let Some(stored) = site.store.get(&keys::lease(id))? else { return Ok(None) };
    let record = LeaseRecord::decode(&stored.value);
    let record = record.map_err(|_| Error::internal(&"the record of a lease is damaged"))?;
    Ok(Some(StoredLease { record, seqno: stored.seqno }))
}

/// Adds to a batch that `stored` becomes `record`, if nobody changes it meanwhile.
pub(super) fn replace_in(batch: &mut Batch, stored: &StoredLease, record: &LeaseRecord) {
    let key = keys::lease(&stored.record.id);
    batch.expect(key.clone(), stored.seqno);
    batch.put(key, record.encode());
}

/// Deletes the records of leases whose credentials are gone.
///
/// # Errors
/// The store's refusal.
pub(super) async fn delete(site: &NamespaceContext, id: &LeaseId) -> Result<(), Error> {
    let mut batch = Batch::new();
    batch.delete(keys::lease(id)).set_essential();
    site.store.commit(batch).await?;
    Ok(())
}

/// Refuses on a server that does not lead, as far as it knows: far ends are asked by one server.
///
/// # Errors
/// [`Error::NotLeader`].
pub(super) fn check_leads(site: &NamespaceContext) -> Result<(), Error> {
    if site.store.below().leads() { Ok(()) } else { Err(Error::NotLeader) }
}

/// Refuses on a server that does not lead. A majority says so: one that was cut off finds out, and reads what its successor wrote.
///
/// # Errors
/// [`Error::NotLeader`]; [`Error::Unavailable`] when there is no majority to ask.
pub(super) async fn confirm_leads(site: &NamespaceContext) -> Result<(), Error> {
    check_leads(site)?;
    if let Some(cluster) = site.store.below().replicated() {
        cluster.read_index().await?;
    }
    check_leads(site)
}

/// Claims a lease for an attempt to revoke it: from the commit on nobody renews it, and the queue takes it up at `next_try_ns`, if it is
/// there still. `None` when somebody changed it meanwhile.
///
/// The claim is what keeps a leader that was cut off from taking back what its successor has renewed: it cannot commit.
///
/// # Errors
/// The store's refusal.
pub(super) async fn claim(
    site: &NamespaceContext,
    stored: StoredLease,
    next_try_ns: i64,
) -> Result<Option<StoredLease>, Error> {
    if stored.record.state.phase() == LeasePhase::Revoking {
        return Ok(Some(stored));
    }
    let record = stored.record.to_revoking(next_try_ns);
    let mut batch = Batch::new();
    batch.set_essential();
    replace_in(&mut batch, &stored, &record);
    match site.store.commit(batch).await {
        Ok(position) => Ok(Some(StoredLease { record, seqno: Seqno(position.0) })),
        Err(StoreError::Conflict) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a creation may still be under way, here or on a server that led before: nobody else ends it until then.
pub(super) fn may_be_in_the_making(record: &LeaseRecord, now_ns: i64) -> bool {
    record.state.phase() == LeasePhase::Pending && record.due_ns().is_some_and(|due| now_ns < due)
}

/// The number of the namespace of `site`.
pub(super) fn number_of(site: &NamespaceContext) -> u32 {
    site.view.namespace_number().0
}

/// The lease of a record.
pub(super) fn locate(site: &NamespaceContext, record: &LeaseRecord) -> Located {
    Located {
        namespace: number_of(site),
        mount: record.mount,
        id: record.id.clone(),
        phase: record.state.phase(),
    }
}
