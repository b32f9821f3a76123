//! `identity/entity-alias*`: what login methods call entities.
//!
//! An alias belongs to one entity, and an entity has at most one with each login method: so a
//! template that asks for an alias by its login method has one answer.

use jiff::Timestamp;

use super::draft::{IdentityDraft, change};
use super::entities;
use super::wire::{self, Methods};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::engines::identity::site::IdentityRequest;
use crate::engines::identity::site::list_reply;
use crate::identity::names;
use crate::identity::record::{Alias, Entity, IdentityId, IdentityMetadata};

/// What a body says of an alias.
struct AliasFields {
    id: Option<String>,
    name: Option<String>,
    accessor: Option<String>,
    canonical: Option<String>,
    custom_metadata: Option<IdentityMetadata>,
}

impl AliasFields {
    fn read(body: &Map, id: Option<&str>, methods: &Methods) -> Result<Self, Error> {
        let fields = Fields::new(body);
        let text = |name: &str| Ok::<_, Error>(fields.string(name)?.filter(|t| !t.is_empty()));
        let canonical = match text("canonical_id")? {
            None => text("entity_id")?,
            canonical => canonical,
        };
        let own_id = match id {
            Some(id) => Some(id.to_owned()),
            None => text("id")?,
        };
        let given = Self {
            id: own_id,
            name: text("name")?,
            accessor: text("mount_accessor")?,
            canonical,
            custom_metadata: names::metadata(fields, "custom_metadata")?,
        };
        if let Some(name) = &given.name {
            names::check("the name of an alias", name)?;
        }
        if given.id.is_none() && (given.name.is_none() || given.accessor.is_none()) {
            return Err(Error::invalid("'id' or 'mount_accessor' and 'name' must be provided"));
        }
        match &given.accessor {
            Some(accessor) if !methods.know(accessor) => {
                Err(Error::invalid(format!("invalid mount accessor {accessor:?}")))
            }
            _ => Ok(given),
        }
    }
}

/// Makes or changes an alias; `id` is from the path.
pub(super) async fn write(site: &IdentityRequest<'_>, id: Option<&str>) -> Result<Response, Error> {
    let methods = Methods::of(&site.context.view);
    let given = AliasFields::read(&site.call.object()?, id, &methods)?;
    let now = site.call.now;
    let written = change(site.context, site.mount, "entities", |draft| match &given.id {
        Some(id) => update(draft, id, &given, now),
        None => upsert(draft, &given, now).map(Some),
    });
    Ok(match written.await? {
        Some((alias, canonical)) => Response::data(&Json::object([
            ("canonical_id", canonical.to_string().into()),
            ("id", alias.to_string().into()),
        ])),
        None => Response::Empty,
    })
}

/// The ids of the alias of that name with that login method, and of its entity: made if need be.
fn upsert(
    draft: &mut IdentityDraft<'_>,
    given: &AliasFields,
    now: Timestamp,
) -> Result<(IdentityId, IdentityId), Error> {
    let (Some(name), Some(accessor)) = (&given.name, &given.accessor) else {
        return Err(Error::internal(&"an alias without its name got past the check"));
    };
    let wanted = entity_given(draft, given, "invalid canonical ID")?;
    if let Some(owner) = draft.owner_of_alias(accessor, name)? {
        let entity = draft.entity(owner)?;
        let entity = entity.ok_or_else(|| Error::internal(&"an alias belongs to nobody"))?;
        let known = entity.alias_at(accessor).cloned();
        let mut alias = known.ok_or_else(|| Error::internal(&"a claimed alias is missing"))?;
        alias.custom_metadata = given.custom_metadata.clone().unwrap_or_default();
        return place(draft, entity, alias, wanted, now);
    }
    let mut entity = match wanted {
        Some(entity) => entity,
        None => entities::make(draft, None, now)?,
    };
    if entity.alias_at(accessor).is_some() {
        return Err(taken());
    }
    let alias = make(accessor, name, now)?;
    let alias =
        Alias { custom_metadata: given.custom_metadata.clone().unwrap_or_default(), ..alias };
    let ids = (alias.id, entity.id);
    draft.claim_alias(&alias, entity.id)?;
    entity.aliases.push(alias);
    draft.put_entity(&entity)?;
    Ok(ids)
}

/// A new alias, which nobody has yet.
pub(super) fn make(accessor: &str, name: &str, now: Timestamp) -> Result<Alias, Error> {
    Ok(Alias {
        id: IdentityId::make()?,
        accessor: accessor.to_owned(),
        name: name.to_owned(),
        metadata: IdentityMetadata::new(),
        custom_metadata: IdentityMetadata::new(),
        merged_from: Vec::new(),
        created_at: now,
        updated_at: now,
    })
}

fn taken() -> Error {
    Error::invalid("Alias already exists for requested entity and mount accessor")
}

