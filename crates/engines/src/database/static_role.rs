//! Static roles: users that are there already, whose passwords change by a period or a schedule.
//!
//! ```text
//! 1. the new password is written down as pending
//! 2. the database is told it
//! 3. the pending one becomes the password
//! ```
//!
//! Invariants:
//! - The password of the record logs in, or the pending one does.
//! - A try that may have reached the database is repeated with the same password; one that the database refused is not, since it may be
//!   the password that it refuses.
//! - The job asks and comes back for the outcome: a database that hangs keeps no other job waiting.

use jiff::Timestamp;
use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::far_end::{FarEndProgress, SessionUse};
use kallisto_engine::{Call, EngineContext, FarEndAnswer, FarEndFailure, names};
use secrecy::{ExposeSecret, SecretString};

use super::connection::{self, DatabaseConnection, span_secs, statements};
use super::memory::Database;
use super::role::{self, credential_type};
use super::root;
use super::schedule::RotationSchedule;
use super::work;
use crate::passwords::make_password;

/// Shortest period, in seconds.
const PERIOD_SECS_MIN: u64 = 5;
/// Shortest window of a schedule, in seconds.
const WINDOW_SECS_MIN: u64 = 3600;
/// The first pause after a failure, in seconds; each further one is twice as long.
const PAUSE_FIRST_SECS: i64 = 10;
/// The longest, in seconds.
const PAUSE_SECS_MAX: i64 = 600;
/// Most rotations that one run of the job begins.
const BEGUN_MAX: usize = 64;
/// How long a change of a root password may be under way before the job looks which one it is, in seconds.
const ROOT_SECS: i64 = 60;

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
    password: String,
    pending: String,
    rotated: String,
    next: i64,
    failures: i64,
    last_error: String,
}

pub(super) fn record_name(name: &str) -> String {
    format!("static-role/{name}")
}

impl StaticRole {
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let damaged = |_| Error::internal(&"the record of a static role is damaged");
        let map = json::parse_object(bytes).map_err(|error| damaged(error.to_string()))?;
        let fields = Fields::new(&map);
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
            password: text("password")?,
            pending: text("pending")?,
            rotated: text("rotated")?,
            next: fields.int("next")?.unwrap_or(0),
            failures: fields.int("failures")?.unwrap_or(0),
            last_error: text("last_error")?,
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut map = self.shown();
        for (name, value) in [
            ("password", &self.password),
            ("pending", &self.pending),
            ("rotated", &self.rotated),
            ("last_error", &self.last_error),
        ] {
            map.insert(name.into(), value.as_str().into());
        }
        map.insert("next".into(), self.next.into());
        map.insert("failures".into(), self.failures.into());
        Json::Object(map).to_text()
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

