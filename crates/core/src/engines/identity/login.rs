//! A login: an alias becomes an entity.
//!
//! Somebody who was here before and brings nothing new costs a look into the directory and no write.
//! Otherwise the entity is made, or what the login method says of it brought up to date: the
//! alias's metadata, and the external groups of that method. Racing first logins of one alias make one
//! entity: the alias's claim can be had once.

use jiff::Timestamp;

use super::draft::{IdentityDraft, change};
use super::{aliases, entities, groups};
use crate::api::error::{Denial, Error};
use crate::api::fields::scalar_text;
use crate::api::json::Map;
use crate::engines::identity::site::directory_of;
use crate::identity::directory::{IdentityDirectory, Person};
use crate::identity::names::{self, Folded, alias_claim};
use crate::identity::record::{Entity, IdentityId, IdentityMetadata};
use crate::view::Mount;
use crate::view::NamespaceContext;

/// Somebody as a login method knows them.
pub(crate) struct LoginAlias<'l> {
    /// The login method.
    pub(crate) mount: &'l Mount,
    /// What the method calls them: a user name, a role id, a subject. Never empty.
    pub(crate) name: &'l str,
    /// What the method knows of them.
    pub(crate) metadata: &'l Map,
    /// The groups the method has them in.
    pub(crate) groups: &'l [String],
}

/// What a login method says of somebody.
struct LoginFacts<'l> {
    accessor: &'l str,
    name: &'l str,
    metadata: IdentityMetadata,
    /// The names of groups.
    groups: &'l [String],
}

/// The id of the entity behind an alias, made at its first login.
///
/// # Errors
/// A denial when the entity is disabled; [`Error::Invalid`] for a name that is none.
pub(crate) async fn log_in(
    context: &NamespaceContext,
    alias: &LoginAlias<'_>,
    now: Timestamp,
) -> Result<IdentityId, Error> {
    names::check("the name of an alias", alias.name)?;
    let metadata = alias.metadata.iter();
    let metadata = metadata.filter_map(|(key, value)| Some((key.clone(), scalar_text(value)?)));
    let said = LoginFacts {
        accessor: &alias.mount.entry.accessor,
        name: alias.name,
        metadata: metadata.collect(),
        groups: alias.groups,
    };
    let mount = context.view.identity_mount()?;
    if let Some(person) = known(directory_of(&mount)?, &said) {
        return admit(person.entity.disabled, person.entity.id);
    }
    let claim = alias_claim(said.accessor, &Folded::new(said.name));
    change(context, &mount, &claim, |draft| enter(draft, &said, now)).await
}

fn admit(disabled: bool, id: IdentityId) -> Result<IdentityId, Error> {
    if disabled { Err(Error::Denied(Denial::BadToken)) } else { Ok(id) }
}

/// Who it is, when the directory says of them what the login method does.
fn known(directory: &IdentityDirectory, said: &LoginFacts<'_>) -> Option<Person> {
    let entity = directory.entity_with_alias(said.accessor, &Folded::new(said.name))?;
    let person = directory.person(entity.id)?;
    let alias = person.entity.alias_at(said.accessor)?;
    let same = alias.metadata == said.metadata
        && person.groups_by(said.accessor) == groups_said(directory, said.accessor, said.groups);
    same.then_some(person)
}

/// Brings the external groups of an entity up to date with what a login method says of them at a renewal.
///
/// # Errors
/// The store's refusal; [`Error::Invalid`] when they are too many.
pub(crate) async fn refresh_groups(
    context: &NamespaceContext,
    method: &Mount,
    id: IdentityId,
    groups: &[String],
) -> Result<(), Error> {
    let mount = context.view.identity_mount()?;
    let (directory, accessor) = (directory_of(&mount)?, &method.entry.accessor);
    let Some(person) = directory.person(id) else { return Ok(()) };
    if person.groups_by(accessor) == groups_said(directory, accessor, groups) {
        return Ok(());
    }
    let id = person.entity.id;
    change(context, &mount, "entities", |draft| {
        let Some(mut entity) = draft.entity(id)? else { return Ok(()) };
        regroup(draft.directory, &mut entity, accessor, groups)?;
        draft.put_entity(&entity)
    })
    .await
}

