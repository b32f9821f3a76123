//! The routes of roles, and of the list of those that are good for any address.

use std::sync::Arc;

use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::Call;

use super::memory::{SshMemory, ZERO_ADDRESS, decode_zero_address};
use super::role::SshRole;

pub(super) fn record(name: &str) -> String {
    format!("role/{name}")
}

/// The role that a path is about, if there is one.
///
/// # Errors
/// [`Error::UnsupportedPath`] for a name that no role has.
pub(super) fn find(call: &Call<'_>) -> Result<Option<Arc<SshRole>>, Error> {
    let name = call.name("role")?;
    Ok(call.memory::<SshMemory>()?.read().roles.get(name).cloned())
}

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    let names = call.names_in("role/")?;
    let memory: &SshMemory = call.memory()?;
    let state = memory.read();
    let info = names.iter().filter_map(|name| {
        let role = state.roles.get(name)?;
        let mut info = vec![("key_type".to_owned(), Json::from(role.key_type()))];
        if let Some(ca) = role.ca() {
            info.push(("issuer_ref".to_owned(), ca.issuer_ref.as_str().into()));
        }
        Some((name.clone(), Json::Object(info.into_iter().collect())))
    });
    let info: Map = info.collect();
    let keys = Json::strings(names.iter());
    Ok(Response::data(&Json::object([("key_info", info.into()), ("keys", keys)])))
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let role = find(&call)?.ok_or(Error::NotFound)?;
    Ok(Response::data(&Json::Object(role.shown.clone())))
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("role")?;
    let body = call.request.object()?;
    let role = SshRole::read(Fields::new(&body))?;
    call.storage.put(&record(name), role.encode()).await?;
    Ok(Response::Empty)
}

fn encode_zero_address(roles: &[String]) -> Vec<u8> {
    Json::object([("roles", Json::strings(roles))]).to_text()
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("role")?;
    let record = record(name);
    call.storage
        .transact(ZERO_ADDRESS, |transaction| {
            // A role of the same name that is made later is not good for any address.
            if let Some(found) = transaction.get(ZERO_ADDRESS)? {
                let roles = found.decode(decode_zero_address)?;
                let left: Vec<String> =
                    roles.iter().filter(|role| *role != name).cloned().collect();
                if left.len() < roles.len() {
                    transaction.put(ZERO_ADDRESS, encode_zero_address(&left))?;
                }
            }
            if transaction.get(&record)?.is_some() {
                transaction.delete(&record)?;
            }
            Ok(())
        })
        .await?;
    Ok(Response::Empty)
}

pub(super) async fn read_zero_address(call: Call<'_>) -> Result<Response, Error> {
    let memory: &SshMemory = call.memory()?;
    let roles = memory.read().zero_address.clone().ok_or(Error::NotFound)?;
    Ok(Response::data(&Json::object([("roles", Json::strings(roles))])))
}

pub(super) async fn write_zero_address(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let given = Fields::new(&body).strings("roles")?.unwrap_or_default();
    let mut roles: Vec<String> = Vec::new();
    for role in given.iter().map(|role| role.trim()).filter(|role| !role.is_empty()) {
        if !roles.iter().any(|known| known == role) {
            roles.push(role.to_owned());
        }
    }
    if roles.is_empty() {
        return Err(Error::invalid("Missing roles"));
    }
    call.storage
        .transact(ZERO_ADDRESS, |transaction| {
            // The roles are read by the transaction: one that is deleted meanwhile is not listed.
            for role in &roles {
                if transaction.get(&record(role))?.is_none() {
                    return Err(Error::invalid(format!("Role {role:?} does not exist")));
                }
            }
            transaction.put(ZERO_ADDRESS, encode_zero_address(&roles))
        })
        .await?;
    Ok(Response::Empty)
}

pub(super) async fn delete_zero_address(call: Call<'_>) -> Result<Response, Error> {
    call.storage.delete(ZERO_ADDRESS).await?;
    Ok(Response::Empty)
}
