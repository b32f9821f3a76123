//! A core over a store that says who the members of its cluster are, and what its routes answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use kallisto_core::json::parse_object;
use kallisto_core::{
    AuthorityKeys, ClusterPort, Core, Error, JoinTarget, Json, Map, MemberReport, Membership,
    Operation, Path, Reports, Request, Response, ServerInfo,
};
use kallisto_store::{
    AsOf, Candidacy, Chunks, Commit, Error as StoreError, Invitation, Leadership, Member,
    MemberChange, MemberRole, MemoryStore, Peer, Position, Replicated, Store, StoreLayer,
};

use crate::support::{TOKEN, ask, whole_core};

/// A store in memory with these members; server 1 is this one.
pub(crate) struct Cluster {
    pub(crate) inner: MemoryStore,
    pub(crate) members: Mutex<Vec<Member>>,
    pub(crate) leader_id: Mutex<u64>,
    /// What was asked of it.
    pub(crate) changes: Mutex<Vec<MemberChange>>,
    pub(crate) transfers: Mutex<usize>,
}

fn refused() -> StoreError {
    StoreError::Unavailable("not here".into())
}

impl StoreLayer for Cluster {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn replicated(&self) -> Option<&dyn Replicated> {
        Some(self)
    }
}

impl Replicated for Cluster {
    fn leadership(&self) -> Leadership {
        Leadership { node_id: 1, leader_id: *self.leader_id.lock().unwrap(), term: 7 }
    }

    fn store_id(&self) -> [u8; 16] {
        [1; 16]
    }

    fn members(&self) -> Vec<Member> {
        self.members.lock().unwrap().clone()
    }

    fn is_alone(&self) -> bool {
        self.members().len() <= 1
    }

    fn change(&self, changes: Vec<MemberChange>) -> Commit {
        self.changes.lock().unwrap().extend(changes);
        Commit::decided(Ok(self.position()))
    }

    fn read_index(&self) -> Commit {
        Commit::decided(Ok(self.position()))
    }

    fn as_of(&self) -> AsOf {
        AsOf::ALWAYS
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn is_removed(&self) -> bool {
        false
    }

    fn told_removed(&self) {}

    fn transfer(&self, _: Option<u64>) -> Commit {
        *self.transfers.lock().unwrap() += 1;
        Commit::decided(Ok(self.position()))
    }

    fn stand(&self, _: Candidacy) {}

    fn on_leadership(&self, _: Arc<dyn Fn() + Send + Sync>) {}

    fn join(&self, _: Invitation) -> Commit {
        Commit::decided(Err(refused()))
    }

    fn receive(&self, _: u64, _: Bytes) {}

    fn meet(&self, _: Peer) {}

    fn snapshot(&self) -> Result<Box<dyn Chunks>, StoreError> {
        Err(refused())
    }

    fn snapshot_behind(&self, _: &[u8]) -> Result<Option<Box<dyn Chunks>>, StoreError> {
        Ok(None)
    }

    fn backup(&self) -> Result<(Position, Box<dyn Chunks>), StoreError> {
        Err(refused())
    }

    fn begin_restore(&self) -> Commit {
        Commit::decided(Err(refused()))
    }

    fn stage(&self, _: Position, _: Vec<(Bytes, Bytes)>) -> Commit {
        Commit::decided(Err(refused()))
    }

    fn finish_restore(&self, _: Position, _: u64) -> Commit {
        Commit::decided(Err(refused()))
    }

    fn abandon_restore(&self, _: Position) -> Commit {
        Commit::decided(Err(refused()))
    }
}

pub(crate) const VOTER: MemberRole = MemberRole::Voter;
pub(crate) const LEARNER: MemberRole = MemberRole::Learner;

pub(crate) fn peer(id: u64) -> Peer {
    Peer {
        id,
        name: format!("node-{id}"),
        cluster_address: format!("10.0.0.{id}:8201"),
        api_address: format!("https://10.0.0.{id}:8200"),
        wants: VOTER,
    }
}

pub(crate) fn member(id: u64, role: MemberRole, silent_ms: Option<u64>) -> Member {
    Member { peer: peer(id), role, matched: 1 << 40, silent_ms }
}

/// A cluster port that reaches some of the others and knows no cluster that can be joined.
#[derive(Default)]
pub(crate) struct Port {
    /// Whom reports were asked of.
    pub(crate) asked: Mutex<Vec<u64>>,
    /// What each of them says, and after how many milliseconds.
    pub(crate) said: Vec<Option<(String, u64)>>,
    /// Whom this server was told to join.
    pub(crate) targets: Mutex<Vec<JoinTarget>>,
}

impl ClusterPort for Port {
    fn has_identity(&self) -> bool {
        false
    }

    fn own(&self) -> Peer {
        peer(1)
    }

    fn public_key(&self) -> Result<Vec<u8>, String> {
        Err("none".to_owned())
    }

