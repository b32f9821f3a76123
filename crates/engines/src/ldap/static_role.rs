//! Static roles: entries that are there already, whose passwords change by a period.

use jiff::Timestamp;
use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::Call;
use kallisto_engine::storage::Transaction;
use kallisto_ldap::dn;

use super::memory::LdapMemory;
use super::rotation::{self, Rotation};
use super::{directory, encoded};
use crate::rotation::{RotatedRecord as _, finish_open};

/// Shortest period, in seconds.
const PERIOD_SECS_MIN: i64 = 5;

pub(super) fn record_name(name: &str) -> String {
    format!("static-role/{name}")
}

/// The record that says to what the entry of this name belongs.
pub(super) fn managed_name(dn: &str) -> String {
    format!("managed/{}", encoded(&format!("dn:{}", dn::normalized(dn))))
}

/// The record that says to what the entry belongs that is called so.
fn called_name(username: &str) -> String {
    format!("managed/{}", encoded(username))
}

/// Takes an entry for a static role or a set; both its name and what it is called by are one's own.
pub(super) fn manage(
    transaction: &mut Transaction<'_>,
    entry: &Rotation,
    owner: &str,
) -> Result<(), Error> {
    for (key, name) in
        [(called_name(&entry.username), &entry.username), (managed_name(&entry.dn), &entry.dn)]
    {
        match transaction.get(&key)? {
            Some(found) if found.value[..] != *owner.as_bytes() => {
                let text = format!("{name:?} is already managed by the secrets engine");
                return Err(Error::invalid(text));
            }
            Some(_) => {}
            None => transaction.put(&key, owner.as_bytes().to_vec())?,
        }
    }
    Ok(())
}

/// Lets an entry go.
pub(super) fn let_go(transaction: &mut Transaction<'_>, entry: &Rotation) -> Result<(), Error> {
    transaction.delete(&called_name(&entry.username))?;
    transaction.delete(&managed_name(&entry.dn))
}

/// The name of a role, and its entry.
fn named(call: &Call<'_>) -> Result<(String, Option<Rotation>), Error> {
    let name = call.name("name")?;
    let key = record_name(name);
    let found = rotation::find(call, &key)?;
    Ok((key, found))
}

/// The entry as these fields make it of the one before, which stays the same entry.
fn changed(before: Option<&Rotation>, fields: Fields<'_>) -> Result<Rotation, Error> {
    let mut rotation = before.cloned().unwrap_or_default();
    for (name, text) in [("username", &mut rotation.username), ("dn", &mut rotation.dn)] {
        if let Some(given) = fields.string(name)?.filter(|given| !given.is_empty()) {
            let is_same = given.eq_ignore_ascii_case(text) || dn::is_same(&given, text);
            match before {
                None => *text = given,
                // Its spelling stays the directory's.
                Some(_) if is_same => {}
                Some(_) => {
                    return Err(Error::invalid(format!("cannot update static account {name}")));
                }
            }
        }
    }
    if let Some(given) = fields.span("rotation_period")? {
        rotation.period_secs = given.secs();
    }
    if rotation.username.is_empty() {
        return Err(Error::invalid("username is a required field to manage a static account"));
    }
    if rotation.period_secs == 0 {
        return Err(Error::invalid("rotation_period is required to manage a static account"));
    }
    if rotation.period_secs < PERIOD_SECS_MIN {
        return Err(Error::invalid(format!(
            "rotation_period must be {PERIOD_SECS_MIN} seconds or more"
        )));
    }
    if !rotation.dn.is_empty() && !dn::is_dn(&rotation.dn) {
        return Err(Error::invalid(format!("dn: {:?} is no name of an entry", rotation.dn)));
    }
    Ok(rotation)
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let (key, before) = named(&call)?;
    let is_new = before.is_none();
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let directory = directory::find(&call.storage)?;
    let skips = fields.boolean("skip_import_rotation")?.unwrap_or(directory.skips_import);
    let mut planned = changed(before.as_ref(), fields)?;
    if is_new {
        planned.dn = match planned.dn.is_empty() {
            true => directory.find_dn(&call, &planned.username).await?,
            false => directory.spelled(&call, &planned.dn).await?,
        };
        directory.check_not_own(&call, &planned.dn).await?;
    }
    let now = call.now.as_second();
    let written = call.storage.transact(&key, |transaction| {
        let mut rotation = match transaction.get(&key)? {
            Some(found) => changed(Some(&found.decode_object(Rotation::decode)?), fields)?,
            None => planned.clone(),
        };
        manage(transaction, &rotation, &key)?;
        if rotation.change.pending.is_empty() {
            rotation.change.next = rotation.change.next_by_period(rotation.period_secs, now);
        }
        transaction.put(&key, rotation.encode())
    });
    written.await?;
    if !is_new || skips {
        return Ok(Response::Empty);
    }
    if let Err(error) = rotation::rotate_now(&call, &key, None).await {
        // One that may have been set is kept: nobody else knows the password.
        let is_open = rotation::find(&call, &key)?
            .is_some_and(|rotation| !rotation.change.pending.is_empty());
        if !is_open {
            forget(&call, &key).await?;
        }
        return Err(error);
    }
    Ok(Response::Empty)
}

