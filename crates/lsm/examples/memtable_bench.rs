//! The memtable beside a `BTreeMap` behind a mutex: 400,000 entries of 16 + 128 bytes, one thread.
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
    println!("{name:32} {:>8.0} ns", elapsed.as_secs_f64() * 1e9 / COUNT as f64);
}

fn main() {
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
