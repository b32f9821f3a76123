//! `sys/policies/acl`, `sys/policy`: policies as they were written.

use data_encoding::BASE64;
use kallisto_auth::policy::{DEFAULT_NAME, RESPONSE_WRAPPING_NAME};
use kallisto_auth::{Policy, PolicyName};
use kallisto_store::Batch;

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::response::{Logical, Response};
use crate::caller::call::AuthorizedCall;
use crate::storage::keys;
use crate::view::NamespaceContext;

/// The two families of routes over the same policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolicyFamily {
    /// `sys/policies/acl`
    Acl,
    /// `sys/policy`, from before there were other kinds of policies.
    Legacy,
}

pub(super) fn list(context: &NamespaceContext, family: PolicyFamily) -> Response {
    let mut names = context.view.policies.names();
    if context.is_top() {
        // No policy, but listed with them.
        names.push("root".to_owned());
        names.sort();
    }
    listed(names, family)
}

/// The policies whose names begin with a folder, by their whole names.
pub(super) fn list_in(
    context: &NamespaceContext,
    folder: &str,
    family: PolicyFamily,
) -> Result<Response, Error> {
    let mut names = context.view.policies.names();
    let start = format!("{}/", folder.trim_end_matches('/'));
    names.retain(|name| name.starts_with(&start));
    if names.is_empty() {
        return match family {
            PolicyFamily::Acl => Err(Error::NotFound),
            // The older route knows no 404 for a listing.
            PolicyFamily::Legacy => Ok(Response::merged(&Json::object([("policies", Json::Null)]))),
        };
    }
    Ok(listed(names, family))
}

fn listed(names: Vec<String>, family: PolicyFamily) -> Response {
    match family {
        PolicyFamily::Acl => Response::data(&Json::object([("keys", Json::strings(names))])),
        PolicyFamily::Legacy => Response::merged(&Json::object([
            ("keys", Json::strings(names.clone())),
            ("policies", Json::strings(names)),
        ])),
    }
}

pub(super) fn read(
    context: &NamespaceContext,
    name: &str,
    family: PolicyFamily,
) -> Result<Response, Error> {
    let name = name.to_lowercase();
    let text = match context.view.policies.get(&name) {
        Some(stored) => stored.text,
        None if name == "root" && context.is_top() => "".into(),
        None => return Err(Error::NotFound),
    };
    let text_field = match family {
        PolicyFamily::Acl => "policy",
        PolicyFamily::Legacy => "rules",
    };
    let data = Json::object([("name", name.as_str().into()), (text_field, (&*text).into())]);
    Ok(match family {
        PolicyFamily::Acl => Response::data(&data),
        PolicyFamily::Legacy => Response::merged(&data),
    })
}

pub(super) async fn write(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
    name: &str,
    family: PolicyFamily,
) -> Result<Response, Error> {
    let name = parse_name(name, "update")?;
    let body = call.object()?;
    let fields = Fields::new(&body);
    refuse_unheard(fields)?;
    let mut warnings = Vec::new();
    let text = match fields.string("policy")?.filter(|text| !text.is_empty()) {
        Some(text) => text,
        None => match fields.string("rules")?.filter(|text| !text.is_empty()) {
            Some(rules) if family == PolicyFamily::Legacy => {
                warnings.push("'rules' is deprecated, please use 'policy' instead".to_owned());
                rules
            }
            _ => return Err(Error::invalid("'policy' parameter not supplied or empty")),
        },
    };
    let text = decoded(text);
    let parsed = Policy::parse(name.clone(), &text);
    let policy =
        parsed.map_err(|error| Error::invalid(format!("failed to parse policy: {error}")))?;
    warnings.extend(policy.warnings());
    let mut batch = Batch::new();
    batch.put(keys::policy(&name), text.into_bytes());
    context.store.commit(batch).await?;
    if warnings.is_empty() {
        return Ok(Response::Empty);
    }
    Ok(Response::Logical(Logical { warnings, ..Logical::default() }))
}

pub(super) async fn delete(context: &NamespaceContext, name: &str) -> Result<Response, Error> {
    let name = parse_name(name, "delete")?;
    if &*name == DEFAULT_NAME {
        return Err(Error::invalid("cannot delete default policy"));
    }
    let mut batch = Batch::new();
    batch.delete(keys::policy(&name)).set_essential();
    context.store.commit(batch).await?;
    Ok(Response::Empty)
}

fn parse_name(name: &str, verb: &str) -> Result<PolicyName, Error> {
    if name.eq_ignore_ascii_case(RESPONSE_WRAPPING_NAME) {
        return Err(Error::invalid(format!("cannot {verb} \"{RESPONSE_WRAPPING_NAME}\" policy")));
    }
    PolicyName::parse(name).map_err(|error| match error {
        kallisto_auth::policy::NameError::Root => {
            Error::invalid(format!("cannot {verb} \"root\" policy"))
        }
        other => Error::invalid(other.to_string()),
    })
}

/// Refuses what OpenBao keeps with a policy and this server does not: a policy that was to end, or a write that was to be guarded, would
/// seem to be what it is not.
fn refuse_unheard(fields: Fields<'_>) -> Result<(), Error> {
    for name in ["cas", "expiration", "ttl"] {
        let is_empty = |value: &Json| *value == Json::Null || value.as_str() == Some("");
        if fields.raw(name).is_some_and(|value| !is_empty(value)) {
            return Err(Error::invalid(format!(
                "'{name}' is not supported for policies; a rule of a policy can have an 'expiration'"
            )));
        }
    }
    if fields.boolean("cas_required")? == Some(true) {
        return Err(Error::invalid("'cas_required' is not supported for policies"));
    }
    Ok(())
}

/// A policy may come in base64, as clients that build it in a shell send it.
pub(super) fn decoded(text: String) -> String {
    let compact: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = BASE64.decode(compact.as_bytes()).ok();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or(text)
}

/// `sys/capabilities*`: what a token may do at paths.
pub(super) fn capabilities(
    body: &Map,
    ask: impl Fn(&str) -> Vec<&'static str>,
) -> Result<Response, Error> {
    let fields = Fields::new(body);
    let paths = match fields.strings("paths")? {
        Some(paths) if !paths.is_empty() => paths,
        _ => fields.strings("path")?.unwrap_or_default(),
    };
    if paths.is_empty() {
        return Err(Error::invalid("paths must be supplied"));
    }
    let mut data = Map::new();
    for path in &paths {
        data.insert(path.clone(), Json::strings(ask(path.trim_start_matches('/'))));
    }
    if let [only] = paths.as_slice() {
        let capabilities = data.get(only).cloned().unwrap_or(Json::Null);
        data.insert("capabilities".into(), capabilities);
    }
    Ok(Response::merged(&data.into()))
}
