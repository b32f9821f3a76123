//! Passwords that change, for engines of databases and of directories: what is kept while they do, and which step comes next.
//!
//! ```text
//! 1. the new password is written down as pending
//! 2. the far end is told it
//! 3. the pending one becomes the password
//! ```
//!
//! Invariants:
//! - The password that is kept logs in, or the pending one does.
//! - Whatever goes wrong, the pending password is set again until it is known to be set, or not to be.
//! - A pending password is dropped in one case: the far end refused to set it, and refuses a login with it as a wrong password.
//! - The outcome of a step counts for the pending password that the step was for, and for no other.
//! - A password that may have been changed already is not told: who asks for it finishes the change first ([`finish_open`]).
//! - The job asks and comes back for the outcome: a far end that hangs keeps no other job waiting.

mod change;

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kallisto_api::{BoxFuture, Error, Map};
use kallisto_engine::far_end::{CALL_SECS_MAX, FarEndProgress};
use kallisto_engine::{EngineContext, FarEndCall, FarEndFailure};
use secrecy::SecretString;

use crate::passwords::make_password;

pub(crate) use change::{ChangeOutcome, ChangeStep, PasswordChange};

/// Most steps of one rotation: the check of a password that was left open, then setting another, then its check.
const STEPS_MAX: usize = 4;
/// When the job takes up what a request has begun, in seconds.
const TAKEN_UP_SECS: i64 = 60;
/// How long a change of the password of a connection may be under way before the job looks which one it is, in seconds.
pub(crate) const ROOT_SECS: i64 = 120;

/// How often who waits for a change that somebody else finishes looks at it, how often who could not finish it does, and the pause between.
const LOOKS_MAX: usize = 400;
const LOOKS_AFTER_FAILURE: usize = 80;
const LOOK_EVERY: Duration = Duration::from_millis(25);

const _: () = assert!(
    TAKEN_UP_SECS > CALL_SECS_MAX.cast_signed(),
    "the call that sets a password has ended when the job sets the same one again"
);
const _: () = assert!(
    ROOT_SECS >= 2 * CALL_SECS_MAX.cast_signed(),
    "who changes it has set it and tried it when the job looks"
);

/// The changes that somebody who asks for the password finishes, by their records: one at a time, whoever asks meanwhile waits for it.
#[derive(Debug, Default)]
pub(crate) struct FinishedChanges(Mutex<BTreeSet<String>>);

/// That one is being finished, for as long as it is held.
struct Finishing<'f>(&'f FinishedChanges, &'f str);

impl FinishedChanges {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin<'f>(&'f self, key: &'f str) -> Option<Finishing<'f>> {
        self.lock().insert(key.to_owned()).then_some(Finishing(self, key))
    }
}

impl Drop for Finishing<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(self.1);
    }
}

/// A record with a password that changes.
pub(crate) trait RotatedRecord: Sized + Send + Sync {
    /// Reads the object that it is stored as.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming a field that is none.
    fn decode(record: &Map) -> Result<Self, Error>;

    fn encode(&self) -> Vec<u8>;

    fn change(&self) -> &PasswordChange;

    fn change_mut(&mut self) -> &mut PasswordChange;

    /// Takes note that the password was changed at `now`, from this one, and when it changes next.
    fn changed(&mut self, before: String, now: i64);

