//! Cases that earlier engines of this kind failed, one test each.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kallisto_lsm::disk::{Disk, MemDisk, OpenFor, RealDisk};
use kallisto_lsm::{Background, Engine, LogKeeping, Options, SyncMode};

mod common;

use common::small;

fn open(disk: &Arc<MemDisk>, options: &Options) -> Engine {
    Engine::open(disk.clone(), "store", options.clone()).unwrap()
}

fn bytes_on(disk: &MemDisk, suffix: &str) -> u64 {
    let files = disk.files();
    let sized = files.iter().filter(|(path, _)| path.to_string_lossy().ends_with(suffix));
    sized.map(|(_, bytes)| bytes.len() as u64).sum()
}

#[test]
fn the_newest_value_wins_in_every_order_of_overwrite_flush_and_compact() {
    // Every sequence of six steps out of: put, delete, flush, compact, reopen.
    for code in 0..5u32.pow(6) {
        let disk = MemDisk::shared();
        let options = small(Background::Inline);
        let mut engine = open(&disk, &options);
        let mut want: Option<[u8; 4]> = None;
        let mut rest = code;
        for step in 0..6u32 {
            match rest % 5 {
                0 => {
                    engine.put(b"key", &step.to_be_bytes()).unwrap();
                    want = Some(step.to_be_bytes());
                }
                1 => {
                    engine.delete(b"key").unwrap();
                    want = None;
                }
                2 => engine.flush().unwrap(),
                3 => engine.compact().unwrap(),
                _ => {
                    drop(engine);
                    engine = open(&disk, &options);
                }
            }
            rest /= 5;
            let got = engine.get(b"key").unwrap();
            assert_eq!(
                got.as_deref(),
                want.as_ref().map(|v| &v[..]),
                "sequence {code}, step {step}"
            );
        }
        assert_eq!(engine.scan(..).unwrap().count(), usize::from(want.is_some()));
    }
}

#[test]
fn compaction_never_reads_past_the_rows_and_never_grows_the_data() {
    let disk = MemDisk::shared();
    let engine = open(&disk, &small(Background::Inline));
    for round in 0..4u32 {
        for n in 0..400u32 {
            engine.put(&n.to_be_bytes(), &round.to_be_bytes()).unwrap();
        }
    }
    engine.flush().unwrap();
    let rows: Vec<_> = engine.scan(..).unwrap().map(Result::unwrap).collect();
    let before = bytes_on(&disk, ".sst");
    for _ in 0..3 {
        engine.compact().unwrap();
        let after: Vec<_> = engine.scan(..).unwrap().map(Result::unwrap).collect();
        assert_eq!(after, rows);
        engine.check().unwrap();
    }
    let after = engine.stats().levels.iter().map(|level| level.bytes).sum::<u64>();
    assert!(after <= before, "{after} bytes after, {before} before");
    let entries: u64 = engine.stats().levels.iter().map(|level| level.entries).sum();
    assert_eq!(entries, 400, "one version of each key");
}

#[test]
fn deletes_leave_nothing_behind_at_the_bottom() {
    let disk = MemDisk::shared();
    let engine = open(&disk, &small(Background::Inline));
    for n in 0..1000u32 {
        engine.put(&n.to_be_bytes(), b"value").unwrap();
    }
    for n in 0..1000u32 {
        engine.delete(&n.to_be_bytes()).unwrap();
    }
    engine.compact().unwrap();
    let entries: u64 = engine.stats().levels.iter().map(|level| level.entries).sum();
    assert_eq!(entries, 0);
    assert_eq!(engine.scan(..).unwrap().count(), 0);
}

