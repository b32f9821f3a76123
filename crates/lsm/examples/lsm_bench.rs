//! Measures the engine on a real directory: `lsm_bench DIR COUNT`.
#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]
#![expect(clippy::print_stdout, reason = "this is a command-line tool")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use kallisto_lsm::disk::RealDisk;
use kallisto_lsm::{Engine, EntryBatch, LogKeeping, Options, Sync, SyncMode};

const VALUE_BYTES: usize = 128;
const BATCH: u64 = 1000;

fn key(n: u64) -> [u8; 16] {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&(mixed ^ mixed >> 29).to_be_bytes());
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

fn row(name: &str, count: u64, elapsed: Duration) {
    let micros = elapsed.as_secs_f64() * 1e6 / count as f64;
    println!("{name:24} {:>12.0} /s {micros:>9.3} us", count as f64 / elapsed.as_secs_f64());
}

fn options(mode: SyncMode) -> Options {
    Options { durability: LogKeeping::Wal(mode), ..Options::default() }
}

fn fill(engine: &Engine, count: u64, name: &str, key: impl Fn(u64) -> [u8; 16]) {
    let start = Instant::now();
    let mut batch = EntryBatch::new();
    let value = [7; VALUE_BYTES];
    for n in 0..count {
        batch.put(&key(n), &value).unwrap();
        if batch.len() as u64 == BATCH || n + 1 == count {
            engine.write(&batch, Sync::Mode).unwrap();
            batch.clear();
        }
    }
    row(name, count, start.elapsed());
}

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("a directory");
    let count: u64 = args.next().map_or(1_000_000, |count| count.parse().unwrap());
    let disk = RealDisk::shared();
    let dir = std::path::PathBuf::from(dir);
    let _ = std::fs::remove_dir_all(&dir);

    let engine =
        Engine::open(disk.clone(), dir.join("sequential"), options(SyncMode::OnDemand)).unwrap();
    fill(&engine, count, "fill sequential", |n| {
        let mut key = [0; 16];
        key[8..].copy_from_slice(&n.to_be_bytes());
        key
    });
    drop(engine);

    let engine =
        Engine::open(disk.clone(), dir.join("random"), options(SyncMode::OnDemand)).unwrap();
    fill(&engine, count, "fill random", key);
    fill(&engine, count, "overwrite random", key);
    let start = Instant::now();
    engine.flush().unwrap();
    row("flush", 1, start.elapsed());
    let reads = count.min(500_000);
    let start = Instant::now();
    for n in 0..reads {
        let got = engine.get(&key(n.wrapping_mul(7_919) % count)).unwrap().expect("it was put");
        assert_eq!(got.len(), VALUE_BYTES);
    }
    row("read hit", reads, start.elapsed());
    let start = Instant::now();
    for n in 0..reads {
        assert!(engine.get(&key(count + n)).unwrap().is_none());
    }
    row("read miss", reads, start.elapsed());
    let start = Instant::now();
    for n in 0..reads {
        assert!(engine.get(&key(n % 10_000)).unwrap().is_some());
    }
    row("read hot", reads, start.elapsed());
    let start = Instant::now();
    let mut scan = engine.scan(..).unwrap();
    let mut seen = 0;
    while scan.next_entry().unwrap().is_some() {
        seen += 1;
    }
    row("scan", seen, start.elapsed());
    assert_eq!(seen, count);
    println!("{:#?}", engine.stats());
    let start = Instant::now();
    engine.close().unwrap();
    drop(engine);
    row("close", 1, start.elapsed());
    let start = Instant::now();
    let engine =
        Engine::open(disk.clone(), dir.join("random"), options(SyncMode::EveryCommit)).unwrap();
    row("open", 1, start.elapsed());
    engine.put(b"first", b"v").unwrap();
    let durable = 20_000;
    let start = Instant::now();
    for n in 0..durable {
        engine.put(&key(n), &[8; VALUE_BYTES]).unwrap();
    }
    row("durable, 1 writer", durable, start.elapsed());
    let engine = Arc::new(engine);
    let each = 4_000;
    let before = engine.stats();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for writer in 0..64 {
            let engine = engine.clone();
            scope.spawn(move || {
                for n in 0..each {
                    engine.put(&key(writer * each + n), &[9; VALUE_BYTES]).unwrap();
                }
            });
        }
    });
    row("durable, 64 writers", 64 * each, start.elapsed());
    let after = engine.stats();
    println!("groups {} syncs {}", after.groups - before.groups, after.syncs - before.syncs);
    drop(engine);
    std::fs::remove_dir_all(&dir).unwrap();
}
