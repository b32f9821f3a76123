//! Power cuts: after every single disk operation of a long mixed workload, in every way a cut may leave the disk.
//!
//! The workload runs once on a recording disk with small limits, so that flushes, compactions, moves, manifest switches,
//! WAL recycling, large values and checkpoints all happen. Then, for each point of the record and each tail, the store is
//! opened on what the cut left. It must open, hold every acknowledged batch, hold of the unacknowledged ones a whole prefix
//! or nothing, and pass `check`. The number of images is printed and has a floor. `cargo x campaign power-cuts-lsm` goes on with
//! other seeds.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kallisto_campaign::CampaignPart;
use kallisto_lsm::disk::cuts::{self, PowerCut, Promises, RecordedRun};
use kallisto_lsm::disk::{DiskEvent, FaultyDisk, MemDisk};
use kallisto_lsm::{Background, Engine, EntryBatch, Error, LogKeeping, Options, Sync, SyncMode};

/// A run of so many batches has compactions whatever its seed is.
const COMPACTING_BATCHES: usize = 400;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(mode: SyncMode) -> Options {
    Options {
        durability: LogKeeping::Wal(mode),
        background: Background::Inline,
        memtable_bytes: 2 << 10,
        wal_segment_bytes: 1 << 10,
        block_bytes: 256,
        sst_bytes: 2 << 10,
        level_base_bytes: 4 << 10,
        cache_bytes: 8 << 10,
        open_files_max: 4,
        ..Options::default()
    }
}

