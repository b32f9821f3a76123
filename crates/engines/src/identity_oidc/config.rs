//! `config`: who makes identity tokens, and the issuers that follow from it.

use kallisto_api::{Error, Fields, Json, Logical, Response};
use kallisto_engine::{Call, EngineContext};
use kallisto_identity_tokens::settings::{OidcProvider, check_issuer};

use super::records::CONFIG;

pub(super) const ISSUER_WARNING: &str = "If \"issuer\" is set explicitly, all tokens must be validated against that address, including \
    those issued by secondary clusters. Setting issuer to \"\" will restore the default behavior of using the cluster's api_addr as the \
    issuer.";

/// The scheme, host and port that were written; empty for none.
fn written(context: &EngineContext<'_>) -> Result<String, Error> {
    let Some(record) = context.storage.get(CONFIG)? else { return Ok(String::new()) };
    record.decode(|bytes| String::from_utf8(bytes.to_vec()).ok())
}

/// What is reached below an address, or below that of the server.
fn below(context: &EngineContext<'_>, address: &str, path: &str) -> Result<String, Error> {
    let own = context.place.api_addr.trim_end_matches('/');
    let address = if address.is_empty() { own } else { address };
    if address.is_empty() {
        return Err(Error::invalid(
            "no issuer: set \"issuer\", or api_addr in the configuration of the server",
        ));
    }
    let (namespace, mount) = (context.place.namespace_path, context.mount.path);
    Ok(format!("{address}/v1/{namespace}{mount}oidc{path}"))
}

/// Who makes identity tokens.
///
/// # Errors
/// [`Error::Invalid`] when neither an operator nor the server knows an address.
pub(super) fn issuer(context: &EngineContext<'_>) -> Result<String, Error> {
    below(context, &written(context)?, "")
}

/// Who a provider is.
///
/// # Errors
/// As [`issuer`].
pub(super) fn issuer_of(
    context: &EngineContext<'_>,
    name: &str,
    provider: &OidcProvider,
) -> Result<String, Error> {
    below(context, &provider.issuer, &format!("/provider/{name}"))
}

/// The issuer that a request gives; `None` when it does not say.
pub(super) fn given_issuer(fields: Fields<'_>) -> Result<Option<String>, Error> {
    let Some(given) = fields.string("issuer")? else { return Ok(None) };
    let issuer = given.strip_suffix('/').map_or(given.as_str(), |bare| bare).to_owned();
    check_issuer(&given)?;
    Ok(Some(issuer))
}

/// An answer without data that says what comes of an issuer.
pub(super) fn warned(warnings: Vec<String>) -> Response {
    if warnings.is_empty() {
        return Response::Empty;
    }
    Response::Logical(Logical { warnings, ..Logical::default() })
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let issuer = written(&call.context)?;
    Ok(Response::data(&Json::object([("issuer", issuer.into())])))
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let Some(issuer) = given_issuer(Fields::new(&body))? else { return Ok(Response::Empty) };
    let warnings = if issuer.is_empty() { Vec::new() } else { vec![ISSUER_WARNING.to_owned()] };
    call.storage.put(CONFIG, issuer.into_bytes()).await?;
    Ok(warned(warnings))
}
