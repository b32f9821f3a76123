//! `identity/lookup/*`: an entity or a group by its id, its name, or an alias.

use std::sync::Arc;

use super::wire::{self, Methods};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::response::Response;
use crate::engines::identity::site::IdentityRequest;
use crate::identity::names::Folded;
use crate::identity::record::{Entity, Group, IdentityId};

/// What to look by: exactly one of the ways there are.
enum LookupBy {
    Id(String),
    Name(String),
    AliasId(String),
    Alias { accessor: String, name: String },
}

impl LookupBy {
    fn read(fields: Fields<'_>) -> Result<Self, Error> {
        let text = |name: &str| Ok::<_, Error>(fields.string(name)?.filter(|t| !t.is_empty()));
        let id = text("id")?.map(Self::Id);
        let name = text("name")?.map(Self::Name);
        let alias_id = text("alias_id")?.map(Self::AliasId);
        let alias = match (text("alias_name")?, text("alias_mount_accessor")?) {
            (Some(name), Some(accessor)) => Some(Self::Alias { accessor, name }),
            (None, None) => None,
            _ => {
                return Err(Error::invalid(
                    "both 'alias_name' and 'alias_mount_accessor' needs to be set",
                ));
            }
        };
        let mut given = [id, name, alias_id, alias].into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(by), None) => Ok(by),
            (None, _) => Err(Error::invalid("query parameter not supplied")),
            (Some(_), Some(_)) => Err(Error::invalid(
                "query parameter conflict; please supply distinct set of query parameters",
            )),
        }
    }
}

pub(super) fn entity(site: &IdentityRequest<'_>) -> Result<Response, Error> {
    let directory = site.directory;
    let found: Option<Arc<Entity>> = match LookupBy::read(Fields::new(&site.call.object()?))? {
        LookupBy::Id(id) => IdentityId::parse(&id)
            .and_then(|id| directory.entity(id).filter(|entity| entity.id == id)),
        LookupBy::Name(name) => directory.entity_named(&Folded::new(&name)),
        LookupBy::AliasId(id) => {
            IdentityId::parse(&id).and_then(|id| directory.entity_with_alias_id(id))
        }
        LookupBy::Alias { accessor, name } => {
            directory.entity_with_alias(&accessor, &Folded::new(&name))
        }
    };
    let Some(entity) = found else { return Ok(Response::Empty) };
    let methods = Methods::of(&site.context.view);
    Ok(Response::data(&wire::entity(&entity, directory, &methods)))
}

pub(super) fn group(site: &IdentityRequest<'_>) -> Result<Response, Error> {
    let directory = site.directory;
    let found: Option<Arc<Group>> = match LookupBy::read(Fields::new(&site.call.object()?))? {
        LookupBy::Id(id) => IdentityId::parse(&id).and_then(|id| directory.group(id)),
        LookupBy::Name(name) => directory.group_named(&Folded::new(&name)),
        LookupBy::AliasId(id) => {
            IdentityId::parse(&id).and_then(|id| directory.group_with_alias_id(id))
        }
        LookupBy::Alias { accessor, name } => {
            directory.group_with_alias(&accessor, &Folded::new(&name))
        }
    };
    let Some(group) = found else { return Ok(Response::Empty) };
    let methods = Methods::of(&site.context.view);
    Ok(Response::data(&wire::group(&group, directory, &methods)))
}