    fn install(&self, _: &Membership) -> Result<(), String> {
        Err("none".to_owned())
    }

    fn authority(&self) -> Option<Vec<u8>> {
        None
    }

    fn renew(&self, _: &dyn Fn(&[u8]) -> Result<Membership, String>) -> Result<(), String> {
        Err("none".to_owned())
    }

    fn make_authority(&self) -> Result<AuthorityKeys, String> {
        Err("none".to_owned())
    }

    fn issue(&self, _: &AuthorityKeys, _: u64, _: &[u8; 16], _: &[u8]) -> Result<Vec<u8>, String> {
        Err("none".to_owned())
    }

    fn ask(&self, target: &JoinTarget, _: &str, _: &Json) -> Result<Json, String> {
        self.targets.lock().unwrap().push(target.clone());
        Err("nobody is there".to_owned())
    }

    fn reports(&self, of: &[u64]) -> Reports {
        self.asked.lock().unwrap().extend(of);
        let report = |said: &Option<(String, u64)>| {
            said.as_ref().map(|(body, millis)| MemberReport {
                body: body.clone().into_bytes(),
                round_trip: Duration::from_millis(*millis),
            })
        };
        Box::pin(std::future::ready(self.said.iter().map(report).collect()))
    }
}

pub(crate) struct Site {
    pub(crate) core: Core,
    pub(crate) cluster: Arc<Cluster>,
}

impl Site {
    pub(crate) fn of(members: Vec<Member>) -> Self {
        Self::with(members, |core| core)
    }

    /// One whose core has more than the store.
    pub(crate) fn with(members: Vec<Member>, more: impl FnOnce(Core) -> Core) -> Self {
        let site = Self::blank(members, more);
        let root = Some(TOKEN.to_owned().into());
        pollster::block_on(site.core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
        site
    }

    /// One that holds nothing yet.
    pub(crate) fn blank(members: Vec<Member>, more: impl FnOnce(Core) -> Core) -> Self {
        let cluster = Arc::new(Cluster {
            inner: MemoryStore::new(),
            members: Mutex::new(members),
            leader_id: Mutex::new(1),
            changes: Mutex::default(),
            transfers: Mutex::default(),
        });
        let core = more(whole_core(Arc::clone(&cluster) as _, ServerInfo::default()));
        Self { core, cluster }
    }

    /// A site whose jobs ran first when its server was so many seconds old, and which is older now.
    pub(crate) fn led_since(members: Vec<Member>, from_secs: u64, now_secs: u64) -> Self {
        let clock = Arc::new(AtomicU64::new(from_secs));
        let read = Arc::clone(&clock);
        let more = move |core: Core| {
            core.with_stopwatch(move || Duration::from_secs(read.load(Ordering::SeqCst)))
        };
        let site = Self::with(members, more);
        pollster::block_on(site.core.run_due_jobs(Timestamp::UNIX_EPOCH)).unwrap();
        clock.store(now_secs, Ordering::SeqCst);
        site
    }

    pub(crate) fn of_voters(count: u64) -> Self {
        Self::of((1..=count).map(|id| member(id, VOTER, Some(0))).collect())
    }

    pub(crate) fn write(&self, path: &str, body: &str) -> Result<Response, Error> {
        ask(&self.core, Operation::Update, &format!("sys/{path}"), body)
    }

    pub(crate) fn read(&self, path: &str) -> (Map, Vec<String>) {
        match ask(&self.core, Operation::Read, &format!("sys/{path}"), "").unwrap() {
            Response::Logical(reply) | Response::Merged(reply) => {
                (parse_object(&reply.data).unwrap(), reply.warnings)
            }
            Response::Bare { body: Json::Object(map), .. } => (map, Vec::new()),
            other => panic!("{path}: {other:?}"),
        }
    }

    /// The lines of its metrics, as Prometheus reads them.
    pub(crate) fn metric_lines(&self) -> Vec<String> {
        let query = vec![("format".to_owned(), "prometheus".to_owned())];
        let path = Path::decode("sys/metrics").unwrap();
        let asked = Request { query, ..Request::new(Operation::Read, path, Timestamp::UNIX_EPOCH) };
        match self.core.open_metrics(&asked) {
            Ok(Response::Text { body, .. }) => {
                String::from_utf8(body).unwrap().lines().map(str::to_owned).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    /// What was asked of the store since it was looked at last.
    pub(crate) fn asked(&self) -> (Vec<MemberChange>, usize) {
        let changes = std::mem::take(&mut *self.cluster.changes.lock().unwrap());
        (changes, std::mem::take(&mut *self.cluster.transfers.lock().unwrap()))
    }
}

pub(crate) fn items(json: &Json) -> &[Json] {
    match json {
        Json::Array(items) => items,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn of<'j>(json: &'j Json, name: &str) -> &'j Json {
    &json.as_object().unwrap()[name]
}
