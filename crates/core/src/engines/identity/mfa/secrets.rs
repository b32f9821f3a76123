//! Keys of people with methods.

use kallisto_engine::Storage;
use kallisto_totp::{NewFactor, draw_qr, make_factor};

use super::methods;
use super::records::{Contexts, ids_of, storage, text};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::response::{Logical, Response};
use crate::caller::policies::CallerPolicies;
use crate::dispatch::route_handler::RouteCall;
use crate::identity::record::IdentityId;
use crate::random;
use crate::storage::engine_storage::IDENTITY_MOUNT;

/// The record of somebody's key with a method.
pub(super) fn secret_record(method: &str, entity: IdentityId) -> String {
    format!("mfa/secret/{method}/{entity}")
}

/// The record of what was tried with it.
pub(super) fn tries_record(method: &str, entity: IdentityId) -> String {
    format!("mfa/tries/{method}/{entity}")
}

fn method_id(body: &Map) -> Result<String, Error> {
    let id = Fields::new(body).string("method_id")?.filter(|id| !id.is_empty());
    id.ok_or_else(|| Error::invalid("missing method ID"))
}

/// The entity that a body names, which has to be one of the namespace or of one above.
fn entity_of(contexts: &Contexts<'_>, body: &Map) -> Result<IdentityId, Error> {
    let given = Fields::new(body).string("entity_id")?.filter(|id| !id.is_empty());
    let given = given.ok_or_else(|| Error::invalid("missing entity ID"))?;
    // One that became part of another is known by that one's id.
    let find = |id| contexts.iter().find_map(|context| context.view.person_with(id));
    let found = IdentityId::parse(&given).and_then(find);
    found.map(|person| person.entity.id).ok_or_else(|| Error::invalid("invalid entity ID"))
}

pub(super) async fn generate_own(run: &RouteCall<'_>) -> Result<Response, Error> {
    let body = run.call.object()?;
    let caller = CallerPolicies::of(&run.context, run.call)?;
    let id = caller.entry().entity_id;
    let id =
        id.ok_or_else(|| Error::invalid("no entity is associated with the request's token"))?;
    // A token may be of an entity that became part of another.
    let person = run.context.view.person_with(id);
    generate(run, &method_id(&body)?, person.map_or(id, |person| person.entity.id)).await
}

pub(super) async fn generate_for(run: &RouteCall<'_>) -> Result<Response, Error> {
    let body = run.call.object()?;
    let method = method_id(&body)?;
    let entity = entity_of(&Contexts::of(&run.context), &body)?;
    generate(run, &method, entity).await
}

async fn generate(run: &RouteCall<'_>, id: &str, entity: IdentityId) -> Result<Response, Error> {
    let contexts = Contexts::of(&run.context);
    let found = methods::find(&contexts, id)?;
    let found = found.ok_or_else(|| Error::invalid("invalid method ID"))?;
    let pixels = Fields::new(&found.method).int("qr_size")?.unwrap_or(0);
    let NewFactor { record, url } = make_factor(&found.method, &entity.to_string(), random::fill)?;
    let mut data = vec![("url".to_owned(), Json::from(url.as_str()))];
    if let Some(pixels) = u32::try_from(pixels).ok().filter(|pixels| *pixels > 0) {
        let makers = &run.context.services.makers;
        let drawn = makers.run(run.call.client(), move || draw_qr(&url, pixels)).await??;
        data.push(("barcode".to_owned(), drawn.into()));
    }
    let (name, tries) = (secret_record(id, entity), tries_record(id, entity));
    let ids = ids_of(&contexts, entity);
    let is_new = Storage::new(&storage(found.context)?, IDENTITY_MOUNT)
        .transact(&name, |transaction| {
            for one in &ids {
                if transaction.get(&secret_record(id, *one))?.is_some() {
                    return Ok(false);
                }
            }
            transaction
                .get(&format!("{}{id}", methods::METHODS))?
                .ok_or_else(|| Error::invalid("invalid method ID"))?;
            transaction.delete(&tries)?;
            transaction.put(&name, record.clone())?;
            Ok(true)
        })
        .await?;
    if is_new {
        return Ok(Response::data(&Json::Object(data.into_iter().collect())));
    }
    let warning =
        format!("Entity already has a secret for MFA method {:?}", text(&found.method, "name"));
    Ok(Response::Logical(Logical { warnings: vec![warning], ..Logical::default() }))
}

pub(super) async fn destroy(run: &RouteCall<'_>) -> Result<Response, Error> {
    let body = run.call.object()?;
    let id = method_id(&body)?;
    let contexts = Contexts::of(&run.context);
    let entity = entity_of(&contexts, &body)?;
    let found = methods::find(&contexts, &id)?;
    let found = found.ok_or_else(|| Error::invalid("invalid method ID"))?;
    let ids = ids_of(&contexts, entity);
    Storage::new(&storage(found.context)?, IDENTITY_MOUNT)
        .transact(&secret_record(&id, entity), |transaction| {
            for one in &ids {
                let secret = secret_record(&id, *one);
                if transaction.get(&secret)?.is_some() {
                    transaction.delete(&secret)?;
                    transaction.delete(&tries_record(&id, *one))?;
                }
            }
            Ok(())
        })
        .await?;
    Ok(Response::Empty)
}
