//! A view of the past: a server that fell behind was sent a snapshot, or a backup was restored, and its view has to be
//! built anew.
//!
//! The old view serves until the new one is there, or until it is too old to ([`crate::pipeline::freshness`]): it is whole, and of the past,
//! as any follower's is. What it decides on
//! a state that is no more comes to nothing (`clear`). A restored state that these keys do not open seals the server: it
//! waits for the shares that do, or for a seal that opens by itself.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwapOption;
use kallisto_barrier::{Keyring, RootKey};
use kallisto_store::{Candidacy, Replaced, Store};

use crate::seal::open::{Opener, Opening};
use crate::state::Core;
use crate::storage::keys;
use crate::view::NamespaceContext;
use crate::view::outdated::Outdated;

/// What it takes to build a view again. The store and the slot are not kept alive by it: the store holds the fold, which holds this.
pub(crate) struct Rebuild {
    opener: Opener,
    store: Weak<dyn Store>,
    slot: Weak<ArcSwapOption<NamespaceContext>>,
    /// The unsealed state whose view it is: only this one is replaced, never a newer one.
    of: OnceLock<Weak<NamespaceContext>>,
    /// Something took the state's place, and the view is of the past since.
    pub(crate) outdated: Arc<Outdated>,
    /// It was a backup.
    restored: AtomicBool,
}

impl Rebuild {
    /// For the view that is about to be opened from this store for this slot.
    pub(crate) fn new(
        opener: Opener,
        store: &Arc<dyn Store>,
        slot: &Arc<ArcSwapOption<NamespaceContext>>,
    ) -> Self {
        Self {
            opener,
            store: Arc::downgrade(store),
            slot: Arc::downgrade(slot),
            of: OnceLock::new(),
            outdated: Arc::default(),
            restored: AtomicBool::new(false),
        }
    }

    /// Says whose view it is. A snapshot may have come before: then it is built again at once.
    pub(crate) fn belongs_to(self: &Arc<Self>, context: &Arc<NamespaceContext>) {
        // Set once, here.
        let _ = self.of.set(Arc::downgrade(context));
        if self.outdated.is_set() {
            self.spawn();
        }
    }

    /// Builds the view again, beside whoever noticed.
    pub(crate) fn start(self: &Arc<Self>, why: Replaced) {
        self.restored.fetch_or(why == Replaced::Restored, Ordering::AcqRel);
        let store = self.store.upgrade();
        self.outdated.set(store.as_ref().and_then(|store| store.replicated()));
        self.spawn();
    }

    fn spawn(self: &Arc<Self>) {
        let Err(error) = self.try_spawn() else { return };
        tracing::error!(%error, "no thread to build the view on: this server serves the past until there is one; trying again");
        let this = Arc::clone(self);
        self.opener.services.waiting.keep(move || this.try_spawn());
    }

    fn try_spawn(self: &Arc<Self>) -> io::Result<()> {
        let this = Arc::clone(self);
        self.opener.threads.start("rebuild", Box::new(move || this.run()))
    }

    fn run(&self) {
        // Whoever seals waits for those who use the view, so it is not looked at before.
        let mut turn = None;
        self.opener.threads.wait(pin!(async { turn = Some(self.opener.turns.next().await) }));
        let (Some(store), Some(slot)) = (self.store.upgrade(), self.slot.upgrade()) else { return };
        let Some(of) = self.of.get().and_then(Weak::upgrade) else { return };
        let is_current = slot.load().as_ref().is_some_and(|now| Arc::ptr_eq(now, &of));
        if !is_current {
            return;
        }
        let restored = self.restored.load(Ordering::Acquire);
        tracing::info!(restored, "a snapshot came: building the view again");
        // A restore by force: what came is of other unseal keys, as whoever asked for it knows.
        if restored && !opens_under(&*store, &self.opener.root) {
            tracing::warn!(
                "restored under other unseal keys: sealed until the shares, or the seal, of what was restored open it"
            );
            self.seal(&slot, &*store);
            return;
        }
        let opening = if restored { Opening::Restored } else { Opening::Again };
        if let Err(error) = self.opener.open(Arc::clone(&store), &slot, opening) {
            tracing::error!(%error, "the view was not built again: sealed until the shares, or the seal, of what came open it");
            self.seal(&slot, &*store);
        }
        drop((of, turn));
    }