async fn forget(call: &Call<'_>, key: &str) -> Result<(), Error> {
    let forgetting = call.storage.transact(key, |transaction| {
        if let Some(found) = transaction.get(key)? {
            let rotation = found.decode_object(Rotation::decode)?;
            let_go(transaction, &rotation)?;
        }
        transaction.delete(key)
    });
    forgetting.await
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let rotation = named(&call)?.1.ok_or(Error::NotFound)?;
    let mut shown = Map::new();
    shown.insert("dn".into(), rotation.dn.as_str().into());
    shown.insert("username".into(), rotation.username.as_str().into());
    shown.insert("rotation_period".into(), rotation.period_secs.into());
    if !rotation.change.rotated.is_empty() {
        shown.insert("last_vault_rotation".into(), rotation.change.rotated.as_str().into());
    }
    if !rotation.change.last_error.is_empty() {
        shown.insert("last_error".into(), rotation.change.last_error.as_str().into());
    }
    let next = Timestamp::from_second(rotation.change.next);
    shown.insert(
        "next_rotation".into(),
        next.map_or_else(|_| String::new(), |at| at.to_string()).into(),
    );
    Ok(Response::data(&Json::Object(shown)))
}

pub(super) async fn creds(call: Call<'_>) -> Result<Response, Error> {
    let (key, _) = named(&call)?;
    let memory: &LdapMemory = call.memory()?;
    let rotation: Option<Rotation> = finish_open(&call, &memory.finished, &key).await?;
    let unknown = || Error::invalid(format!("unknown role: {}", call.params.get("name")));
    let rotation = rotation.ok_or_else(unknown)?;
    let left = match rotation.change.failures {
        0 => u64::try_from(rotation.change.next.saturating_sub(call.now.as_second())).unwrap_or(0),
        _ => 0,
    };
    Ok(Response::data(&Json::object([
        ("dn", rotation.dn.as_str().into()),
        ("last_password", rotation.last_password.as_str().into()),
        ("last_vault_rotation", rotation.change.rotated.as_str().into()),
        ("password", rotation.change.password.as_str().into()),
        ("rotation_period", rotation.period_secs.into()),
        ("ttl", left.into()),
        ("username", rotation.username.as_str().into()),
    ])))
}

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    call.list("static-role/")
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let (key, _) = named(&call)?;
    forget(&call, &key).await?;
    Ok(Response::Empty)
}

pub(super) async fn rotate(call: Call<'_>) -> Result<Response, Error> {
    let (key, found) = named(&call)?;
    let unknown = || Error::invalid(format!("unknown role: {}", call.params.get("name")));
    found.ok_or_else(unknown)?;
    rotation::rotate_now(&call, &key, None).await?;
    Ok(Response::Empty)
}
