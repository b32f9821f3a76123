//! Changing the password of an entry.
//!
//! ```text
//! 1. the new password is written down as pending
//! 2. the directory is told it
//! 3. the pending one becomes the password
//! ```
//!
//! Invariants:
//! - The password of the record logs in, or the pending one does.
//! - A try that may have reached the directory is repeated with the same password; one that the directory refused is not, since it may be
//!   the password that it refuses.
//! - The job asks and comes back for the outcome: a directory that hangs keeps no other job waiting.

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields};
use kallisto_engine::far_end::FarEndProgress;
use kallisto_engine::{EngineContext, FarEndFailure};
use secrecy::{ExposeSecret, SecretString};

use super::directory::{self, LdapDirectory};
use super::memory::LdapMemory;
use crate::passwords::make_password;

/// The first pause after a failure, in seconds; each further one is twice as long.
const PAUSE_FIRST_SECS: i64 = 10;
/// The longest, in seconds.
const PAUSE_SECS_MAX: i64 = 600;
/// Most rotations that one run of the job begins.
const BEGUN_MAX: usize = 64;
/// When the job takes up what a request has begun, in seconds: a request ends before.
const TAKEN_UP_SECS: i64 = 60;

/// An entry whose password is ours, and what else its record says.
#[derive(Clone, Default)]
pub(super) struct Rotation {
    pub(super) username: String,
    pub(super) dn: String,
    pub(super) password: String,
    pub(super) last_password: String,
    pub(super) pending: String,
    pub(super) rotated: String,
    /// In seconds; 0 for an entry that changes when it is given back.
    pub(super) period_secs: i64,
    pub(super) next: i64,
    pub(super) failures: i64,
    pub(super) last_error: String,
    /// The set of an account; empty for a static role.
    pub(super) set: String,
    /// Who has it; empty for nobody.
    pub(super) loan: String,
    pub(super) borrower_entity: String,
    pub(super) borrower_token: String,
}

