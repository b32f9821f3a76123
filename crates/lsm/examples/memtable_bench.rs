//! The memtable beside a `BTreeMap` behind a mutex: 400,000 entries of 16 + 128 bytes, one thread. Then as a server fills it: versions of a thousand
//! secrets, three records a write.
#![expect(clippy::print_stdout, reason = "this is a command-line tool")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use kallisto_lsm::internals::BenchMemtable;

const COUNT: u64 = 400_000;

fn key(n: u64, random: u64) -> [u8; 16] {
    let mixed = n.wrapping_mul(random);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

fn row(name: &str, elapsed: Duration) {
    row_of(COUNT, name, elapsed);
}

fn row_of(count: u64, name: &str, elapsed: Duration) {
    println!("{name:32} {:>8.0} ns", elapsed.as_secs_f64() * 1e9 / count as f64);
}

/// The key of a record of a secret; its metadata have version 0.
fn secret_key(secret: u64, version: u64) -> [u8; 29] {
    let mut key = [0; 29];
    key[0] = 3;
    key[4] = 9;
    let mixed = (secret + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key[5..13].copy_from_slice(&mixed.to_be_bytes());
    key[13..21].copy_from_slice(&mixed.rotate_left(17).to_be_bytes());
    key[21..].copy_from_slice(&version.to_be_bytes());
    key
}

/// Writes of secrets that have ten versions, in any order, into memtables of the size of a server's.
fn versions() {
    const SECRETS: u64 = 1_000;
    const WRITES: u64 = 14_000;
    const TABLES: u64 = 30;
    let mut sample: Vec<_> = (0..SECRETS)
        .flat_map(|secret| [0, 10].map(|version| secret_key(secret, version).to_vec()))
        .collect();
    sample.sort();
    let (mut written, mut dice, mut took) = (vec![10; SECRETS as usize], 1_u64, Duration::ZERO);
    for _ in 0..TABLES {
        let mut table = BenchMemtable::new(16 << 20, sample.clone());
        let start = Instant::now();
        for _ in 0..WRITES {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let secret = (dice >> 33) % SECRETS;
            let version: &mut u64 = &mut written[secret as usize];
            *version += 1;
            table.put(&secret_key(secret, 0), &[7; 700]);
            table.put(&secret_key(secret, *version - 10), &[]);
            table.put(&secret_key(secret, *version), &[7; 190]);
        }
        took += start.elapsed();
    }
    row_of(WRITES * TABLES, "skip list, a version of a secret", took);
}

fn main() {
    versions();
    for (order, random) in [("sequential", 1), ("random", 0x9e37_79b9_7f4a_7c15)] {
        let mut sample: Vec<_> = (0..COUNT).step_by(997).map(|n| key(n, random).to_vec()).collect();
        sample.sort();
        let mut table = BenchMemtable::new(128 << 20, sample);
        let start = Instant::now();
        (0..COUNT).for_each(|n| table.put(&key(n, random), &[7; 128]));
        row(&format!("skip list put, {order}"), start.elapsed());
        let map = Mutex::new(BTreeMap::new());
        let start = Instant::now();
        for n in 0..COUNT {
            map.lock().unwrap().insert(key(n, random).to_vec(), vec![7; 128]);
        }
        row(&format!("Mutex<BTreeMap> put, {order}"), start.elapsed());
        let start = Instant::now();
        assert!((0..COUNT).all(|n| table.contains(&key(n.wrapping_mul(7919) % COUNT, random))));
        row(&format!("skip list get, {order}"), start.elapsed());
        let start = Instant::now();
        for n in 0..COUNT {
            let key = key(n.wrapping_mul(7919) % COUNT, random);
            assert!(map.lock().unwrap().get(&key[..]).cloned().is_some());
        }
        row(&format!("Mutex<BTreeMap> get, {order}"), start.elapsed());
        let start = Instant::now();
        assert!((COUNT..2 * COUNT).all(|n| !table.contains(&key(n, random))));
        row(&format!("skip list miss, {order}"), start.elapsed());
    }
}