fn entity_given(
    draft: &mut IdentityDraft<'_>,
    given: &AliasFields,
    refusal: &str,
) -> Result<Option<Entity>, Error> {
    let Some(canonical) = &given.canonical else { return Ok(None) };
    let entity = IdentityId::parse(canonical).map(|id| draft.entity(id)).transpose()?.flatten();
    entity.map(Some).ok_or_else(|| Error::invalid(refusal))
}

/// Changes the alias with this id; `None` when it is what it is asked to be already.
fn update(
    draft: &mut IdentityDraft<'_>,
    id: &str,
    given: &AliasFields,
    now: Timestamp,
) -> Result<Option<(IdentityId, IdentityId)>, Error> {
    let unknown = || Error::invalid("invalid alias ID provided");
    let id = IdentityId::parse(id).ok_or_else(unknown)?;
    let owner = draft.directory.entity_with_alias_id(id).ok_or_else(unknown)?;
    let entity = draft.entity(owner.id)?.ok_or(Error::Conflict)?;
    let old = entity.aliases.iter().find(|alias| alias.id == id).cloned();
    let old = old.ok_or(Error::Conflict)?;
    let refusal = "given 'canonical_id' is not associated with an entity";
    let wanted = entity_given(draft, given, refusal)?;
    let mut alias = old.clone();
    alias.name = given.name.clone().unwrap_or(alias.name);
    alias.accessor = given.accessor.clone().unwrap_or(alias.accessor);
    alias.custom_metadata = given.custom_metadata.clone().unwrap_or(alias.custom_metadata);
    if alias == old && wanted.as_ref().is_none_or(|wanted| wanted.id == entity.id) {
        return Ok(None);
    }
    let owner = draft.owner_of_alias(&alias.accessor, &alias.name)?;
    draft.release_alias(&old)?;
    if owner.is_some_and(|owner| owner != entity.id) {
        return Err(Error::invalid(
            "alias with combination of mount accessor and name already exists",
        ));
    }
    place(draft, entity, alias, wanted, now).map(Some)
}

/// Puts a changed alias of `entity` where it belongs: with the entity that is wanted, or where it
/// was.
fn place(
    draft: &mut IdentityDraft<'_>,
    mut entity: Entity,
    mut alias: Alias,
    wanted: Option<Entity>,
    now: Timestamp,
) -> Result<(IdentityId, IdentityId), Error> {
    entity.aliases.retain(|other| other.id != alias.id);
    alias.updated_at = now;
    let mut home = match wanted {
        Some(wanted) if wanted.id != entity.id => {
            draft.put_entity(&entity)?;
            wanted
        }
        _ => entity,
    };
    if home.alias_at(&alias.accessor).is_some() {
        return Err(Error::invalid(
            "Alias cannot be updated as the given entity already has an alias for this mount ",
        ));
    }
    let ids = (alias.id, home.id);
    draft.claim_alias(&alias, home.id)?;
    home.aliases.push(alias);
    draft.put_entity(&home)?;
    Ok(ids)
}

pub(super) fn read(site: &IdentityRequest<'_>, id: &str) -> Result<Response, Error> {
    let id = IdentityId::parse(id).ok_or(Error::NotFound)?;
    let entity = site.directory.entity_with_alias_id(id).ok_or(Error::NotFound)?;
    let alias = entity.aliases.iter().find(|alias| alias.id == id).ok_or(Error::NotFound)?;
    let methods = Methods::of(&site.context.view);
    Ok(Response::data(&wire::alias(alias, entity.id, &methods)))
}

pub(super) fn list(site: &IdentityRequest<'_>) -> Result<Response, Error> {
    let methods = Methods::of(&site.context.view);
    let all = site.directory.entities();
    let aliases = all.iter().flat_map(|entity| {
        entity.aliases.iter().map(|alias| (alias, entity.id)).collect::<Vec<_>>()
    });
    list_reply(aliases.map(|(alias, canonical)| {
        (alias.id.to_string(), wire::alias_info(alias, canonical, &methods))
    }))
}

/// Takes an alias from its entity, which stays.
pub(super) async fn delete(site: &IdentityRequest<'_>, id: &str) -> Result<Response, Error> {
    let Some(id) = IdentityId::parse(id) else { return Ok(Response::Empty) };
    change(site.context, site.mount, "entities", |draft| {
        let Some(owner) = draft.directory.entity_with_alias_id(id) else { return Ok(()) };
        let Some(mut entity) = draft.entity(owner.id)? else { return Ok(()) };
        let Some(at) = entity.aliases.iter().position(|alias| alias.id == id) else {
            return Err(Error::Conflict);
        };
        let gone = entity.aliases.remove(at);
        draft.release_alias(&gone)?;
        entity.updated_at = site.call.now;
        draft.put_entity(&entity)
    })
    .await?;
    Ok(Response::Empty)
}
