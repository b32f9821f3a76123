//! Changes that are committed between the decision and the commit of another one.

use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use kallisto_auth::Operation;
use kallisto_auth::Operation::{Delete, Read, Update};
use kallisto_store::{Batch, Commit, MemoryStore, Store, StoreLayer};

use crate::api::error::Error;
use crate::api::response::Response;
use crate::platform::server_info::ServerInfo;
use crate::records::mount::MountEntry;
use crate::routes::tests::{ROOT, ask};
use crate::state::Core;
use crate::storage::keys::{self, MountId};

type Between = Box<dyn FnOnce() + Send>;

/// A store in memory that does something before its next commit.
#[derive(Default)]
struct BetweenStore {
    inner: MemoryStore,
    between: Mutex<Option<Between>>,
}

impl StoreLayer for BetweenStore {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn commit(&self, batch: Batch) -> Commit {
        let between = self.between.lock().unwrap().take();
        if let Some(between) = between {
            between();
        }
        self.inner.commit(batch)
    }
}

struct Site {
    store: Arc<BetweenStore>,
    core: Core,
}

impl Site {
    /// With a login method at `auth/old/`.
    fn open() -> (Self, MountId) {
        let store = Arc::<BetweenStore>::default();
        let core = Core::new(Arc::clone(&store) as _, ServerInfo::default());
        let root = Some(ROOT.to_owned().into());
        pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
        ask(&core, Some(ROOT), Update, "sys/auth/old", r#"{"type":"userpass"}"#).unwrap();
        let site = Self { store, core };
        let id = site.entry("auth/old/").unwrap().id;
        (site, id)
    }

    fn entry(&self, path: &str) -> Option<MountEntry> {
        let context = self.core.context.load_full().unwrap();
        context.view.mounts.at(path).map(|mount| mount.entry.clone())
    }

    /// Commits a change of another request before the next commit.
    fn between(&self, change: Batch) {
        let context = self.core.context.load_full().unwrap();
        let run = move || {
            pollster::block_on(context.store.commit(change)).unwrap();
        };
        *self.store.between.lock().unwrap() = Some(Box::new(run));
    }

    fn ask(&self, operation: Operation, path: &str, body: &str) -> Result<Response, Error> {
        ask(&self.core, Some(ROOT), operation, path, body)
    }
}

#[test]
fn a_mount_that_goes_while_it_is_tuned_stays_gone() {
    let (site, id) = Site::open();
    let mut gone = Batch::new();
    gone.delete(keys::mount(id));
    site.between(gone);
    let tuned = site.ask(Update, "sys/auth/old/tune", r#"{"description":"d"}"#);
    assert!(matches!(tuned, Err(Error::Invalid(_))), "{tuned:?}");
    assert_eq!(site.entry("auth/old/"), None);
}

#[test]
fn a_mount_that_moves_while_it_is_disabled_is_not_taken_away_where_it_is_then() {
    let (site, id) = Site::open();
    let moved = MountEntry { path: "auth/new/".into(), ..site.entry("auth/old/").unwrap() };
    let mut moving = Batch::new();
    moving.put(keys::mount(id), moved.encode());
    site.between(moving);
    let disabled = site.ask(Delete, "sys/auth/old", "");
    assert!(matches!(disabled, Err(Error::Unavailable(_))), "{disabled:?}");
    assert!(site.entry("auth/new/").is_some());
}

#[test]
fn a_mount_that_is_tuned_while_it_is_disabled_goes() {
    let (site, id) = Site::open();
    let tuned = MountEntry { description: "d".into(), ..site.entry("auth/old/").unwrap() };
    let mut tuning = Batch::new();
    tuning.put(keys::mount(id), tuned.encode());
    site.between(tuning);
    site.ask(Delete, "sys/auth/old", "").unwrap();
    assert_eq!(site.entry("auth/old/"), None);
}

#[test]
fn a_token_role_that_is_deleted_while_it_is_written_keeps_nothing_of_what_it_was() {
    let (site, _) = Site::open();
    site.ask(Update, "auth/token/roles/r", r#"{"allowed_policies":"powerful"}"#).unwrap();
    let mut gone = Batch::new();
    gone.delete(keys::token_role("r"));
    site.between(gone);
    site.ask(Update, "auth/token/roles/r", r#"{"token_period":"1h"}"#).unwrap();
    let Ok(Response::Logical(role)) = site.ask(Read, "auth/token/roles/r", "") else {
        panic!("there is no role");
    };
    let role = String::from_utf8(role.data).unwrap();
    assert!(!role.contains("powerful"), "{role}");
}
