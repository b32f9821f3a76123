//! `token/ROLE` and `introspect`: identity tokens, made and judged.

use kallisto_api::{Error, Fields, Json, Logical, Map, Response};
use kallisto_engine::Call;
use kallisto_identity_tokens::claims::Claims;
use kallisto_identity_tokens::jws::{self, ExpectedClaims};
use kallisto_identity_tokens::named_key::NamedKey;
use kallisto_identity_tokens::settings::TokenRole;
use kallisto_identity_tokens::{ClaimsTemplate, JsonWebKey};

use super::records::{self, RecordOrDefault};
use super::{answer, config, published};

pub(super) async fn make(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("role")?;
    let role = TokenRole::find(&call.context, name)?;
    let role = role.ok_or_else(|| Error::invalid(format!("role {name:?} not found")))?;
    let key = NamedKey::find(&call.context, &role.key)?;
    let key = key.ok_or_else(|| Error::invalid(format!("key {:?} not found", role.key)))?;
    if !key.settings.allows(&role.client_id) {
        return Err(Error::invalid(format!(
            "the key {:?} does not list the client ID of the role {name:?} as an allowed client ID",
            role.key
        )));
    }
    let no_entity = || Error::invalid("no entity associated with the request's token");
    let entity_id = call.caller.map(|caller| caller.entity_id.as_str()).unwrap_or_default();
    let person = call.people.person(entity_id).ok_or_else(no_entity)?;
    let version = key.signing();
    let version = version.ok_or_else(|| Error::invalid(format!("key {:?} not found", role.key)))?;
    let now = records::now(&call.context);
    let ttl_secs = role.ttl_secs.min(key.settings.verification_ttl_secs);
    let subject = records::subject_of(person);
    let claims = Claims {
        issuer: config::issuer(&call.context)?,
        subject: subject.id.clone(),
        audience: role.client_id.clone(),
        namespace: call.place.namespace_id.to_owned(),
        issued_at: now,
        expires_at: now.saturating_add(i64::try_from(ttl_secs).unwrap_or(i64::MAX)),
        ..Claims::default()
    };
    let more = ClaimsTemplate::parse(&role.template)?.fill(&subject, now);
    let token = claims.sign(&version.open()?, [more])?;
    let data = Json::object([
        ("client_id", role.client_id.into()),
        ("token", token.into()),
        ("ttl", ttl_secs.into()),
    ]);
    Ok(Response::Logical(Logical { data: data.to_text(), ..Logical::default() }))
}

pub(super) async fn introspect(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let token = fields.string("token")?.unwrap_or_default();
    // One of a file has a line end behind it.
    let token = token.trim();
    let client_id = fields.string("client_id")?.filter(|id| !id.is_empty());
    let issuer = config::issuer(&call.context)?;
    let keys = published::of_roles(&call.context)?;
    let now = records::now(&call.context);
    let expected = ExpectedClaims { issuer: &issuer, audience: client_id.as_deref(), now };
    let keys = keys.iter().flat_map(|key| key.published(now)).collect::<Vec<&JsonWebKey>>();
    let judged =
        jws::judge(token, keys, expected).and_then(|subject| match call.people.person(&subject) {
            None => Err("entity was not found".to_owned()),
            Some(person) if person.is_disabled => Err("entity is disabled".to_owned()),
            Some(_) => Ok(()),
        });
    let mut told = Map::from([("active".to_owned(), judged.is_ok().into())]);
    if let Err(why) = judged {
        told.insert("error".to_owned(), why.into());
    }
    Ok(answer::object(200, told))
}
