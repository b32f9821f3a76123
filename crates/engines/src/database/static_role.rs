//! Static roles: users that are there already, whose passwords change by a period or a schedule; how, says [`crate::rotation`].

use jiff::Timestamp;
use kallisto_api::json::{Json, Map};
use kallisto_api::{BoxFuture, Error, Fields, Response, Span};
use kallisto_engine::far_end::{RootPassword, SessionUse};
use kallisto_engine::{Call, EngineContext, FarEndCall, FarEndFailure, FarEndWork, Transaction};
use secrecy::SecretString;

use super::connection::{self, DatabaseConnection, span_secs};
use super::credential::credential_type;
use super::memory::Database;
use super::role;
use super::root;
use super::schedule::RotationSchedule;
use super::statements::statements;
use super::work;
use crate::rotation::{self, ChangeStep, PasswordChange, ROOT_SECS, RotatedRecord, TakenPassword};

/// Shortest period, in seconds.
const PERIOD_SECS_MIN: u64 = 5;
/// Shortest window of a schedule, in seconds.
const WINDOW_SECS_MIN: u64 = 3600;
/// Most rotations that one run of the job looks at.
const BEGUN_MAX: usize = 64;

/// A static role.
#[derive(Clone, Default)]
pub(super) struct StaticRole {
    db_name: String,
    username: String,
    period_secs: u64,
    schedule: String,
    window_secs: u64,
    statements: Vec<String>,
    credential_type: String,
    credential_config: Map,
    change: PasswordChange,
}

pub(super) fn record_name(name: &str) -> String {
    format!("static-role/{name}")
}

impl RotatedRecord for StaticRole {
    fn decode(record: &Map) -> Result<Self, Error> {
        let fields = Fields::new(record);
        let text = |name: &str| Ok::<_, Error>(fields.string(name)?.unwrap_or_default());
        Ok(Self {
            db_name: text("db_name")?,
            username: text("username")?,
            period_secs: span_secs(fields, "rotation_period")?,
            schedule: text("rotation_schedule")?,
            window_secs: span_secs(fields, "rotation_window")?,
            statements: statements(fields, "rotation_statements")?.unwrap_or_default(),
            credential_type: text("credential_type")?,
            credential_config: fields.map("credential_config")?.cloned().unwrap_or_default(),
            change: PasswordChange::take(fields)?,
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut map = self.shown();
        self.change.keep(&mut map);
        Json::Object(map).to_text()
    }

    fn change(&self) -> &PasswordChange {
        &self.change
    }

    fn change_mut(&mut self) -> &mut PasswordChange {
        &mut self.change
    }

    fn changed(&mut self, _: String, now: i64) {
        self.change.next = self.next_after(now);
    }

    fn policy(&self, context: &EngineContext<'_>) -> Result<String, Error> {
        let connection = self.connection(context)?;
        let own = Fields::new(&self.credential_config).string("password_policy").ok().flatten();
        Ok(own.filter(|own| !own.is_empty()).unwrap_or(connection.password_policy))
    }

    fn call(&self, context: &EngineContext<'_>, step: &ChangeStep) -> Result<FarEndCall, Error> {
        let connection = self.connection(context)?;
        Ok(match step {
            ChangeStep::Set(password) => {
                let (work, secrets) = self.work(context, &connection, password)?;
                connection.call(context, work, SessionUse::Pooled, secrets)
            }
            ChangeStep::Check(password) => connection.check_user(context, &self.username, password),
        })
    }

    fn ask<'a>(
        &'a self,
        context: &'a EngineContext<'_>,
        step: &'a ChangeStep,
    ) -> BoxFuture<'a, Result<(), (FarEndFailure, Error)>> {
        Box::pin(async move {
            let not_asked = |error: Error| (FarEndFailure::Unreachable(error.to_string()), error);
            let connection = self.connection(context).map_err(not_asked)?;
            let asked = match step {
                ChangeStep::Set(password) => {
                    let (work, secrets) =
                        self.work(context, &connection, password).map_err(not_asked)?;
                    connection.ask(context, work, secrets).await
                }
                ChangeStep::Check(password) => {
                    let check = connection.check_user(context, &self.username, password);
                    context.far_ends.ask(check).await
                }
            };
            asked.map(drop).map_err(|failure| {
                let error = connection.failed("failed to set the password", &failure);
                (failure, error)
            })
        })
    }
}

impl StaticRole {
    fn connection(&self, context: &EngineContext<'_>) -> Result<DatabaseConnection, Error> {
        connection::find(context, &self.db_name)
    }

