//! The blocked filter beside a standard one of the same size: how fast each says no and yes, and how often it lies.
//!
//! Five million keys, so that neither filter fits in a core's cache. Rounds alternate, the median counts.
#![expect(clippy::print_stdout, reason = "this is a command-line tool")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use kallisto_lsm::internals::BenchFilter;

const KEYS: u64 = 5_000_000;
const QUESTIONS: u64 = 2_000_000;
const ROUNDS: usize = 7;
const BITS_PER_KEY: u64 = 10;
/// What ten bits a key are best asked with.
const PROBES: u64 = 7;

/// The textbook filter: probes anywhere in one array.
struct Standard(Vec<u64>);

impl Standard {
    fn new() -> Self {
        let mut this = Self(vec![0; (KEYS * BITS_PER_KEY / 64) as usize]);
        for key in 0..KEYS {
            for (word, bit) in this.places(BenchFilter::hash(key)) {
                this.0[word] |= bit;
            }
        }
        this
    }

    /// Double hashing, and a multiplication in place of a division.
    fn places(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (bits, step) = (self.0.len() as u64 * 64, hash.rotate_left(32) | 1);
        (0..PROBES).map(move |n| {
            let mixed = hash.wrapping_add(n.wrapping_mul(step));
            let place = ((u128::from(mixed) * u128::from(bits)) >> 64) as u64;
            ((place / 64) as usize, 1 << (place % 64))
        })
    }

    fn may_contain(&self, hash: u64) -> bool {
        self.places(hash).all(|(word, bit)| self.0[word] & bit != 0)
    }
}

/// Nanoseconds of a question about keys from `start` on, and the share of yes.
fn ask(start: u64, may_contain: impl Fn(u64) -> bool) -> (f64, f64) {
    let began = Instant::now();
    // Not in the order in which they were built in.
    let keys = (0..QUESTIONS).map(|n| start + n.wrapping_mul(7_919_777) % KEYS);
    let yes = keys.filter(|key| may_contain(black_box(BenchFilter::hash(*key)))).count();
    (began.elapsed().as_nanos() as f64 / QUESTIONS as f64, yes as f64 / QUESTIONS as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let blocked = BenchFilter::new(0..KEYS, BITS_PER_KEY as usize);
    let standard = Standard::new();
    let mut nanos: [Vec<f64>; 4] = Default::default();
    let mut lies = [0.0; 2];
    for _ in 0..ROUNDS {
        let (no_blocked, lies_blocked) = ask(KEYS, |hash| blocked.may_contain(hash));
        let (no_standard, lies_standard) = ask(KEYS, |hash| standard.may_contain(hash));
        let (yes_blocked, all) = ask(0, |hash| blocked.may_contain(hash));
        assert!(all == 1.0, "a filter never denies a key");
        let (yes_standard, all) = ask(0, |hash| standard.may_contain(hash));
        assert!(all == 1.0, "a filter never denies a key");
        for (row, value) in
            nanos.iter_mut().zip([no_blocked, no_standard, yes_blocked, yes_standard])
        {
            row.push(value);
        }
        lies = [lies_blocked, lies_standard];
    }
    let [no_blocked, no_standard, yes_blocked, yes_standard] = nanos.map(median);
    println!("| filter | no, ns | yes, ns | lies |\n|---|---:|---:|---:|");
    println!("| blocked | {no_blocked:.1} | {yes_blocked:.1} | {:.2} % |", lies[0] * 100.0);
    println!("| standard | {no_standard:.1} | {yes_standard:.1} | {:.2} % |", lies[1] * 100.0);
}
