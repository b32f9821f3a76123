//! `identity/group*`: groups of entities and of groups.
//!
//! A group may be inside others; whoever is in the inner one has the policies of the outer ones too.
//! Operators say who is in an internal group; an external one is filled by the login method its
//! alias names, at each login.

use std::collections::BTreeSet;
use std::sync::Arc;

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
use crate::identity::record::{Group, GroupKind, IdentityId, IdentityMetadata};

/// How many groups may lie inside each other.
pub(super) const DEPTH_MAX: usize = 32;
/// Most groups directly inside one.
const GROUPS_INSIDE_MAX: usize = 1024;
/// Most groups an entity may be a direct member of.
pub(super) const GROUPS_OF_ENTITY_MAX: usize = 1024;
/// Most entities that one request puts into a group or takes out of it.
const MEMBERS_CHANGED_MAX: usize = 4096;

/// Which group a write is about.
pub(super) enum GroupTarget<'p> {
    /// The body says, by id or by name; else a new one.
    Body,
    Id(&'p str),
    Name(&'p str),
}

/// What a body says of a group.
struct GroupFields {
    id: Option<String>,
    name: Option<String>,
    kind: Option<String>,
    policies: Option<Vec<String>>,
    metadata: Option<IdentityMetadata>,
    entities: Option<Vec<IdentityId>>,
    groups: Option<Vec<IdentityId>>,
}

impl GroupFields {
    fn read(body: &Map) -> Result<Self, Error> {
        let fields = Fields::new(body);
        let text = |name: &str| Ok::<_, Error>(fields.string(name)?.filter(|t| !t.is_empty()));
        let name = text("name")?;
        if let Some(name) = &name {
            names::check("the name of a group", name)?;
        }
        let no_entity = |id: &str| Error::invalid(format!("invalid entity ID {id:?}"));
        let no_group = |id: &str| Error::invalid(format!("invalid member group ID {id:?}"));
        Ok(Self {
            id: text("id")?,
            name,
            kind: text("type")?,
            policies: names::policies(fields)?,
            metadata: names::metadata(fields, "metadata")?,
            entities: names::ids(fields, "member_entity_ids", no_entity)?,
            groups: names::ids(fields, "member_group_ids", no_group)?,
        })
    }
}

pub(super) async fn write(
    site: &IdentityRequest<'_>,
    target: GroupTarget<'_>,
) -> Result<Response, Error> {
    let mut given = GroupFields::read(&site.call.object()?)?;
    match target {
        GroupTarget::Body => {}
        GroupTarget::Id(id) => given.id = Some(id.to_owned()),
        GroupTarget::Name(name) => {
            names::check("the name of a group", name)?;
            given.id = None;
            given.name = Some(name.to_owned());
        }
    }
    let now = site.call.now;
    let made = change(site.context, site.mount, "groups", |draft| upsert(draft, &given, now));
    Ok(match made.await? {
        Some(group) => Response::data(&Json::object([
            ("id", group.id.to_string().into()),
            ("name", group.name.into()),
        ])),
        None => Response::Empty,
    })
}

/// Changes the group that is meant, or makes one, which is returned.
fn upsert(
    draft: &mut IdentityDraft<'_>,
    given: &GroupFields,
    now: Timestamp,
) -> Result<Option<Group>, Error> {
    draft.lock_groups()?;
    let known = find(draft.directory, given)?;
    let is_new = known.is_none();
    let mut group = match known {
        Some(group) => Group::clone(&group),
        None => make(draft.directory, kind_given(given)?, now)?,
    };
    if given.kind.as_deref().is_some_and(|kind| kind != group.kind.name()) {
        return Err(Error::invalid("group type cannot be changed"));
    }
    if let Some(name) = &given.name {
        let holder = draft.directory.group_named(&Folded::new(name));
        if holder.is_some_and(|holder| holder.id != group.id) {
            return Err(Error::invalid("group name is already in use"));
        }
        group.name.clone_from(name);
    }
    if let Some(inside) = &given.groups {
        check_inside(draft.directory, &group, inside)?;
        group.groups.clone_from(inside);
    }
    if let Some(entities) = &given.entities {
        set_members(draft, &group, entities)?;
    }
    group.policies = given.policies.clone().unwrap_or(group.policies);
    group.metadata = given.metadata.clone().unwrap_or(group.metadata);
    group.modify_index += 1;
    group.updated_at = now;
    draft.put_group(&group)?;
    Ok(is_new.then_some(group))
}

fn find(directory: &IdentityDirectory, given: &GroupFields) -> Result<Option<Arc<Group>>, Error> {
    match (&given.id, &given.name) {
        (Some(id), _) => {
            let group = IdentityId::parse(id).and_then(|id| directory.group(id));
            group.map(Some).ok_or_else(|| Error::invalid("invalid group ID"))
        }
        (None, Some(name)) => Ok(directory.group_named(&Folded::new(name))),
        (None, None) => Ok(None),
    }
}

fn kind_given(given: &GroupFields) -> Result<GroupKind, Error> {
    let Some(name) = &given.kind else { return Ok(GroupKind::Internal) };
    GroupKind::named(name).ok_or_else(|| Error::invalid(format!("invalid group type {name:?}")))
}

/// A new group under a name that was drawn for it.
pub(super) fn make(
    directory: &IdentityDirectory,
    kind: GroupKind,
    now: Timestamp,
) -> Result<Group, Error> {
    let name = names::make("group")?;
    if directory.group_named(&Folded::new(&name)).is_some() {
        return Err(Error::Conflict);
    }
    Ok(Group {
        id: IdentityId::make()?,
        name,
        kind,
        policies: Vec::new(),
        metadata: IdentityMetadata::new(),
        groups: Vec::new(),
        alias: None,
        modify_index: 0,
        created_at: now,
        updated_at: now,
    })
}

/// Refuses groups that cannot lie inside `group`.
fn check_inside(
    directory: &IdentityDirectory,
    group: &Group,
    inside: &[IdentityId],
) -> Result<(), Error> {
    if group.kind == GroupKind::External && !inside.is_empty() {
        return Err(Error::invalid("member groups can't be set for external groups"));
    }
    if inside.len() > GROUPS_INSIDE_MAX {
        return Err(Error::invalid(format!("more than {GROUPS_INSIDE_MAX} member groups")));
    }
    for id in inside {
        if *id == group.id {
            return Err(Error::invalid(format!(
                "member group ID \"{id}\" is same as the ID of the group"
            )));
        }
        if directory.group(*id).is_none() {
            return Err(Error::invalid(format!("invalid member group ID \"{id}\"")));
        }
    }
    let below = depth_below(directory, group.id, inside)?;
    if height_above(directory, group.id) + below >= DEPTH_MAX {
        return Err(Error::invalid(format!("groups nested more than {DEPTH_MAX} deep")));
    }
    Ok(())
}

/// How deep groups lie below one that has `inside` in it. Walks level by level, so that a group
/// inside itself is met again before the walk ends.
fn depth_below(
    directory: &IdentityDirectory,
    id: IdentityId,
    inside: &[IdentityId],
) -> Result<usize, Error> {
    let mut level: BTreeSet<(IdentityId, IdentityId)> =
        inside.iter().map(|id| (*id, *id)).collect();
    let mut depth = 0;
    while !level.is_empty() {
        if let Some((_, member)) = level.iter().find(|(at, _)| *at == id) {
            return Err(Error::invalid(format!(
                "cyclic relationship detected for member group ID \"{member}\""
            )));
        }
        depth += 1;
        if depth > DEPTH_MAX {
            break;
        }
        let groups = level
            .iter()
            .filter_map(|(at, member)| directory.group(*at).map(|group| (group, *member)));
        let below = groups.flat_map(|(group, member)| {
            group.groups.iter().map(move |id| (*id, member)).collect::<Vec<_>>()
        });
        level = below.collect();
    }
    Ok(depth)
}

/// How many groups lie around this one.
fn height_above(directory: &IdentityDirectory, id: IdentityId) -> usize {
    let mut level = BTreeSet::from([id]);
    for height in 0..=DEPTH_MAX {
        level = level.iter().flat_map(|id| directory.parents_of(*id)).collect();
        if level.is_empty() {
            return height;
        }
    }
    DEPTH_MAX
}

/// Makes exactly these entities the direct members of a group.
fn set_members(
    draft: &mut IdentityDraft<'_>,
    group: &Group,
    wanted: &[IdentityId],
) -> Result<(), Error> {
    if group.kind == GroupKind::External {
        return Err(Error::invalid("member entities can't be set manually for external groups"));
    }
    let now: BTreeSet<IdentityId> = draft.directory.members_of(group.id).into_iter().collect();
    let wanted: BTreeSet<IdentityId> = wanted.iter().copied().collect();
    let changed: Vec<IdentityId> = now.symmetric_difference(&wanted).copied().collect();
    if changed.len() > MEMBERS_CHANGED_MAX {
        return Err(Error::invalid(format!(
            "more than {MEMBERS_CHANGED_MAX} members added or removed at once"
        )));
    }
    for id in changed {
        let Some(mut entity) = draft.entity(id)? else {
            if wanted.contains(&id) {
                return Err(Error::invalid(format!("invalid entity ID \"{id}\"")));
            }
            continue;
        };
        if wanted.contains(&id) {
            join(draft.directory, &mut entity.groups, group.id)?;
        } else {
            entity.groups.retain(|of| *of != group.id);
        }
        draft.put_entity(&entity)?;
    }
    Ok(())
}

/// Adds a group to those of an entity. Groups that are no more make room.
pub(super) fn join(
    directory: &IdentityDirectory,
    groups: &mut Vec<IdentityId>,
    id: IdentityId,
) -> Result<(), Error> {
    groups.retain(|group| *group != id);
    if groups.len() >= GROUPS_OF_ENTITY_MAX {
        groups.retain(|group| directory.group(*group).is_some());
    }
    if groups.len() >= GROUPS_OF_ENTITY_MAX {
        return Err(Error::invalid(format!(
            "an entity is a direct member of at most {GROUPS_OF_ENTITY_MAX} groups"
        )));
    }
    groups.push(id);
    groups.sort_unstable();
    Ok(())
}

pub(super) fn read_id(site: &IdentityRequest<'_>, id: &str) -> Result<Response, Error> {
    show(site, IdentityId::parse(id).and_then(|id| site.directory.group(id)))
}

pub(super) fn read_name(site: &IdentityRequest<'_>, name: &str) -> Result<Response, Error> {
    show(site, site.directory.group_named(&Folded::new(name)))
}

fn show(site: &IdentityRequest<'_>, group: Option<Arc<Group>>) -> Result<Response, Error> {
    let group = group.ok_or(Error::NotFound)?;
    let methods = Methods::of(&site.context.view);
    Ok(Response::data(&wire::group(&group, site.directory, &methods)))
}

pub(super) fn list_ids(site: &IdentityRequest<'_>) -> Result<Response, Error> {
    let all = site.directory.groups();
    let listed =
        all.iter().map(|group| (group.id.to_string(), wire::group_info(group, site.directory)));
    list_reply(listed)
}

pub(super) fn list_names(site: &IdentityRequest<'_>) -> Result<Response, Error> {
    let mut names: Vec<String> =
        site.directory.groups().iter().map(|group| group.name.clone()).collect();
    names.sort();
    Ok(Response::data(&Json::object([("keys", Json::strings(not_empty(names)?))])))
}

pub(super) async fn delete_id(site: &IdentityRequest<'_>, id: &str) -> Result<Response, Error> {
    delete(site, |directory| IdentityId::parse(id).and_then(|id| directory.group(id))).await
}

pub(super) async fn delete_name(site: &IdentityRequest<'_>, name: &str) -> Result<Response, Error> {
    delete(site, |directory| directory.group_named(&Folded::new(name))).await
}

/// Deletes a group. Its id may stay with entities and groups that had to do with it, and counts for
/// nothing.
async fn delete(
    site: &IdentityRequest<'_>,
    find: impl Fn(&IdentityDirectory) -> Option<Arc<Group>>,
) -> Result<Response, Error> {
    change(site.context, site.mount, "groups", |draft| {
        let Some(group) = find(draft.directory) else { return Ok(()) };
        draft.lock_groups()?;
        draft.delete_group(group.id)
    })
    .await?;
    Ok(Response::Empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::directory::GROUPS;

    #[test]
    fn an_entity_is_in_as_many_groups_as_it_may_and_those_that_are_gone_make_room() {
        let directory = IdentityDirectory::default();
        let make_id = || IdentityId::make().unwrap();
        let mut gone: Vec<_> = (0..GROUPS_OF_ENTITY_MAX).map(|_| make_id()).collect();
        let one_less = &mut gone[1..].to_vec();
        join(&directory, one_less, make_id()).unwrap();
        assert_eq!(one_less.len(), GROUPS_OF_ENTITY_MAX, "nobody looks while there is room");
        let last = make_id();
        join(&directory, &mut gone, last).unwrap();
        assert_eq!(gone, [last]);
        let mut there = Vec::new();
        for _ in 0..GROUPS_OF_ENTITY_MAX {
            let group = make(&directory, GroupKind::Internal, Timestamp::UNIX_EPOCH).unwrap();
            directory.put(&format!("{GROUPS}{}", group.id), &group.encode());
            join(&directory, &mut there, group.id).unwrap();
        }
        assert_eq!(there.len(), GROUPS_OF_ENTITY_MAX);
        assert!(there.is_sorted());
        let first = there[0];
        assert!(join(&directory, &mut there, make_id()).is_err());
        assert_eq!(join(&directory, &mut there, first), Ok(()), "it is in it");
        assert_eq!(there.len(), GROUPS_OF_ENTITY_MAX);
    }
}
