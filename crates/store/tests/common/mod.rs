//! What several tests share: stores with limits so small that little data reaches every corner, a fold that remembers,
//! and random batches.
#![allow(dead_code, reason = "each test uses its part")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kallisto_lsm::Background;
use kallisto_lsm::clock::Clock;
use kallisto_lsm::disk::Disk;
use kallisto_store::{
    Batch, Durability, Error, Fold, Position, RaftOptions, RaftStore, Records, Seqno, StoreOp,
    Visit,
};

/// Every key with its value and seqno.
pub(crate) type StoredState = BTreeMap<Vec<u8>, (Vec<u8>, Seqno)>;

/// A store whose work is done by its callers, so that a run can be repeated.
pub(crate) fn inline(durability: Durability) -> RaftOptions {
    RaftOptions {
        durability,
        engine: kallisto_lsm::Options {
            background: Background::Inline,
            memtable_bytes: 4 << 10,
            block_bytes: 256,
            sst_bytes: 2 << 10,
            level_base_bytes: 4 << 10,
            cache_bytes: 8 << 10,
            open_files_max: 4,
            ..kallisto_lsm::Options::default()
        },
        log_segment_bytes: 2 << 10,
        has_threads: false,
        ..RaftOptions::default()
    }
}

/// The same limits with threads.
pub(crate) fn threaded(durability: Durability) -> RaftOptions {
    let mut options = inline(durability);
    options.engine.background = Background::Threads(1);
    options.has_threads = true;
    options
}

pub(crate) fn open(disk: Arc<dyn Disk>, options: &RaftOptions) -> Result<Arc<RaftStore>, Error> {
    RaftStore::open(disk, "store", options.clone())
}

/// A clock that moves when it is told to.
#[derive(Debug, Default)]
pub(crate) struct ManualClock(Mutex<Duration>);

impl ManualClock {
    pub(crate) fn advance(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn sleep(&self, by: Duration) {
        self.advance(by);
    }
}

/// A fold that keeps the records it was told of and checks the order of what it is told.
#[derive(Default)]
pub(crate) struct Mirror(Mutex<Mirrored>);

#[derive(Default)]
struct Mirrored {
    state: StoredState,
    position: Position,
    folded: u64,
    notes: Vec<Vec<u8>>,
}

impl Mirror {
    pub(crate) fn state(&self) -> StoredState {
        self.0.lock().unwrap().state.clone()
    }

    pub(crate) fn position(&self) -> Position {
        self.0.lock().unwrap().position
    }

    pub(crate) fn folded(&self) -> u64 {
        self.0.lock().unwrap().folded
    }

    pub(crate) fn notes(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap().notes.clone()
    }
}

impl Fold for Mirror {
    fn load(&self, position: Position, records: &dyn Records) -> Result<(), Error> {
        let mut mirrored = self.0.lock().unwrap();
        *mirrored = Mirrored { state: state_of(records), position, ..Mirrored::default() };
        Ok(())
    }

    fn fold(&self, position: Position, batch: &Batch, records: &dyn Records) {
        let mut mirrored = self.0.lock().unwrap();
        assert!(position > mirrored.position, "batches come in order, each once");
        mirrored.position = position;
        mirrored.folded += 1;
        for op in batch.ops() {
            match op {
                StoreOp::Put { key, value } => {
                    let entry = (value.to_vec(), Seqno(position.0));
                    mirrored.state.insert(key.clone(), entry);
                }
                StoreOp::Delete { key, note } => {
                    mirrored.state.remove(key);
                    mirrored.notes.push(note.to_vec());
                }
            }
        }
        for op in batch.ops() {
            let (StoreOp::Put { key, .. } | StoreOp::Delete { key, .. }) = op;
            let shown = records.get(key).unwrap().map(|r| (r.value.to_vec(), r.seqno));
            assert_eq!(shown.as_ref(), mirrored.state.get(key), "the batch is applied");
        }
    }
}

/// Everything a store holds.
pub(crate) fn state_of(records: &dyn Records) -> StoredState {
    let mut state = StoredState::new();
    records
        .scan(&[], &mut |key, record| {
            state.insert(key.to_vec(), (record.value.to_vec(), record.seqno));
            Visit::Continue
        })
        .unwrap();
    state
}

/// A batch of a few operations on few keys, now and then with an expectation of a key in `known`, right or wrong.
pub(crate) fn random_batch(dice: &mut fastrand::Rng, known: &StoredState, n: usize) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..dice.usize(1..4) {
        let key = format!("key-{}", dice.u32(..60)).into_bytes();
        match dice.u8(..) {
            0..40 => batch.delete(key),
            40..60 => batch.delete_noted(key, format!("note-{n}").into_bytes()),
            _ => {
                let len = if dice.u8(..) < 3 { dice.usize(1000..3000) } else { dice.usize(..60) };
                batch.put(key, vec![n as u8; len])
            }
        };
    }
    if dice.u8(..) < 60 {
        let key = format!("key-{}", dice.u32(..60)).into_bytes();
        let seqno = known.get(&key).map_or(Seqno::ABSENT, |(_, seqno)| *seqno);
        let wrong = dice.u8(..) < 60;
        batch.expect(key, if wrong { Seqno(seqno.0 + 1) } else { seqno });
    }
    batch
}

/// One put.
pub(crate) fn put(key: &str, value: &str) -> Batch {
    let mut batch = Batch::new();
    batch.put(key.into(), value.as_bytes().to_vec());
    batch
}
