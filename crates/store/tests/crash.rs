//! Power cuts: after every single disk operation of a mixed workload, in every way a cut may leave the disk.
//!
//! The workload runs once on a recording disk with small limits, so that engine flushes and compactions, purges and
//! recycled log segments, restarts and switches of the mode all happen. Then, for each point of the record and each
//! tail, the store is opened on what the cut left. It must open and hold whole batches, a prefix of what was handed in:
//! in strict mode all that was acknowledged; in batch mode all but what the mode's bounds allow, and all of it if the
//! process died and not the machine. Now and then it is written to and opened once more.
//! `cargo x campaign power-cuts-store` goes on with other seeds.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kallisto_campaign::CampaignPart;
use kallisto_lsm::disk::cuts::{self, PowerCut, Promises, RecordedRun};
use kallisto_lsm::disk::{DiskEvent, FaultyDisk, UnsyncedTail};
use kallisto_store::{Durability, RaftOptions, Store};

mod common;

use common::{ManualClock, StoredState, inline, open, put, random_batch, state_of};

/// The bounds of the batch mode under test.
const OPS: u64 = 8;
const INTERVAL: Duration = Duration::from_millis(50);
const BATCH: Durability = Durability::Batch { ops: OPS, interval: INTERVAL };
/// A run of so many batches has compactions and purges.
const COMPACTING_BATCHES: usize = 400;
/// Every so many images are written to and opened again.
const REOPEN_STRIDE: usize = 11;

/// A recorded run.
struct Run {
    options: RaftOptions,
    seed: u64,
    events: Vec<DiskEvent>,
    /// What survives the process: the batches that were acknowledged.
    acknowledged: Promises,
    /// What survives a power cut.
    durable: Promises,
    /// What the store holds after each number of batches.
    states: Vec<StoredState>,
    /// Images with a mark of how far the log was synced, which must not take a crash for a loss.
    marked: AtomicUsize,
}

impl Run {
    fn record(mode: Durability, seed: u64, batches: usize) -> Self {
        let disk = FaultyDisk::shared();
        let clock = Arc::new(ManualClock::default());
        let mut options = inline(mode);
        options.clock = clock.clone();
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut store = open(disk.clone(), &options).unwrap();
        let mut states = vec![StoredState::new()];
        let (mut acknowledged, mut durable) = (Promises::default(), Promises::default());
        let mut times = Vec::new();
        for n in 0..batches {
            acknowledged.begin(disk.events_len());
            durable.begin(disk.events_len());
            let batch = random_batch(&mut dice, &states[n], n);
            clock.advance(Duration::from_millis(dice.u64(..12)));
            // A conflict is an answer like another: nothing changed.
            let _ = store.commit(batch).wait();
            times.push(kallisto_lsm::clock::Clock::now(&*clock));
            states.push(state_of(&*store));
            let strict = store.durability() == Durability::Strict;
            let all_durable = match dice.u32(..1000) {
                0..20 => store.save().wait().is_ok(),
                20..35 => {
                    let next = if strict { BATCH } else { Durability::Strict };
                    store.set_durability(next).wait().is_ok()
                }
                35..45 => {
                    store.close().unwrap();
                    drop(store);
                    store = open(disk.clone(), &options).unwrap();
                    true
                }
                45..60 => {
                    // The process dies. What it wrote is readable and perhaps not durable; opening makes it durable.
                    std::mem::forget(store);
                    disk.memory().break_locks();
                    store = open(disk.clone(), &options).unwrap();
                    true
                }
                _ => strict,
            };
            let by_count = (n + 2).saturating_sub(usize::try_from(OPS).unwrap());
            let by_time = times.partition_point(|time| *time + INTERVAL <= times[n]);
            let bounded = by_count.max(by_time);
            let events = disk.events_len();
            acknowledged.keep(events, n + 1);
            durable.keep(events, if all_durable { n + 1 } else { bounded });
        }
        let raft = store.stats().raft.unwrap();
        if batches >= COMPACTING_BATCHES {
            assert!(
                raft.engine.levels[1..].iter().any(|level| level.files > 0),
                "compactions happened"
            );
            assert!(raft.flushed_index > 100 && raft.log_bytes < 64 << 10, "purges happened");
        }
        assert_eq!(state_of(&*store), states[batches], "the run itself is right");
        Self {
            options,
            seed,
            events: disk.events(),
            acknowledged,
            durable,
            states,
            marked: AtomicUsize::new(0),
        }
    }
}

