//! Deleting what credentials are taken back with: a connection, a directory, a cluster.
//!
//! It stays while there are leases of credentials that only it can end, unless who asks says `force=true`. A credential that is being made
//! meanwhile has a lease before its far end is asked. Who makes it looks for the record once more behind that lease, and who deletes the
//! record looks for leases once more behind that: so one of the two sees the other.

use kallisto_api::{Error, Fields};
use kallisto_engine::Call;

/// What the field is for, at the routes that delete one.
pub(crate) const FORCE: &str =
    "Whether it is deleted though there are leases that only it can end.";

/// Deletes a record, but not while there are leases of the mount that `is_of_it`; `what` they are, in the words of the refusal.
///
/// # Errors
/// [`Error::Invalid`] while there are such leases; the store's refusal.
pub(crate) async fn delete<'a>(
    call: &Call<'a>,
    record: &str,
    what: &str,
    is_of_it: impl Fn(&[u8]) -> bool + Send + Sync + Copy + 'a,
) -> Result<(), Error> {
    let query = call.request.query_fields();
    let forces = Fields::new(&query).boolean("force")?.unwrap_or(false);
    let refusal = || {
        Err(Error::invalid(format!(
            "there are leases of {what}: revoke them first, or say force=true"
        )))
    };
    if !forces && call.has_lease(is_of_it).await? {
        return refusal();
    }
    // What is deleted is what was read: a password that is rotated meanwhile is not lost when the record is put back.
    let deleted = call.storage.transact(record, |transaction| {
        let found = transaction.get(record)?;
        if found.is_some() {
            transaction.delete(record)?;
        }
        Ok(found)
    });
    let deleted = deleted.await?;
    if let Some(before) = deleted.filter(|_| !forces)
        && call.has_lease(is_of_it).await?
    {
        let back = call.storage.transact(record, |transaction| {
            // What somebody wrote meanwhile stays.
            if transaction.get(record)?.is_none() {
                transaction.put(record, before.value.to_vec())?;
            }
            Ok(())
        });
        back.await?;
        return refusal();
    }
    Ok(())
}