    /// When it is rotated next, in seconds since 1970.
    pub(super) const fn due(&self) -> i64 {
        self.next
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

    /// Whether a window lets it begin now: past it the next time of the schedule is waited for.
    fn is_in_window(&self, now: i64) -> bool {
        let window = i64::try_from(self.window_secs).unwrap_or(i64::MAX);
        self.schedule.is_empty() || window == 0 || now < self.next.saturating_add(window)
    }

    fn change(&mut self, fields: Fields<'_>, is_new: bool) -> Result<(), Error> {
        if let Some(db_name) = fields.string("db_name")? {
            self.db_name = db_name;
        }
        if let Some(username) = fields.string("username")? {
            if !is_new && username != self.username {
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
        let (period, schedule) =
            (fields.span("rotation_period")?, fields.string("rotation_schedule")?);
        let schedule = schedule.filter(|schedule| !schedule.is_empty());
        if period.is_some() && schedule.is_some() {
            return Err(Error::invalid(
                "mutually exclusive fields rotation_period and rotation_schedule were both specified; only one of them can be provided",
            ));
        }
        if period.is_some() {
            self.period_secs = span_secs(fields, "rotation_period")?;
            self.schedule.clear();
        }
        if let Some(schedule) = schedule {
            RotationSchedule::parse(&schedule).map_err(|why| {
                Error::invalid(format!("could not parse rotation_schedule: {why}"))
            })?;
            self.schedule = schedule;
            self.period_secs = 0;
        }
        if fields.raw("rotation_window").is_some() {
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
            return Err(Error::invalid(
                "the databases here take passwords: credential_type is password",
            ));
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

    fn policy(&self, connection: &DatabaseConnection) -> String {
        let own = Fields::new(&self.credential_config).string("password_policy").ok().flatten();
        own.filter(|own| !own.is_empty()).unwrap_or_else(|| connection.password_policy.clone())
    }
}

fn find(context: &EngineContext<'_>, name: &str) -> Result<Option<StaticRole>, Error> {
    let record = context.storage.get(&record_name(name))?;
    record.map(|record| StaticRole::decode(&record.value)).transpose()
}

fn missing(name: &str) -> Error {
    let _ = name;
    Error::invalid("no static role found for role name")
}

/// Step 1: writes a new password down, unless one is pending already.
async fn plan(
    context: &EngineContext<'_>,
    name: &str,
) -> Result<(StaticRole, DatabaseConnection), Error> {
    let role = find(context, name)?.ok_or_else(|| missing(name))?;
    let connection = connection::find(context, &role.db_name)?;
    if !connection.allows(name) {
        return Err(Error::invalid(format!("{name:?} is not an allowed role")));
    }
    if !role.pending.is_empty() {
        return Ok((role, connection));
    }
    let password = make_password(context, &role.policy(&connection))?;
    let key = record_name(name);
    let planned = context.storage.transact(&key, |transaction| {
        let found = transaction.get(&key)?.ok_or_else(|| missing(name))?;
        let mut role = StaticRole::decode(&found.value)?;
        if role.pending.is_empty() {
            password.expose_secret().clone_into(&mut role.pending);
            transaction.put(&key, role.encode())?;
        }
        Ok(role)
    });
    Ok((planned.await?, connection))
}

/// Step 3: writes down what came of it.
async fn settle(
    context: &EngineContext<'_>,
    name: &str,
    pending: &str,
    outcome: Result<(), &FarEndFailure>,
) -> Result<(), Error> {
    let key = record_name(name);
    let (now, rotated) = (context.now.as_second(), context.now.to_string());
    context
        .storage
        .transact(&key, |transaction| {
            let Some(found) = transaction.get(&key)? else { return Ok(()) };
            let mut role = StaticRole::decode(&found.value)?;
            if role.pending != pending {
                return Ok(());
            }
            match outcome {
                Ok(()) => {
                    role.password = std::mem::take(&mut role.pending);
                    rotated.clone_into(&mut role.rotated);
                    role.next = role.next_after(now);
                    role.failures = 0;
                    role.last_error.clear();
                }
                Err(failure) => {
                    if matches!(failure, FarEndFailure::Refused(_)) {
                        role.pending.clear();
                    }
                    let doublings = u32::try_from(role.failures.clamp(0, 16)).unwrap_or(0);
                    let pause = (PAUSE_FIRST_SECS << doublings).min(PAUSE_SECS_MAX);
                    role.next = now + pause;
                    role.failures += 1;
                    failure.words().clone_into(&mut role.last_error);
                }
            }
            transaction.put(&key, role.encode())
        })
        .await
}

/// All of a rotation, for who waits for it.
async fn rotate_now(context: &EngineContext<'_>, name: &str) -> Result<(), Error> {
    let (role, connection) = plan(context, name).await?;
    let pending = SecretString::from(role.pending.as_str());
    let work = work::set_password(&connection, &role.statements, &role.username, &pending)?;
    let outcome = connection.ask(context, work, vec![pending]).await;
    settle(context, name, &role.pending, outcome.as_ref().map(drop)).await?;
    outcome.map(drop).map_err(|failure| connection.failed("failed to set the password", &failure))
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let name = call.params.get("name");
    names::check(name)?;
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
            let is_new = found.is_none();
            let mut role = match found {
                Some(found) => StaticRole::decode(&found.value)?,
                None => StaticRole::default(),
            };
            role.change(fields, is_new)?;
            role.next = if is_new || role.failures > 0 { now } else { role.next_after(now) };
            if is_new && skips {
                role.next = role.next_after(now);
            }
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
        // One that may have been set is kept: nobody else knows the password.
        let is_open = find(&call, name)?.is_some_and(|role| {
            !role.pending.is_empty() && matches!(error, Error::Unavailable(_)) && role.failures > 0
        });
        if !is_open {
            call.storage.delete(&key).await?;
        }
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
    let name = call.params.get("name");
    names::check(name)?;
    let role = find(&call, name)?.ok_or(Error::NotFound)?;
    let mut shown = role.shown();
    if !role.rotated.is_empty() {
        shown.insert("last_vault_rotation".into(), role.rotated.as_str().into());
    }
    if !role.last_error.is_empty() {
        shown.insert("last_error".into(), role.last_error.as_str().into());
    }
    let next =
        Timestamp::from_second(role.next).map_or_else(|_| String::new(), |at| at.to_string());
    shown.insert("next_rotation".into(), next.into());
    Ok(Response::data(&Json::Object(shown)))
}

pub(super) async fn creds(call: Call<'_>) -> Result<Response, Error> {
    let name = call.params.get("name");
    names::check(name)?;
    let role = find(&call, name)?.ok_or_else(|| Error::invalid(format!("unknown role: {name}")))?;
    let connection = connection::find(&call, &role.db_name)?;
    if !connection.allows(name) {
        return Err(Error::invalid(format!("{name:?} is not an allowed role")));
    }
    let left = match role.failures {
        0 => u64::try_from(role.next.saturating_sub(call.now.as_second())).unwrap_or(0),
        _ => 0,
    };
    let mut data = Map::new();
    data.insert("last_vault_rotation".into(), role.rotated.as_str().into());
    data.insert("password".into(), role.password.as_str().into());
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
    super::list_folder(&call, "static-role/")
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let name = call.params.get("name");
    names::check(name)?;
    call.storage.delete(&record_name(name)).await?;
    Ok(Response::Empty)
}

pub(super) async fn rotate(call: Call<'_>) -> Result<Response, Error> {
    let name = call.params.get("name");
    names::check(name)?;
    rotate_now(&call, name).await?;
    Ok(Response::Empty)
}

/// By the clock: rotations that are due, and root passwords whose change was left open.
pub(super) async fn work_off(context: EngineContext<'_>) -> Result<(), Error> {
    let now = context.now.as_second();
    let memory: &Database = context.memory()?;
    for name in memory.roles_due(now, BEGUN_MAX) {
        if let Err(error) = go_on(&context, &name, now).await {
            put_off(&context, &name, &error).await?;
        }
    }
    for name in memory.open_roots() {
        settle_open_root(&context, &name, now).await?;
    }
    Ok(())
}

async fn go_on(context: &EngineContext<'_>, name: &str, now: i64) -> Result<(), Error> {
    let id = format!("{}rotate/{name}", context.mount.accessor);
    match context.far_ends.take(&id) {
        FarEndProgress::UnderWay => Ok(()),
        FarEndProgress::Unknown => {
            let role = find(context, name)?.ok_or_else(|| missing(name))?;
            if role.pending.is_empty() && !role.is_in_window(now) {
                return skip(context, name, now).await;
            }
            let (role, connection) = plan(context, name).await?;
            let pending = SecretString::from(role.pending.as_str());
            let work = work::set_password(&connection, &role.statements, &role.username, &pending)?;
            let call = connection.call(context, work, SessionUse::Pooled, vec![pending]);
            // What does not begin now begins at the next run.
            context.far_ends.begin(&id, call);
            Ok(())
        }
        FarEndProgress::Ended(outcome) => {
            let outcome: Result<FarEndAnswer, FarEndFailure> = outcome;
            if let Err(failure) = &outcome {
                tracing::warn!(role = name, %failure, "a static role was not rotated");
            }
            let pending = find(context, name)?.map(|role| role.pending).unwrap_or_default();
            settle(context, name, &pending, outcome.as_ref().map(drop)).await
        }
    }
}

/// The window of a schedule is over: its next time is waited for.
async fn skip(context: &EngineContext<'_>, name: &str, now: i64) -> Result<(), Error> {
    let key = record_name(name);
    context
        .storage
        .transact(&key, |transaction| {
            let Some(found) = transaction.get(&key)? else { return Ok(()) };
            let mut role = StaticRole::decode(&found.value)?;
            role.next = role.next_after(now);
            transaction.put(&key, role.encode())
        })
        .await
}

/// Nothing was asked: the connection is gone, or does not allow the role.
async fn put_off(context: &EngineContext<'_>, name: &str, error: &Error) -> Result<(), Error> {
    let pending = find(context, name)?.map(|role| role.pending).unwrap_or_default();
    let failure = FarEndFailure::Unreachable(error.to_string());
    settle(context, name, &pending, Err(&failure)).await
}

/// A change of a root password that a crash left open: the database says which one it is.
async fn settle_open_root(context: &EngineContext<'_>, name: &str, now: i64) -> Result<(), Error> {
    let Ok(connection) = connection::find(context, name) else { return Ok(()) };
    let Some(since) = connection.pending_since().filter(|since| now - since > ROOT_SECS) else {
        return Ok(());
    };
    let _ = since;
    let id = format!("{}root/{name}", context.mount.accessor);
    let is_set = match context.far_ends.take(&id) {
        FarEndProgress::UnderWay => return Ok(()),
        FarEndProgress::Unknown => {
            if let Some(check) = connection.pending_check(context) {
                context.far_ends.begin(&id, check);
            }
            return Ok(());
        }
        FarEndProgress::Ended(Ok(_)) => true,
        FarEndProgress::Ended(Err(FarEndFailure::LoginRefused(_))) => false,
        // It does not answer: it is asked again.
        FarEndProgress::Ended(Err(_)) => return Ok(()),
    };
    root::settle_root(context, &connection, is_set).await.map(drop)
}
