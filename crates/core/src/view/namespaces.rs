//! What namespaces there are: written by the fold, asked when a request comes and where a border is
//! crossed.
//!
//! A namespace's world, its view and what handlers run with, exists while it lives: the record that
//! taints it drops the world in the same fold, and requests that still hold it can write nothing
//! (see [`crate::storage::barrier_store::NamespaceLife`]).

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kallisto_store::Seqno;

use crate::api::error::Error;
use crate::records::namespace::Namespace;
use crate::records::namespace::NamespaceFacts;
use crate::storage::barrier_store::NamespaceLife;
use crate::storage::keys::NamespaceNumber;
use crate::view::NamespaceContext;
use crate::view::View;

/// The namespaces below the root one.
#[derive(Default)]
pub(crate) struct Namespaces {
    table: RwLock<NamespaceTable>,
    count: AtomicUsize,
}

#[derive(Default)]
struct NamespaceTable {
    by_path: BTreeMap<String, Arc<NamespaceSpace>>,
    by_number: HashMap<NamespaceNumber, Arc<NamespaceSpace>>,
    by_id: HashMap<String, Arc<NamespaceSpace>>,
}

/// A namespace, and its world while it lives.
#[derive(Clone)]
pub(crate) struct NamespaceSpace {
    pub(crate) namespace: Namespace,
    since: Seqno,
    world: Option<Arc<NamespaceWorld>>,
}

struct NamespaceWorld {
    view: Arc<View>,
    /// What its handlers run with, made when the first request comes.
    context: OnceLock<Arc<NamespaceContext>>,
}

impl NamespaceSpace {
    /// What handlers run with inside; `None` when it does not live.
    pub(crate) fn context(&self, root: &Arc<NamespaceContext>) -> Option<Arc<NamespaceContext>> {
        let life = NamespaceLife { number: self.namespace.number, since: self.since };
        let world = self.world.as_ref().filter(|_| life.since != Seqno::ABSENT)?;
        Some(Arc::clone(world.context.get_or_init(|| root.inside(Arc::clone(&world.view), life))))
    }
}

impl Namespaces {
    fn read(&self) -> RwLockReadGuard<'_, NamespaceTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, NamespaceTable> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are none, without a lock.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        // Acquire: whoever sees the count finds the namespace it counts.
        self.count.load(Ordering::Acquire)
    }

    /// The namespace at exactly `path` (which ends in a slash).
    pub(crate) fn at(&self, path: &str) -> Option<Arc<NamespaceSpace>> {
        self.read().by_path.get(path).cloned()
    }

    pub(crate) fn with_id(&self, id: &str) -> Option<Arc<NamespaceSpace>> {
        self.read().by_id.get(id).cloned()
    }

    pub(crate) fn with_number(&self, number: NamespaceNumber) -> Option<Arc<NamespaceSpace>> {
        self.read().by_number.get(&number).cloned()
    }

    /// The deepest namespace that `path` is in; `None` for the root one.
    pub(crate) fn around(&self, path: &str) -> Option<Arc<NamespaceSpace>> {
        let table = self.read();
        let mut found = None;
        for (at, _) in path.match_indices('/') {
            match table.by_path.get(&path[..=at]) {
                Some(space) => found = Some(space),
                None => break,
            }
        }
        found.cloned()
    }

    /// Those below `path`, at any depth, by path.
    pub(crate) fn below(&self, path: &str) -> Vec<Arc<NamespaceSpace>> {
        let from = (Bound::Excluded(path), Bound::Unbounded);
        let table = self.read();
        let below = table.by_path.range::<str, _>(from).map(|(_, space)| space);
        below.take_while(|space| space.namespace.path.starts_with(path)).cloned().collect()
    }

    /// The view of a namespace that lives.
    pub(crate) fn view(&self, number: NamespaceNumber) -> Option<Arc<View>> {
        let world = self.with_number(number)?.world.clone()?;
        Some(Arc::clone(&world.view))
    }

    /// The views of all that live.
    pub(crate) fn views(&self) -> Vec<Arc<View>> {
        let table = self.read();
        table
            .by_path
            .values()
            .filter_map(|space| Some(Arc::clone(&space.world.as_ref()?.view)))
            .collect()
    }

    /// Puts a namespace in place, with a world if it lives and has none yet.
    ///
    /// # Errors
    /// What making a view says.
    pub(crate) fn put(&self, namespace: Namespace, root: &View) -> Result<(), Error> {
        let known = self.with_number(namespace.number);
        let (since, world) = match (namespace.is_tainted, known) {
            (true, known) => {
                if let Some(world) = known.and_then(|space| space.world.clone()) {
                    // Those who follow something inside find that it is gone.
                    world.view.feed.notify_watchers();
                }
                (Seqno::ABSENT, None)
            }
            (false, Some(known)) => (known.since, known.world.clone()),
            (false, None) => {
                let view = Arc::new(root.inside(NamespaceFacts::of(&namespace))?);
                (Seqno::ABSENT, Some(Arc::new(NamespaceWorld { view, context: OnceLock::new() })))
            }
        };
        self.insert(NamespaceSpace { namespace, since, world });
        Ok(())
    }

    /// Notes since when a namespace lives.
    pub(crate) fn live(&self, number: NamespaceNumber, since: Seqno) {
        if let Some(space) = self.with_number(number) {
            self.insert(NamespaceSpace { since, ..(*space).clone() });
        }
    }

    fn insert(&self, space: NamespaceSpace) {
        let space = Arc::new(space);
        let namespace = &space.namespace;
        let mut table = self.write();
        table.by_path.insert(namespace.path.clone(), Arc::clone(&space));
        table.by_number.insert(namespace.number, Arc::clone(&space));
        table.by_id.insert(namespace.id(), Arc::clone(&space));
        self.count.store(table.by_number.len(), Ordering::Release);
    }

    pub(crate) fn remove(&self, number: NamespaceNumber) {
        let mut table = self.write();
        if let Some(space) = table.by_number.remove(&number) {
            table.by_path.remove(&space.namespace.path);
            table.by_id.remove(&space.namespace.id());
        }
        self.count.store(table.by_number.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::Update;

    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core};

    #[test]
    fn namespaces_are_counted() {
        let core = open_core(RouteAccess::Token);
        let namespaces = &core.context.load_full().unwrap().view.namespaces;
        assert_eq!((namespaces.is_empty(), namespaces.len()), (true, 0));
        for (at, name) in ["a", "b"].into_iter().enumerate() {
            ask(&core, Some(ROOT), Update, &format!("sys/namespaces/{name}"), "{}").unwrap();
            assert_eq!((namespaces.is_empty(), namespaces.len()), (false, at + 1));
        }
    }
}
