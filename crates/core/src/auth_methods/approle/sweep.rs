//! What time and crashes leave behind: secret ids that expired, and those whose role is gone.

use super::AppRole;
use std::collections::HashSet;

use jiff::Timestamp;

use super::Approle;
use super::role::Role;
use super::secret_id::SecretId;
use crate::api::error::Error;
use crate::api::response::{Logical, Response};
use crate::engines::mount::EngineKind;
use crate::limits::SWEEP_RECORDS_MAX;
use crate::pipeline::state::Unsealed;

/// Deletes secret ids that have expired, at every mount; a bounded number, the rest waits.
///
/// # Errors
/// The store's refusal.
pub(crate) async fn sweep(unsealed: &Unsealed, now: Timestamp) -> Result<(), Error> {
    let mut left = SWEEP_RECORDS_MAX;
    for mount in unsealed.view.mounts.all() {
        if mount.entry.kind == EngineKind::of(&AppRole) && left > 0 {
            left -= Approle::of(unsealed, &mount).sweep(now, left).await?;
        }
    }
    Ok(())
}

impl Approle<'_> {
    /// Deletes at most `limit` secret ids that have expired; tells how many were due.
    async fn sweep(&self, now: Timestamp, limit: usize) -> Result<usize, Error> {
        let mut due = 0;
        for folder in self.storage.list_some("due/", limit) {
            let second = folder.trim_end_matches('/').parse::<i64>();
            if second.is_ok_and(|second| second >= now.as_second()) {
                break;
            }
            let folder = format!("due/{folder}");
            for name in self.storage.scan_some(&folder, limit - due) {
                if let Some((uid, hash)) = name.split_once('/') {
                    self.remove_expired(uid, hash, now).await?;
                }
                self.storage.delete(&format!("{folder}{name}")).await?;
                due += 1;
            }
            if due >= limit {
                break;
            }
        }
        Ok(due)
    }

    /// A secret id of the same text may have been made anew since; that one stays.
    async fn remove_expired(&self, uid: &str, hash: &str, now: Timestamp) -> Result<(), Error> {
        let record = self.storage.get(&super::secret_id::secret_record(uid, hash))?;
        let Some(record) = record else { return Ok(()) };
        if SecretId::decode(&record.value)?.is_expired(now) {
            self.remove(uid, hash).await?;
        }
        Ok(())
    }

    /// Deletes all that expired, and what a role that is gone has left.
    pub(super) async fn tidy(&self, now: Timestamp) -> Result<Response, Error> {
        while self.sweep(now, SWEEP_RECORDS_MAX).await? == SWEEP_RECORDS_MAX {}
        let mut uids = HashSet::new();
        for name in self.storage.list("role/")? {
            if let Some((Role { uid, .. }, _)) = self.role(&name)? {
                uids.insert(uid);
            }
        }
        for folder in self.storage.list("accessor/")? {
            let uid = folder.trim_end_matches('/');
            // A role made since the list was: its record is there, and nobody's uid is drawn twice.
            if !uids.contains(uid) && !self.has_role_with(uid)? {
                self.forget(uid).await?;
            }
        }
        let warnings =
            vec!["Tidied: expired secret ids are deleted as they expire too.".to_owned()];
        Ok(Response::Accepted(Logical { warnings, ..Logical::default() }))
    }

    fn has_role_with(&self, uid: &str) -> Result<bool, Error> {
        for name in self.storage.list("role/")? {
            if self.role(&name)?.is_some_and(|(role, _)| role.uid == uid) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