    /// The policy that its passwords are made by.
    ///
    /// # Errors
    /// When there is no far end for it, or it may not be changed there.
    fn policy(&self, context: &EngineContext<'_>) -> Result<String, Error>;

    /// The call of a step, for whoever comes back for its outcome.
    ///
    /// # Errors
    /// When there is no far end for it.
    fn call(&self, context: &EngineContext<'_>, step: &ChangeStep) -> Result<FarEndCall, Error>;

    /// Asks for a step, and waits; what went wrong, and what a client hears of it.
    fn ask<'a>(
        &'a self,
        context: &'a EngineContext<'_>,
        step: &'a ChangeStep,
    ) -> BoxFuture<'a, Result<(), (FarEndFailure, Error)>>;
}

/// The record under a name.
pub(crate) fn find<R: RotatedRecord>(
    context: &EngineContext<'_>,
    key: &str,
) -> Result<Option<R>, Error> {
    context.storage.get(key)?.map(|found| found.decode_object(R::decode)).transpose()
}

/// A step that was begun: of which record, as it is then.
struct BegunStep<R> {
    record: R,
    step: ChangeStep,
}

/// Step 1. The job takes up after `taken_up_secs` what is not settled by then. `None` when `is_meant` says that the record is none that
/// shall change, or it is gone.
async fn plan<R: RotatedRecord>(
    context: &EngineContext<'_>,
    key: &str,
    is_meant: &(dyn Fn(&R) -> bool + Sync),
    taken_up_secs: i64,
) -> Result<Option<BegunStep<R>>, Error> {
    let Some(record) = find::<R>(context, key)? else { return Ok(None) };
    let password = make_password(context, &record.policy(context)?)?;
    let taken_up = context.now.as_second() + taken_up_secs;
    let planned = context.storage.transact(key, |transaction| {
        let Some(found) = transaction.get(key)? else { return Ok(None) };
        let mut record = found.decode_object(R::decode)?;
        if !is_meant(&record) {
            return Ok(None);
        }
        let before = record.change().clone();
        let step = record.change_mut().begin(&password);
        if record.change().number != before.number {
            record.change_mut().next = taken_up;
        }
        if *record.change() != before {
            transaction.put(key, record.encode())?;
        }
        Ok(Some(BegunStep { record, step }))
    });
    planned.await
}

/// Step 3, for the pending password of this number. `None` when somebody else settled it.
async fn settle<R: RotatedRecord>(
    context: &EngineContext<'_>,
    key: &str,
    (number, step): (i64, &ChangeStep),
    outcome: Result<(), &FarEndFailure>,
) -> Result<Option<ChangeOutcome>, Error> {
    let (now, rotated) = (context.now.as_second(), context.now.to_string());
    let settling = context.storage.transact(key, |transaction| {
        let Some(found) = transaction.get(key)? else { return Ok(None) };
        let mut record = found.decode_object(R::decode)?;
        if record.change().pending.is_empty() || record.change().number != number {
            return Ok(None);
        }
        let before = record.change().password.clone();
        let ended = record.change_mut().end(step, outcome, now);
        if ended == ChangeOutcome::Changed {
            rotated.clone_into(&mut record.change_mut().rotated);
            record.changed(before, now);
        }
        transaction.put(key, record.encode())?;
        Ok(Some(ended))
    });
    settling.await
}

/// All of a rotation, for who waits for it. False when the record is gone, or `is_meant` says that it is none that shall change.
///
/// # Errors
/// What the far end says of it.
pub(crate) async fn rotate_now<R: RotatedRecord>(
    context: &EngineContext<'_>,
    key: &str,
    is_meant: &(dyn Fn(&R) -> bool + Sync),
) -> Result<bool, Error> {
    let mut refusal = None;
    for _ in 0..STEPS_MAX {
        let Some(BegunStep { record, step }) = plan(context, key, is_meant, TAKEN_UP_SECS).await?
        else {
            return Ok(false);
        };
        let asked = record.ask(context, &step).await;
        let outcome = match &asked {
            Ok(()) => Ok(()),
            Err((failure, _)) => Err(failure),
        };
        let number = record.change().number;
        let ended = settle::<R>(context, key, (number, &step), outcome).await?;
        let error = asked.err().map(|(_, error)| error);
        match (ended, error) {
            (Some(ChangeOutcome::Changed), _) | (None, None) => return Ok(true),
            // The login says what became of it.
            (Some(ChangeOutcome::Refused), error) => refusal = error,
            // One that an earlier rotation left: it is not set, and another one is.
            (Some(ChangeOutcome::Dropped | ChangeOutcome::Open), Some(_))
                if refusal.is_none() && matches!(step, ChangeStep::Check(_)) => {}
            (_, error) => {
                let gone = || Error::Unavailable("another rotation was faster".into());
                return Err(refusal.or(error).unwrap_or_else(gone));
            }
        }
    }
    Err(refusal.unwrap_or_else(|| Error::Unavailable("the password is not known to be set".into())))
}

/// A record whose password is the one at the far end: a change that may have been made there, and of which nobody has heard, is finished
/// first. A crash between the far end and the record leaves one, and so does the job until it comes back for the outcome. `None` when the
/// record is gone.
///
/// # Errors
/// [`Error::Unavailable`] while it is not known which password it is.
pub(crate) async fn finish_open<R: RotatedRecord>(
    context: &EngineContext<'_>,
    changes: &FinishedChanges,
    key: &str,
) -> Result<Option<R>, Error> {
    let (mut failure, mut looks) = (None, LOOKS_MAX);
    while looks > 0 {
        looks -= 1;
        let found = find::<R>(context, key)?;
        if found.as_ref().is_none_or(|record| !record.change().may_be_set()) {
            return Ok(found);
        }
        if failure.is_none()
            && let Some(_finishing) = changes.begin(key)
        {
            let is_open = |record: &R| record.change().may_be_set();
            failure = rotate_now(context, key, &is_open).await.err();
            looks = if failure.is_some() { LOOKS_AFTER_FAILURE } else { looks };
            continue;
        }
        // Somebody else is at it: the job, or who asked before.
        context.far_ends.pause(LOOK_EVERY).await;
    }
    let why = failure.map_or_else(|| "it takes long".to_owned(), |error| error.to_string());
    Err(Error::Unavailable(format!(
        "the password is being changed, and whether it is set is not known: {why}"
    )))
}

/// A step of a rotation by the clock: begun, or its outcome taken.
///
/// # Errors
/// The store's refusal.
pub(crate) async fn go_on<R: RotatedRecord>(
    context: &EngineContext<'_>,
    key: &str,
) -> Result<(), Error> {
    match take_step::<R>(context, key).await {
        Ok(()) => Ok(()),
        // Nothing was asked: the configuration is gone, or no password could be made.
        Err(error) => put_off::<R>(context, key, &error.to_string()).await,
    }
}

/// Has the job wait before it takes up a rotation again.
///
/// # Errors
/// The store's refusal.
pub(crate) async fn put_off<R: RotatedRecord>(
    context: &EngineContext<'_>,
    key: &str,
    why: &str,
) -> Result<(), Error> {
    let now = context.now.as_second();
    let putting_off = context.storage.transact(key, |transaction| {
        let Some(found) = transaction.get(key)? else { return Ok(()) };
        let mut record = found.decode_object(R::decode)?;
        record.change_mut().put_off(why, now);
        transaction.put(key, record.encode())
    });
    putting_off.await
}

async fn take_step<R: RotatedRecord>(context: &EngineContext<'_>, key: &str) -> Result<(), Error> {
    let Some(mut record) = find::<R>(context, key)? else { return Ok(()) };
    let id = |change: &PasswordChange| {
        let verb = if change.is_refused { "check" } else { "set" };
        format!("{}{verb}/{key}/{}", context.mount.accessor, change.number)
    };
    // Before there is a pending one, nothing was begun for it.
    let begun = match record.change().pending.is_empty() {
        true => FarEndProgress::Unknown,
        false => context.far_ends.take(&id(record.change())),
    };
    match begun {
        FarEndProgress::UnderWay => Ok(()),
        FarEndProgress::Unknown => {
            let Some(BegunStep { record, step }) = plan::<R>(context, key, &|_| true, 0).await?
            else {
                return Ok(());
            };
            // What does not begin now begins at the next run.
            context.far_ends.begin(&id(record.change()), record.call(context, &step)?);
            Ok(())
        }
        FarEndProgress::Ended(outcome) => {
            let number = record.change().number;
            let step = record.change_mut().begin(&SecretString::default());
            if let Err(failure) = &outcome {
                tracing::warn!(record = key, %failure, "a password was not changed");
            }
            let outcome = outcome.as_ref().map(drop);
            settle::<R>(context, key, (number, &step), outcome).await.map(drop)
        }
    }
}

/// Which of two passwords of a connection a far end takes.
#[derive(Debug)]
pub(crate) enum TakenPassword {
    /// The pending one.
    Pending,
    /// The one before: the pending one is wrong there.
    Current,
    /// That is not known: neither may be dropped.
    Unclear(FarEndFailure),
}

/// What a change of the password of a connection came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RootOutcome {
    /// The pending password is set.
    Set,
    /// The far end refused to set it, and takes the one before.
    Refused(FarEndFailure),
    /// Either may be set: both are kept, and whichever works is found when the far end answers.
    Unclear(FarEndFailure),
}

