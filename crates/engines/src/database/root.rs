//! The password of a connection itself: changed to one that nobody else knows.
//!
//! Two passwords are kept while it is not known which of them the database takes.

use kallisto_api::{Error, Fields, Response};
use kallisto_engine::far_end::{RootPassword, SessionUse};
use kallisto_engine::{Call, EngineContext};
use secrecy::ExposeSecret;

use super::connection::{DatabaseConnection, find, record_name};
use crate::passwords::make_password;
use crate::rotation::{RootOutcome, TakenPassword, taken_password};

/// Writes down which of the two root passwords holds.
///
/// # Errors
/// When somebody wrote another one meanwhile although the pending one holds.
pub(super) async fn settle_root(
    context: &EngineContext<'_>,
    connection: &DatabaseConnection,
    holds: RootPassword,
) -> Result<Option<DatabaseConnection>, Error> {
    let key = record_name(&connection.name);
    let pending = connection.record.get("pending_password").cloned();
    let now = context.now.to_string();
    let is_set = holds == RootPassword::Pending;
    let settled = context.storage.transact(&key, |transaction| {
        let Some(found) = transaction.get(&key)? else { return Ok(None) };
        let mut record = found.object()?;
        if pending.is_none() || record.get("pending_password") != pending.as_ref() {
            // Somebody else settled it.
            let is_kept = record.get("password") == pending.as_ref();
            return match is_set && pending.is_some() && !is_kept {
                true => Err(Error::Unavailable(
                    "the connection was changed while its password was: write password".into(),
                )),
                false => Ok(Some(record)),
            };
        }
        record.remove("pending_password");
        record.remove("pending_since");
        if is_set && let Some(pending) = &pending {
            let revision = Fields::new(&record).int("revision")?.unwrap_or(0);
            record.insert("revision".to_owned(), (revision + 1).into());
            record.insert("password".to_owned(), pending.clone());
            record.insert("root_rotated".to_owned(), now.as_str().into());
        }
        transaction.put(&key, DatabaseConnection::encode(&record))?;
        Ok(Some(record))
    });
    settled.await?.map(|record| DatabaseConnection::read(&connection.name, record)).transpose()
}

/// The connection with a password that is pending: a new one, or the one that an earlier rotation left.
async fn begin_root(call: &Call<'_>, name: &str) -> Result<DatabaseConnection, Error> {
    let password = make_password(call, &find(call, name)?.password_policy)?;
    let (key, since) = (record_name(name), call.now.as_second());
    let begun = call.storage.transact(&key, |transaction| {
        let found = transaction.get(&key)?.ok_or(Error::NotFound)?;
        let mut record = found.object()?;
        if !record.contains_key("pending_password") {
            record.insert("pending_password".to_owned(), password.expose_secret().into());
        }
        // The job waits for this one.
        record.insert("pending_since".to_owned(), since.into());
        transaction.put(&key, DatabaseConnection::encode(&record))?;
        Ok(record)
    });
    DatabaseConnection::read(name, begun.await?)
}

/// Changes the password of a connection: written down, set, tried, kept. One that is pending is set again, until a login says that it is
/// set, or that it is not.
pub(super) async fn rotate_root(call: Call<'_>) -> Result<Response, Error> {
    let doing = "unable to rotate root credentials";
    let name = call.name("name")?;
    let left = find(&call, name)?;
    if left.username.is_empty() {
        return Err(Error::invalid(format!("{doing}: no username in configuration")));
    }
    if let Some(checks) = left.login_checks(&call) {
        match taken_password(&call, checks).await {
            TakenPassword::Pending => drop(settle_root(&call, &left, RootPassword::Pending).await?),
            TakenPassword::Current => {}
            TakenPassword::Unclear(failure) => return Err(left.unclear(doing, &failure)),
        }
    }
    let connection = begin_root(&call, name).await?;
    let pending = connection.pending.clone().ok_or(Error::Conflict)?;
    let written = connection.written_password(call.random, &pending)?;
    let work = super::work::set_root_password(&connection, &written)?;
    let set = connection.call(&call, work, SessionUse::Fresh, vec![pending, written]);
    let outcome = call.far_ends.ask(set).await;
    let checks = connection.login_checks(&call).ok_or(Error::Conflict)?;
    match RootOutcome::of(outcome.map(drop), taken_password(&call, checks).await) {
        RootOutcome::Set => {
            settle_root(&call, &connection, RootPassword::Pending).await.map(|_| Response::Empty)
        }
        RootOutcome::Refused(failure) => {
            settle_root(&call, &connection, RootPassword::Current).await?;
            Err(connection.failed(doing, &failure))
        }
        RootOutcome::Unclear(failure) => Err(connection.unclear(doing, &failure)),
    }
}
