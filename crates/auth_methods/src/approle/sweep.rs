//! What time and crashes leave behind: secret ids that expired, and those whose role is gone.

use std::collections::HashSet;

use jiff::Timestamp;

use super::Approle;
use super::role::AppRole;
use super::secret_id::SecretId;
use kallisto_api::error::Error;
use kallisto_api::response::{Logical, Response};
use kallisto_engine::{EngineContext, EngineJob};

/// Seconds between two sweeps.
const SWEEP_SECS: u64 = 30;

/// Most secret ids that one sweep deletes.
const SWEEP_RECORDS_MAX: usize = 4096;

/// Deletes secret ids by the clock.
pub(super) const SECRET_ID_EXPIRY: EngineJob = EngineJob {
    name: "secret_id_expiry",
    about: "Deletes secret ids that have expired.",
    period_secs: SWEEP_SECS,
    run: |context| Box::pin(sweep(context)),
};

/// Deletes secret ids of a mount that have expired; a bounded number, the rest waits.
async fn sweep(context: EngineContext<'_>) -> Result<(), Error> {
    Approle::of(context).sweep(context.now, SWEEP_RECORDS_MAX).await.map(|_| ())
}

impl Approle<'_> {
    /// Deletes at most `limit` secret ids that have expired; tells how many were due.
    async fn sweep(&self, now: Timestamp, limit: usize) -> Result<usize, Error> {
        let mut due = 0;
        for folder in self.storage().list_some("due/", limit) {
            let second = folder.trim_end_matches('/').parse::<i64>();
            if second.is_ok_and(|second| second >= now.as_second()) {
                break;
            }
            let folder = format!("due/{folder}");
            for name in self.storage().scan_some(&folder, limit - due) {
                if let Some((uid, hash)) = name.split_once('/') {
                    self.remove_expired(uid, hash, now).await?;
                }
                self.storage().delete(&format!("{folder}{name}")).await?;
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
        let record = self.storage().get(&super::secret_id::secret_record(uid, hash))?;
        let Some(record) = record else { return Ok(()) };
        if record.decode(SecretId::decode)?.is_expired(now) {
            self.remove(uid, hash).await?;
        }
        Ok(())
    }

    /// Deletes all that expired, and what a role that is gone has left.
    pub(super) async fn tidy(&self, now: Timestamp) -> Result<Response, Error> {
        while self.sweep(now, SWEEP_RECORDS_MAX).await? == SWEEP_RECORDS_MAX {}
        let mut uids = HashSet::new();
        for name in self.storage().list("role/")? {
            if let Some(AppRole { uid, .. }) = self.role(&name)? {
                uids.insert(uid);
            }
        }
        for folder in self.storage().list("accessor/")? {
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
        for name in self.storage().list("role/")? {
            if self.role(&name)?.is_some_and(|role| role.uid == uid) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
