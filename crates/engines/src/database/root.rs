//! The password of a connection itself: changed to one that nobody else knows.
//!
//! Two passwords are kept while it is not known which of them the database takes.

use kallisto_api::json;
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::far_end::SessionUse;
use kallisto_engine::{Call, EngineContext, FarEndFailure, names};
use secrecy::ExposeSecret;

use super::connection::{DatabaseConnection, find, record_name};
use crate::passwords::make_password;

/// Writes down which of the two root passwords is the one: the pending one if `is_set`.
pub(super) async fn settle_root(
    context: &EngineContext<'_>,
    connection: &DatabaseConnection,
    is_set: bool,
) -> Result<Option<DatabaseConnection>, Error> {
    let key = record_name(&connection.name);
    let pending = connection.record.get("pending_password").cloned();
    let now = context.now.to_string();
    let settled = context.storage.transact(&key, |transaction| {
        let Some(found) = transaction.get(&key)? else { return Ok(None) };
        let mut record = json::parse_object(&found.value)
            .map_err(|_| Error::internal(&"the record of a database connection is damaged"))?;
        // Somebody else settled it, or began another.
        if pending.is_none() || record.get("pending_password") != pending.as_ref() {
            return Ok(Some(record));
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

/// Changes the password of a connection: written down, set, tried, kept.
pub(super) async fn rotate_root(call: Call<'_>) -> Result<Response, Error> {
    let name = call.params.get("name");
    names::check(name)?;
    let mut connection = find(&call, name)?;
    if connection.username.is_empty() {
        return Err(Error::invalid(
            "unable to rotate root credentials: no username in configuration",
        ));
    }
    // What an earlier rotation left open is settled first: one of the two passwords is the one.
    if let Some(check) = connection.pending_check(&call) {
        let is_set = match call.far_ends.ask(check).await {
            Ok(_) => true,
            Err(FarEndFailure::LoginRefused(_)) => false,
            Err(failure) => {
                return Err(connection.failed("unable to rotate root credentials", &failure));
            }
        };
        connection = settle_root(&call, &connection, is_set).await?.ok_or(Error::NotFound)?;
    }
    let password = make_password(&call, &connection.password_policy)?;
    let (key, since) = (record_name(name), call.now.as_second());
    let begun = call.storage.transact(&key, |transaction| {
        let found = transaction.get(&key)?.ok_or(Error::NotFound)?;
        let mut record = json::parse_object(&found.value)
            .map_err(|_| Error::internal(&"the record of a database connection is damaged"))?;
        if record.contains_key("pending_password") {
            return Err(Error::Unavailable(
                "another rotation of this password is under way".into(),
            ));
        }
        record.insert("pending_password".to_owned(), password.expose_secret().into());
        record.insert("pending_since".to_owned(), since.into());
        transaction.put(&key, DatabaseConnection::encode(&record))?;
        Ok(record)
    });
    let connection = DatabaseConnection::read(name, begun.await?)?;
    let work = super::work::set_root_password(&connection, &password)?;
    let set = connection.call(&call, work, SessionUse::Fresh, vec![password]);
    let outcome = call.far_ends.ask(set).await;
    if let Err(failure) = &outcome
        && !matches!(failure, FarEndFailure::Unknown(_))
    {
        settle_root(&call, &connection, false).await?;
        return Err(connection.failed("unable to rotate root credentials", failure));
    }
    let Some(check) = connection.pending_check(&call) else { return Err(Error::Conflict) };
    match call.far_ends.ask(check).await {
        Ok(_) => settle_root(&call, &connection, true).await.map(|_| Response::Empty),
        // Both are kept: whichever works is found when the database answers.
        Err(failure) => Err(connection.failed("the new root password is not confirmed", &failure)),
    }
}
