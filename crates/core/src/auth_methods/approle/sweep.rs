//! What time and crashes leave behind: secret ids that expired, and those whose role is gone.

use std::collections::HashSet;

use jiff::Timestamp;

use super::Approle;
use super::role::Role;
use super::secret_id::SecretId;
use crate::api::error::Error;
use crate::api::response::{Logical, Response};
use crate::engines::jobs::{MountJob, MountJobCall, MountWork};
use crate::limits::SWEEP_RECORDS_MAX;

/// Seconds between two sweeps.
const SWEEP_SECS: u64 = 30;

/// Deletes secret ids by the clock.
pub(super) const SECRET_ID_EXPIRY: MountJob = MountJob {
    name: "secret_id_expiry",
    about: "Deletes secret ids that have expired.",
    period_secs: SWEEP_SECS,
    work: MountWork::Server(|call| Box::pin(sweep(call))),
};

/// Deletes secret ids of a mount that have expired; a bounded number, the rest waits.
async fn sweep(call: MountJobCall<'_>) -> Result<(), Error> {
    let MountJobCall { unsealed, mount, now, .. } = call;
    Approle::of(unsealed, mount).sweep(now, SWEEP_RECORDS_MAX).await.map(|_| ())
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