impl RecordedRun for Run {
    fn events(&self) -> &[DiskEvent] {
        &self.events
    }

    fn judge(&self, PowerCut { at, tail, nth, disk }: PowerCut) {
        let disk = Arc::new(disk);
        let marked = disk.files().contains_key(Path::new("store/SYNCED"));
        self.marked.fetch_add(usize::from(marked), Ordering::Relaxed);
        let (mode, seed) = (self.options.durability, self.seed);
        let place = || format!("{mode:?}, seed {seed}, after event {at}, {tail:?}");
        let store = open(disk.clone(), &self.options)
            .unwrap_or_else(|error| panic!("{error}: {}", place()));
        let promises = if tail == UnsyncedTail::Kept { &self.acknowledged } else { &self.durable };
        let possible = promises.at(at);
        let found = state_of(&*store);
        let whole = self.states[possible.clone()].contains(&found);
        assert!(whole, "not the state after {possible:?} batches: {}", place());
        let newest = found.values().map(|(_, seqno)| seqno.0).max().unwrap_or(0);
        let position = store.position();
        assert!(position.0 >= newest, "a record of the future: {}", place());
        if nth.is_multiple_of(REOPEN_STRIDE) {
            let later = store.commit(put("after the cut", "1")).wait().unwrap();
            assert!(later > position, "positions go back: {}", place());
            let found = state_of(&*store);
            std::mem::forget(store);
            disk.break_locks();
            let again = open(disk, &self.options)
                .unwrap_or_else(|error| panic!("second open: {error}: {}", place()));
            assert_eq!(state_of(&*again), found, "second open: {}", place());
        }
    }

    fn judged(&self, cuts: usize) {
        // Two threads share a run's seed and not the run.
        let marked = self.marked.load(Ordering::Relaxed);
        // A short run has no mark for a good part of its time.
        let is_long = self.states.len() > COMPACTING_BATCHES;
        assert!(!is_long || marked * 10 > cuts * 9, "{marked} of {cuts} images have a mark");
    }
}

fn crash_everywhere(mode: Durability, seeds: std::ops::Range<u64>, batches: usize) -> usize {
    cuts::crash_everywhere(seeds, |seed| Run::record(mode, seed, batches))
}

#[test]
#[expect(clippy::print_stdout, reason = "the number of images is part of the result")]
fn a_cut_after_every_disk_operation_loses_no_more_than_the_mode_says() {
    let strict = crash_everywhere(Durability::Strict, 0..2, COMPACTING_BATCHES);
    let batch = crash_everywhere(BATCH, 2..4, COMPACTING_BATCHES);
    println!("crash images: {} ({strict} strict, {batch} batch)", strict + batch);
    assert!(strict + batch >= 15_000, "{} images", strict + batch);
}

#[test]
#[ignore = "`cargo x campaign power-cuts-store` runs it"]
#[expect(clippy::print_stdout, reason = "how far it got is read by whoever started it")]
fn a_cut_in_a_run_of_any_seed_loses_no_more_than_the_mode_says() {
    let part = CampaignPart::of_environment().unwrap().expect("a part of a campaign");
    let reach = part.run_on(1, |seed| {
        let batches = fastrand::Rng::with_seed(seed).usize(20..COMPACTING_BATCHES);
        let mode = if seed.is_multiple_of(2) { Durability::Strict } else { BATCH };
        crash_everywhere(mode, seed..seed + 1, batches) as u64
    });
    println!("{reach}");
}
