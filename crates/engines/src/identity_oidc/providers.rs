//! `provider/NAME`: who may use which scopes, and under which issuer.

use std::collections::BTreeMap;

use kallisto_api::{Error, Fields, Response};
use kallisto_engine::Call;
use kallisto_identity_tokens::ClaimsTemplate;
use kallisto_identity_tokens::settings::{
    ClaimsScope, DEFAULT_PROVIDER, OidcProvider, PROVIDER_CLIENTS_MAX, SCOPES_MAX,
};

use super::config::{self, ISSUER_WARNING};
use super::published::provider_of;
use super::records::{self, PROVIDERS, RecordOrDefault};

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    let query = call.request.query_fields();
    let client_id = Fields::new(&query).string("allowed_client_id")?.unwrap_or_default();
    records::list_with_info(&call, Some(DEFAULT_PROVIDER), |name, provider: &OidcProvider| {
        if !client_id.is_empty() && !provider.allows(&client_id) {
            return None;
        }
        let issuer = config::issuer_of(&call.context, name, provider).unwrap_or_default();
        Some(provider.shown(&issuer))
    })
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let (name, provider) = provider_of(&call)?;
    let issuer = config::issuer_of(&call.context, name, &provider).unwrap_or_default();
    Ok(Response::data(&provider.shown(&issuer)))
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let name = records::name_of(&call)?;
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let issuer = config::given_issuer(fields)?;
    let clients = records::texts(fields, "allowed_client_ids")?;
    let scopes = records::texts(fields, "scopes_supported")?;
    for (name, given, most) in [
        ("allowed_client_ids", &clients, PROVIDER_CLIENTS_MAX),
        ("scopes_supported", &scopes, SCOPES_MAX),
    ] {
        if given.as_ref().is_some_and(|given| given.len() > most) {
            return Err(Error::invalid(format!("{name} has more than {most} entries")));
        }
    }
    if OidcProvider::find(&call.context, name)?.is_none() {
        records::admit(call.storage, PROVIDERS)?;
    }
    let now = records::now(&call.context);
    let record = format!("{PROVIDERS}{name}");
    let written = call.storage.transact(&record, |transaction| {
        let mut warnings = Vec::new();
        let mut provider = OidcProvider::find_in(transaction, name, now)?.unwrap_or_default();
        provider.issuer = issuer.clone().unwrap_or(provider.issuer);
        provider.allowed_client_ids = clients.clone().unwrap_or(provider.allowed_client_ids);
        provider.scopes_supported = scopes.clone().unwrap_or(provider.scopes_supported);
        if !provider.issuer.is_empty() {
            warnings.push(ISSUER_WARNING.to_owned());
        }
        let mut owners: BTreeMap<String, &str> = BTreeMap::new();
        for scope in &provider.scopes_supported {
            let found = ClaimsScope::find_in(transaction, scope, now)?;
            let found =
                found.ok_or_else(|| Error::invalid(format!("scope {scope:?} does not exist")))?;
            for claim in ClaimsTemplate::parse(&found.template)?.names() {
                if let Some(owner) = owners.insert(claim.to_owned(), scope) {
                    warnings.push(format!(
                        "Found scope templates with conflicting top-level keys: conflict {claim:?} in \
                         scopes {scope:?}, {owner:?}. This may result in an error if the scopes are \
                         requested in an OIDC Authentication Request."
                    ));
                }
            }
        }
        records::count_use(transaction)?;
        transaction.put(&record, provider.shown(&provider.issuer).to_text())?;
        Ok(warnings)
    });
    Ok(config::warned(written.await?))
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let name = records::name_of(&call)?;
    if name == DEFAULT_PROVIDER {
        return Err(Error::invalid(format!("deletion of OIDC provider {name:?} not allowed")));
    }
    call.storage.delete(&format!("{PROVIDERS}{name}")).await?;
    Ok(Response::Empty)
}