#[test]
fn missing_keys_cost_no_disk_read_in_99_of_100_cases_and_metadata_stays_below_2_percent() {
    let disk = MemDisk::shared();
    let options = Options {
        background: Background::Inline,
        memtable_bytes: 1 << 20,
        sst_bytes: 1 << 20,
        level_base_bytes: 4 << 20,
        durability: LogKeeping::Wal(SyncMode::OnDemand),
        cache_bytes: 0,
        ..Options::default()
    };
    let engine = open(&disk, &options);
    let mut dice = fastrand::Rng::with_seed(1);
    let mut raw = 0u64;
    for _ in 0..60_000u32 {
        let key = (u128::from(dice.u64(..)) << 64) | 1;
        engine.put(&key.to_be_bytes(), &[5; 128]).unwrap();
        raw += 144;
    }
    engine.flush().unwrap();
    let before = engine.stats();
    for _ in 0..50_000u32 {
        let key = (u128::from(dice.u64(..)) << 64) | 2;
        assert!(engine.get(&key.to_be_bytes()).unwrap().is_none());
    }
    let after = engine.stats();
    let reads = after.cache_misses - before.cache_misses;
    assert!(reads <= 500, "{reads} block reads for 50,000 missing keys");
    engine.compact().unwrap();
    let stats = engine.stats();
    let bytes: u64 = stats.levels.iter().map(|level| level.bytes).sum();
    // What index and filter take in memory is a little more than on the disk.
    let share = stats.index_bytes as f64 / bytes as f64;
    assert!(share < 0.02, "metadata is {:.2} % of {bytes} bytes", share * 100.0);
    assert!(bytes < raw * 107 / 100, "{bytes} bytes for {raw} of keys and values");
}

#[test]
fn a_torn_wal_tail_loses_nothing_before_it() {
    let disk = MemDisk::shared();
    let options = Options {
        wal_segment_bytes: 64 << 10,
        memtable_bytes: 64 << 10,
        ..small(Background::Inline)
    };
    let engine = open(&disk, &options);
    for n in 0..50u32 {
        engine.put(&n.to_be_bytes(), &[1; 100]).unwrap();
    }
    let files = disk.files();
    let (path, bytes) =
        files.iter().find(|(path, _)| path.extension().is_some_and(|e| e == "wal")).unwrap();
    let used = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    for cut in (used - 300)..used {
        let image = disk.fork();
        let file = image.open(path, OpenFor::ReadWrite).unwrap();
        file.write_at(&vec![0; used - cut], cut as u64).unwrap();
        let engine = open(&Arc::new(image), &options);
        let found = engine.scan(..).unwrap().count();
        // A frame takes 40 bytes of header and 107 of operation, so 300 bytes touch three of them.
        assert!(
            (47..=50).contains(&found),
            "{found} left of 50 when cut {} before the end",
            used - cut
        );
        assert!((0..47u32).all(|n| engine.get(&n.to_be_bytes()).unwrap().is_some()));
    }
}

#[test]
fn the_first_entry_after_a_restart_is_there() {
    let disk = MemDisk::shared();
    let options = small(Background::Inline);
    for round in 0..50u32 {
        let engine = open(&disk, &options);
        engine.put(&round.to_be_bytes(), b"first").unwrap();
        assert_eq!(engine.scan(..).unwrap().count(), round as usize + 1);
        // Every second time the process dies instead of closing.
        if round % 2 == 0 {
            engine.close().unwrap();
        }
    }
    assert_eq!(open(&disk, &options).scan(..).unwrap().count(), 50);
}

#[test]
fn a_short_value_carries_no_residue_of_the_previous_one() {
    let disk = MemDisk::shared();
    let engine = open(&disk, &small(Background::Inline));
    for len in (0..300usize).rev() {
        engine.put(b"key", &vec![len as u8; len]).unwrap();
        let got = engine.get(b"key").unwrap().unwrap();
        assert_eq!(*got, *vec![len as u8; len]);
        if len % 50 == 0 {
            engine.compact().unwrap();
            let got = engine.get(b"key").unwrap().unwrap();
            assert_eq!(*got, *vec![len as u8; len]);
        }
    }
}

#[test]
fn a_300_byte_an_empty_and_a_10_mb_value_and_the_longest_key() {
    let disk = MemDisk::shared();
    let options = small(Background::Inline);
    let values = [vec![3; 300], vec![], vec![7; 10 << 20]];
    let long_key = vec![9; 64 << 10];
    let check = |engine: &Engine| {
        for (n, value) in values.iter().enumerate() {
            assert!(*engine.get(&[n as u8]).unwrap().unwrap() == **value);
        }
        assert!(*engine.get(&long_key).unwrap().unwrap() == *b"long");
        assert!(*engine.get(b"").unwrap().unwrap() == *b"empty key");
        assert_eq!(engine.scan(..).unwrap().count(), 5);
    };
    let engine = open(&disk, &options);
    for (n, value) in values.iter().enumerate() {
        engine.put(&[n as u8], value).unwrap();
    }
    engine.put(&long_key, b"long").unwrap();
    engine.put(b"", b"empty key").unwrap();
    check(&engine);
    drop(engine);
    let engine = open(&disk, &options);
    check(&engine);
    engine.compact().unwrap();
    check(&engine);
    engine.check().unwrap();
}

