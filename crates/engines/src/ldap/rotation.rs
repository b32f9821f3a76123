//! Entries whose passwords are ours: of static roles, and of accounts that are lent.

use kallisto_api::json::{Json, Map};
use kallisto_api::{BoxFuture, Error, Fields};
use kallisto_engine::far_end::{MissingEntry, RootPassword};
use kallisto_engine::{EngineContext, FarEndCall, FarEndFailure};

use super::directory::{self, LdapDirectory};
use super::memory::LdapMemory;
use crate::rotation::{self, ChangeStep, PasswordChange, ROOT_SECS, RotatedRecord, TakenPassword};

/// Most rotations that one run of the job looks at.
const BEGUN_MAX: usize = 64;

/// An entry whose password is ours, and what else its record says.
#[derive(Clone, Default)]
pub(super) struct Rotation {
    pub(super) username: String,
    pub(super) dn: String,
    pub(super) change: PasswordChange,
    pub(super) last_password: String,
    /// In seconds; 0 for an entry that changes when it is given back.
    pub(super) period_secs: i64,
    /// The set of an account; empty for a static role.
    pub(super) set: String,
    /// Who has it; empty for nobody.
    pub(super) loan: String,
    pub(super) borrower_entity: String,
    pub(super) borrower_token: String,
}

impl Rotation {
    /// Whether it can be lent.
    pub(super) const fn is_available(&self) -> bool {
        self.loan.is_empty() && self.change.pending.is_empty() && !self.change.password.is_empty()
    }

    /// When its password changes after a change at `now`.
    pub(super) const fn next_after(&self, now: i64) -> i64 {
        match self.period_secs {
            0 => i64::MAX,
            period => now.saturating_add(period),
        }
    }

    fn texts(&mut self) -> [(&'static str, &mut String); 7] {
        [
            ("username", &mut self.username),
            ("dn", &mut self.dn),
            ("last_password", &mut self.last_password),
            ("set", &mut self.set),
            ("loan", &mut self.loan),
            ("borrower_entity", &mut self.borrower_entity),
            ("borrower_token", &mut self.borrower_token),
        ]
    }

    fn call_of(
        &self,
        directory: &LdapDirectory,
        context: &EngineContext<'_>,
        step: &ChangeStep,
    ) -> Result<FarEndCall, Error> {
        match step {
            ChangeStep::Set(password) => {
                let set = vec![directory.set_password(&self.dn, password)];
                directory.call(context, set, MissingEntry::Fails, vec![password.clone()])
            }
            ChangeStep::Check(password) => directory.check_entry(context, &self.dn, password),
        }
    }
}

impl RotatedRecord for Rotation {
    fn decode(record: &Map) -> Result<Self, Error> {
        let fields = Fields::new(record);
        let mut rotation = Self { change: PasswordChange::take(fields)?, ..Self::default() };
        for (name, text) in rotation.texts() {
            *text = fields.string(name)?.unwrap_or_default();
        }
        rotation.period_secs = fields.int("rotation_period")?.unwrap_or(0);
        Ok(rotation)
    }

    fn encode(&self) -> Vec<u8> {
        let mut map = Map::new();
        self.change.keep(&mut map);
        for (name, text) in self.clone().texts() {
            map.insert(name.to_owned(), text.as_str().into());
        }
        map.insert("rotation_period".to_owned(), self.period_secs.into());
        Json::Object(map).to_text()
    }

    fn change(&self) -> &PasswordChange {
        &self.change
    }

    fn change_mut(&mut self) -> &mut PasswordChange {
        &mut self.change
    }

    fn changed(&mut self, before: String, now: i64) {
        self.last_password = before;
        self.change.next = self.next_after(now);
        self.loan.clear();
        self.borrower_entity.clear();
        self.borrower_token.clear();
    }

    fn policy(&self, context: &EngineContext<'_>) -> Result<String, Error> {
        Ok(directory::find(&context.storage)?.password_policy)
    }

    fn call(&self, context: &EngineContext<'_>, step: &ChangeStep) -> Result<FarEndCall, Error> {
        self.call_of(&directory::find(&context.storage)?, context, step)
    }

    fn ask<'a>(
        &'a self,
        context: &'a EngineContext<'_>,
        step: &'a ChangeStep,
    ) -> BoxFuture<'a, Result<(), (FarEndFailure, Error)>> {
        Box::pin(async move {
            let doing = format!("failed to set the password of {:?}", self.username);
            let not_asked = |error: Error| (FarEndFailure::Unreachable(error.to_string()), error);
            let directory = directory::find(&context.storage).map_err(not_asked)?;
            let call = self.call_of(&directory, context, step).map_err(not_asked)?;
            let asked = match step {
                ChangeStep::Set(_) => directory.ask(context, call).await,
                ChangeStep::Check(_) => context.far_ends.ask(call).await,
            };
            asked.map(drop).map_err(|failure| {
                let error = directory.failed(&doing, &failure);
                (failure, error)
            })
        })
    }
}

/// The entry of a record.
pub(super) fn find(context: &EngineContext<'_>, key: &str) -> Result<Option<Rotation>, Error> {
    rotation::find(context, key)
}

/// All of a rotation, for who waits for it; that of a loan only while it is the one.
pub(super) async fn rotate_now(
    context: &EngineContext<'_>,
    key: &str,
    loan: Option<&str>,
) -> Result<(), Error> {
    let is_meant = |rotation: &Rotation| loan.is_none_or(|loan| rotation.loan == loan);
    match rotation::rotate_now(context, key, &is_meant).await? || loan.is_some() {
        true => Ok(()),
        false => Err(Error::invalid("the account is not managed any more")),
    }
}

/// By the clock: passwords that are due, and the own one whose change was left open.
pub(super) async fn work_off(context: EngineContext<'_>) -> Result<(), Error> {
    let now = context.now.as_second();
    let memory: &LdapMemory = context.memory()?;
    for key in memory.due(now, BEGUN_MAX) {
        rotation::go_on::<Rotation>(&context, &key).await?;
    }
    if memory.is_root_open() {
        settle_open_root(&context, now).await?;
    }
    Ok(())
}

/// A change of the own password that a crash left open: the directory says which one it is.
async fn settle_open_root(context: &EngineContext<'_>, now: i64) -> Result<(), Error> {
    let Ok(directory) = directory::find(&context.storage) else { return Ok(()) };
    if !directory.has_pending() || now - directory.pending_since <= ROOT_SECS {
        return Ok(());
    }
    let id = format!("{}root/{}", context.mount.accessor, directory.pending_since);
    let checks = directory.login_checks(context)?;
    match rotation::taken_password_by_job(context, &id, checks) {
        Some(TakenPassword::Pending) => {
            directory::settle_root(context, &directory, RootPassword::Pending).await.map(drop)
        }
        Some(TakenPassword::Current) => {
            directory::settle_root(context, &directory, RootPassword::Current).await.map(drop)
        }
        // It is asked again.
        Some(TakenPassword::Unclear(_)) | None => Ok(()),
    }
}
