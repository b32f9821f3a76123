//! What is kept of a second factor, and how it is read.

use std::iter;
use std::ops::Deref;
use std::sync::Arc;

use kallisto_engine::Storage;

use crate::api::error::Error;
use crate::api::json::{Json, Map};
use crate::identity::record::IdentityId;
use crate::storage::engine_storage::{EngineStorage, IDENTITY_MOUNT};
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;

pub(super) const RULES: &str = "mfa/enforcement/";
/// Most rules that a namespace is given: each is looked at by every login. A login looks at all that are there, whatever their number.
pub(super) const RULES_MAX: usize = 256;
/// The record that every rule changes that is written; the id of the last one.
pub(super) const LAST_RULE: &str = "mfa/rules";
/// The record that every method changes that is made; the id of the last one. Whoever changes methods or rules waits for its latch.
pub(super) const LAST_METHOD: &str = "mfa/methods";

/// A namespace and those above it, the nearest first.
pub(super) struct Contexts<'a> {
    here: &'a NamespaceContext,
    above: Vec<Arc<NamespaceContext>>,
}

impl<'a> Contexts<'a> {
    pub(super) fn of(here: &'a NamespaceContext) -> Self {
        Self { here, above: here.contexts_above() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &NamespaceContext> {
        iter::once(self.here).chain(self.above.iter().map(Deref::deref))
    }
}

/// The ids that somebody is known by: that of their entity, then those of the entities that became part of it, whose keys and rules are theirs.
pub(super) fn ids_of(contexts: &Contexts<'_>, entity: IdentityId) -> Vec<IdentityId> {
    let person = contexts.iter().find_map(|context| context.view.person_with(entity));
    match person {
        Some(person) => iter::once(person.entity.id).chain(person.entity.merged.clone()).collect(),
        None => vec![entity],
    }
}

/// What the identity mount of a namespace keeps.
pub(super) fn storage(context: &NamespaceContext) -> Result<EngineStorage<'_>, Error> {
    EngineStorage::builtin(context, MountId::IDENTITY)
}

/// A record of this module, which is an object.
pub(super) fn read_record(storage: &EngineStorage<'_>, name: &str) -> Result<Option<Map>, Error> {
    let found = Storage::new(storage, IDENTITY_MOUNT).get(name)?;
    found.map(|found| found.object()).transpose()
}

/// A text of a record; empty for none.
pub(super) fn text<'m>(record: &'m Map, name: &str) -> &'m str {
    record.get(name).and_then(Json::as_str).unwrap_or_default()
}

/// The texts of a list in a record.
pub(super) fn texts<'m>(record: &'m Map, name: &str) -> impl Iterator<Item = &'m str> {
    let items = match record.get(name) {
        Some(Json::Array(items)) => items.as_slice(),
        _ => &[],
    };
    items.iter().filter_map(Json::as_str)
}

/// Adds which namespace something is of.
pub(super) fn place(mut shown: Map, context: &NamespaceContext) -> Map {
    shown.insert("namespace_id".to_owned(), context.view.namespace_id().into());
    shown.insert("namespace_path".to_owned(), context.view.namespace_path().into());
    shown
}

/// The rules of a namespace, all of them, by name.
///
/// # Errors
/// When one cannot be read, or there are more than a list may return, upon which nobody logs in.
pub(super) fn rules(storage: &EngineStorage<'_>) -> Result<Vec<Map>, Error> {
    let names = storage.list(RULES)?;
    let read = names.iter().map(|name| read_record(storage, &format!("{RULES}{name}")));
    read.filter_map(Result::transpose).collect()
}
