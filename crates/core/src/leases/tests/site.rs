//! A core over a store that fails on demand, with a far end at `far/`.

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use std::{io, thread};

use jiff::Timestamp;
use kallisto_auth::{Operation, Path};
use kallisto_leases::{LeasePhase, LeaseRecord};
use kallisto_store::{
    Batch, Commit, Error as StoreError, GENERATION_KEY, MemoryStore, Seqno, Store, StoreLayer,
    StoreOp, Visit,
};

use super::engine::{FarEnd, Mood};
use crate::api::error::Error;
use crate::api::json::{self, Json};
use crate::api::request::{Request, TokenText};
use crate::api::response::{Logical, Response};
use crate::platform::server_info::ServerInfo;
use crate::platform::threads::{BackgroundTask, OwnThreads, Threads};
use crate::seal::{InitSpec, Initialized};
use crate::state::Core;
use crate::storage::keys::{self, NamespaceNumber, ParsedKey};

pub(super) const ROOT: &str = "root";
/// How often what waits is asked before it counts as hanging.
const POLLS_MAX: usize = 10_000;

/// A store in memory, under a power switch.
pub(super) struct FaultyStore {
    inner: Arc<MemoryStore>,
    /// Commits until the power goes.
    commits_left: AtomicU64,
    pub(super) leads: AtomicBool,
    /// The commit, from now, behind which it does not lead any more.
    pub(super) deposed_after: AtomicU64,
    pub(super) generation: AtomicU64,
}

/// The batch without what it expects of the generation, which the store in memory knows nothing of.
fn without_generation(batch: Batch) -> Batch {
    let mut rest = Batch::new();
    for expectation in batch.expectations().iter().filter(|one| one.key != GENERATION_KEY) {
        rest.expect(expectation.key.clone(), expectation.seqno);
    }
    for op in batch.ops() {
        match op {
            StoreOp::Put { key, value } => rest.put(key.clone(), value.clone()),
            StoreOp::Delete { key, note } => rest.delete_noted(key.clone(), note.clone()),
        };
    }
    rest
}

impl FaultyStore {
    /// Commits a batch with all that it has.
    pub(super) fn commit_as_it_is(&self, batch: Batch) -> Commit {
        self.inner.commit(batch)
    }
}

impl StoreLayer for FaultyStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn commit(&self, batch: Batch) -> Commit {
        if !self.leads.load(Ordering::SeqCst) {
            return Commit::decided(Err(StoreError::NotLeader));
        }
        let has_power = |left: u64| left.checked_sub(1);
        match self.commits_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, has_power) {
            Ok(_) => {
                let committed = self.inner.commit(without_generation(batch));
                if self.deposed_after.fetch_sub(1, Ordering::SeqCst) == 1 {
                    self.leads.store(false, Ordering::SeqCst);
                }
                committed
            }
            Err(_) => Commit::decided(Err(StoreError::Unavailable("no power".into()))),
        }
    }

    fn generation(&self) -> Seqno {
        Seqno(self.generation.load(Ordering::SeqCst))
    }

    fn leads(&self) -> bool {
        self.leads.load(Ordering::SeqCst)
    }
}

/// Runs the revocations when they are asked for, and all else at once.
#[derive(Default)]
struct HeldThreads(Mutex<VecDeque<BackgroundTask>>);

impl Threads for HeldThreads {
    fn start(&self, name: &'static str, task: BackgroundTask) -> io::Result<()> {
        if name != "lease-revoke" {
            return OwnThreads.start(name, task);
        }
        self.0.lock().unwrap().push_back(task);
        Ok(())
    }

    fn pause(&self, duration: Duration) {
        OwnThreads.pause(duration);
    }

    fn wait(&self, mut future: Pin<&mut dyn Future<Output = ()>>) {
        poll_some(&mut future);
    }
}