/// Makes an entity a member of just those external groups of a login method that it is said to be in. A group that has no alias any more
/// is nobody's, so it is left as well.
fn regroup(
    directory: &IdentityDirectory,
    entity: &mut Entity,
    accessor: &str,
    groups: &[String],
) -> Result<(), Error> {
    entity.groups.retain(|id| {
        let group = directory.group(*id);
        group.is_none_or(|group| !group.is_filled_by(accessor))
    });
    for id in groups_said(directory, accessor, groups) {
        groups::join(directory, &mut entity.groups, id)?;
    }
    Ok(())
}

/// The ids of the external groups that a login method has somebody in by their names there, sorted.
fn groups_said(
    directory: &IdentityDirectory,
    accessor: &str,
    groups: &[String],
) -> Vec<IdentityId> {
    let named = groups.iter().filter_map(|name| {
        directory.group_with_alias(accessor, &Folded::new(name)).map(|group| group.id)
    });
    let mut ids: Vec<IdentityId> = named.collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Makes the entity, or brings it up to date.
fn enter(
    draft: &mut IdentityDraft<'_>,
    said: &LoginFacts<'_>,
    now: Timestamp,
) -> Result<IdentityId, Error> {
    let owner = draft.owner_of_alias(said.accessor, said.name)?;
    let known = owner.map(|id| draft.entity(id)).transpose()?.flatten();
    let mut entity = match known {
        Some(entity) => entity,
        None => {
            let mut entity = entities::make(draft, None, now)?;
            let alias = aliases::make(said.accessor, said.name, now)?;
            draft.claim_alias(&alias, entity.id)?;
            entity.aliases.push(alias);
            entity
        }
    };
    admit(entity.disabled, entity.id)?;
    let alias = entity.aliases.iter_mut().find(|alias| alias.accessor == said.accessor);
    let alias = alias.ok_or_else(|| Error::internal(&"a claimed alias is missing"))?;
    if alias.metadata != said.metadata {
        alias.metadata.clone_from(&said.metadata);
        alias.updated_at = now;
    }
    regroup(draft.directory, &mut entity, said.accessor, said.groups)?;
    draft.put_entity(&entity)?;
    Ok(entity.id)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kallisto_auth::{Operation, Path};
    use kallisto_store::MemoryStore;

    use super::*;
    use crate::api::request::{Request, TokenText};
    use crate::platform::server_info::ServerInfo;
    use crate::state::Core;

    fn core() -> Core {
        let core = Core::new(Arc::new(MemoryStore::new()), ServerInfo::default());
        let root = Some("root".to_owned().into());
        pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
        for method in ["one", "two"] {
            write(&core, &format!("sys/auth/{method}"), r#"{"type":"userpass"}"#);
        }
        core
    }

    fn write(core: &Core, path: &str, body: &str) {
        let request = Request {
            token: Some(TokenText::new("root")),
            body: body.as_bytes(),
            ..Request::new(Operation::Update, Path::decode(path).unwrap(), Timestamp::UNIX_EPOCH)
        };
        pollster::block_on(core.handle(&request)).unwrap();
    }

    /// Logs in and tells the policies that the person has besides the token's.
    fn log_in_with(core: &Core, method: &str, groups: &[&str], metadata: &Map) -> Vec<String> {
        let context = core.context.load();
        let context = context.as_ref().unwrap();
        let mount = context.view.mounts.at(&format!("auth/{method}/")).unwrap();
        let groups: Vec<String> = groups.iter().map(|&name| name.to_owned()).collect();
        let alias = LoginAlias { mount: &mount, name: "bob", metadata, groups: &groups };
        let id = pollster::block_on(log_in(context, &alias, Timestamp::UNIX_EPOCH)).unwrap();
        context.view.ask_directory(|all| all.person(id).unwrap().policies()).unwrap()
    }

    fn writes(core: &Core) -> u64 {
        core.context.load().as_ref().unwrap().store.below().position().0
    }

    #[test]
    fn a_login_method_fills_its_own_external_groups_alone() {
        let core = core();
        let none = Map::new();
        for (group, method) in [("admins", "one"), ("readers", "one"), ("people", "two")] {
            let context = core.context.load();
            let mounts = &context.as_ref().unwrap().view.mounts;
            let accessor = mounts.at(&format!("auth/{method}/")).unwrap().entry.accessor.clone();
            let body = format!(r#"{{"type":"external","policies":"{group}-policy"}}"#);
            write(&core, &format!("identity/group/name/{group}"), &body);
            let directory = context.as_ref().unwrap();
            let id = directory.view.ask_directory(|all| all.group_named(&Folded::new(group)));
            let id = id.flatten().unwrap().id;
            let body = format!(
                r#"{{"name":"{group}","mount_accessor":"{accessor}","canonical_id":"{id}"}}"#
            );
            write(&core, "identity/group-alias", &body);
        }
        let with = |method, groups: &[&str]| log_in_with(&core, method, groups, &none);
        assert_eq!(with("one", &["Admins", "unheard-of"]), ["admins-policy"]);
        assert_eq!(with("one", &["readers", "admins"]), ["admins-policy", "readers-policy"]);
        assert_eq!(with("one", &["readers"]), ["readers-policy"]);
        // Another method's login is another entity here, and says nothing of this one's groups.
        assert_eq!(with("two", &["people", "admins"]), ["people-policy"]);
        assert_eq!(with("one", &["readers"]), ["readers-policy"]);
        assert!(with("one", &[]).is_empty());
    }

    #[test]
    fn a_group_that_lost_its_alias_is_left_at_the_next_login() {
        let core = core();
        let context = core.context.load_full().unwrap();
        let named = |name: &str| {
            context.view.ask_directory(|all| all.group_named(&Folded::new(name))).flatten().unwrap()
        };
        let accessor = context.view.mounts.at("auth/one/").unwrap().entry.accessor.clone();
        write(&core, "identity/group/name/admins", r#"{"type":"external","policies":"ext"}"#);
        let body = format!(
            r#"{{"name":"admins","mount_accessor":"{accessor}","canonical_id":"{}"}}"#,
            named("admins").id
        );
        write(&core, "identity/group-alias", &body);
        let none = Map::new();
        assert_eq!(log_in_with(&core, "one", &["admins"], &none), ["ext"]);
        let entity = context.view.ask_directory(|all| all.entities()[0].id).unwrap();
        let body = format!(r#"{{"policies":"int","member_entity_ids":["{entity}"]}}"#);
        write(&core, "identity/group/name/inside", &body);
        let alias = named("admins").alias.clone().unwrap();
        let path = format!("identity/group-alias/id/{}", alias.id);
        let path = Path::decode(&path).unwrap();
        let request = Request {
            token: Some(TokenText::new("root")),
            ..Request::new(Operation::Delete, path, Timestamp::UNIX_EPOCH)
        };
        pollster::block_on(core.handle(&request)).unwrap();
        assert_eq!(log_in_with(&core, "one", &["admins"], &none), ["int"]);
    }

    #[test]
    fn who_brings_nothing_new_writes_nothing() {
        let core = core();
        let said = Map::from([("k".to_owned(), "v".into())]);
        log_in_with(&core, "one", &[], &said);
        let before = writes(&core);
        log_in_with(&core, "one", &[], &said);
        assert_eq!(writes(&core), before);
        log_in_with(&core, "one", &[], &Map::new());
        assert_ne!(writes(&core), before);
    }
}
