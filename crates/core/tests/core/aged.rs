//! A store in memory that says it has peers, and is told how old it is. The tests of the listener use it too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use kallisto_store::{
    AsOf, BackupHead, BackupWriter, Batch, Candidacy, Chunks, Commit, Error, Invitation,
    Leadership, Member, MemberChange, MemberRole, MemoryStore, Need, Peer, Position, Records,
    Replicated, Store, StoreLayer, Visit,
};

/// See the module. It begins as one that leads and knows of nothing newer.
pub(crate) struct AgedStore {
    inner: MemoryStore,
    as_of: AtomicU64,
    now_ns: AtomicU64,
    follows: AtomicBool,
    leaderless: AtomicBool,
    alone: AtomicBool,
    removed: AtomicBool,
    is_let_go_when_asked: AtomicBool,
    is_readable: AtomicBool,
    shares_records: AtomicBool,
    is_full: AtomicBool,
    store_number: AtomicU8,
    transfers: AtomicU64,
}

impl Default for AgedStore {
    fn default() -> Self {
        Self {
            inner: MemoryStore::new(),
            as_of: AsOf::at(Duration::from_secs(100)).to_bits().into(),
            now_ns: 100_000_000_000.into(),
            follows: false.into(),
            leaderless: false.into(),
            alone: false.into(),
            removed: false.into(),
            is_let_go_when_asked: false.into(),
            is_readable: false.into(),
            shares_records: false.into(),
            is_full: false.into(),
            store_number: 0.into(),
            transfers: 0.into(),
        }
    }
}

impl AgedStore {
    /// Lets it become so old.
    pub(crate) fn age(&self, age: Duration) {
        let now = Duration::from_secs(100) + age;
        self.now_ns.store(u64::try_from(now.as_nanos()).unwrap(), Ordering::SeqCst);
    }

    /// Nothing is known of how old it is.
    pub(crate) fn know_nothing(&self) {
        self.as_of.store(AsOf::NEVER.to_bits(), Ordering::SeqCst);
    }

    /// It is one of three, and nobody leads them.
    pub(crate) fn lose_leader(&self) {
        self.leaderless.store(true, Ordering::SeqCst);
    }

    /// It is the only one, and has yet to apply what it committed before it was started. It has when it is asked up to where that is.
    pub(crate) fn start_alone(&self) {
        self.alone.store(true, Ordering::SeqCst);
        self.know_nothing();
    }

    /// Its cluster has let it go, which it hears when it asks what was committed.
    pub(crate) fn be_let_go_when_asked(&self) {
        self.is_let_go_when_asked.store(true, Ordering::SeqCst);
    }

    /// Its backups can be read to their end, from now on.
    pub(crate) fn become_readable(&self) {
        self.is_readable.store(true, Ordering::SeqCst);
    }

    /// It is the store of another cluster.
    pub(crate) fn be_of(&self, cluster: u8) {
        self.store_number.store(cluster, Ordering::SeqCst);
    }

    /// It is one of three that share a database.
    pub(crate) fn share_records(&self) {
        self.shares_records.store(true, Ordering::SeqCst);
    }

    /// Its disk has no room, or has again.
    pub(crate) fn fill(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    /// How often it was to give its lead away.
    pub(crate) fn transfers(&self) -> u64 {
        self.transfers.load(Ordering::SeqCst)
    }

    /// Another server leads.
    pub(crate) fn follow(&self) {
        self.follows.store(true, Ordering::SeqCst);
    }
}

fn refused() -> Error {
    Error::Unavailable("this cluster is none".into())
}

/// A state that cannot be read to its end.
struct Unreadable {
    /// Chunks that can.
    sound: usize,
}

impl Chunks for Unreadable {
    fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.sound = self.sound.checked_sub(1).ok_or_else(refused)?;
        Ok(Some(vec![7; 100_000]))
    }
}

impl StoreLayer for AgedStore {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn replicated(&self) -> Option<&dyn Replicated> {
        Some(self)
    }

