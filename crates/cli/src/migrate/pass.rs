//! A walk through everything in scope, and what is done at its end to each item.

use super::endpoint::{Endpoint, ItemFailure, check_target_path};
use super::mounts::MountedEngine;
use super::report::{MigrationReport, Settled};
use super::scope::{ContentKind, MigrationScope};
use super::state::StateFile;
use super::translations::Translations;
use super::{authorities, identity, kv, login_methods, mounts, namespaces, policies, transit};
use crate::progress::Progress;
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};

/// What is done where the target is not as the source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MigrationPass {
    /// It is made so.
    Move,
    /// It is told that it would be.
    DryRun,
    /// It is told what differs.
    Compare,
}

/// Everything a pass works with.
pub(super) struct Migration<'a> {
    pub(super) source: Endpoint<'a>,
    pub(super) target: Endpoint<'a>,
    pub(super) pass: MigrationPass,
    pub(super) scope: MigrationScope,
    /// Whether secrets at the target that have other versions are replaced.
    pub(super) overwrites: bool,
    /// Whether what came from the source and is deleted there by now is deleted at the target.
    pub(super) prunes: bool,
    pub(super) workers: usize,
    pub(super) report: MigrationReport,
    pub(super) progress: Progress,
    pub(super) state: Option<StateFile>,
}

/// Something that moves: what it is and where, for the report.
#[derive(Clone, Copy)]
pub(super) struct Item<'i> {
    pub(super) kind: &'static str,
    pub(super) namespace: &'i str,
    pub(super) path: &'i str,
}