impl RootOutcome {
    /// Of what the far end said when it was told the password, and of which one it took then.
    pub(crate) fn of(told: Result<(), FarEndFailure>, taken: TakenPassword) -> Self {
        match (taken, told) {
            (TakenPassword::Pending, _) => Self::Set,
            (TakenPassword::Current, Err(failure)) if failure.is_refusal() => {
                Self::Refused(failure)
            }
            (_, Err(failure)) | (TakenPassword::Unclear(failure), Ok(())) => Self::Unclear(failure),
            (TakenPassword::Current, Ok(())) => {
                Self::Unclear(FarEndFailure::Unknown("the new password does not log in yet".into()))
            }
        }
    }
}

/// Two checks of logins of a connection.
pub(crate) struct LoginChecks {
    pub(crate) pending: FarEndCall,
    pub(crate) current: FarEndCall,
}

/// Asks which of two passwords a far end takes. One that takes neither locks the login out, or is not up to date.
pub(crate) async fn taken_password(
    context: &EngineContext<'_>,
    checks: LoginChecks,
) -> TakenPassword {
    match context.far_ends.ask(checks.pending).await {
        Ok(_) => TakenPassword::Pending,
        Err(failure @ FarEndFailure::LoginRefused(_)) => {
            match context.far_ends.ask(checks.current).await {
                Ok(_) => TakenPassword::Current,
                Err(_) => TakenPassword::Unclear(failure),
            }
        }
        Err(failure) => TakenPassword::Unclear(failure),
    }
}

