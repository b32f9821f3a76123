//! Operations on the storage engine beside a `BTreeMap`, over a disk in memory: whatever is
//! written, flushed, compacted and reopened, every answer is the obvious structure's.
//!
//! Three bytes an operation: what to do, and the key; the third is also the length of the value.
//! Limits are so small that a thousand operations reach every level. Background work is done by
//! the writer, so that an input does the same each time.

use std::collections::BTreeMap;
use std::sync::Arc;

use kallisto_lsm::disk::{Disk, MemDisk};
use kallisto_lsm::{Background, Engine, EntryBatch, Options, ReadPoint, Sync};

const FOLDER: &str = "store";
/// Distinct keys: few enough to be met again, many enough for several files.
const KEYS: u16 = 300;

type LsmModel = BTreeMap<Vec<u8>, Vec<u8>>;

/// The engine, what it should hold, and a moment to which reads go back.
struct Pair {
    disk: Arc<dyn Disk>,
    engine: Engine,
    model: LsmModel,
    point: Option<(ReadPoint, LsmModel)>,
}

/// The target.
pub(crate) fn run(bytes: &[u8]) {
    let disk: Arc<dyn Disk> = MemDisk::shared();
    let engine = open(&disk);
    let mut pair = Pair { disk, engine, model: LsmModel::new(), point: None };
    let (operations, _) = bytes.as_chunks::<3>();
    for (count, &[what, high, low]) in operations.iter().enumerate() {
        let number = u16::from_be_bytes([high, low]) % KEYS;
        let key = number.to_be_bytes().repeat(1 + usize::from(number % 5));
        let value = vec![count.to_le_bytes()[0]; usize::from(low)];
        pair.step(what, &key, &value);
    }
    pair.compare();
    pair.engine.check().expect("a store that was only written to is sound");
    pair.reopen();
    pair.compare();
}

impl Pair {
    fn step(&mut self, what: u8, key: &[u8], value: &[u8]) {
        match what {
            0..120 => {
                self.engine.put(key, value).expect("a put");
                self.model.insert(key.to_vec(), value.to_vec());
            }
            120..160 => self.write_batch(key, value),
            160..190 => {
                let found = self.engine.get(key).expect("a get").map(|value| value.into_vec());
                assert_eq!(found.as_ref(), self.model.get(key));
            }
            190..215 => {
                let expected = self.model.iter().filter(|(held, _)| held.starts_with(key));
                let scan = self.engine.prefix(key).expect("a scan");
                assert!(
                    collect(scan).into_iter().eq(expected.map(|(k, v)| (k.clone(), v.clone())))
                );
            }
            215..230 => self.point = Some((self.engine.read_point(), self.model.clone())),
            230..240 => self.compare_point(),
            240..249 => self.engine.flush().expect("a flush"),
            249..252 => self.engine.compact().expect("a compaction"),
            _ => self.reopen(),
        }
    }

    /// A delete and a put that become visible together.
    fn write_batch(&mut self, key: &[u8], value: &[u8]) {
        let neighbour = [key, &[0]].concat();
        let mut batch = EntryBatch::new();
        batch.delete(key).expect("a delete");
        batch.put(&neighbour, value).expect("a put");
        self.engine.write(&batch, Sync::Mode).expect("a write");
        self.model.remove(key);
        self.model.insert(neighbour, value.to_vec());
    }

    fn compare(&self) {
        let scan = self.engine.scan(..).expect("a scan");
        assert!(collect(scan).into_iter().eq(self.model.clone()), "the store and its model differ");
    }

    fn compare_point(&self) {
        let Some((point, model)) = &self.point else { return };
        let scan = self.engine.scan_at(point, ..).expect("a scan at a read point");
        assert!(collect(scan).into_iter().eq(model.clone()), "a read point moved");
    }

    /// Opens the store again, after an orderly close or, with an odd number of entries, without one.
    fn reopen(&mut self) {
        self.point = None;
        if self.model.len().is_multiple_of(2) {
            self.engine.close().expect("a close");
        }
        // The lock of the store is held until the old engine is gone.
        let nowhere: Arc<dyn Disk> = MemDisk::shared();
        self.engine = open(&nowhere);
        self.engine = open(&self.disk);
        self.compare();
    }
}

fn open(disk: &Arc<dyn Disk>) -> Engine {
    let options = Options {
        background: Background::Inline,
        memtable_bytes: 4 << 10,
        wal_segment_bytes: 4 << 10,
        block_bytes: 256,
        sst_bytes: 4 << 10,
        level_base_bytes: 16 << 10,
        cache_bytes: 16 << 10,
        open_files_max: 4,
        ..Options::default()
    };
    Engine::open(Arc::clone(disk), FOLDER, options).expect("a store in memory opens")
}

fn collect(mut scan: kallisto_lsm::Scan) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = Vec::new();
    while let Some((key, value)) = scan.next_entry().expect("the next entry") {
        entries.push((key.to_vec(), value.to_vec()));
    }
    entries
}