    fn seal(&self, slot: &ArcSwapOption<NamespaceContext>, store: &dyn Store) {
        slot.store(None);
        store.detach();
        self.opener.audit.clear();
        crate::storage::candidacy::stand(store, Candidacy::Reluctant);
        self.opener.seal_is_due.store(true, Ordering::Release);
    }
}

impl Core {
    /// Starts again what found no thread, as building a view does where the system lets the server have no more of them. To be
    /// called every second or so.
    pub fn start_waiting_task(&self) {
        if self.services.waiting.start() {
            tracing::info!("there is a thread again: building the view");
        }
    }
}

/// Whether the keys of the records open under this root key.
fn opens_under(store: &dyn Store, root: &RootKey) -> bool {
    let record = store.get(&keys::keyring()).ok().flatten();
    record.is_some_and(|record| Keyring::open(&record.value, root).is_ok())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    use std::time::Duration;

    use jiff::Timestamp;
    use kallisto_auth::{Operation, Path};
    use kallisto_store::{
        Batch, Error as StoreError, Fold, MemoryStore, Position, Record, Records, StoreLayer, Visit,
    };

    use super::*;
    use crate::api::request::{Request, TokenText};
    use crate::platform::server_info::ServerInfo;
    use crate::platform::threads::{BackgroundTask, OwnThreads, Threads};

    type Meanwhile = Box<dyn FnOnce() + Send>;

    /// A store in memory that does something before its state is read again.
    #[derive(Default)]
    struct ReadAgainStore {
        inner: MemoryStore,
        fold: Mutex<Option<Arc<dyn Fold>>>,
        meanwhile: Mutex<Option<Meanwhile>>,
    }

    impl StoreLayer for ReadAgainStore {
        fn inner(&self) -> &dyn Store {
            &self.inner
        }

        fn attach(&self, fold: Arc<dyn Fold>) -> Result<Position, StoreError> {
            let meanwhile = self.meanwhile.lock().unwrap().take();
            if let Some(meanwhile) = meanwhile {
                meanwhile();
            }
            *self.fold.lock().unwrap() = Some(Arc::clone(&fold));
            self.inner.attach(fold)
        }
    }

    /// Whoever seals while a view is built again is not told so before it is, and it stays so.
    #[test]
    fn a_server_that_is_sealed_while_its_view_is_built_again_stays_sealed() {
        let store = Arc::<ReadAgainStore>::default();
        let core = Arc::new(Core::new(Arc::clone(&store) as _, ServerInfo::default()));
        let root = Some("root".to_owned().into());
        pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
        let (tell, sealed) = std::sync::mpsc::channel();
        let sealing = Arc::clone(&core);
        *store.meanwhile.lock().unwrap() = Some(Box::new(move || {
            std::thread::spawn(move || tell.send(pollster::block_on(sealing.seal())));
            // It may be done by now, or wait.
            std::thread::sleep(Duration::from_millis(100));
        }));
        core.seal_is_due.store(true, Ordering::Release);
        let fold = store.fold.lock().unwrap().clone().unwrap();
        fold.replaced(Replaced::CaughtUp);
        assert_eq!(sealed.recv_timeout(Duration::from_secs(60)).unwrap(), Ok(()));
        // A view that came later would be there soon.
        std::thread::sleep(Duration::from_millis(200));
        assert!(core.is_sealed());
        assert!(!core.take_due_seal(), "it is the operator's seal");
    }

    /// Threads of which some are refused.
    struct RefusedThreads(Mutex<u32>);

    impl Threads for RefusedThreads {
        fn start(&self, name: &'static str, task: BackgroundTask) -> io::Result<()> {
            let mut left = self.0.lock().unwrap();
            if name == "rebuild" && *left > 0 {
                *left -= 1;
                return Err(io::ErrorKind::WouldBlock.into());
            }
            OwnThreads.start(name, task)
        }

        fn pause(&self, duration: Duration) {
            OwnThreads.pause(duration);
        }

        fn wait(&self, future: std::pin::Pin<&mut dyn Future<Output = ()>>) {
            OwnThreads.wait(future);
        }
    }

    #[test]
    fn a_view_that_found_no_thread_is_built_once_there_is_one() {
        let store = Arc::<ReadAgainStore>::default();
        let core = Core::new(Arc::clone(&store) as _, ServerInfo::default())
            .with_threads(Arc::new(RefusedThreads(Mutex::new(3))));
        let root = Some("root".to_owned().into());
        pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        *store.meanwhile.lock().unwrap() = Some(Box::new(move || tell.send(()).unwrap()));
        let fold = store.fold.lock().unwrap().clone().unwrap();
        fold.replaced(Replaced::CaughtUp);
        for _ in 0..2 {
            core.start_waiting_task();
            assert!(told.try_recv().is_err(), "there is no thread");
        }
        core.start_waiting_task();
        told.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(!core.is_sealed());
        assert!(!core.services.waiting.start(), "it waits no more");
    }

    /// Otherwise a device whose destination is gone would fail the requests of this server for ever.
    #[test]
    fn audit_devices_and_headers_that_a_newer_state_has_not_any_more_go() {
        let store = Arc::<ReadAgainStore>::default();
        let core = Arc::new(Core::new(Arc::clone(&store) as _, ServerInfo::default()));
        let root = Some("root".to_owned().into());
        pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
        let write = |path: &str, body: &str| {
            let path = Path::decode(path).unwrap();
            let request = Request {
                token: Some(TokenText::new("root")),
                body: body.as_bytes(),
                ..Request::new(Operation::Update, path, Timestamp::UNIX_EPOCH)
            };
            pollster::block_on(core.handle(&request)).unwrap();
        };
        let stored = || {
            let mut keys = BTreeSet::new();
            let mut take = |key: &[u8], _: &Record| {
                keys.insert(key.to_vec());
                Visit::Continue
            };
            store.inner.scan(b"", &mut take).unwrap();
            keys
        };
        let device = r#"{"type":"file","options":{"file_path":"discard"}}"#;
        write("sys/audit/stays", device);
        write("sys/config/auditing/request-headers/x-stays", "{}");
        let before = stored();
        write("sys/audit/goes", device);
        write("sys/config/auditing/request-headers/x-goes", "{}");
        let names = || {
            let records = core.audit.records().into_keys();
            records.chain(core.audit.headers().keys().cloned()).collect::<Vec<_>>()
        };
        assert_eq!(names(), ["goes", "stays", "x-goes", "x-stays"]);
        let below = Arc::clone(&store);
        let gone: Vec<_> = stored().difference(&before).cloned().collect();
        let (tell, told) = std::sync::mpsc::channel();
        *store.meanwhile.lock().unwrap() = Some(Box::new(move || {
            // As the others have done while this server did not hear of it.
            below.inner.detach();
            let mut batch = Batch::new();
            gone.into_iter().for_each(|key| {
                batch.delete(key);
            });
            tell.send(pollster::block_on(below.inner.commit(batch)).is_ok()).unwrap();
        }));
        let fold = store.fold.lock().unwrap().clone().unwrap();
        fold.replaced(Replaced::CaughtUp);
        assert!(told.recv_timeout(Duration::from_secs(60)).unwrap());
        #[expect(clippy::disallowed_methods, reason = "the patience of a test")]
        let begin = std::time::Instant::now();
        while names() != ["stays", "x-stays"] {
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", names());
            std::thread::yield_now();
        }
        assert_eq!(core.audit.devices.list().len(), 1);
    }
}