    fn commit(&self, batch: Batch) -> Commit {
        if self.leaderless.load(Ordering::SeqCst) {
            return Commit::decided(Err(Error::NotLeader));
        }
        if self.is_full.load(Ordering::SeqCst) && batch.need() != Need::Essential {
            return Commit::decided(Err(Error::Unavailable("no space is left".into())));
        }
        self.inner.commit(batch)
    }
}

impl Replicated for AgedStore {
    fn leadership(&self) -> Leadership {
        let leader_id = match self.leaderless.load(Ordering::SeqCst) {
            true => 0,
            false => 1 + u64::from(self.follows.load(Ordering::SeqCst)),
        };
        Leadership { node_id: 1, leader_id, term: 1 }
    }

    fn store_id(&self) -> [u8; 16] {
        [self.store_number.load(Ordering::SeqCst); 16]
    }

    fn members(&self) -> Vec<Member> {
        let is_one_of_three =
            self.leaderless.load(Ordering::SeqCst) || self.shares_records.load(Ordering::SeqCst);
        let count = if is_one_of_three { 3 } else { 0 };
        let peer = |id| Peer { id, name: format!("node-{id}"), ..Peer::default() };
        let member =
            |id| Member { peer: peer(id), role: MemberRole::Voter, matched: 0, silent_ms: None };
        (1..=count).map(member).collect()
    }

    fn is_alone(&self) -> bool {
        self.alone.load(Ordering::SeqCst)
    }

    fn shares_records(&self) -> bool {
        self.shares_records.load(Ordering::SeqCst)
    }

    fn change(&self, _changes: Vec<MemberChange>) -> Commit {
        Commit::decided(Err(refused()))
    }

    fn read_index(&self) -> Commit {
        if self.is_let_go_when_asked.load(Ordering::SeqCst) {
            self.told_removed();
        }
        if self.is_alone() {
            self.as_of.store(AsOf::ALWAYS.to_bits(), Ordering::SeqCst);
        }
        Commit::decided(Ok(self.position()))
    }

    fn as_of(&self) -> AsOf {
        AsOf::from_bits(self.as_of.load(Ordering::SeqCst))
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns.load(Ordering::SeqCst))
    }

    fn is_removed(&self) -> bool {
        self.removed.load(Ordering::SeqCst)
    }

    fn told_removed(&self) {
        self.removed.store(true, Ordering::SeqCst);
    }

    fn transfer(&self, _to: Option<u64>) -> Commit {
        self.transfers.fetch_add(1, Ordering::SeqCst);
        Commit::decided(Ok(self.position()))
    }

    fn stand(&self, _candidacy: Candidacy) {}

    fn on_leadership(&self, _news: Arc<dyn Fn() + Send + Sync>) {}

    fn join(&self, _invitation: Invitation) -> Commit {
        Commit::decided(Err(refused()))
    }

    fn receive(&self, _from: u64, _message: Bytes) {}

    fn meet(&self, _peer: Peer) {}

    fn snapshot(&self) -> Result<Box<dyn Chunks>, Error> {
        Err(refused())
    }

    fn snapshot_behind(&self, _place: &[u8]) -> Result<Option<Box<dyn Chunks>>, Error> {
        Ok(None)
    }

    fn backup(&self) -> Result<(Position, Box<dyn Chunks>), Error> {
        if !self.is_readable.load(Ordering::SeqCst) {
            return Ok((self.position(), Box::new(Unreadable { sound: 2 })));
        }
        let mut records = Vec::new();
        self.inner.scan(b"", &mut |key, record| {
            records.push((Box::from(key), record.clone()));
            Visit::Continue
        })?;
        let position = self.position();
        let head = BackupHead { store_id: self.store_id(), index: position.0, term: 1 };
        Ok((position, Box::new(BackupWriter::new(head, records.into_iter()))))
    }

    fn begin_restore(&self) -> Commit {
        Commit::decided(Err(refused()))
    }

    fn stage(&self, _generation: Position, _records: Vec<(Bytes, Bytes)>) -> Commit {
        Commit::decided(Err(refused()))
    }

    fn finish_restore(&self, _generation: Position, _records: u64) -> Commit {
        Commit::decided(Err(refused()))
    }

    fn abandon_restore(&self, _generation: Position) -> Commit {
        Commit::decided(Err(refused()))
    }
}
