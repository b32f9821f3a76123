//! `client/NAME`: the applications that users log in to.

use kallisto_api::{Error, Fields, Json, Response};
use kallisto_engine::Call;
use kallisto_identity_tokens::client::{ClientType, OauthClient, SECRET_PREFIX};
use kallisto_identity_tokens::named_key::{DEFAULT, NamedKey};
use kallisto_identity_tokens::settings::Assignment;

use super::keys;
use super::records::{self, CLIENT_IDS, CLIENTS, RecordOrDefault};

/// Letters and digits of a client's id.
const CLIENT_ID_CHARS: usize = 32;
/// Letters and digits of a client's secret, after what leads it.
const SECRET_CHARS: usize = 64;

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    records::list_with_info(&call, None, |_, client: &OauthClient| {
        Some(Json::Object(client.info()))
    })
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let client =
        OauthClient::find(&call.context, records::name_of(&call)?)?.ok_or(Error::NotFound)?;
    Ok(Response::data(&Json::Object(client.shown())))
}

/// What the request says of a client that is there, or that is made.
fn change(client: &mut OauthClient, fields: Fields<'_>, is_new: bool) -> Result<(), Error> {
    if let Some(uris) = records::texts(fields, "redirect_uris")? {
        client.redirect_uris = uris;
    }
    if let Some(assignments) = records::texts(fields, "assignments")? {
        client.assignments = assignments;
    }
    if let Some(key) = fields.string("key")? {
        if !is_new && key != client.key {
            return Err(Error::invalid("key modification is not allowed"));
        }
        client.key = key;
    }
    if let Some(secs) = records::seconds(fields, "id_token_ttl")? {
        client.id_token_ttl_secs = secs;
    }
    if let Some(secs) = records::seconds(fields, "access_token_ttl")? {
        client.access_token_ttl_secs = secs;
    }
    if let Some(flag) = fields.boolean("authorization_code")? {
        client.authorization_code = flag;
    }
    if let Some(flag) = fields.boolean("client_credentials")? {
        client.client_credentials = flag;
    }
    if let Some(name) = fields.string("client_type")? {
        if !is_new && name != client.kind.name() {
            return Err(Error::invalid("client_type modification is not allowed"));
        }
        client.kind = ClientType::named(&name)
            .ok_or_else(|| Error::invalid(format!("invalid client_type {name:?}")))?;
    }
    Ok(())
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let name = records::name_of(&call)?;
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let known = OauthClient::find(&call.context, name)?;
    if known.is_none() {
        records::admit(call.storage, CLIENTS)?;
        let key = fields.string("key")?;
        if key.as_deref().is_none_or(|key| key == DEFAULT) {
            keys::ensure_versions(&call.context, DEFAULT).await?;
        }
    }
    let drawn_id = records::make_base62(&call.context, CLIENT_ID_CHARS)?;
    let drawn_secret = zeroize::Zeroizing::new(format!(
        "{SECRET_PREFIX}{}",
        records::make_base62(&call.context, SECRET_CHARS)?
    ));
    let now = records::now(&call.context);
    let record = format!("{CLIENTS}{name}");
    let written = call.storage.transact(&record, |transaction| {
        let known = OauthClient::find_in(transaction, name, now)?;
        let is_new = known.is_none();
        let mut client = known.unwrap_or_else(|| OauthClient::new(name));
        change(&mut client, fields, is_new)?;
        for assignment in &client.assignments {
            if Assignment::find_in(transaction, assignment, now)?.is_none() {
                return Err(Error::invalid(format!("assignment {assignment:?} does not exist")));
            }
        }
        let key = NamedKey::find_in(transaction, &client.key, now)?;
        let key =
            key.ok_or_else(|| Error::invalid(format!("key {:?} does not exist", client.key)))?;
        client.check(key.settings.verification_ttl_secs)?;
        if is_new {
            client.client_id.clone_from(&drawn_id);
            client.secret = (client.kind == ClientType::Confidential).then(|| drawn_secret.clone());
            transaction.put(&format!("{CLIENT_IDS}{drawn_id}"), name.as_bytes().to_vec())?;
        }
        records::count_use(transaction)?;
        transaction.put(&record, client.encode())
    });
    written.await?;
    Ok(Response::Empty)
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let name = records::name_of(&call)?;
    let record = format!("{CLIENTS}{name}");
    let now = records::now(&call.context);
    let deleted = call.storage.transact(&record, |transaction| {
        let Some(client) = OauthClient::find_in(transaction, name, now)? else { return Ok(()) };
        transaction.delete(&format!("{CLIENT_IDS}{}", client.client_id))?;
        transaction.delete(&record)
    });
    deleted.await?;
    Ok(Response::Empty)
}
