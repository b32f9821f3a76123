//! What a million leases cost in memory and in time: `cargo run --release -p kallisto-leases --example lease_memory
//! -- [shared|apart] [start]`.
//!
//! Ids have about 60 bytes, and each lease has an owner of its own; with `apart` a path of its own as well; with `start` they are
//! gathered as at a start.
//! What is resident is read from the kernel, so it includes what the allocator adds.

use std::time::{Duration, Instant};

use kallisto_cuckoo::siphash::SipKey;
use kallisto_leases::{GatheredLeases, LeaseId, LeaseRecord, LeaseState, LeaseTable, Owner, Term};

const LEASES: usize = 1_000_000;
const PAGE_BYTES: usize = 4096;

/// Resident bytes of this process.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0) * PAGE_BYTES
}

fn record(number: usize, paths: usize, random: &mut fastrand::Rng) -> LeaseRecord {
    let path = format!("database/creds/team-{:07}/readonly", number % paths);
    let unique: String = (0..24).map(|_| random.alphanumeric()).collect();
    let mut hash = [0; 32];
    random.fill(&mut hash);
    let issued_ns = number as i64 * 1_000_000;
    let life_ns = random.i64(3_600..86_400) * 1_000_000_000;
    LeaseRecord {
        id: LeaseId::new(&path, &unique).expect("a path and 24 characters"),
        mount: 20,
        owner: Some(Owner { namespace: 0, hash }),
        term: Term {
            issued_ns,
            expires_ns: issued_ns + life_ns,
            expires_ns_max: issued_ns + life_ns,
            renewed_ns: None,
            ttl_secs: 3600,
            renewable: true,
        },
        state: LeaseState::Live,
        revocation: Vec::new(),
    }
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#[expect(clippy::print_stdout, reason = "its output is the measurement")]
fn measure(name: &str, paths: usize, is_start: bool) {
    let mut random = fastrand::Rng::with_seed(1);
    let id_bytes = record(0, paths, &mut random).id.as_str().len();
    let before = resident();
    let mut table = LeaseTable::new(SipKey::from_bytes([1; 16]));
    let mut gathered = GatheredLeases::default();
    let mut took = Duration::ZERO;
    for number in 0..LEASES {
        let record = record(number, paths, &mut random);
        let begin = Instant::now();
        let has_room = match is_start {
            true => table.gather(0, &record, &mut gathered),
            false => table.put(0, &record),
        };
        took += begin.elapsed();
        assert!(has_room, "there is room for all");
    }
    let begin = Instant::now();
    table.settle(gathered);
    took += begin.elapsed();
    let bytes = (resident() - before) / LEASES;
    println!("{name}: {bytes} bytes a lease with ids of {id_bytes}, {} ms", took.as_millis());
}

fn main() {
    // One a run: what the first gave back the second would fill again.
    let mut words = std::env::args().skip(1);
    let (paths, is_start) = (words.next(), words.next());
    match paths.as_deref() {
        Some("apart") => measure("a path each", LEASES, is_start.is_some()),
        _ => measure("100 paths", 100, is_start.is_some()),
    }
}
