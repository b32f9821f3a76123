//! Asking the far end of a lease, by the engine of its mount.

use jiff::Timestamp;
use kallisto_leases::LeaseRecord;

use crate::pipeline::state::NamespaceContext;
use crate::storage::keys::MountId;
use crate::view::Mount;

/// A lease whose far end is asked, where it is asked.
#[derive(Clone, Copy)]
pub(crate) struct LeaseRun<'a> {
    pub(crate) unsealed: &'a NamespaceContext,
    pub(crate) mount: &'a Mount,
    pub(crate) record: &'a LeaseRecord,
    pub(crate) now: Timestamp,
}

/// Takes the credential of a lease back. One that is not there (any more) is a success.
///
/// # Errors
/// What the far end says.
pub(super) async fn revoke(
    unsealed: &NamespaceContext,
    record: &LeaseRecord,
    now: Timestamp,
) -> Result<(), String> {
    let mount = mount_of(unsealed, record)?;
    let run = LeaseRun { unsealed, mount: &mount, record, now };
    mount.entry.kind.engine().revoke_lease(run).await.map_err(|error| error.to_string())
}

/// Lets the credential of a lease live until `end`.
///
/// # Errors
/// What the far end says.
pub(super) async fn renew(
    unsealed: &NamespaceContext,
    record: &LeaseRecord,
    end: Timestamp,
    now: Timestamp,
) -> Result<(), String> {
    let mount = mount_of(unsealed, record)?;
    let run = LeaseRun { unsealed, mount: &mount, record, now };
    mount.entry.kind.engine().renew_lease(run, end).await.map_err(|error| error.to_string())
}

fn mount_of(
    unsealed: &NamespaceContext,
    record: &LeaseRecord,
) -> Result<std::sync::Arc<Mount>, String> {
    let mount = unsealed.view.mounts.with_id(MountId(record.mount));
    mount.ok_or_else(|| "the mount of the lease is gone".to_owned())
}
