//! `role/NAME`: what identity tokens are made by.

use data_encoding::BASE64;
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::Call;
use kallisto_identity_tokens::named_key::{DAY_SECS, NamedKey};
use kallisto_identity_tokens::settings::TokenRole;
use kallisto_identity_tokens::{ClaimsTemplate, named_key};

use super::keys;
use super::records::{self, ROLES, RecordOrDefault};

/// Letters and digits of the client id of a role.
const CLIENT_ID_CHARS: usize = 26;
/// Longest client id that an operator gives, in bytes.
const CLIENT_ID_BYTES_MAX: usize = 512;

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    records::list(&call, ROLES, None)
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let role = TokenRole::find(&call.context, records::name_of(&call)?)?.ok_or(Error::NotFound)?;
    Ok(Response::data(&role.shown()))
}

/// The text of a template: as it stands, or in base 64, which `base64` of a shell breaks into lines.
pub(super) fn template_text(fields: Fields<'_>) -> Result<Option<String>, Error> {
    let Some(given) = fields.string("template")? else { return Ok(None) };
    let compact: String = given.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let decoded = BASE64.decode(compact.as_bytes()).ok();
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or(given);
    ClaimsTemplate::parse(&text)?;
    Ok(Some(text))
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let name = records::name_of(&call)?;
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let template = template_text(fields)?;
    let (key, ttl) = (fields.string("key")?, records::seconds(fields, "ttl")?);
    let client_id = fields.string("client_id")?.filter(|id| !id.is_empty());
    if client_id.as_ref().is_some_and(|id| id.len() > CLIENT_ID_BYTES_MAX) {
        return Err(Error::invalid(format!(
            "client_id is longer than {CLIENT_ID_BYTES_MAX} bytes"
        )));
    }
    let drawn = records::make_base62(&call.context, CLIENT_ID_CHARS)?;
    if key.as_deref() == Some(named_key::DEFAULT) {
        keys::ensure_versions(&call.context, named_key::DEFAULT).await?;
    }
    if TokenRole::find(&call.context, name)?.is_none() {
        records::admit(call.storage, ROLES)?;
    }
    let now = records::now(&call.context);
    let record = format!("{ROLES}{name}");
    let written = call.storage.transact(&record, |transaction| {
        let known = TokenRole::find_in(transaction, name, now)?;
        let mut role = known.unwrap_or_else(|| TokenRole {
            key: String::new(),
            client_id: drawn.clone(),
            template: String::new(),
            ttl_secs: DAY_SECS,
        });
        role.key = key.clone().unwrap_or(role.key);
        role.template = template.clone().unwrap_or(role.template);
        role.ttl_secs = ttl.unwrap_or(role.ttl_secs);
        role.client_id = client_id.clone().unwrap_or(role.client_id);
        if role.key.is_empty() {
            return Err(Error::invalid("the key parameter is required"));
        }
        let key = NamedKey::find_in(transaction, &role.key, now)?;
        let key = key.ok_or_else(|| Error::invalid(format!("cannot find key {:?}", role.key)))?;
        if role.ttl_secs > key.settings.verification_ttl_secs {
            return Err(Error::invalid(
                "a role's token ttl cannot be longer than the verification_ttl of the key it references",
            ));
        }
        records::count_use(transaction)?;
        transaction.put(&record, role.shown().to_text())
    });
    written.await?;
    Ok(Response::Empty)
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    call.storage.delete(&format!("{ROLES}{}", records::name_of(&call)?)).await?;
    Ok(Response::Empty)
}
