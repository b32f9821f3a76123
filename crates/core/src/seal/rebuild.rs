//! A view that does not follow its store any more: a server that fell behind was sent a snapshot, a backup was restored, or a
//! batch did not open, and its view has to be built anew.
//!
//! After a snapshot or a restore the old view serves until the new one is there, or until it is too old to
//! ([`crate::pipeline::freshness`]): it is whole, and of the past, as any follower's is. What it decides on
//! a state that is no more comes to nothing (`clear`). A view that lacks a batch serves nothing more: it is withdrawn before
//! the batch is acknowledged, and the server is as good as sealed until the new view is there.
//!
//! A state that these keys do not open, or that cannot be loaded, seals the server: it waits for the shares that open it, or
//! for a seal that opens by itself.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwapOption;
use kallisto_barrier::{Keyring, RootKey};
use kallisto_store::{Candidacy, Replaced, Store};

use crate::api::error::Error;
use crate::seal::open::{Opener, Opening};
use crate::state::Core;
use crate::storage::{candidacy, keys};
use crate::view::outdated::Outdated;
use crate::view::{NamespaceContext, RebuildCause};

/// What it takes to build a view again. The store and the slot are not kept alive by it: the store holds the fold, which holds this.
pub(crate) struct Rebuild {
    opener: Opener,
    store: Weak<dyn Store>,
    slot: Weak<ArcSwapOption<NamespaceContext>>,
    /// What became of the view. Held while the slot changes because of it, never while anything is waited for.
    stage: Mutex<ViewStage>,
    /// Something took the state's place, and the view is of the past since.
    pub(crate) outdated: Arc<Outdated>,
    /// It was a backup.
    restored: AtomicBool,
}

