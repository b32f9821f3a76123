//! Entities, their aliases, groups and theirs.
//!
//! They are known by name at both sides; ids and accessors are those of the target.

use super::endpoint::ItemFailure;
use super::mounts::text;
use super::pass::{Item, Migration, MigrationPass};
use super::report::Settled;
use super::translations::Translations;
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};

/// Moves the entities and groups of a namespace.
pub(super) fn move_all(
    migration: &Migration<'_>,
    namespace: &str,
    translations: &mut Translations,
) -> Result<(), Error> {
    let walk = IdentityWalk { migration, namespace };
    let ids = migration.list("entities", namespace, "identity/entity/id")?;
    migration.progress.begin(&format!("{namespace}entities"), ids.len());
    for id in &ids {
        walk.move_entity(id, translations)?;
        migration.progress.add(1);
    }
    let groups = walk.read_groups()?;
    for group in &groups {
        walk.move_group(group, translations)?;
    }
    // Only now is every group that may be a member there.
    groups.iter().try_for_each(|group| walk.move_member_groups(group, translations))
}

struct IdentityWalk<'m, 'a> {
    migration: &'m Migration<'a>,
    namespace: &'m str,
}

impl IdentityWalk<'_, '_> {
    fn move_entity(&self, id: &str, translations: &mut Translations) -> Result<(), Error> {
        let path = format!("identity/entity/id/{id}");
        let item = Item { kind: "entities", namespace: self.namespace, path: id };
        let there = match self.migration.source.read(self.namespace, &path) {
            Ok(Some(there)) => there,
            Ok(None) => return Ok(()),
            Err(ItemFailure::Item(why) | ItemFailure::Denied(why)) => {
                self.migration.report.count(item, Settled::NotMoved(why));
                return Ok(());
            }
            Err(ItemFailure::Fatal(error)) => return Err(error),
        };
        let name = text(&there, "name");
        let path = format!("identity/entity/name/{name}");
        let item = Item { path: name, ..item };
        let has_moved = self.migration.settle(item, || {
            let wanted = picked(&there, &["metadata", "policies", "disabled"]);
            self.migration.settle_object(self.namespace, &path, wanted)
        })?;
        if !has_moved {
            return Ok(());
        }
        let mut here = Map::new();
        self.migration.settle_quietly(item, || {
            here = self.migration.target.read(self.namespace, &path)?.unwrap_or_default();
            Ok(())
        })?;
        translations.add(id, text(&here, "id"));
        for alias in objects(&there, "aliases") {
            let item = Item { kind: "entity aliases", path: text(alias, "name"), ..item };
            let known = objects(&here, "aliases");
            self.move_alias(
                item,
                "identity/entity-alias",
                alias,
                (text(&here, "id"), &known),
                translations,
            )?;
        }
        Ok(())
    }

    /// Makes an alias of the entity or group with this id, which has these by now.
    fn move_alias(
        &self,
        item: Item<'_>,
        route: &str,
        alias: &Map,
        (owner, known): (&str, &[&Map]),
        translations: &Translations,
    ) -> Result<(), Error> {
        self.migration.settle(item, || {
            let Some(accessor) = translations.of(text(alias, "mount_accessor")) else {
                if self.migration.pass == MigrationPass::DryRun {
                    return Ok(Settled::Moved);
                }
                let path = text(alias, "mount_path");
                return Ok(Settled::NotMoved(format!(
                    "its login method {path} is not at the target"
                )));
            };
            let mut wanted = picked(alias, &["custom_metadata"]);
            wanted.insert("name".to_owned(), text(alias, "name").into());
            wanted.insert("mount_accessor".to_owned(), accessor.into());
            let is_it = |known: &&&Map| {
                text(known, "name") == text(alias, "name")
                    && text(known, "mount_accessor") == accessor
            };
            self.migration.settle_against(known.iter().find(is_it).copied(), &wanted, || {
                let mut body = wanted.clone();
                body.insert("canonical_id".to_owned(), owner.into());
                self.migration.target.write(self.namespace, route, body).map(drop)
            })
        })?;
        Ok(())
    }