impl Rotation {
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let damaged = || Error::internal(&"the record of an account is damaged");
        let map = json::parse_object(bytes).map_err(|_| damaged())?;
        let fields = Fields::new(&map);
        let mut rotation = Self::default();
        for (name, text) in rotation.texts() {
            *text = fields.string(name)?.unwrap_or_default();
        }
        for (name, number) in rotation.numbers() {
            *number = fields.int(name)?.unwrap_or(0);
        }
        Ok(rotation)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut copy = self.clone();
        let mut map = Map::new();
        for (name, text) in copy.texts() {
            map.insert(name.to_owned(), text.as_str().into());
        }
        for (name, number) in copy.numbers() {
            map.insert(name.to_owned(), (*number).into());
        }
        Json::Object(map).to_text()
    }

    fn texts(&mut self) -> [(&'static str, &mut String); 11] {
        [
            ("username", &mut self.username),
            ("dn", &mut self.dn),
            ("password", &mut self.password),
            ("last_password", &mut self.last_password),
            ("pending", &mut self.pending),
            ("rotated", &mut self.rotated),
            ("last_error", &mut self.last_error),
            ("set", &mut self.set),
            ("loan", &mut self.loan),
            ("borrower_entity", &mut self.borrower_entity),
            ("borrower_token", &mut self.borrower_token),
        ]
    }

    const fn numbers(&mut self) -> [(&'static str, &mut i64); 3] {
        [
            ("rotation_period", &mut self.period_secs),
            ("next", &mut self.next),
            ("failures", &mut self.failures),
        ]
    }

    /// Whether it can be lent.
    pub(super) const fn is_available(&self) -> bool {
        self.loan.is_empty() && self.pending.is_empty() && !self.password.is_empty()
    }

    /// When its password changes after a change at `now`.
    pub(super) const fn next_after(&self, now: i64) -> i64 {
        match self.period_secs {
            0 => i64::MAX,
            period => now.saturating_add(period),
        }
    }
}

fn missing() -> Error {
    Error::invalid("the account is not managed any more")
}

/// The entry of a record.
pub(super) fn find(context: &EngineContext<'_>, key: &str) -> Result<Option<Rotation>, Error> {
    context.storage.get(key)?.map(|found| Rotation::decode(&found.value)).transpose()
}

/// Step 1: writes a new password down, unless one is pending already. `loan` is the one that ends with it, if any; the job looks at it
/// again in `taken_up_secs`.
async fn plan(
    context: &EngineContext<'_>,
    directory: &LdapDirectory,
    key: &str,
    (loan, taken_up_secs): (Option<&str>, i64),
) -> Result<Option<Rotation>, Error> {
    let password = make_password(context, &directory.password_policy)?;
    let taken_up = context.now.as_second() + taken_up_secs;
    let planned = context.storage.transact(key, |transaction| {
        let Some(found) = transaction.get(key)? else { return Ok(None) };
        let mut rotation = Rotation::decode(&found.value)?;
        if loan.is_some_and(|loan| rotation.loan != loan) {
            return Ok(None);
        }
        if rotation.pending.is_empty() {
            password.expose_secret().clone_into(&mut rotation.pending);
            rotation.next = taken_up;
            transaction.put(key, rotation.encode())?;
        }
        Ok(Some(rotation))
    });
    planned.await
}

/// Step 3: writes down what came of it.
async fn settle(
    context: &EngineContext<'_>,
    key: &str,
    pending: &str,
    outcome: Result<(), &FarEndFailure>,
) -> Result<(), Error> {
    let (now, rotated) = (context.now.as_second(), context.now.to_string());
    let settling = context.storage.transact(key, |transaction| {
        let Some(found) = transaction.get(key)? else { return Ok(()) };
        let mut rotation = Rotation::decode(&found.value)?;
        if pending.is_empty() || rotation.pending != pending {
            return Ok(());
        }
        match outcome {
            Ok(()) => {
                let set = std::mem::take(&mut rotation.pending);
                rotation.last_password = std::mem::replace(&mut rotation.password, set);
                rotated.clone_into(&mut rotation.rotated);
                rotation.next = rotation.next_after(now);
                rotation.failures = 0;
                rotation.last_error.clear();
                rotation.loan.clear();
                rotation.borrower_entity.clear();
                rotation.borrower_token.clear();
            }
            Err(failure) => {
                if matches!(failure, FarEndFailure::Refused(_)) {
                    rotation.pending.clear();
                }
                let doublings = u32::try_from(rotation.failures.clamp(0, 16)).unwrap_or(0);
                rotation.next = now + (PAUSE_FIRST_SECS << doublings).min(PAUSE_SECS_MAX);
                rotation.failures += 1;
                failure.words().clone_into(&mut rotation.last_error);
            }
        }
        transaction.put(key, rotation.encode())
    });
    settling.await
}

/// All of a rotation, for who waits for it; that of a loan only while it is the one.
pub(super) async fn rotate_now(
    context: &EngineContext<'_>,
    key: &str,
    loan: Option<&str>,
) -> Result<(), Error> {
    let directory = directory::find(&context.storage)?;
    let Some(rotation) = plan(context, &directory, key, (loan, TAKEN_UP_SECS)).await? else {
        return if loan.is_some() { Ok(()) } else { Err(missing()) };
    };
    let pending = SecretString::from(rotation.pending.as_str());
    let set = vec![directory.set_password(&rotation.dn, &pending)];
    let call = directory.call(context, set, false, vec![pending])?;
    let outcome = directory.ask(context, call).await;
    settle(context, key, &rotation.pending, outcome.as_ref().map(drop)).await?;
    outcome.map(drop).map_err(|failure| {
        directory
            .failed(&format!("failed to set the password of {:?}", rotation.username), &failure)
    })
}

/// By the clock: passwords that are due, and the own one whose change was left open.
pub(super) async fn work_off(context: EngineContext<'_>) -> Result<(), Error> {
    let now = context.now.as_second();
    let memory: &LdapMemory = context.memory()?;
    for key in memory.due(now, BEGUN_MAX) {
        if let Err(error) = go_on(&context, &key).await {
            // Nothing was asked: the configuration is gone, or no password could be made.
            let pending =
                find(&context, &key)?.map(|rotation| rotation.pending).unwrap_or_default();
            let failure = FarEndFailure::Unreachable(error.to_string());
            settle(&context, &key, &pending, Err(&failure)).await?;
        }
    }
    if memory.is_root_open() {
        settle_open_root(&context, now).await?;
    }
    Ok(())
}

async fn go_on(context: &EngineContext<'_>, key: &str) -> Result<(), Error> {
    let id = format!("{}rotate/{key}", context.mount.accessor);
    match context.far_ends.take(&id) {
        FarEndProgress::UnderWay => Ok(()),
        FarEndProgress::Unknown => {
            let directory = directory::find(&context.storage)?;
            let Some(rotation) = plan(context, &directory, key, (None, 0)).await? else {
                return Ok(());
            };
            let pending = SecretString::from(rotation.pending.as_str());
            let set = vec![directory.set_password(&rotation.dn, &pending)];
            let call = directory.call(context, set, false, vec![pending])?;
            // What does not begin now begins at the next run.
            context.far_ends.begin(&id, call);
            Ok(())
        }
        FarEndProgress::Ended(outcome) => {
            if let Err(failure) = &outcome {
                tracing::warn!(record = key, %failure, "the password of an account was not changed");
            }
            let pending = find(context, key)?.map(|rotation| rotation.pending).unwrap_or_default();
            settle(context, key, &pending, outcome.as_ref().map(drop)).await
        }
    }
}

/// A change of the own password that a crash left open: the directory says which one it is.
async fn settle_open_root(context: &EngineContext<'_>, now: i64) -> Result<(), Error> {
    let Ok(directory) = directory::find(&context.storage) else { return Ok(()) };
    if !directory.has_pending() || now - directory.pending_since <= directory::ROOT_SECS {
        return Ok(());
    }
    let id = format!("{}root", context.mount.accessor);
    let is_set = match context.far_ends.take(&id) {
        FarEndProgress::UnderWay => return Ok(()),
        FarEndProgress::Unknown => {
            context.far_ends.begin(&id, directory.pending_check(context)?);
            return Ok(());
        }
        FarEndProgress::Ended(Ok(_)) => true,
        FarEndProgress::Ended(Err(FarEndFailure::LoginRefused(_))) => false,
        // It does not answer: it is asked again.
        FarEndProgress::Ended(Err(_)) => return Ok(()),
    };
    directory::settle_root(context, &directory, is_set).await.map(drop)
}
