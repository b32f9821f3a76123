//! The Bloom filter of an SST: says "certainly not here" without reading a block.
//!
//! Blocked: all bits of a key lie in one 64-byte cache line, so a question costs one memory access where a standard
//! filter costs up to seven. It is built last, when the number of keys is known, and stays in memory while the file is
//! live.
//!
//! ```text
//! filter := line of 64 bytes * n | probes u8
//! line of a key  := high half of hash * n >> 32
//! bits of a key  := nine top bits of (low half of hash) * 0x9e3779b9^i, for i in 0..probes
//! ```
//!
//! Putze, Sanders, Singler, "Cache-, hash- and space-efficient Bloom filters" (2007).
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use super::block::DamagedBlock;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// The same as words.
const LINE_WORDS: usize = LINE_BYTES / 8;
/// Bits that name a bit in a line.
const BIT_BITS: u32 = 9;
/// The most probes worth their time.
const PROBES_MAX: u8 = 16;
/// Spreads the probes of one key over its line.
const SPREAD: u32 = 0x9e37_79b9;

/// A line, at the place of one in memory: unaligned it would lie in two, and cost two accesses.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct FilterLine([u64; LINE_WORDS]);

impl FilterLine {
    fn decode(bytes: &[u8; LINE_BYTES]) -> Self {
        let mut words = [0; LINE_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Self(words)
    }
}

/// A filter in memory.
#[derive(Debug)]
pub(crate) struct SstFilter {
    lines: Vec<FilterLine>,
    probes: u8,
}

impl SstFilter {
    /// A filter for exactly these key hashes, with `bits_per_key` bits for each.
    pub(crate) fn build(hashes: &[u64], bits_per_key: usize) -> Self {
        let bits = (hashes.len() * bits_per_key).max(1);
        let mut lines = vec![FilterLine([0; LINE_WORDS]); bits.div_ceil(LINE_BYTES * 8)];
        let probes = u8::try_from(bits_per_key * 6 / 10).unwrap_or(PROBES_MAX).clamp(1, PROBES_MAX);
        for &hash in hashes {
            let at = line_of(hash, lines.len());
            let Some(line) = lines.get_mut(at) else { continue };
            for (word, bit) in bits_of(hash, probes) {
                if let Some(word) = line.0.get_mut(word) {
                    *word |= bit;
                }
            }
        }
        Self { lines, probes }
    }

    /// Whether a key with this hash may be in the file.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let Some(line) = self.lines.get(line_of(hash, self.lines.len())) else { return true };
        // All probes, without a look after each: they are in one line, and a wrong guess costs more than they do.
        let missing = bits_of(hash, self.probes)
            .fold(0, |missing, (word, bit)| missing | bit & !line.0.get(word).unwrap_or(&0));
        missing == 0
    }

    /// Its bytes in a file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let words = self.lines.iter().flat_map(|line| line.0);
        let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        bytes.push(self.probes);
        bytes
    }

    /// Reads it back.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DamagedBlock> {
        let (&probes, lines) = bytes.split_last().ok_or(DamagedBlock)?;
        let (lines, rest) = lines.as_chunks::<LINE_BYTES>();
        if lines.is_empty() || !rest.is_empty() || !(1..=PROBES_MAX).contains(&probes) {
            return Err(DamagedBlock);
        }
        Ok(Self { lines: lines.iter().map(FilterLine::decode).collect(), probes })
    }

    /// The memory it takes, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES
    }
}

