//! `identity/group-alias*`: what login methods call external groups.

use std::sync::Arc;

use jiff::Timestamp;

use super::aliases;
use super::draft::{IdentityDraft, change};
use super::groups;
use super::wire::{self, Methods};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::engines::identity::site::IdentityRequest;
use crate::engines::identity::site::list_reply;
use crate::identity::names::{self, Folded};
use crate::identity::record::{Group, GroupKind, IdentityId};

/// What a body says of a group's alias.
struct GroupAliasFields {
    id: Option<String>,
    name: Option<String>,
    accessor: Option<String>,
    canonical: Option<String>,
}

impl GroupAliasFields {
    fn read(body: &Map, id: Option<&str>, methods: &Methods) -> Result<Self, Error> {
        let fields = Fields::new(body);
        let text = |name: &str| Ok::<_, Error>(fields.string(name)?.filter(|t| !t.is_empty()));
        let own_id = match id {
            Some(id) => Some(id.to_owned()),
            None => text("id")?,
        };
        let given = Self {
            id: own_id,
            name: text("name")?,
            accessor: text("mount_accessor")?,
            canonical: text("canonical_id")?,
        };
        if given.id.is_none() && given.name.is_none() {
            return Err(Error::invalid("missing alias name"));
        }
        if given.id.is_none() && given.accessor.is_none() {
            return Err(Error::invalid("missing mount_accessor"));
        }
        if let Some(name) = &given.name {
            names::check("the name of an alias", name)?;
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
    let given = GroupAliasFields::read(&site.call.object()?, id, &methods)?;
    let now = site.call.now;
    let written = change(site.context, site.mount, "groups", |draft| upsert(draft, &given, now));
    Ok(match written.await? {
        Some((alias, canonical)) => Response::data(&Json::object([
            ("canonical_id", canonical.to_string().into()),
            ("id", alias.to_string().into()),
        ])),
        None => Response::Empty,
    })
}

/// The ids of the alias and of its group; `None` when the alias with the given id is what it is asked to
/// be already.
fn upsert(
    draft: &mut IdentityDraft<'_>,
    given: &GroupAliasFields,
    now: Timestamp,
) -> Result<Option<(IdentityId, IdentityId)>, Error> {
    draft.lock_groups()?;
    let directory = draft.directory;
    let known = match &given.id {
        Some(id) => {
            let group = IdentityId::parse(id).and_then(|id| directory.group_with_alias_id(id));
            Some(group.ok_or_else(|| Error::invalid("invalid group alias ID"))?)
        }
        None => None,
    };
    let old = known.as_ref().and_then(|group| group.alias.clone());
    let accessor = given.accessor.clone().or_else(|| Some(old.as_ref()?.accessor.clone()));
    let name = given.name.clone().or_else(|| Some(old.as_ref()?.name.clone()));
    let (Some(accessor), Some(name)) = (accessor, name) else {
        return Err(Error::internal(&"a group's alias without its name got past the check"));
    };
    let mut home = home(draft, given, known.as_ref(), now)?;
    let holder = directory.group_with_alias(&accessor, &Folded::new(&name));
    let is_own = |holder: &Arc<Group>| {
        holder.id == home.id || known.as_ref().is_some_and(|known| known.id == holder.id)
    };
    if holder.is_some_and(|holder| !is_own(&holder)) {
        return Err(Error::invalid("combination of mount and group alias name is already in use"));
    }
    let stays = |known: &Arc<Group>| {
        let is_same =
            |old: &crate::identity::record::Alias| old.accessor == accessor && old.name == name;
        known.id == home.id && old.as_ref().is_some_and(is_same)
    };
    if known.as_ref().is_some_and(stays) {
        return Ok(None);
    }
    let mut alias = aliases::make(&accessor, &name, now)?;
    // The same alias while it has its id, or its name with its login method.
    let same = |other: &crate::identity::record::Alias| {
        other.accessor == accessor && Folded::new(&other.name) == Folded::new(&name)
    };
    if let Some(old) = old.or_else(|| home.alias.clone().filter(same)) {
        alias.id = old.id;
        alias.created_at = old.created_at;
    }
    let ids = (alias.id, home.id);
    if let Some(known) = known.filter(|known| known.id != home.id) {
        let mut left = Group::clone(&known);
        left.alias = None;
        touch(&mut left, now);
        draft.put_group(&left)?;
    }
    home.alias = Some(alias);
    touch(&mut home, now);
    draft.put_group(&home)?;
    Ok(Some(ids))
}

/// The external group that the alias is for: the one that is named, the one that has it, a new one.
fn home(
    draft: &IdentityDraft<'_>,
    given: &GroupAliasFields,
    known: Option<&Arc<Group>>,
    now: Timestamp,
) -> Result<Group, Error> {
    let group = match (&given.canonical, known) {
        (Some(canonical), _) => {
            let group = IdentityId::parse(canonical).and_then(|id| draft.directory.group(id));
            let unknown = || Error::invalid("invalid group ID given in 'canonical_id'");
            Group::clone(&*group.ok_or_else(unknown)?)
        }
        (None, Some(known)) => Group::clone(known),
        (None, None) => groups::make(draft.directory, GroupKind::External, now)?,
    };
    if group.kind == GroupKind::Internal {
        return Err(Error::invalid("alias can't be set on an internal group"));
    }
    Ok(group)
}

fn touch(group: &mut Group, now: Timestamp) {
    group.modify_index += 1;
    group.updated_at = now;
}

pub(super) fn read(site: &IdentityRequest<'_>, id: &str) -> Result<Response, Error> {
    let group = IdentityId::parse(id).and_then(|id| site.directory.group_with_alias_id(id));
    let group = group.ok_or(Error::NotFound)?;
    let alias = group.alias.as_ref().ok_or(Error::NotFound)?;
    let methods = Methods::of(&site.context.view);
    Ok(Response::data(&wire::alias(alias, group.id, &methods)))
}

pub(super) fn list(site: &IdentityRequest<'_>) -> Result<Response, Error> {
    let methods = Methods::of(&site.context.view);
    let all = site.directory.groups();
    let aliases = all.iter().filter_map(|group| Some((group.alias.as_ref()?, group.id)));
    list_reply(aliases.map(|(alias, canonical)| {
        (alias.id.to_string(), wire::alias_info(alias, canonical, &methods))
    }))
}

/// Takes the alias from its group, which stays, with the members it has until they log in again.
pub(super) async fn delete(site: &IdentityRequest<'_>, id: &str) -> Result<Response, Error> {
    let Some(id) = IdentityId::parse(id) else { return Ok(Response::Empty) };
    change(site.context, site.mount, "groups", |draft| {
        let Some(group) = draft.directory.group_with_alias_id(id) else { return Ok(()) };
        draft.lock_groups()?;
        let mut group = Group::clone(&group);
        group.alias = None;
        touch(&mut group, site.call.now);
        draft.put_group(&group)
    })
    .await?;
    Ok(Response::Empty)
}