    /// Refuses the user that the connection logs in as: with its password changed by a role nothing else could be done.
    fn check_not_own(&self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        let found = transaction.get(&connection::record_name(&self.db_name))?;
        let connection =
            found.map(|found| DatabaseConnection::decode(&self.db_name, &found)).transpose()?;
        match connection.is_some_and(|connection| connection.username == self.username) {
            false => Ok(()),
            true => Err(Error::invalid(format!(
                "the connection logs in as {:?}: rotate-root changes its password",
                self.username
            ))),
        }
    }

    /// Setting the password, and what the database's words may not repeat.
    fn work(
        &self,
        context: &EngineContext<'_>,
        connection: &DatabaseConnection,
        password: &SecretString,
    ) -> Result<(FarEndWork, Vec<SecretString>), Error> {
        let written = connection.written_password(context.random, password)?;
        let work = work::set_password(connection, &self.statements, &self.username, &written)?;
        Ok((work, vec![password.clone(), written]))
    }

    /// What an operator gave.
    fn shown(&self) -> Map {
        let mut map = Map::new();
        map.insert("credential_type".into(), self.credential_type.as_str().into());
        map.insert("db_name".into(), self.db_name.as_str().into());
        map.insert("rotation_statements".into(), Json::strings(self.statements.iter().cloned()));
        map.insert("username".into(), self.username.as_str().into());
        if self.schedule.is_empty() {
            map.insert("rotation_period".into(), self.period_secs.into());
        } else {
            map.insert("rotation_schedule".into(), self.schedule.as_str().into());
            map.insert("rotation_window".into(), self.window_secs.into());
        }
        if !self.credential_config.is_empty() {
            map.insert("credential_config".into(), Json::Object(self.credential_config.clone()));
        }
        map
    }

    /// When it is rotated after a rotation at `now`.
    fn next_after(&self, now: i64) -> i64 {
        match RotationSchedule::parse(&self.schedule) {
            Ok(schedule) if !self.schedule.is_empty() => {
                schedule.next_after(now).unwrap_or(i64::MAX)
            }
            _ => now.saturating_add(i64::try_from(self.period_secs).unwrap_or(i64::MAX)),
        }
    }

    /// When it is rotated next after a write at `now` that changed no password.
    fn next_after_write(&self, now: i64) -> i64 {
        match self.schedule.is_empty() {
            true => {
                let period = i64::try_from(self.period_secs).unwrap_or(i64::MAX);
                self.change.next_by_period(period, now)
            }
            // What is due stays due.
            false if (1..=now).contains(&self.change.next) => self.change.next,
            false => self.next_after(now),
        }
    }

    /// Whether a window lets it begin now: past it the next time of the schedule is waited for.
    fn is_in_window(&self, now: i64) -> bool {
        let window = i64::try_from(self.window_secs).unwrap_or(i64::MAX);
        self.schedule.is_empty() || window == 0 || now < self.change.next.saturating_add(window)
    }

    fn take(&mut self, fields: Fields<'_>, before: Option<&Self>) -> Result<(), Error> {
        if let Some(db_name) = fields.string("db_name")? {
            self.db_name = db_name;
        }
        if let Some(username) = fields.string("username")? {
            if before.is_some_and(|before| before.username != username) {
                return Err(Error::invalid("cannot update static account username"));
            }
            self.username = username;
        }
        if let Some(given) = statements(fields, "rotation_statements")? {
            self.statements = given;
        }
        if let Some(given) = fields.string("credential_type")? {
            self.credential_type = given;
        }
        if let Some(given) = fields.pairs("credential_config")? {
            self.credential_config = given;
        }
        let schedule = fields.string("rotation_schedule")?.filter(|schedule| !schedule.is_empty());
        // Beside a schedule no period is none.
        let is_given = |span: &Span| schedule.is_none() || *span != Span::ZERO;
        let period = fields.span("rotation_period")?.filter(is_given);
        if period.is_some() && schedule.is_some() {
            return Err(Error::invalid(
                "mutually exclusive fields rotation_period and rotation_schedule were both specified; only one of them can be provided",
            ));
        }
        if period.is_some() {
            self.period_secs = span_secs(fields, "rotation_period")?;
            self.schedule.clear();
            // It was that of the schedule.
            self.window_secs = 0;
        }
        if let Some(schedule) = schedule {
            RotationSchedule::parse(&schedule).map_err(|why| {
                Error::invalid(format!("could not parse rotation_schedule: {why}"))
            })?;
            self.schedule = schedule;
            self.period_secs = 0;
        }
        if fields.span("rotation_window")?.is_some() {
            self.window_secs = span_secs(fields, "rotation_window")?;
        }
        self.check()
    }