/// What became of a view.
enum ViewStage {
    /// It is being loaded.
    Loading,
    /// The unsealed state whose view it is is in the slot, or was: only this one is replaced, never a newer one.
    Serving(Weak<NamespaceContext>),
    /// A batch did not open, and it was taken out of the slot, if it was there. With how often the keys had been dropped then, this time
    /// included: a seal since then is somebody's wish.
    Withdrawn(u64),
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
            stage: Mutex::new(ViewStage::Loading),
            outdated: Arc::default(),
            restored: AtomicBool::new(false),
        }
    }

    /// Has the state serve whose view it is. A snapshot may have come before: then it is built again at once.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when a batch that does not open came before.
    pub(crate) fn serve(
        self: &Arc<Self>,
        context: &Arc<NamespaceContext>,
        slot: &ArcSwapOption<NamespaceContext>,
    ) -> Result<(), Error> {
        let mut stage = self.stage();
        if let ViewStage::Withdrawn(_) = &*stage {
            return Err(Error::Unavailable(
                "a batch that does not open came while the records were read".into(),
            ));
        }
        *stage = ViewStage::Serving(Arc::downgrade(context));
        slot.store(Some(Arc::clone(context)));
        drop(stage);
        if self.outdated.is_set() {
            self.spawn();
        }
        Ok(())
    }

    /// Builds the view again, beside whoever noticed.
    pub(crate) fn start(self: &Arc<Self>, why: RebuildCause) {
        match why {
            RebuildCause::Replaced(why) => {
                self.restored.fetch_or(why == Replaced::Restored, Ordering::AcqRel);
                let store = self.store.upgrade();
                self.outdated.set(store.as_ref().and_then(|store| store.replicated()));
                self.spawn();
            }
            RebuildCause::BatchUnreadable if self.withdraw() => self.spawn(),
            RebuildCause::BatchUnreadable => {}
        }
    }

    /// Takes the view out of the slot, for good; true if it was there.
    fn withdraw(&self) -> bool {
        let mut stage = self.stage();
        // Before the slot is looked at: who seals empties it first, and counts then.
        let sealings = *self.opener.sealings.borrow();
        let context = match &*stage {
            ViewStage::Withdrawn(_) => return false,
            ViewStage::Loading => None,
            ViewStage::Serving(context) => context.upgrade(),
        };
        // Nothing is built in its place where it was not there to be taken.
        *stage = ViewStage::Withdrawn(u64::MAX);
        self.outdated.set(None);
        let (Some(context), Some(slot)) = (context, self.slot.upgrade()) else { return false };
        let found = slot.compare_and_swap(&context, None);
        if !found.as_ref().is_some_and(|found| Arc::ptr_eq(found, &context)) {
            return false;
        }
        *stage = ViewStage::Withdrawn(sealings + 1);
        self.opener.sealings.send_modify(|count| *count += 1);
        context.view.feed.notify_watchers();
        context.view.namespaces.views().iter().for_each(|view| view.feed.notify_watchers());
        true
    }

    /// Whether a view is to be built in the place of this one, asked by who has the turn: nobody sealed the server, and no newer view serves.
    fn is_wanted(&self, slot: &ArcSwapOption<NamespaceContext>) -> bool {
        let now = slot.load();
        match (&*self.stage(), &*now) {
            (ViewStage::Serving(of), Some(now)) => std::ptr::eq(of.as_ptr(), Arc::as_ptr(now)),
            (ViewStage::Withdrawn(sealings), None) => *self.opener.sealings.borrow() == *sealings,
            _ => false,
        }
    }

    fn stage(&self) -> MutexGuard<'_, ViewStage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(self: &Arc<Self>) {
        let Err(error) = self.try_spawn() else { return };
        tracing::error!(%error, "no thread to build the view on: this server serves the past, or nothing, until there is one; trying again");
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
        if !self.is_wanted(&slot) {
            return;
        }
        let restored = self.restored.load(Ordering::Acquire);
        if slot.load().is_none() {
            // It serves nobody meanwhile, so another server may as well lead.
            candidacy::stand(&*store, Candidacy::Reluctant);
            tracing::warn!(
                "a batch did not open: building the view again, and serving nothing until then"
            );
        } else {
            tracing::info!(restored, "a snapshot came: building the view again");
        }
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
        drop(turn);
    }

    fn seal(&self, slot: &ArcSwapOption<NamespaceContext>, store: &dyn Store) {
        slot.store(None);
        store.detach();
        self.opener.audit.clear();
        candidacy::stand(store, Candidacy::Reluctant);
        self.opener.seal_is_due.store(true, Ordering::Release);
        self.opener.sealings.send_modify(|count| *count += 1);
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

    /// A store in memory that does something before its state is read again, or behind that.
    #[derive(Default)]
    struct ReadAgainStore {
        inner: MemoryStore,
        fold: Mutex<Option<Arc<dyn Fold>>>,
        meanwhile: Mutex<Option<Meanwhile>>,
        afterwards: Mutex<Option<Meanwhile>>,
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
            let attached = self.inner.attach(fold);
            let afterwards = self.afterwards.lock().unwrap().take();
            if let Some(afterwards) = afterwards {
                afterwards();
            }
            attached
        }
    }

    /// Commits a batch that does not open and leaves nothing behind.
    fn commit_unreadable(store: &dyn Store) {
        let mut batch = Batch::new();
        batch.delete_noted(vec![0x7f; 40], vec![1; 40]);
        pollster::block_on(store.commit(batch)).unwrap();
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

    #[test]
    fn a_server_that_is_sealed_before_its_withdrawn_view_is_built_again_stays_sealed() {
        for is_sealed in [false, true] {
            let store = Arc::<ReadAgainStore>::default();
            let core = Core::new(Arc::clone(&store) as _, ServerInfo::default())
                .with_threads(Arc::new(RefusedThreads(Mutex::new(1))));
            let root = Some("root".to_owned().into());
            pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
            commit_unreadable(&store.inner);
            assert!(core.is_sealed());
            if is_sealed {
                pollster::block_on(core.seal()).unwrap();
            }
            let turns = core.seal.turns();
            core.start_waiting_task();
            assert!(!core.services.waiting.start(), "there is a thread");
            #[expect(clippy::disallowed_methods, reason = "the patience of a test")]
            let begin = std::time::Instant::now();
            while core.is_sealed() != is_sealed || begin.elapsed() < Duration::from_millis(200) {
                assert!(begin.elapsed() < Duration::from_secs(20));
                drop(pollster::block_on(turns.next()));
                std::thread::yield_now();
            }
            assert!(!core.take_due_seal());
        }
    }

    #[test]
    fn a_view_that_lacks_a_batch_from_behind_its_load_never_serves() {
        let store = Arc::<ReadAgainStore>::default();
        let core = Core::new(Arc::clone(&store) as _, ServerInfo::default());
        let below = Arc::clone(&store);
        *store.afterwards.lock().unwrap() = Some(Box::new(move || commit_unreadable(&below.inner)));
        let root = Some("root".to_owned().into());
        let opened = pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH));
        assert!(matches!(opened, Err(Error::Unavailable(_))));
        assert!(core.is_sealed());
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
