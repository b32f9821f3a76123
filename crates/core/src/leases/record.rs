//! Reading and replacing the records of leases.

use kallisto_leases::{LeaseId, LeaseRecord, Located};
use kallisto_store::{Batch, Seqno};

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

/// Refuses on a server that does not lead: far ends are asked by one server.
///
/// # Errors
/// [`Error::NotLeader`].
pub(super) fn check_leads(site: &NamespaceContext) -> Result<(), Error> {
    if site.store.below().leads() { Ok(()) } else { Err(Error::NotLeader) }
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