/// The same for the job, which comes back for the outcomes; `None` while they are under way.
pub(crate) fn taken_password_by_job(
    context: &EngineContext<'_>,
    id: &str,
    checks: LoginChecks,
) -> Option<TakenPassword> {
    let of_current = format!("{id}/current");
    match context.far_ends.take(&of_current) {
        FarEndProgress::UnderWay => return None,
        FarEndProgress::Ended(Ok(_)) => return Some(TakenPassword::Current),
        FarEndProgress::Ended(Err(failure)) => return Some(TakenPassword::Unclear(failure)),
        FarEndProgress::Unknown => {}
    }
    match context.far_ends.take(id) {
        FarEndProgress::UnderWay => {}
        FarEndProgress::Unknown => drop(context.far_ends.begin(id, checks.pending)),
        FarEndProgress::Ended(Ok(_)) => return Some(TakenPassword::Pending),
        FarEndProgress::Ended(Err(FarEndFailure::LoginRefused(_))) => {
            context.far_ends.begin(&of_current, checks.current);
        }
        FarEndProgress::Ended(Err(failure)) => return Some(TakenPassword::Unclear(failure)),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_password_is_dropped_only_where_it_was_refused_and_the_one_before_logs_in() {
        let refused = || FarEndFailure::Refused("no".into());
        let silent = || FarEndFailure::Unknown("silence".into());
        let unclear = || TakenPassword::Unclear(FarEndFailure::LoginRefused("locked".into()));
        for (told, taken, expected) in [
            (Ok(()), TakenPassword::Pending, RootOutcome::Set),
            (Err(refused()), TakenPassword::Pending, RootOutcome::Set),
            (Err(silent()), TakenPassword::Pending, RootOutcome::Set),
            (Err(refused()), TakenPassword::Current, RootOutcome::Refused(refused())),
            (Err(silent()), TakenPassword::Current, RootOutcome::Unclear(silent())),
            (Err(refused()), unclear(), RootOutcome::Unclear(refused())),
            (Ok(()), unclear(), RootOutcome::Unclear(FarEndFailure::LoginRefused("locked".into()))),
        ] {
            assert_eq!(RootOutcome::of(told, taken), expected);
        }
        assert!(matches!(RootOutcome::of(Ok(()), TakenPassword::Current), RootOutcome::Unclear(_)));
    }
}
