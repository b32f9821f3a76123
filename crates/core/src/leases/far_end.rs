//! Asking the far end of a lease, by the engine of its mount.

use crate::leases::lease_run::LeaseRun;
use jiff::Timestamp;
use kallisto_engine::RoleTtl;
use kallisto_leases::{AttemptFailure, LeaseRecord};

use crate::api::error::Error;
use crate::registry;
use crate::storage::keys::MountId;
use crate::view::Mount;
use crate::view::NamespaceContext;

/// Takes the credential of a lease back. One that is not there (any more) is a success.
///
/// # Errors
/// Why it could not be.
pub(super) async fn revoke(
    context: &NamespaceContext,
    record: &LeaseRecord,
    now: Timestamp,
) -> Result<(), RevokeFailure> {
    let mount =
        mount_of(context, record).map_err(|words| RevokeFailure { words, is_unanswered: false })?;
    let run = LeaseRun { context, mount: &mount, record, now };
    let revoked = registry::driver(mount.entry.kind).revoke_lease(run).await;
    revoked.map_err(|error| {
        let is_unanswered = matches!(
            error,
            Error::Unavailable(_) | Error::NotLeader | Error::Sealed | Error::Conflict
        );
        RevokeFailure { words: error.to_string(), is_unanswered }
    })
}

/// Why a credential could not be taken back.
#[derive(Debug)]
pub(super) struct RevokeFailure {
    /// What the far end says, or why it was not heard.
    pub(super) words: String,
    /// Whether that says nothing about the credential.
    is_unanswered: bool,
}

impl RevokeFailure {
    pub(super) fn to_attempt(&self) -> AttemptFailure<'_> {
        match self.is_unanswered {
            true => AttemptFailure::Unanswered,
            false => AttemptFailure::Refused(&self.words),
        }
    }
}

/// Lets the credential of a lease live until `end`.
///
/// # Errors
/// What the far end says.
pub(super) async fn renew(
    context: &NamespaceContext,
    record: &LeaseRecord,
    end: Timestamp,
    now: Timestamp,
) -> Result<(), String> {
    let mount = mount_of(context, record)?;
    let run = LeaseRun { context, mount: &mount, record, now };
    registry::driver(mount.entry.kind)
        .renew_lease(run, end)
        .await
        .map_err(|error| error.to_string())
}

/// What the role of a lease says of lifetimes by now.
///
/// # Errors
/// What the engine says, of a role that is gone for instance.
pub(super) fn role_ttl(
    context: &NamespaceContext,
    record: &LeaseRecord,
    now: Timestamp,
) -> Result<RoleTtl, String> {
    let mount = mount_of(context, record)?;
    let run = LeaseRun { context, mount: &mount, record, now };
    registry::driver(mount.entry.kind).role_ttl(&run).map_err(|error| error.to_string())
}

fn mount_of(
    context: &NamespaceContext,
    record: &LeaseRecord,
) -> Result<std::sync::Arc<Mount>, String> {
    let mount = context.view.mounts.with_id(MountId(record.mount));
    mount.ok_or_else(|| "the mount of the lease is gone".to_owned())
}