    fn read_groups(&self) -> Result<Vec<Map>, Error> {
        let ids = self.migration.list("groups", self.namespace, "identity/group/id")?;
        let mut groups = Vec::new();
        for id in &ids {
            let item = Item { kind: "groups", namespace: self.namespace, path: id };
            match self.migration.source.read(self.namespace, &format!("identity/group/id/{id}")) {
                Ok(group) => groups.extend(group),
                Err(ItemFailure::Item(why) | ItemFailure::Denied(why)) => {
                    self.migration.report.count(item, Settled::NotMoved(why));
                }
                Err(ItemFailure::Fatal(error)) => return Err(error),
            }
        }
        Ok(groups)
    }

    fn move_group(&self, there: &Map, translations: &mut Translations) -> Result<(), Error> {
        let name = text(there, "name");
        let item = Item { kind: "groups", namespace: self.namespace, path: name };
        let path = format!("identity/group/name/{name}");
        let is_external = text(there, "type") == "external";
        let has_moved = self.migration.settle(item, || {
            let mut wanted = picked(there, &["metadata", "policies", "type"]);
            if !is_external {
                let members = self.members(item, there, "member_entity_ids", translations);
                wanted.insert("member_entity_ids".to_owned(), members);
            }
            self.migration.settle_object(self.namespace, &path, wanted)
        })?;
        if !has_moved {
            return Ok(());
        }
        let mut here = Map::new();
        self.migration.settle_quietly(item, || {
            here = self.migration.target.read(self.namespace, &path)?.unwrap_or_default();
            Ok(())
        })?;
        translations.add(text(there, "id"), text(&here, "id"));
        let alias = there.get("alias").and_then(Json::as_object).filter(|alias| !alias.is_empty());
        let Some(alias) = alias.filter(|_| is_external) else { return Ok(()) };
        let item = Item { kind: "group aliases", path: text(alias, "name"), ..item };
        let known: Vec<&Map> = here.get("alias").and_then(Json::as_object).into_iter().collect();
        self.move_alias(
            item,
            "identity/group-alias",
            alias,
            (text(&here, "id"), &known),
            translations,
        )
    }

    fn move_member_groups(&self, there: &Map, translations: &Translations) -> Result<(), Error> {
        let name = text(there, "name");
        let item = Item { kind: "group members", namespace: self.namespace, path: name };
        if matches!(there.get("member_group_ids"), None | Some(Json::Null)) {
            return Ok(());
        }
        self.migration.settle(item, || {
            let members = self.members(item, there, "member_group_ids", translations);
            let wanted = Map::from([("member_group_ids".to_owned(), members)]);
            let path = format!("identity/group/name/{name}");
            self.migration.settle_object(self.namespace, &path, wanted)
        })?;
        Ok(())
    }

    /// The members of a group, by their ids at the target.
    fn members(
        &self,
        item: Item<'_>,
        there: &Map,
        name: &str,
        translations: &Translations,
    ) -> Json {
        let Some(Json::Array(ids)) = there.get(name) else { return Json::Array(Vec::new()) };
        let ids: Vec<&str> = ids.iter().filter_map(Json::as_str).collect();
        let known: Vec<&str> = ids.iter().filter_map(|id| translations.of(id)).collect();
        if known.len() < ids.len() && self.migration.pass == MigrationPass::Move {
            let why = format!("{} of its members are not at the target", ids.len() - known.len());
            self.migration.report.note(item, why);
        }
        Json::strings(known)
    }
}

fn picked(from: &Map, names: &[&str]) -> Map {
    let named = |name: &&str| {
        let value = from.get(*name).filter(|value| **value != Json::Null)?;
        Some(((*name).to_owned(), value.clone()))
    };
    names.iter().filter_map(named).collect()
}

fn objects<'m>(map: &'m Map, name: &str) -> Vec<&'m Map> {
    match map.get(name) {
        Some(Json::Array(items)) => items.iter().filter_map(Json::as_object).collect(),
        _ => Vec::new(),
    }
}