    fn check(&mut self) -> Result<(), Error> {
        if self.db_name.is_empty() {
            return Err(Error::invalid("database name is a required field"));
        }
        if self.username.is_empty() {
            return Err(Error::invalid("username is a required field to create a static account"));
        }
        self.credential_type = credential_type(&self.credential_type)?;
        if self.credential_type != "password" {
            return Err(Error::invalid("static roles have passwords: credential_type is password"));
        }
        match (self.schedule.is_empty(), self.period_secs, self.window_secs) {
            (true, 0, _) => Err(Error::invalid(
                "one of rotation_schedule or rotation_period must be provided to create a static account",
            )),
            (true, period, _) if period < PERIOD_SECS_MIN => Err(Error::invalid(format!(
                "rotation_period must be {PERIOD_SECS_MIN} seconds or more"
            ))),
            (true, _, 1..) => Err(Error::invalid("rotation_window is for a rotation_schedule")),
            (false, _, 1..WINDOW_SECS_MIN) => Err(Error::invalid(format!(
                "rotation_window must be {WINDOW_SECS_MIN} seconds or more"
            ))),
            _ => Ok(()),
        }
    }
}

fn find(context: &EngineContext<'_>, name: &str) -> Result<Option<StaticRole>, Error> {
    rotation::find(context, &record_name(name))
}

/// All of a rotation, for who waits for it.
async fn rotate_now(context: &EngineContext<'_>, name: &str) -> Result<(), Error> {
    let missing = || Error::invalid("no static role found for role name");
    let role = find(context, name)?.ok_or_else(missing)?;
    if !role.connection(context)?.allows(name) {
        return Err(Error::invalid(format!("{name:?} is not an allowed role")));
    }
    let key = record_name(name);
    match rotation::rotate_now::<StaticRole>(context, &key, &|_| true).await? {
        true => Ok(()),
        false => Err(missing()),
    }
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let skips = fields.boolean("skip_import_rotation")?.unwrap_or(false);
    let (key, other) = (record_name(name), role::record_name(name));
    let now = call.now.as_second();
    // Whoever of two writes a name of a user first has it.
    let taken = call.storage.list("static-role/")?;
    let (is_new, role) = call
        .storage
        .transact(&key, |transaction| {
            if transaction.get(&other)?.is_some() {
                return Err(Error::invalid("Role and Static Role names must be unique"));
            }
            let found = transaction.get(&key)?;
            let before = found.map(|found| found.decode_object(StaticRole::decode)).transpose()?;
            let is_new = before.is_none();
            let mut role = before.clone().unwrap_or_default();
            role.take(fields, before.as_ref())?;
            role.check_not_own(transaction)?;
            let is_open = !role.change.pending.is_empty();
            role.change.next = match (is_new, role.change.failures > 0) {
                (true, _) if skips => role.next_after(now),
                (true, _) | (_, true) => now,
                // The job takes up what a request has begun.
                _ if is_open => role.change.next,
                _ => role.next_after_write(now),
            };
            transaction.put(&key, role.encode())?;
            Ok((is_new, role))
        })
        .await?;
    if !is_new {
        return Ok(Response::Empty);
    }
    let refused = match find_other_of_user(&call, name, &role, &taken)? {
        Some(other) => Err(Error::invalid(format!(
            "the user {:?} belongs to the static role {other:?} already",
            role.username
        ))),
        None if skips => Ok(()),
        None => rotate_now(&call, name).await,
    };
    if let Err(error) = refused {
        let taking_back = call.storage.transact(&key, |transaction| {
            let Some(found) = transaction.get(&key)? else { return Ok(()) };
            let role = found.decode_object(StaticRole::decode)?;
            // One that may have been set is kept: nobody else knows the password.
            if role.change.pending.is_empty() { transaction.delete(&key) } else { Ok(()) }
        });
        taking_back.await?;
        return Err(error);
    }
    Ok(Response::Empty)
}