impl Migration<'_> {
    /// Goes through everything.
    ///
    /// # Errors
    /// What ends a pass; the failure of an item is in the report.
    pub(super) fn run(&self) -> Result<(), Error> {
        let mut translations = Translations::default();
        for namespace in namespaces::move_all(self)? {
            let mounts = mounts::move_all(self, &namespace)?;
            login_methods::move_all(self, &namespace, &mut translations)?;
            if self.scope.has(ContentKind::Identity) {
                identity::move_all(self, &namespace, &mut translations)?;
            }
            if self.scope.has(ContentKind::Policies) {
                policies::move_all(self, &namespace, &translations)?;
            }
            for mount in &mounts {
                match mount.engine {
                    MountedEngine::Transit if self.scope.has(ContentKind::TransitKeys) => {
                        transit::move_all(self, &namespace, mount)?;
                    }
                    MountedEngine::Pki if self.scope.has(ContentKind::Pki) => {
                        authorities::move_all(self, &namespace, mount)?;
                    }
                    MountedEngine::KvV1 | MountedEngine::KvV2
                        if self.scope.has(ContentKind::Secrets) =>
                    {
                        kv::move_all(self, &namespace, mount)?;
                    }
                    _ => {}
                }
            }
        }
        for path in self.scope.unmet() {
            let item = Item { kind: "paths", namespace: "", path: &path };
            self.report.count(item, Settled::not_moved("nothing was found there at the source"));
        }
        Ok(())
    }

    /// Says what of a snapshot does not move and is asked for by nobody. Tokens and leases never do, so they are no failure.
    pub(super) fn tell_leftovers(&self) {
        let Some(snapshot) = self.source.snapshot() else { return };
        for leftover in snapshot.leftovers() {
            let item =
                Item { kind: leftover.kind, namespace: &leftover.namespace, path: &leftover.path };
            match leftover.kind {
                "tokens" | "leases" => self.report.note(item, leftover.why),
                _ => self.report.count(item, Settled::NotMoved(leftover.why)),
            }
        }
    }

    /// The names at a path of the source; none where it does not tell them, which the report says.
    pub(super) fn list(
        &self,
        kind: &'static str,
        namespace: &str,
        path: &str,
    ) -> Result<Vec<String>, Error> {
        let listed =
            self.or_none(Item { kind, namespace, path }, self.source.list(namespace, path))?;
        let (folders, names): (Vec<_>, Vec<_>) =
            listed.into_iter().partition(|name| name.ends_with('/'));
        for folder in folders {
            let path = format!("{path}/{folder}");
            let why = "the source does not list what is below it: its name has a slash";
            self.report.count(Item { kind, namespace, path: &path }, Settled::not_moved(why));
        }
        Ok(names)
    }

    /// What the source told; nothing where it does not tell it, which the report says.
    pub(super) fn or_none<T: Default>(
        &self,
        item: Item<'_>,
        answer: Result<T, ItemFailure>,
    ) -> Result<T, Error> {
        match answer {
            Ok(told) => Ok(told),
            Err(ItemFailure::Item(why) | ItemFailure::Denied(why)) => {
                self.report.count(item, Settled::NotMoved(why));
                Ok(T::default())
            }
            Err(ItemFailure::Fatal(error)) => Err(error),
        }
    }

    /// The mounts that a server tells at a route: all, or those that the token may see where it may not list them. `None` when it tells
    /// none, which the report says.
    pub(super) fn read_all(
        &self,
        item: Item<'_>,
        from: &Endpoint<'_>,
        (route, visible): (&str, &str),
    ) -> Result<Option<Map>, Error> {
        let all = from.read(item.namespace, route).or_else(|failure| match failure {
            ItemFailure::Item(_) | ItemFailure::Denied(_) => {
                let shown = from.read(item.namespace, "sys/internal/ui/mounts")?;
                match shown.and_then(|mut shown| shown.remove(visible)) {
                    Some(Json::Object(mounts)) => Ok(Some(mounts)),
                    _ => Ok(None),
                }
            }
            fatal => Err(fatal),
        });
        match all {
            Ok(all) => Ok(Some(all.unwrap_or_default())),
            // A namespace that would be made.
            Err(ItemFailure::Item(_)) if self.pass == MigrationPass::DryRun => Ok(Some(Map::new())),
            Err(ItemFailure::Item(why) | ItemFailure::Denied(why)) => {
                self.report.count(item, Settled::NotMoved(why));
                Ok(None)
            }
            Err(ItemFailure::Fatal(error)) => Err(error),
        }
    }

    /// Whether what an endpoint does not know yet may be what this pass would make there.
    pub(super) fn would_make(&self, at: &Endpoint<'_>) -> bool {
        self.pass == MigrationPass::DryRun && std::ptr::eq(at, &raw const self.target)
    }

    /// What is at a path of the target. A dry run takes for nothing what is in mounts that would be made.
    pub(super) fn target_or_nothing(
        &self,
        namespace: &str,
        path: &str,
    ) -> Result<Option<Map>, ItemFailure> {
        // A refusal of the path itself would be taken for such a mount.
        check_target_path(namespace, path)?;
        match self.target.read(namespace, path) {
            Err(ItemFailure::Item(_)) if self.pass == MigrationPass::DryRun => Ok(None),
            answer => answer,
        }
    }

    /// Does what is needed for the next step; what fails is told with the item.
    pub(super) fn settle_quietly(
        &self,
        item: Item<'_>,
        work: impl FnOnce() -> Result<(), ItemFailure>,
    ) -> Result<(), Error> {
        match work() {
            Ok(()) => Ok(()),
            Err(ItemFailure::Item(why) | ItemFailure::Denied(why)) => {
                self.report.note(item, why);
                Ok(())
            }
            Err(ItemFailure::Fatal(error)) => Err(error),
        }
    }

    /// Does what concerns one item, and reports what came of it; false when it did not move.
    ///
    /// # Errors
    /// What ends the pass.
    pub(super) fn settle(
        &self,
        item: Item<'_>,
        work: impl FnOnce() -> Result<Settled, ItemFailure>,
    ) -> Result<bool, Error> {
        let settled = match work() {
            Ok(settled) => settled,
            Err(ItemFailure::Item(why) | ItemFailure::Denied(why)) => Settled::NotMoved(why),
            Err(ItemFailure::Fatal(error)) => return Err(error),
        };
        let has_moved = !matches!(settled, Settled::NotMoved(_));
        self.report.count(item, settled);
        Ok(has_moved)
    }

    /// Makes the object at a path of the target hold what `wanted` does; what else is in it stays.
    pub(super) fn settle_object(
        &self,
        namespace: &str,
        path: &str,
        wanted: Map,
    ) -> Result<Settled, ItemFailure> {
        let here = self.target_or_nothing(namespace, path)?;
        self.settle_against(here.as_ref(), &wanted, || {
            self.target.write(namespace, path, wanted.clone()).map(drop)
        })
    }

    /// The same where what is `here` was read already, and `write` writes.
    pub(super) fn settle_against(
        &self,
        here: Option<&Map>,
        wanted: &Map,
        write: impl FnOnce() -> Result<(), ItemFailure>,
    ) -> Result<Settled, ItemFailure> {
        let differing = differences(wanted, here);
        match (differing.is_empty() && here.is_some(), self.pass) {
            (true, _) => Ok(Settled::Same),
            (false, MigrationPass::DryRun) => Ok(Settled::Moved),
            (false, MigrationPass::Compare) if here.is_none() => {
                Ok(Settled::differs("it is not at the target"))
            }
            (false, MigrationPass::Compare) => {
                Ok(Settled::Differs(format!("other: {}", differing.join(", "))))
            }
            (false, MigrationPass::Move) => write().map(|()| Settled::Moved),
        }
    }
}

