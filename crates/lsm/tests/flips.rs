//! Every byte of a small store, flipped: the damage is detected or harmless, never a wrong value, never a panic.
//! `cargo x campaign flips` goes on with stores of other seeds.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::sync::Arc;

use kallisto_campaign::CampaignPart;
use kallisto_lsm::disk::{Disk, MemDisk, OpenFor};
use kallisto_lsm::{Background, Engine, Error, Options};

mod common;

use common::small;

fn open(disk: Arc<MemDisk>, options: &Options) -> Result<Engine, Error> {
    Engine::open(disk, "store", options.clone())
}

/// What a flip led to.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Detected,
    Harmless,
    /// The last commit is gone: its frame is what a torn one looks like.
    TornTail,
}

/// A small store whose process died: some of it in sorted files, some in the WAL alone.
struct Killed {
    options: Options,
    image: MemDisk,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    /// What it holds if its last commit is taken for torn.
    without_last: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Killed {
    /// Entries up to `compacted` are in sorted files. Those from `again` to `end` are written after that, over what is there.
    fn new(compacted: u32, again: u32, end: u32, value: impl Fn(u32) -> Vec<u8>) -> Self {
        let disk = MemDisk::shared();
        let options = Options { wal_segment_bytes: 2 << 10, ..small(Background::Inline) };
        let engine = open(disk.clone(), &options).unwrap();
        let mut model = BTreeMap::new();
        for n in 0..compacted {
            let (key, value) = (n.to_be_bytes().to_vec(), value(n));
            engine.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        engine.compact().unwrap();
        let mut without_last = model.clone();
        for n in again..end {
            without_last.clone_from(&model);
            let (key, value) = (n.to_be_bytes().to_vec(), value(!n));
            engine.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        let image = disk.fork();
        Self { options, image, model, without_last }
    }

    /// Flips one bit of every byte, each in a store of its own; says how often each [`Outcome`] came.
    fn flip_every_byte(&self, dice: &mut fastrand::Rng) -> [usize; 3] {
        let mut counts = [0usize; 3];
        for (path, bytes) in self.image.files() {
            for (at, byte) in bytes.iter().enumerate() {
                let bad = self.image.fork();
                let flipped = byte ^ 1 << dice.u8(..8);
                let file = bad.open(&path, OpenFor::ReadWrite).unwrap();
                file.write_at(&[flipped], at as u64).unwrap();
                let outcome = judge(Arc::new(bad), &self.options, &self.model, &self.without_last);
                counts[outcome as usize] += 1;
            }
        }
        counts
    }
}

#[test]
fn every_flipped_byte_is_detected_or_harmless() {
    let killed = Killed::new(60, 50, 80, |n| vec![n as u8; 20]);
    let [detected, harmless, torn] = killed.flip_every_byte(&mut fastrand::Rng::with_seed(1));
    assert!(detected > 1000, "{detected} detected, {harmless} harmless, {torn} torn");
    assert!(torn > 0 && torn < 100, "only the last frame can pass for torn: {torn}");
}

#[test]
#[ignore = "`cargo x campaign flips` runs it"]
#[expect(clippy::print_stdout, reason = "how far it got is read by whoever started it")]
fn every_flipped_byte_of_a_store_of_any_seed_is_detected_or_harmless() {
    let part = CampaignPart::of_environment().unwrap().expect("a part of a campaign");
    let reach = part.run(|seed| {
        let mut dice = fastrand::Rng::with_seed(seed);
        let compacted = dice.u32(1..80);
        let again = dice.u32(..=compacted);
        // The last commit writes a new key: only then is a store without it one whose log was torn.
        let end = compacted + dice.u32(1..40);
        let longest = dice.usize(1..60);
        let lengths: Vec<usize> = (0..256).map(|_| dice.usize(..=longest)).collect();
        let value = |n: u32| vec![n as u8; lengths[n as usize % lengths.len()]];
        Killed::new(compacted, again, end, value).flip_every_byte(&mut dice).iter().sum::<usize>()
            as u64
    });
    println!("{reach}");
}

fn judge(
    disk: Arc<MemDisk>,
    options: &Options,
    model: &BTreeMap<Vec<u8>, Vec<u8>>,
    without_last: &BTreeMap<Vec<u8>, Vec<u8>>,
) -> Outcome {
    let engine = match open(disk, options) {
        Ok(engine) => engine,
        Err(Error::Corrupt { .. } | Error::Unsupported { .. }) => return Outcome::Detected,
        Err(error) => panic!("not named as damage: {error}"),
    };
    let scanned: Result<BTreeMap<_, _>, Error> = engine.scan(..).and_then(Iterator::collect);
    for (key, value) in model {
        match engine.get(key) {
            Ok(Some(got)) => assert!(*got == **value, "a wrong value"),
            Ok(None) => assert!(!without_last.contains_key(key), "a lost value"),
            Err(Error::Corrupt { .. }) => {}
            Err(error) => panic!("not named as damage: {error}"),
        }
    }
    match (scanned, engine.check()) {
        (Ok(all), Ok(_)) if all == *model => Outcome::Harmless,
        (Ok(all), Ok(_)) if all == *without_last => Outcome::TornTail,
        (Ok(all), Ok(_)) => panic!("{} of {} entries, unnoticed", all.len(), model.len()),
        (Err(Error::Corrupt { .. }), _) | (_, Err(Error::Corrupt { .. })) => Outcome::Detected,
        (scanned, checked) => panic!("{:?} {checked:?}", scanned.err()),
    }
}

#[test]
fn a_check_goes_on_after_damage_and_names_all_of_it() {
    let disk = MemDisk::shared();
    let options = small(Background::Inline);
    let engine = open(disk.clone(), &options).unwrap();
    for n in 0..2_000u32 {
        engine.put(&n.to_be_bytes(), &[7; 20]).unwrap();
    }
    engine.close().unwrap();
    drop(engine);
    let clean = open(disk.clone(), &options).unwrap().check().unwrap();
    let ssts: Vec<_> = disk
        .files()
        .into_keys()
        .filter(|p| p.extension().is_some_and(|kind| kind == "sst"))
        .collect();
    assert!(ssts.len() > 5, "{} files", ssts.len());
    let flip = |path: &std::path::Path, at: u64| {
        let file = disk.open(path, OpenFor::ReadWrite).unwrap();
        let mut byte = [0];
        file.read_at(&mut byte, at).unwrap();
        file.write_at(&[!byte[0]], at).unwrap();
    };
    // Two blocks of one file, one of another, and a footer.
    flip(&ssts[0], 10);
    flip(&ssts[0], 1_000);
    flip(&ssts[1], 10);
    flip(&ssts[2], disk.files()[&ssts[2]].len() as u64 - 10);
    let engine = open(disk, &options).unwrap();
    let mut damage = Vec::new();
    let report = engine.check_all(|error| damage.push(error));
    let mut files: Vec<_> = damage
        .iter()
        .map(|error| match error {
            Error::Corrupt { file, .. } => file.clone(),
            other => panic!("{other}"),
        })
        .collect();
    files.sort();
    assert_eq!(files, [&ssts[0], &ssts[0], &ssts[1], &ssts[2]].map(Clone::clone));
    assert_eq!(report.files, clean.files - 3, "the others are read to the end");
    assert_eq!(engine.check().unwrap_err(), damage[0]);
}

#[test]
fn a_check_names_a_thousand_places_and_no_more() {
    let disk = MemDisk::shared();
    let options = Options { memtable_bytes: 1 << 20, ..small(Background::Inline) };
    let engine = open(disk.clone(), &options).unwrap();
    for n in 0..1_100u32 {
        engine.put(&n.to_be_bytes(), &[7; 256]).unwrap();
    }
    engine.close().unwrap();
    drop(engine);
    let files = disk.files();
    let mut ssts = files.iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "sst"));
    let (path, bytes) = ssts.next().unwrap();
    assert_eq!(ssts.next(), None, "it is one file");
    // The footer says first where the filter starts: up to there are blocks, of one entry each.
    let footer = bytes.len() - 64;
    let blocks_end = u64::from_le_bytes(bytes[footer..footer + 8].try_into().unwrap());
    let file = disk.open(path, OpenFor::ReadWrite).unwrap();
    for at in (0..blocks_end).step_by(100) {
        file.write_at(&[!bytes[at as usize]], at).unwrap();
    }
    let engine = open(disk, &options).unwrap();
    let mut named = 0;
    let report = engine.check_all(|_| named += 1);
    assert_eq!((named, report.files), (1_000, 0));
}