#[inline]
fn line_of(hash: u64, lines: usize) -> usize {
    let place = (hash >> 32).wrapping_mul(lines as u64) >> 32;
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// The word in the line and the bit in the word of each probe.
#[inline]
fn bits_of(hash: u64, probes: u8) -> impl Iterator<Item = (usize, u64)> {
    let [a, b, c, d, ..] = hash.to_le_bytes();
    let mut state = u32::from_le_bytes([a, b, c, d]);
    (0..probes).map(move |_| {
        let place = state >> (u32::BITS - BIT_BITS);
        state = state.wrapping_mul(SPREAD);
        ((place >> 6) as usize, 1 << (place & 63))
    })
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "tests index what they built"
    )]
    use super::*;
    use crate::hash::key_hash;

    fn hashes(range: std::ops::Range<u64>) -> Vec<u64> {
        range.map(|n| key_hash(&n.to_be_bytes())).collect()
    }

    /// The textbook filter, to compare with: probes anywhere in one large array.
    fn standard_rate(present: &[u64], absent: &[u64], bits_per_key: usize) -> f64 {
        let bits = present.len() * bits_per_key;
        let mut set = vec![false; bits];
        let probes = bits_per_key * 69 / 100;
        let places = |hash: u64| {
            let step = hash.rotate_left(32) | 1;
            (0..probes as u64)
                .map(move |n| (hash.wrapping_add(n.wrapping_mul(step)) % bits as u64) as usize)
        };
        for &hash in present {
            places(hash).for_each(|place| set[place] = true);
        }
        let lies = absent.iter().filter(|&&hash| places(hash).all(|place| set[place])).count();
        lies as f64 / absent.len() as f64
    }

    #[test]
    fn the_bloom_filter_is_sized_to_the_real_key_count() {
        for keys in [1, 100, 10_000, 200_000] {
            let present = hashes(0..keys);
            let absent = hashes(1_000_000..1_100_000);
            let filter = SstFilter::build(&present, 10);
            let filter = SstFilter::decode(&filter.encode()).unwrap();
            assert!(present.iter().all(|&hash| filter.may_contain(hash)));
            let lies = absent.iter().filter(|&&hash| filter.may_contain(hash)).count();
            let rate = lies as f64 / absent.len() as f64;
            assert!(rate < 0.0125, "{rate} for {keys} keys");
            assert!(filter.memory_bytes() as u64 <= keys * 10 / 8 + 64);
            if keys > 1000 {
                let standard = standard_rate(&present, &absent, 10);
                assert!(rate < standard * 1.5, "blocked {rate}, standard {standard}");
            }
        }
    }

    #[test]
    fn more_bits_lie_less() {
        let present = hashes(0..100_000);
        let absent = hashes(1_000_000..1_200_000);
        let rates: Vec<usize> = [8, 10, 12, 16, 20]
            .map(|bits| {
                let filter = SstFilter::build(&present, bits);
                absent.iter().filter(|&&hash| filter.may_contain(hash)).count()
            })
            .to_vec();
        assert!(rates.is_sorted_by(|a, b| a > b), "{rates:?} of 200,000");
        assert!(rates[4] < 200, "{rates:?} of 200,000");
    }

    #[test]
    fn hostile_filters_never_panic() {
        for len in 0..300 {
            for probes in [0, 1, 16, 17, 255] {
                let mut bytes = vec![0xa5; len];
                bytes.push(probes);
                if let Ok(filter) = SstFilter::decode(&bytes) {
                    filter.may_contain(u64::MAX);
                }
            }
        }
        assert_eq!(SstFilter::decode(&[]).err(), Some(DamagedBlock));
    }

    #[test]
    fn probes_and_lines_are_what_the_bits_for_a_key_ask_for() {
        for (bits, probes) in [(1, 1), (3, 1), (10, 6), (11, 6), (16, 9), (20, 12), (30, 16)] {
            assert_eq!(SstFilter::build(&hashes(0..3), bits).probes, probes, "{bits} bits");
        }
        for (keys, lines) in [(0, 1), (1, 1), (51, 1), (52, 2), (103, 3)] {
            let filter = SstFilter::build(&hashes(0..keys), 10);
            assert_eq!(filter.memory_bytes(), lines * LINE_BYTES, "{keys} keys");
            assert_eq!(filter.encode().len(), lines * LINE_BYTES + 1);
        }
    }

    #[test]
    fn what_makes_no_filter_is_damage() {
        let with = |len: usize, probes: u8| {
            let mut bytes = vec![0; len];
            bytes.push(probes);
            SstFilter::decode(&bytes).is_ok()
        };
        assert!(with(64, 1) && with(128, 16));
        assert!(!with(0, 1) && !with(63, 1) && !with(65, 1) && !with(64, 0) && !with(64, 17));
    }
}