#[test]
fn a_read_racing_a_compaction_sees_every_key() {
    let disk = MemDisk::shared();
    let engine = open(&disk, &small(Background::Threads(2)));
    for n in 0..800u32 {
        engine.put(&n.to_be_bytes(), &0u32.to_be_bytes()).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut dice = fastrand::Rng::with_seed(3);
                let mut newest = vec![0; 800];
                while !done.load(Ordering::Acquire) {
                    let n = dice.usize(..800);
                    let value = engine.get(&(n as u32).to_be_bytes()).unwrap();
                    let round = u32::from_be_bytes(value.unwrap()[..].try_into().unwrap());
                    assert!(round >= newest[n], "a read went back in time");
                    newest[n] = round;
                }
            });
        }
        for round in 1..12u32 {
            for n in 0..800u32 {
                engine.put(&n.to_be_bytes(), &round.to_be_bytes()).unwrap();
            }
            engine.compact().unwrap();
        }
        done.store(true, Ordering::Release);
    });
}

#[test]
fn a_million_sequential_keys_stay_linear() {
    let disk = MemDisk::shared();
    let options = Options {
        background: Background::Inline,
        memtable_bytes: 1 << 20,
        sst_bytes: 1 << 20,
        level_base_bytes: 4 << 20,
        durability: LogKeeping::Wal(SyncMode::OnDemand),
        ..Options::default()
    };
    let engine = open(&disk, &options);
    let mut batch = kallisto_lsm::EntryBatch::new();
    for n in 0..1_000_000u64 {
        batch.put(&n.to_be_bytes(), &[1; 8]).unwrap();
        if n % 1000 == 999 {
            engine.write(&batch, kallisto_lsm::Sync::Mode).unwrap();
            batch.clear();
        }
    }
    engine.flush().unwrap();
    let stats = engine.stats();
    // Work and not time is what is counted: sorted files change levels without being rewritten.
    assert!(stats.moves > 0);
    assert_eq!(stats.compaction_write_bytes, 0, "nothing was merged");
    assert!(stats.flush_bytes < 2 * stats.user_bytes);
}

#[test]
fn a_data_set_ten_times_the_cache_works_on_a_real_disk() {
    let dir = scratch("ten-times");
    let options = Options {
        memtable_bytes: 256 << 10,
        sst_bytes: 256 << 10,
        level_base_bytes: 1 << 20,
        cache_bytes: 512 << 10,
        wal_segment_bytes: 256 << 10,
        open_files_max: 3,
        durability: LogKeeping::Wal(SyncMode::OnDemand),
        ..Options::default()
    };
    let engine = Engine::open(RealDisk::shared(), &dir, options).unwrap();
    let value = |n: u32| vec![n as u8; 200];
    for n in 0..25_000u32 {
        engine.put(&n.wrapping_mul(0x9e37_79b9).to_be_bytes(), &value(n)).unwrap();
    }
    for n in (0..25_000u32).step_by(7) {
        let got = engine.get(&n.wrapping_mul(0x9e37_79b9).to_be_bytes()).unwrap().unwrap();
        assert_eq!(*got, *value(n));
    }
    let stats = engine.stats();
    assert!(stats.cache_bytes <= 512 << 10, "{} bytes cached", stats.cache_bytes);
    engine.check().unwrap();
    drop(engine);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A directory of this test alone.
fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("kallisto-lsm-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    assert!(!Path::new(&dir).exists());
    dir
}

/// The flush thread also syncs when the interval has passed. It once waited for the writer to do so, while the writer
/// waited for it to flush.
#[test]
fn a_writer_that_waits_for_a_flush_and_a_sync_that_is_due_do_not_wait_for_each_other() {
    const PUTS: u32 = 30_000;
    const PATIENCE: Duration = Duration::from_secs(120);
    let disk = MemDisk::shared();
    let options = Options {
        durability: LogKeeping::Wal(SyncMode::Every {
            ops: u64::MAX,
            interval: Duration::from_micros(1),
        }),
        background: Background::Threads(1),
        memtable_bytes: 4 << 10,
        frozen_max: 1,
        ..small(Background::Threads(1))
    };
    let engine = open(&disk, &options);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for n in 0..PUTS {
            engine.put(&n.to_be_bytes(), &[7; 64]).unwrap();
        }
        tell.send(()).unwrap();
    });
    told.recv_timeout(PATIENCE).expect("the writer and the flush thread wait for each other");
}
