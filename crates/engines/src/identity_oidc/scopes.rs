//! `scope/NAME`: claims that clients may ask for; and the claims of a grant's scopes.

use std::collections::BTreeMap;

use kallisto_api::{Error, Fields, Map, Response};
use kallisto_engine::{Call, EngineContext};
use kallisto_identity_tokens::oauth::Code;
use kallisto_identity_tokens::settings::{ClaimsScope, OPENID, OidcProvider};
use kallisto_identity_tokens::{ClaimsTemplate, OauthError, TokenSubject};

use super::answer::OauthRefusal;
use super::records::{self, RecordOrDefault, SCOPES, USES};
use super::roles::template_text;

/// Longest description, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 4096;

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    records::list(&call, SCOPES, None)
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let scope =
        ClaimsScope::find(&call.context, records::name_of(&call)?)?.ok_or(Error::NotFound)?;
    Ok(Response::data(&scope.shown()))
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let name = records::name_of(&call)?;
    if name == OPENID {
        return Err(Error::invalid(format!("the {OPENID:?} scope name is reserved")));
    }
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let (template, description) = (template_text(fields)?, fields.string("description")?);
    if description.as_ref().is_some_and(|text| text.len() > DESCRIPTION_BYTES_MAX) {
        return Err(Error::invalid(format!(
            "description is longer than {DESCRIPTION_BYTES_MAX} bytes"
        )));
    }
    if ClaimsScope::find(&call.context, name)?.is_none() {
        records::admit(call.storage, SCOPES)?;
    }
    let now = records::now(&call.context);
    let record = format!("{SCOPES}{name}");
    let written = call.storage.transact(&record, |transaction| {
        let mut scope = ClaimsScope::find_in(transaction, name, now)?.unwrap_or_default();
        scope.template = template.clone().unwrap_or(scope.template);
        scope.description = description.clone().unwrap_or(scope.description);
        transaction.put(&record, scope.shown().to_text())
    });
    written.await?;
    Ok(Response::Empty)
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let name = records::name_of(&call)?;
    let record = format!("{SCOPES}{name}");
    let deleted = call.storage.transact(&record, |transaction| {
        transaction.get(USES)?;
        let all = OidcProvider::all(&call.context)?.into_iter();
        let users =
            all.filter(|(_, provider)| provider.scopes_supported.iter().any(|one| one == name));
        let users: Vec<String> = users.map(|(name, _)| name).collect();
        if !users.is_empty() {
            return Err(Error::invalid(format!(
                "unable to delete scope {name:?} because it is currently referenced by these \
                 providers: {}",
                users.join(", ")
            )));
        }
        transaction.delete(&record)
    });
    deleted.await?;
    Ok(Response::Empty)
}

/// The claims of scopes. One that is gone has none.
///
/// # Errors
/// A refusal when two of them set the same claim.
pub(super) fn claims(
    context: &EngineContext<'_>,
    scopes: &[String],
    subject: &TokenSubject,
    now: i64,
) -> Result<Vec<Map>, OauthRefusal> {
    let mut all = Vec::new();
    let mut owners: BTreeMap<String, &str> = BTreeMap::new();
    for name in scopes {
        let Some(scope) = ClaimsScope::find(context, name)? else { continue };
        let claims = ClaimsTemplate::parse(&scope.template)?.fill(subject, now);
        for claim in claims.keys() {
            if let Some(owner) = owners.insert(claim.clone(), name) {
                let why = format!(
                    "found scopes with conflicting top-level claim: claim {claim:?} in scopes \
                     {name:?}, {owner:?}"
                );
                return Err(OauthError::new(Code::InvalidRequest, why).into());
            }
        }
        all.push(claims);
    }
    Ok(all)
}