fn find_other_of_user(
    call: &Call<'_>,
    name: &str,
    role: &StaticRole,
    names: &[String],
) -> Result<Option<String>, Error> {
    for other in names.iter().filter(|other| *other != name) {
        let found = find(call, other)?;
        if found.is_some_and(|o| o.db_name == role.db_name && o.username == role.username) {
            return Ok(Some(other.clone()));
        }
    }
    Ok(None)
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let role = find(&call, name)?.ok_or(Error::NotFound)?;
    let mut shown = role.shown();
    if !role.change.rotated.is_empty() {
        shown.insert("last_vault_rotation".into(), role.change.rotated.as_str().into());
    }
    if !role.change.last_error.is_empty() {
        shown.insert("last_error".into(), role.change.last_error.as_str().into());
    }
    let next = Timestamp::from_second(role.change.next)
        .map_or_else(|_| String::new(), |at| at.to_string());
    shown.insert("next_rotation".into(), next.into());
    Ok(Response::data(&Json::Object(shown)))
}

pub(super) async fn creds(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let role = find(&call, name)?.ok_or_else(|| Error::invalid(format!("unknown role: {name}")))?;
    let connection = connection::find(&call, &role.db_name)?;
    if !connection.allows(name) {
        return Err(Error::invalid(format!("{name:?} is not an allowed role")));
    }
    let memory: &Database = call.memory()?;
    let settled = rotation::finish_open(&call, &memory.finished, &record_name(name)).await?;
    let role: StaticRole =
        settled.ok_or_else(|| Error::invalid(format!("unknown role: {name}")))?;
    let left = match role.change.failures {
        0 => u64::try_from(role.change.next.saturating_sub(call.now.as_second())).unwrap_or(0),
        _ => 0,
    };
    let mut data = Map::new();
    data.insert("last_vault_rotation".into(), role.change.rotated.as_str().into());
    data.insert("password".into(), role.change.password.as_str().into());
    data.insert("ttl".into(), left.into());
    data.insert("username".into(), role.username.as_str().into());
    if role.schedule.is_empty() {
        data.insert("rotation_period".into(), role.period_secs.into());
    } else {
        data.insert("rotation_schedule".into(), role.schedule.as_str().into());
        data.insert("rotation_window".into(), role.window_secs.into());
    }
    Ok(Response::data(&Json::Object(data)))
}

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    call.list("static-role/")
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    call.storage.delete(&record_name(name)).await?;
    Ok(Response::Empty)
}

pub(super) async fn rotate(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    rotate_now(&call, name).await?;
    Ok(Response::Empty)
}

/// By the clock: rotations that are due, and root passwords whose change was left open.
pub(super) async fn work_off(context: EngineContext<'_>) -> Result<(), Error> {
    let now = context.now.as_second();
    let memory: &Database = context.memory()?;
    for name in memory.roles_due(now, BEGUN_MAX) {
        let Some(role) = find(&context, &name)? else { continue };
        let key = record_name(&name);
        let is_left = !role.change.pending.is_empty();
        if !is_left && !role.is_in_window(now) {
            skip(&context, &key, now).await?;
        } else if !is_left && role.connection(&context).is_ok_and(|found| !found.allows(&name)) {
            let why = format!("{name:?} is not an allowed role");
            rotation::put_off::<StaticRole>(&context, &key, &why).await?;
        } else {
            rotation::go_on::<StaticRole>(&context, &key).await?;
        }
    }
    for name in memory.open_roots() {
        settle_open_root(&context, &name, now).await?;
    }
    Ok(())
}

/// The window of a schedule is over: its next time is waited for.
async fn skip(context: &EngineContext<'_>, key: &str, now: i64) -> Result<(), Error> {
    let skipping = context.storage.transact(key, |transaction| {
        let Some(found) = transaction.get(key)? else { return Ok(()) };
        let mut role = found.decode_object(StaticRole::decode)?;
        role.change.next = role.next_after(now);
        transaction.put(key, role.encode())
    });
    skipping.await
}

/// A change of a root password that a crash left open: the database says which one it is.
async fn settle_open_root(context: &EngineContext<'_>, name: &str, now: i64) -> Result<(), Error> {
    let Ok(connection) = connection::find(context, name) else { return Ok(()) };
    let Some(since) = connection.pending_since().filter(|since| now - since > ROOT_SECS) else {
        return Ok(());
    };
    let Some(checks) = connection.login_checks(context) else { return Ok(()) };
    let id = format!("{}root/{name}/{since}", context.mount.accessor);
    match rotation::taken_password_by_job(context, &id, checks) {
        Some(TakenPassword::Pending) => {
            root::settle_root(context, &connection, RootPassword::Pending).await.map(drop)
        }
        Some(TakenPassword::Current) => {
            root::settle_root(context, &connection, RootPassword::Current).await.map(drop)
        }
        // It is asked again.
        Some(TakenPassword::Unclear(_)) | None => Ok(()),
    }
}