/// The outcome of what does not hang.
pub(super) fn poll_some<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..POLLS_MAX {
        match Pin::new(&mut *future).poll(&mut context) {
            Poll::Ready(outcome) => return Some(outcome),
            Poll::Pending => thread::yield_now(),
        }
    }
    None
}

/// A server with an engine that makes users.
pub(super) struct Site {
    pub(super) store: Arc<FaultyStore>,
    pub(super) core: Core,
    pub(super) far_end: Arc<FarEnd>,
    threads: Arc<HeldThreads>,
    unseal_key: String,
}

impl Site {
    pub(super) fn open() -> Self {
        let inner = Arc::new(MemoryStore::new());
        let (store, threads, core) = sealed(&inner);
        let root_token = Some(ROOT.to_owned().into());
        let spec = InitSpec { shares: 1, threshold: 1, root_token, mount_kv: None };
        let made = pollster::block_on(core.initialize(&spec, Timestamp::UNIX_EPOCH)).unwrap();
        let unseal_key = Initialized::hex(&made.keys).remove(0);
        let far_end = Arc::default();
        let mut site = Self { store, core, far_end, threads, unseal_key };
        site.unseal();
        site.ask(0, Operation::Update, "sys/mounts/far", r#"{"type":"far"}"#).unwrap();
        let accessor = site.core.view().unwrap().mounts.at("far/").unwrap().entry.accessor.clone();
        site.far_end = FarEnd::of(&accessor);
        site
    }

    pub(super) fn unseal(&self) {
        let body = format!(r#"{{"key":"{}"}}"#, self.unseal_key);
        self.ask(0, Operation::Update, "sys/unseal", &body).unwrap();
        assert!(!self.core.is_sealed());
        // What may be revoked in a second is counted from here.
        self.tick(0);
    }

    /// The power goes and comes back: what ran is gone, what was committed is there.
    pub(super) fn restart(&mut self) {
        let inner = Arc::clone(&self.store.inner);
        inner.detach();
        let generation = self.store.generation.load(Ordering::SeqCst);
        (self.store, self.threads, self.core) = sealed(&inner);
        self.store.generation.store(generation, Ordering::SeqCst);
        self.unseal();
    }

    /// The power goes after so many more commits.
    pub(super) fn cut_power_after(&self, commits: u64) {
        self.store.commits_left.store(commits, Ordering::SeqCst);
    }

    /// How many commits there were so far: those that are left are counted down from all that there may be.
    pub(super) fn commits(&self) -> u64 {
        u64::MAX - self.store.commits_left.load(Ordering::SeqCst)
    }

    /// Whether the power is gone.
    pub(super) fn store_is_dead(&self) -> bool {
        self.store.commits_left.load(Ordering::SeqCst) == 0
    }

    pub(super) fn ask(
        &self,
        secs: i64,
        operation: Operation,
        path: &str,
        body: &str,
    ) -> Result<Response, Error> {
        self.ask_as(ROOT, "", secs, operation, path, body)
    }

    /// Asks with a token in a namespace; a request that hangs is given up by its client.
    pub(super) fn ask_as(
        &self,
        token: &str,
        namespace: &str,
        secs: i64,
        operation: Operation,
        path: &str,
        body: &str,
    ) -> Result<Response, Error> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let now = Timestamp::from_second(secs).unwrap();
        let request = Request {
            namespace,
            token: Some(TokenText::new(token)),
            query: crate::api::request::parse_query(query).unwrap(),
            body: body.as_bytes(),
            ..Request::new(operation, Path::decode(path).unwrap(), now)
        };
        let mut answer = Box::pin(self.core.handle(&request));
        if path == "sys/unseal" || path == "sys/seal" {
            return pollster::block_on(answer);
        }
        poll_some(&mut answer).unwrap_or_else(|| Err(Error::Unavailable("the client left".into())))
    }

    /// A credential: its lease's id and its user.
    pub(super) fn make(
        &self,
        token: &str,
        secs: i64,
        role: &str,
    ) -> Result<(String, String), Error> {
        let path = format!("far/creds/{role}");
        let logical = logical(self.ask_as(token, "", secs, Operation::Read, &path, "")?);
        let data = json::parse_object(&logical.data).unwrap();
        Ok((logical.lease.unwrap().id, data["username"].as_str().unwrap().to_owned()))
    }

    /// A token below another.
    pub(super) fn token(&self, parent: &str, body: &str) -> Result<String, Error> {
        let made = self.ask_as(parent, "", 0, Operation::Update, "auth/token/create", body)?;
        let auth = json::parse_object(&logical(made).auth).unwrap();
        Ok(auth["client_token"].as_str().unwrap().to_owned())
    }

    /// What time brings at `secs`, and the revocations that it starts.
    pub(super) fn tick(&self, secs: i64) {
        let now = Timestamp::from_second(secs).unwrap();
        let mut tick = Box::pin(self.core.run_due_jobs(now));
        let _ = poll_some(&mut tick).expect("the clock waits for no far end");
        self.run_jobs();
    }

    /// Runs the revocations that were started.
    pub(super) fn run_jobs(&self) {
        // A task holds no lock of the queue while it runs.
        loop {
            let Some(task) = self.threads.0.lock().unwrap().pop_front() else { return };
            task();
        }
    }

    /// The leases of the root namespace as they are stored.
    pub(super) fn records(&self) -> Vec<LeaseRecord> {
        let context = self.core.context.load_full().unwrap();
        let mut records = Vec::new();
        let scanned = context.store.scan(&[keys::kind::LEASE], &mut |key, record| {
            assert!(matches!(keys::parse(key), ParsedKey::Lease(_)));
            records.push(LeaseRecord::decode(&record.value).unwrap());
            Visit::Continue
        });
        scanned.unwrap();
        records
    }

    pub(super) fn phases(&self) -> Vec<LeasePhase> {
        self.records().iter().map(|record| record.state.phase()).collect()
    }

    /// What holds at every moment: no user without a record, and the table is that of the records.
    pub(super) fn check(&self) {
        let records = self.records();
        let known: BTreeSet<String> = records
            .iter()
            .map(|record| String::from_utf8(record.revocation.clone()).unwrap())
            .collect();
        let lost: Vec<_> = self.far_end.users().difference(&known).cloned().collect();
        assert!(lost.is_empty(), "users without a record: {lost:?}");
        let view = self.core.view().unwrap();
        let table = view.leases.table();
        assert_eq!(table.len(), records.len());
        for record in &records {
            let found = table.find(NamespaceNumber::ROOT.0, record.id.as_str()).unwrap();
            assert_eq!((found.mount, found.phase), (record.mount, record.state.phase()));
        }
    }

    /// Lets a healthy far end and enough time end whatever is ending.
    pub(super) fn settle(&self, from_secs: i64) {
        self.far_end.set(Mood::Healthy);
        for step in 0..8 {
            self.tick(from_secs + 100 * step);
        }
    }
}

fn sealed(inner: &Arc<MemoryStore>) -> (Arc<FaultyStore>, Arc<HeldThreads>, Core) {
    let store = Arc::new(FaultyStore {
        inner: Arc::clone(inner),
        commits_left: AtomicU64::new(u64::MAX),
        leads: AtomicBool::new(true),
        deposed_after: AtomicU64::new(u64::MAX),
        generation: AtomicU64::new(0),
    });
    let threads = Arc::<HeldThreads>::default();
    let core = Core::new(Arc::clone(&store) as Arc<dyn Store>, ServerInfo::default());
    let core = core.with_threads(Arc::clone(&threads) as Arc<dyn Threads>);
    (store, threads, core)
}

pub(super) fn logical(response: Response) -> Logical {
    match response {
        Response::Logical(logical) => logical,
        other => panic!("{other:?}"),
    }
}

/// A field of an answer's data.
pub(super) fn data(response: Response, name: &str) -> Json {
    json::parse_object(&logical(response).data).unwrap()[name].clone()
}
