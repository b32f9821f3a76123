//! `sys/policies/password/*`: what generated passwords are made of.

use kallisto_auth::PasswordPolicy;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::random;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;

/// Where policies are kept in the engine storage of `sys/`.
const FOLDER: &str = "password/";

pub(super) fn read(context: &NamespaceContext, name: &str) -> Result<Response, Error> {
    let text = text(context, name)?;
    Ok(Response::data(&Json::object([("policy", text.into())])))
}

pub(super) async fn delete(context: &NamespaceContext, name: &str) -> Result<Response, Error> {
    storage(context)?.delete(&record(name)).await?;
    Ok(Response::Empty)
}

fn storage(context: &NamespaceContext) -> Result<EngineStorage<'_>, Error> {
    EngineStorage::builtin(context, MountId::SYSTEM)
}

fn record(name: &str) -> String {
    format!("{FOLDER}{name}")
}

pub(super) fn list(context: &NamespaceContext) -> Result<Response, Error> {
    let names = storage(context)?.list(FOLDER)?;
    if names.is_empty() {
        return Err(Error::NotFound);
    }
    Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
}

fn text(context: &NamespaceContext, name: &str) -> Result<String, Error> {
    let record = storage(context)?.get(&record(name))?;
    let record = record.ok_or(Error::NotFound)?;
    String::from_utf8(record.value.to_vec())
        .map_err(|_| Error::internal(&format_args!("the password policy {name:?} is damaged")))
}

/// A password by a policy.
pub(crate) fn make(context: &NamespaceContext, name: &str) -> Result<String, Error> {
    let text = text(context, name)?;
    let policy = PasswordPolicy::parse(&text).map_err(|error| Error::internal(&error))?;
    let password = policy.make(&mut |bytes| random::fill(bytes))?;
    Ok(password.as_str().to_owned())
}

pub(super) fn generate(context: &NamespaceContext, name: &str) -> Result<Response, Error> {
    let password = make(context, name)?;
    Ok(Response::data(&Json::object([("password", password.as_str().into())])))
}

pub(super) async fn write(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    name: &str,
) -> Result<Response, Error> {
    if name.contains('/') {
        return Err(Error::invalid("the name of a password policy has no '/'"));
    }
    let body = call.object()?;
    let given = Fields::new(&body).string("policy")?.unwrap_or_default();
    if given.is_empty() {
        return Err(Error::invalid("missing policy"));
    }
    let text = super::policies::decoded(given);
    PasswordPolicy::parse(&text).map_err(|error| Error::invalid(error.to_string()))?;
    storage(context)?.put(&record(name), text.into_bytes()).await?;
    Ok(Response::Empty)
}
