//! `identity/entity*`: making, reading, changing, merging and deleting entities.

use jiff::Timestamp;

use super::draft::{IdentityDraft, change};
use super::wire::{self, Methods};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::engines::identity::site::IdentityRequest;
use crate::engines::identity::site::list_reply;
use crate::engines::identity::site::not_empty;
use crate::identity::directory::IdentityDirectory;
use crate::identity::names::{self, Folded};
use crate::identity::record::{Entity, IdentityId, IdentityMetadata};

/// Which entity a write is about.
pub(super) enum EntityTarget<'p> {
    /// The body says, by id or by name; else a new one.
    Body,
    Id(&'p str),
    Name(&'p str),
}

/// What a body says of an entity.
struct EntityFields {
    id: Option<String>,
    name: Option<String>,
    policies: Option<Vec<String>>,
    metadata: Option<IdentityMetadata>,
    disabled: Option<bool>,
}

impl EntityFields {
    fn read(body: &Map) -> Result<Self, Error> {
        let fields = Fields::new(body);
        let name = fields.string("name")?.filter(|name| !name.is_empty());
        if let Some(name) = &name {
            names::check("the name of an entity", name)?;
        }
        Ok(Self {
            id: fields.string("id")?.filter(|id| !id.is_empty()),
            name,
            policies: names::policies(fields)?,
            metadata: names::metadata(fields, "metadata")?,
            disabled: fields.boolean("disabled")?,
        })
    }
}

pub(super) async fn write(
    site: &IdentityRequest<'_>,
    target: EntityTarget<'_>,
) -> Result<Response, Error> {
    let mut given = EntityFields::read(&site.call.object()?)?;
    match target {
        EntityTarget::Body => {}
        EntityTarget::Id(id) => given.id = Some(id.to_owned()),
        EntityTarget::Name(name) => {
            names::check("the name of an entity", name)?;
            given.id = None;
            given.name = Some(name.to_owned());
        }
    }
    let now = site.call.now;
    let made = change(site.context, site.mount, "entities", |draft| upsert(draft, &given, now));
    Ok(match made.await? {
        Some(entity) => Response::data(&Json::object([
            ("aliases", Json::Null),
            ("id", entity.id.to_string().into()),
            ("name", entity.name.into()),
        ])),
        None => Response::Empty,
    })
}

/// Changes the entity that is meant, or makes one, which is returned.
fn upsert(
    draft: &mut IdentityDraft<'_>,
    given: &EntityFields,
    now: Timestamp,
) -> Result<Option<Entity>, Error> {
    let known = match (&given.id, &given.name) {
        (Some(id), _) => {
            let entity = IdentityId::parse(id).map(|id| draft.entity(id)).transpose()?.flatten();
            Some(entity.ok_or_else(|| Error::invalid("entity not found from id"))?)
        }
        (None, Some(name)) => {
            let owner = draft.owner_of_name(name)?;
            owner.map(|id| draft.entity(id)).transpose()?.flatten()
        }
        (None, None) => None,
    };
    let is_new = known.is_none();
    let mut entity = match known {
        Some(entity) => entity,
        None => make(draft, given.name.as_deref(), now)?,
    };
    if let Some(name) = &given.name {
        rename(draft, &mut entity, name)?;
    }
    entity.policies = given.policies.clone().unwrap_or(entity.policies);
    entity.metadata = given.metadata.clone().unwrap_or(entity.metadata);
    entity.disabled = given.disabled.unwrap_or(entity.disabled);
    entity.updated_at = now;
    draft.put_entity(&entity)?;
    Ok(is_new.then_some(entity))
}

/// A new entity, which has claimed its name; one is drawn when none is given.
pub(super) fn make(
    draft: &mut IdentityDraft<'_>,
    name: Option<&str>,
    now: Timestamp,
) -> Result<Entity, Error> {
    let name = match name {
        Some(name) => name.to_owned(),
        None => names::make("entity")?,
    };
    if draft.owner_of_name(&name)?.is_some() {
        return Err(Error::Conflict);
    }
    let id = IdentityId::make()?;
    draft.claim_name(&name, id)?;
    Ok(Entity {
        id,
        name,
        policies: Vec::new(),
        metadata: IdentityMetadata::new(),
        disabled: false,
        aliases: Vec::new(),
        groups: Vec::new(),
        merged: Vec::new(),
        created_at: now,
        updated_at: now,
    })
}

fn rename(draft: &mut IdentityDraft<'_>, entity: &mut Entity, name: &str) -> Result<(), Error> {
    if entity.name == name {
        return Ok(());
    }
    if draft.owner_of_name(name)?.is_some_and(|owner| owner != entity.id) {
        return Err(Error::invalid("entity name is already in use"));
    }
    draft.release_name(&entity.name)?;
    draft.claim_name(name, entity.id)?;
    name.clone_into(&mut entity.name);
    Ok(())
}

fn with_id(directory: &IdentityDirectory, id: &str) -> Option<std::sync::Arc<Entity>> {
    let id = IdentityId::parse(id)?;
    // An entity that became part of another is gone, though its tokens live on as the other's.
    directory.entity(id).filter(|entity| entity.id == id)
}

pub(super) fn read_id(site: &IdentityRequest<'_>, id: &str) -> Result<Response, Error> {
    show(site, with_id(site.directory, id))
}

pub(super) fn read_name(site: &IdentityRequest<'_>, name: &str) -> Result<Response, Error> {
    show(site, site.directory.entity_named(&Folded::new(name)))
}

fn show(
    site: &IdentityRequest<'_>,
    entity: Option<std::sync::Arc<Entity>>,
) -> Result<Response, Error> {
    let entity = entity.ok_or(Error::NotFound)?;
    let methods = Methods::of(&site.context.view);
    Ok(Response::data(&wire::entity(&entity, site.directory, &methods)))
}

pub(super) fn list_ids(site: &IdentityRequest<'_>) -> Result<Response, Error> {
    let methods = Methods::of(&site.context.view);
    let all = site.directory.entities();
    list_reply(
        all.iter().map(|entity| (entity.id.to_string(), wire::entity_info(entity, &methods))),
    )
}

pub(super) fn list_names(site: &IdentityRequest<'_>) -> Result<Response, Error> {
    let mut names: Vec<String> =
        site.directory.entities().iter().map(|entity| entity.name.clone()).collect();
    names.sort();
    Ok(Response::data(&Json::object([("keys", Json::strings(not_empty(names)?))])))
}

pub(super) async fn delete_id(site: &IdentityRequest<'_>, id: &str) -> Result<Response, Error> {
    delete_all(site, &IdentityId::parse(id).into_iter().collect::<Vec<_>>()).await
}

pub(super) async fn delete_name(site: &IdentityRequest<'_>, name: &str) -> Result<Response, Error> {
    let named = site.directory.entity_named(&Folded::new(name));
    delete_all(site, &named.map(|entity| entity.id).into_iter().collect::<Vec<_>>()).await
}

/// `entity/batch-delete`: those that there are.
pub(super) async fn batch_delete(site: &IdentityRequest<'_>) -> Result<Response, Error> {
    let body = site.call.object()?;
    let texts = Fields::new(&body).strings("entity_ids")?.unwrap_or_default();
    if texts.is_empty() {
        return Err(Error::invalid("missing entity ids to delete"));
    }
    let ids: Vec<IdentityId> = texts.iter().filter_map(|text| IdentityId::parse(text)).collect();
    delete_all(site, &ids).await
}

/// Entities deleted in one change. Each has an alias for every login method, and each alias a record.
const DELETED_AT_ONCE: usize = 64;

/// Deletes entities, a bounded number at a time. Their tokens do nothing from then on.
async fn delete_all(site: &IdentityRequest<'_>, ids: &[IdentityId]) -> Result<Response, Error> {
    for some in ids.chunks(DELETED_AT_ONCE) {
        change(site.context, site.mount, "entities", |draft| {
            for id in some {
                if let Some(entity) = draft.entity(*id)? {
                    draft.delete_entity(&entity)?;
                }
            }
            Ok(())
        })
        .await?;
    }
    Ok(Response::Empty)
}