/// What a store holds, as one number.
fn digest<'a>(entries: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325u64;
    let mut eat = |bytes: &[u8]| {
        for byte in bytes.iter().copied().chain((bytes.len() as u32).to_le_bytes()) {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    for (key, value) in entries {
        eat(key);
        eat(value);
    }
    state
}

fn digest_of(engine: &Engine) -> u64 {
    let mut scan = engine.scan(..).unwrap();
    let mut all = Vec::new();
    while let Some((key, value)) = scan.next_entry().unwrap() {
        all.push((key.to_vec(), value.to_vec()));
    }
    digest(all.iter().map(|(key, value)| (&key[..], &value[..])))
}

/// A recorded run.
struct Run {
    mode: SyncMode,
    seed: u64,
    events: Vec<DiskEvent>,
    /// The batches that were handed in, and those that were acknowledged as durable.
    promises: Promises,
    /// What the store holds after each number of batches.
    digests: Vec<u64>,
    /// The batches and events at which a checkpoint was complete.
    checkpoint: Option<(usize, usize)>,
}

impl Run {
    fn record(mode: SyncMode, seed: u64, batches: usize) -> Self {
        let disk = FaultyDisk::shared();
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut engine = Engine::open(disk.clone(), "store", options(mode)).unwrap();
        let mut model = Model::new();
        let mut run = Self {
            mode,
            seed,
            events: Vec::new(),
            promises: Promises::default(),
            digests: vec![digest(std::iter::empty())],
            checkpoint: None,
        };
        let mut sizes = Vec::new();
        for n in 0..batches {
            run.promises.begin(disk.events_len());
            let (batch, sync) = random_batch(&mut dice, &mut model, n);
            engine.write(&batch, sync).unwrap();
            let entries = model.iter().map(|(key, value)| (&key[..], &value[..]));
            run.digests.push(digest(entries));
            sizes.push(batch.len() as u64);
            let vouched = if sync == Sync::Now { n + 1 } else { vouched_for(mode, &sizes) };
            run.promises.keep(disk.events_len(), vouched);
            let durable_all = match dice.u32(..1000) {
                0..12 => engine.flush().is_ok(),
                12..16 => engine.compact().is_ok(),
                16..24 => engine.sync().is_ok(),
                24..30 => {
                    engine.close().unwrap();
                    drop(engine);
                    engine = Engine::open(disk.clone(), "store", options(mode)).unwrap();
                    true
                }
                30..40 => {
                    // The process dies; what it wrote is readable and perhaps not durable. Opening makes it durable.
                    std::mem::forget(engine);
                    disk.memory().break_locks();
                    engine = Engine::open(disk.clone(), "store", options(mode)).unwrap();
                    true
                }
                _ => false,
            };
            if n == batches / 2 {
                engine.checkpoint(Path::new("copy")).unwrap();
                run.checkpoint = Some((n + 1, disk.events_len()));
            }
            if durable_all {
                run.promises.keep(disk.events_len(), n + 1);
            }
        }
        let stats = engine.stats();
        if batches >= COMPACTING_BATCHES {
            assert!(stats.levels[1..].iter().any(|level| level.files > 0), "compactions happened");
        }
        assert_eq!(digest_of(&engine), run.digests[batches], "the run itself is right");
        run.events = disk.events();
        run
    }

    /// A checkpoint is there when its call returned; before that it is there whole or refuses to open.
    fn judge_checkpoint(&self, image: &Arc<MemDisk>, at: usize, place: &dyn Fn() -> String) {
        let Some((batches, complete)) = self.checkpoint else { return };
        if image.files().keys().all(|path| !path.starts_with("copy")) {
            assert!(at < complete, "the checkpoint is gone: {}", place());
            return;
        }
        match Engine::open(image.clone(), "copy", options(self.mode)) {
            Ok(copy) => {
                let got = digest_of(&copy);
                let empty = at < complete && got == self.digests[0];
                assert!(empty || got == self.digests[batches], "a wrong checkpoint: {}", place());
                copy.check().unwrap_or_else(|error| panic!("{error}: {}", place()));
            }
            Err(Error::Corrupt { .. }) if at < complete => {}
            Err(error) => panic!("{error}: {}", place()),
        }
    }
}

impl RecordedRun for Run {
    fn events(&self) -> &[DiskEvent] {
        &self.events
    }

    fn judge(&self, PowerCut { at, tail, disk, .. }: PowerCut) {
        let image = Arc::new(disk);
        let place =
            || format!("{:?}, seed {}, after event {at}, tail {tail:?}", self.mode, self.seed);
        let engine = Engine::open(image.clone(), "store", options(self.mode))
            .unwrap_or_else(|error| panic!("{error}: {}", place()));
        let possible = self.promises.at(at);
        let got = digest_of(&engine);
        let whole = self.digests[possible.clone()].contains(&got);
        assert!(whole, "not the state after {possible:?} batches: {}", place());
        engine.check().unwrap_or_else(|error| panic!("{error}: {}", place()));
        drop(engine);
        self.judge_checkpoint(&image, at, &place);
    }
}

/// How many of the acknowledged batches of these sizes a mode vouches for, whatever else happened.
fn vouched_for(mode: SyncMode, sizes: &[u64]) -> usize {
    match mode {
        SyncMode::EveryCommit => sizes.len(),
        SyncMode::OnDemand => 0,
        SyncMode::Every { ops, .. } => {
            let newest_first = sizes.iter().rev().scan(0, |sum, size| {
                *sum += size;
                Some(*sum)
            });
            sizes.len() - newest_first.take_while(|&sum| sum < ops).count()
        }
    }
}

fn random_batch(dice: &mut fastrand::Rng, model: &mut Model, n: usize) -> (EntryBatch, Sync) {
    let mut batch = EntryBatch::new();
    for _ in 0..dice.usize(1..4) {
        let key = format!("key-{}", dice.u32(..60)).into_bytes();
        if dice.u8(..) < 60 {
            batch.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let len = if dice.u8(..) < 3 { dice.usize(1000..3000) } else { dice.usize(..60) };
            let value = vec![n as u8; len];
            batch.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
    (batch, if dice.u8(..) < 20 { Sync::Now } else { Sync::Mode })
}

fn crash_everywhere(mode: SyncMode, seeds: std::ops::Range<u64>, batches: usize) -> usize {
    cuts::crash_everywhere(seeds, |seed| Run::record(mode, seed, batches))
}

#[test]
#[expect(clippy::print_stdout, reason = "the number of images is part of the result")]
fn a_cut_after_every_disk_operation_loses_nothing() {
    let every = crash_everywhere(SyncMode::EveryCommit, 0..2, 500);
    let demand = crash_everywhere(SyncMode::OnDemand, 2..5, 700);
    let interval = Duration::from_secs(3600);
    let bounded = crash_everywhere(SyncMode::Every { ops: 8, interval }, 5..6, 600);
    let all = every + demand + bounded;
    println!(
        "crash images: {all} ({every} strict, {demand} on demand, {bounded} every 8 operations)"
    );
    assert!(all >= 50_000, "{all} images");
}

#[test]
#[ignore = "`cargo x campaign power-cuts-lsm` runs it"]
#[expect(clippy::print_stdout, reason = "how far it got is read by whoever started it")]
fn a_cut_in_a_run_of_any_seed_loses_nothing() {
    let part = CampaignPart::of_environment().unwrap().expect("a part of a campaign");
    let reach = part.run_on(1, |seed| {
        let mut dice = fastrand::Rng::with_seed(seed);
        let interval = Duration::from_secs(3600);
        let mode = match seed % 3 {
            0 => SyncMode::EveryCommit,
            1 => SyncMode::OnDemand,
            _ => SyncMode::Every { ops: dice.u64(2..20), interval },
        };
        crash_everywhere(mode, seed..seed + 1, dice.usize(20..COMPACTING_BATCHES)) as u64
    });
    println!("{reach}");
}
