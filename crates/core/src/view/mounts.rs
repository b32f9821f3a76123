//! Where engines are mounted: found by path on every request, by id in the fold.
//!
//! Mount paths never nest (`mount` refuses it), so at most one mount is a prefix of a request path
//! and the first found is the right one. Reads take no lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use kallisto_cuckoo::Table;
use kallisto_index::PathIndex;

use super::memory::EngineMemory;
use crate::records::kv::KvConfig;
use crate::records::mount::MountEntry;
use crate::storage::keys::MountId;

const MOUNTS_AT_START: usize = 16;

/// A mounted engine: its entry, its paths, its settings.
pub struct Mount {
    /// What was mounted and how.
    pub entry: MountEntry,
    /// Every path of the engine that exists.
    pub index: Arc<PathIndex>,
    /// Settings of a KV v2 engine.
    pub(crate) kv_config: Arc<ArcSwap<KvConfig>>,
    /// What the engine keeps decoded.
    pub(crate) memory: Arc<EngineMemory>,
}

/// The mount table of the view.
pub struct Mounts {
    by_path: Table<Arc<Mount>>,
    by_id: Mutex<HashMap<MountId, Arc<Mount>>>,
    paths: PathIndex,
}

impl Mounts {
    pub(crate) fn new() -> Result<Self, kallisto_cuckoo::Error> {
        Ok(Self {
            by_path: Table::with_capacity(MOUNTS_AT_START)?,
            by_id: Mutex::default(),
            paths: PathIndex::new(),
        })
    }

    /// The mount that serves `path`, and the path inside it. A mount's own path serves without its
    /// ending slash too: `LIST secret` asks what `LIST secret/` does.
    pub fn route<'p>(&self, path: &'p str) -> Option<(Arc<Mount>, &'p str)> {
        let guard = self.by_path.pin();
        for (at, _) in path.match_indices('/') {
            let (mount, rest) = path.split_at(at + 1);
            if let Some(entry) = self.by_path.get(mount.as_bytes(), &guard) {
                return Some((Arc::clone(entry.header()), rest));
            }
        }
        self.at(&format!("{path}/")).map(|mount| (mount, ""))
    }

    /// The mount at exactly `path` (which ends in a slash).
    pub fn at(&self, path: &str) -> Option<Arc<Mount>> {
        let guard = self.by_path.pin();
        self.by_path.get(path.as_bytes(), &guard).map(|entry| Arc::clone(entry.header()))
    }

    /// The mount with this id.
    pub(crate) fn with_id(&self, id: MountId) -> Option<Arc<Mount>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// All mounts, by path.
    pub fn all(&self) -> Vec<Arc<Mount>> {
        let guard = self.by_path.pin();
        let mut all: Vec<_> =
            self.by_path.iter(&guard).map(|entry| Arc::clone(entry.header())).collect();
        all.sort_by(|a, b| a.entry.path.cmp(&b.entry.path));
        all
    }

    /// The existing mount that `path` would nest under, over or upon, if any.
    pub fn conflict(&self, path: &str) -> Option<String> {
        for (at, _) in path.match_indices('/') {
            let above = &path[..at];
            if self.paths.contains(above) {
                return Some(format!("{above}/"));
            }
        }
        let below = self.paths.scan(path, None, 1);
        below.first().map(|rest| format!("{path}{rest}/"))
    }

    /// Puts a mount in place, keeping the paths and settings of the same id.
    pub(crate) fn put(&self, entry: MountEntry) {
        let known = self.with_id(entry.id);
        let (index, kv_config, memory) = known.as_ref().map_or_else(
            || (Arc::new(PathIndex::new()), Arc::default(), Arc::new(EngineMemory::of(entry.kind))),
            |mount| {
                let memory = Arc::clone(&mount.memory);
                (Arc::clone(&mount.index), Arc::clone(&mount.kv_config), memory)
            },
        );
        let path = entry.path.clone();
        let mount = Arc::new(Mount { entry, index, kv_config, memory });
        self.by_id
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(mount.entry.id, Arc::clone(&mount));
        let in_index = self.paths.insert(path.trim_end_matches('/'));
        let in_table = self.by_path.upsert(path.as_bytes(), mount, &[]);
        assert!(in_index.is_ok(), "mount paths are checked before they are committed");
        assert!(in_table.is_ok(), "mount paths are within the table's key limit");
        // The path before goes last: a mount that moves is never without one.
        if let Some(old) = known.filter(|mount| mount.entry.path != path) {
            self.by_path.remove(old.entry.path.as_bytes());
            self.paths.remove(old.entry.path.trim_end_matches('/'));
        }
    }

    pub(crate) fn remove(&self, id: MountId) {
        let gone = self.by_id.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(mount) = gone {
            self.by_path.remove(mount.entry.path.as_bytes());
            self.paths.remove(mount.entry.path.trim_end_matches('/'));
        }
    }
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::Update;

    use crate::api::error::Error;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core};

    #[test]
    fn mounts_lie_neither_below_nor_above_nor_upon_each_other() {
        let core = open_core(RouteAccess::Token);
        let mount = |path: &str| {
            ask(&core, Some(ROOT), Update, &format!("sys/mounts/{path}"), r#"{"type":"kv"}"#)
        };
        mount("team/a").unwrap();
        for taken in ["team", "team/a", "team/a/b", "one/x", "secret"] {
            assert!(matches!(mount(taken), Err(Error::Invalid(_))), "{taken}");
        }
        mount("team/b").unwrap();
        mount("tea").unwrap();
        let context = core.context.load_full().unwrap();
        let conflict = |path: &str| context.view.mounts.conflict(path);
        assert_eq!(conflict("team/a/b/").as_deref(), Some("team/a/"));
        assert_eq!(conflict("team/").as_deref(), Some("team/a/"));
        assert_eq!(conflict("teams/"), None);
    }
}