/// The names of what `here` does not have as it is wanted.
fn differences(wanted: &Map, here: Option<&Map>) -> Vec<String> {
    let differs = |(name, value): &(&String, &Json)| {
        !means_the_same(value, here.and_then(|here| here.get(*name)).unwrap_or(&Json::Null))
    };
    wanted.iter().filter(differs).map(|(name, _)| name.clone()).collect()
}

/// Whether two values say the same: nothing has many spellings, lists of names have no order, and a name is a list of it alone.
pub(super) fn means_the_same(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Array(one), Json::Array(other)) => {
            let sorted = |items: &[Json]| {
                let mut texts: Vec<_> = items.iter().map(Json::to_text).collect();
                texts.sort_unstable();
                texts
            };
            sorted(one) == sorted(other)
        }
        (Json::Object(one), Json::Object(other)) => {
            let names: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
            let of = |map: &Map, name: &String| map.get(name).cloned().unwrap_or(Json::Null);
            names.into_iter().all(|name| means_the_same(&of(one, name), &of(other, name)))
        }
        (name @ Json::String(_), Json::Array(names))
        | (Json::Array(names), name @ Json::String(_))
            if !names.is_empty() =>
        {
            matches!(&names[..], [only] if only == name)
        }
        _ => one == other || (is_nothing(one) && is_nothing(other)),
    }
}

/// Whether a value is one of the spellings of nothing.
pub(super) fn is_nothing(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(false) => true,
        Json::Bool(true) => false,
        Json::Number(text) => &**text == "0",
        Json::String(text) => text.is_empty() || text == "0s",
        Json::Array(items) => items.is_empty(),
        Json::Object(map) => map.values().all(is_nothing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kallisto_command::json::parse_object;

    #[test]
    fn nothing_has_many_spellings_and_lists_no_order() {
        let map = |text: &str| parse_object(text.as_bytes()).unwrap();
        let wanted = map(r#"{"a":null,"b":["x","y"],"c":{"d":0},"e":"t","f":1}"#);
        let same = map(r#"{"b":["y","x"],"c":{},"e":["t"],"f":1,"g":"more"}"#);
        assert!(differences(&wanted, Some(&same)).is_empty());
        let more = map(r#"{"b":["y","x"],"e":["t","u"],"f":1}"#);
        assert_eq!(differences(&wanted, Some(&more)), ["e"]);
        let other = map(r#"{"a":1,"b":["y"],"c":{"d":2},"e":"","f":"1"}"#);
        assert_eq!(differences(&wanted, Some(&other)), ["a", "b", "c", "e", "f"]);
        assert_eq!(differences(&wanted, None), ["b", "e", "f"]);
    }
}
