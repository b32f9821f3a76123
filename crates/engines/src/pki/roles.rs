//! The routes of roles.

use kallisto_api::json::Json;
use kallisto_api::{Error, Response};
use kallisto_engine::Call;

use super::answer;
use super::given::{GivenFields, object};
use super::memory::{Pki, PkiState};
use super::role::PkiRole;

const LEASES: &str = "it is encouraged to disable generate_lease and rely on PKI's native capabilities when possible; this \
     option can cause instance-wide issues with large numbers of issued certificates";

const NO_LEASES: &str = "mutually exclusive values no_store=true and generate_lease=true were both specified; no_store=true \
     takes priority";

fn record(name: &str) -> String {
    format!("role/{name}")
}

/// Says that there is a role whose name differs from this one in the case of its letters alone, if there is. Version 0.2.0 stored names in lower
/// case, so scripts may mean that one.
pub(super) fn warn_of_case(state: &PkiState, name: &str) -> Option<String> {
    let twins = state.roles.keys().filter(|known| known.eq_ignore_ascii_case(name));
    let twin = twins.filter(|known| *known != name).min()?;
    Some(format!("Names of roles are case-sensitive: {name} is not the role {twin}, which exists"))
}

fn warnings(call: &Call<'_>, role: &PkiRole) -> Result<Vec<String>, Error> {
    let memory: &Pki = call.memory()?;
    let state = memory.read();
    let mut warnings = Vec::from_iter(warn_of_case(&state, call.params.get("name")));
    if role.generates_lease {
        warnings.push(LEASES.to_owned());
    }
    if role.issuer_ref != "default" && state.issuer(&role.issuer_ref).is_err() {
        warnings.push(format!(
            "Issuing Certificate was set to {} but no issuing certificate currently has that name",
            role.issuer_ref
        ));
    }
    Ok(warnings)
}

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    let names = call.names_in("role/")?;
    Ok(answer::data(object([("keys", Json::strings(names))]), Vec::new()))
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let record = call.storage.get(&record(call.name("name")?))?.ok_or(Error::NotFound)?;
    let role = record.decode(PkiRole::decode)?;
    Ok(answer::data(role.shown, Vec::new()))
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let record = record(call.name("name")?);
    let body = call.request.object()?;
    let given = GivenFields::of(&body);
    let role = PkiRole::read(given)?;
    let mut warnings = warnings(&call, &role)?;
    if role.stores_nothing && given.flag("generate_lease", false)? {
        warnings.push(NO_LEASES.to_owned());
    }
    call.storage.put(&record, role.encode()).await?;
    Ok(answer::data(role.shown, warnings))
}

pub(super) async fn patch(call: Call<'_>) -> Result<Response, Error> {
    let record = record(call.name("name")?);
    let patch = call.request.merge_patch()?;
    let role = call.storage.transact(&record, |transaction| {
        let known = transaction.get(&record)?.ok_or(Error::NotFound)?;
        let known = known.decode(PkiRole::decode)?;
        let wants_leases = GivenFields::of(&patch).flag("generate_lease", known.generates_lease)?;
        let role = known.patched(patch.clone())?;
        transaction.put(&record, role.encode())?;
        Ok((role, wants_leases))
    });
    let (role, wants_leases) = role.await?;
    let mut warnings = warnings(&call, &role)?;
    if role.stores_nothing && wants_leases {
        warnings.push(NO_LEASES.to_owned());
    }
    Ok(answer::data(role.shown, warnings))
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let memory: &Pki = call.memory()?;
    let warning = {
        let state = memory.read();
        if state.roles.contains_key(name) { None } else { warn_of_case(&state, name) }
    };
    call.storage.delete(&record(name)).await?;
    Ok(match warning {
        None => Response::Empty,
        Some(warning) => answer::nothing(vec![warning]),
    })
}
