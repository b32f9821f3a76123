//! Strings as big-endian words, the last one padded with zeros.
//!
//! A path holds no NUL, so the padding sorts before every byte and is no byte of any path:
//! comparing words is comparing bytes, eight at a time, and a string's end needs no length.
//! Arrays of sixteen-bit numbers are packed too, four lanes to a word, lane 0 lowest.

use std::cmp::Ordering;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// A word of a page: shared and atomic, or in a private copy.
pub(crate) trait PageWord {
    fn load(&self) -> u64;

    /// Loads the word before all that is loaded after it.
    fn load_first(&self) -> u64;
}

impl PageWord for AtomicU64 {
    #[inline(always)]
    fn load(&self) -> u64 {
        // Relaxed: a page's reader orders its loads by the fence in `Snapshot::is_intact`.
        self.load(Relaxed)
    }

    #[inline(always)]
    fn load_first(&self) -> u64 {
        self.load(Acquire)
    }
}

impl PageWord for u64 {
    #[inline(always)]
    fn load(&self) -> u64 {
        *self
    }

    #[inline(always)]
    fn load_first(&self) -> u64 {
        *self
    }
}

/// The word at `at`; zero past the end, where only a reader of a recycled page ever looks.
#[inline(always)]
pub(crate) fn word_at<C: PageWord>(words: &[C], at: usize) -> u64 {
    words.get(at).map_or(0, PageWord::load)
}

/// `len` words from `from` on, or none at all where they are not there.
#[inline(always)]
pub(crate) fn part<C>(words: &[C], from: usize, len: usize) -> &[C] {
    words.get(from..from + len).unwrap_or(&[])
}

/// Eight bytes of `bytes` from `at` on, big-endian, zeros past the end.
#[inline(always)]
pub(crate) fn be_word(bytes: &[u8], at: usize) -> u64 {
    if let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        return u64::from_be_bytes(*eight);
    }
    let left = bytes.len().saturating_sub(at);
    match bytes.last_chunk::<8>() {
        // The last eight bytes, those before `at` shifted out.
        Some(last) if left > 0 => u64::from_be_bytes(*last) << (64 - 8 * left),
        _ => {
            bytes
                .iter()
                .skip(at)
                .fold((0, 64), |(word, shift), &byte| {
                    (word | u64::from(byte) << (shift - 8), shift - 8)
                })
                .0
        }
    }
}

/// Appends `bytes` packed.
pub(crate) fn push_packed(words: &mut Vec<u64>, bytes: &[u8]) {
    words.extend((0..bytes.len().div_ceil(8)).map(|word| be_word(bytes, 8 * word)));
}

/// Appends the bytes packed in `words`, the padding left out.
pub(crate) fn push_unpacked<C: PageWord>(bytes: &mut Vec<u8>, words: &[C]) {
    let Some((last, full)) = words.split_last() else { return };
    for word in full {
        bytes.extend_from_slice(&word.load().to_be_bytes());
    }
    let last = last.load();
    let len = 8 - last.trailing_zeros() as usize / 8;
    bytes.extend_from_slice(&last.to_be_bytes()[..len]);
}

/// Bytes packed in `words`, the padding left out.
fn unpacked_len<C: PageWord>(words: &[C]) -> usize {
    words.last().map_or(0, |last| 8 * words.len() - last.load().trailing_zeros() as usize / 8)
}

/// Appends what `from` packs, its first `dropped` bytes left out.
pub(crate) fn push_shifted<C: PageWord>(words: &mut Vec<u64>, from: &[C], dropped: usize) {
    if dropped == 0 {
        return words.extend(from.iter().map(PageWord::load));
    }
    let left = unpacked_len(from).saturating_sub(dropped).div_ceil(8);
    let (skipped, shift) = (dropped / 8, 8 * (dropped % 8));
    words.extend((skipped..skipped + left).map(|at| match shift {
        0 => word_at(from, at),
        _ => word_at(from, at) << shift | word_at(from, at + 1) >> (64 - shift),
    }));
}

/// How two packed strings compare.
pub(crate) fn compare_packed<C: PageWord>(left: &[C], right: &[C]) -> Ordering {
    left.iter().map(PageWord::load).cmp(right.iter().map(PageWord::load))
}

/// Bytes two packed strings have in common at the front.
pub(crate) fn common_bytes_packed<C: PageWord>(left: &[C], right: &[C]) -> usize {
    let pairs = left.iter().zip(right).map(|(left, right)| left.load() ^ right.load());
    let unequal = pairs.enumerate().find(|&(_, difference)| difference != 0);
    unequal.map_or_else(
        || unpacked_len(left).min(unpacked_len(right)),
        |(word, difference)| 8 * word + difference.leading_zeros() as usize / 8,
    )
}

/// Whether `bytes` from `at` on are what `words` hold.
#[inline(always)]
pub(crate) fn equals<C: PageWord>(words: &[C], bytes: &[u8], at: usize) -> bool {
    bytes.len().saturating_sub(at).div_ceil(8) == words.len()
        && words.iter().enumerate().all(|(i, word)| word.load() == be_word(bytes, at + 8 * i))
}

/// How what `words` hold compares with `bytes` from `at` on.
#[inline]
pub(crate) fn compare<C: PageWord>(words: &[C], bytes: &[u8], at: usize) -> Ordering {
    let left = bytes.len().saturating_sub(at).div_ceil(8);
    for (i, word) in words.iter().enumerate().take(left) {
        match word.load().cmp(&be_word(bytes, at + 8 * i)) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
    }
    words.len().cmp(&left)
}

/// How `bytes` compare with the prefix packed in `words`; equal: they start with it.
#[inline(always)]
pub(crate) fn compare_prefix<C: PageWord>(
    bytes: &[u8],
    words: &[C],
    prefix_bytes: usize,
) -> Ordering {
    for (i, word) in words.iter().enumerate() {
        let spare = (8 * (i + 1)).saturating_sub(prefix_bytes);
        let mask = if spare < 8 { u64::MAX << (8 * spare) } else { 0 };
        match (be_word(bytes, 8 * i) & mask).cmp(&word.load()) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
    }
    Ordering::Equal
}

/// Bytes two strings have in common at the front.
pub(crate) fn common_bytes(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

/// Lanes in a word.
pub(crate) const LANES: usize = 4;

const LANE_ONES: u64 = 0x0001_0001_0001_0001;
const LANE_LOW_BITS: u64 = 0x7FFF_7FFF_7FFF_7FFF;

/// Lane `at` of the lanes in `words`.
#[inline(always)]
pub(crate) fn lane<C: PageWord>(words: &[C], at: usize) -> u16 {
    (word_at(words, at / LANES) >> (16 * (at % LANES))) as u16
}

/// The same number in all four lanes.
#[inline(always)]
pub(crate) fn in_all_lanes(value: u16) -> u64 {
    u64::from(value) * LANE_ONES
}

/// The top bit of each lane that is zero, and no other bit.
#[inline(always)]
pub(crate) fn zero_lanes(word: u64) -> u64 {
    !(((word & LANE_LOW_BITS) + LANE_LOW_BITS) | word | LANE_LOW_BITS)
}

/// Appends `lanes` packed.
pub(crate) fn push_lanes(words: &mut Vec<u64>, lanes: &[u16]) {
    words.extend(
        lanes
            .chunks(LANES)
            .map(|four| four.iter().rev().fold(0, |word, &lane| word << 16 | u64::from(lane))),
    );
}

/// Bits of the lanes below `lane` of a word.
fn lanes_below(lane: usize) -> u64 {
    (1 << (16 * lane)) - 1
}

/// Appends `count` lanes of `from` with `value` put in front of lane `at`.
pub(crate) fn push_lanes_with<C: PageWord>(
    words: &mut Vec<u64>,
    from: &[C],
    count: usize,
    at: usize,
    value: u16,
) {
    let (first, lane) = (at / LANES, at % LANES);
    words.extend(from[..first].iter().map(PageWord::load));
    let word = word_at(from, first);
    let low = lanes_below(lane);
    words.push(word & low | u64::from(value) << (16 * lane) | (word & !low) << 16);
    let mut carry = word >> 48;
    for i in first + 1..(count + 1).div_ceil(LANES) {
        let word = word_at(from, i);
        words.push(word << 16 | carry);
        carry = word >> 48;
    }
}

/// Adds `delta` (modulo 2^16) to the lanes from `at` on.
pub(crate) fn add_to_lanes(words: &mut [u64], at: usize, delta: u16) {
    let delta = in_all_lanes(delta);
    for (i, word) in words.iter_mut().enumerate().skip(at / LANES) {
        let spared = if i == at / LANES { lanes_below(at % LANES) } else { 0 };
        let delta = delta & !spared;
        // The top bits are added without their carry, which would reach the next lane.
        *word = ((*word & LANE_LOW_BITS) + (delta & LANE_LOW_BITS))
            ^ ((*word ^ delta) & !LANE_LOW_BITS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SplitMix;

    fn packed(bytes: &[u8]) -> Vec<u64> {
        let mut words = Vec::new();
        push_packed(&mut words, bytes);
        words
    }

    #[test]
    fn words_compare_as_bytes_do() {
        let mut dice = SplitMix::new(1);
        for _ in 0..4000 {
            let mut draw =
                || -> Vec<u8> { (0..dice.below(20)).map(|_| 1 + dice.byte_below(3)).collect() };
            let (left, right) = (draw(), draw());
            let words = packed(&left);
            assert_eq!(compare(&words, &right, 0), left.cmp(&right), "{left:?} {right:?}");
            assert_eq!(equals(&words, &right, 0), left == right);
            let order = compare_prefix(&right, &words, left.len());
            assert_eq!(order.is_eq(), right.starts_with(&left), "{left:?} {right:?}");
            if order.is_ne() {
                assert_eq!(order, right.cmp(&left), "{left:?} {right:?}");
            }
            let other = packed(&right);
            assert_eq!(compare_packed(&words, &other), left.cmp(&right));
            assert_eq!(common_bytes_packed(&words, &other), common_bytes(&left, &right));
            for dropped in 0..=left.len() {
                let mut shifted = Vec::new();
                push_shifted(&mut shifted, &words, dropped);
                assert_eq!(shifted, packed(&left[dropped..]), "{left:?} without {dropped}");
            }
            let mut back = Vec::new();
            push_unpacked(&mut back, &words);
            assert_eq!(back, left);
        }
    }

    #[test]
    fn a_word_may_start_anywhere() {
        let bytes: Vec<u8> = (1..=20).collect();
        for at in 0..24 {
            let mut eight = [0; 8];
            for (to, from) in eight.iter_mut().zip(bytes.iter().skip(at)) {
                *to = *from;
            }
            assert_eq!(be_word(&bytes, at), u64::from_be_bytes(eight), "at {at}");
        }
        assert_eq!(be_word(b"abc", 1), u64::from_be_bytes(*b"bc\0\0\0\0\0\0"));
        assert_eq!(be_word(b"", 0), 0);
    }

    #[test]
    fn lanes_insert_remove_and_match() {
        for count in 0..13_usize {
            let lanes: Vec<u16> = (0..count as u16).map(|lane| 0x7FFE + lane).collect();
            let mut words = Vec::new();
            push_lanes(&mut words, &lanes);
            for at in 0..=count {
                let (mut with, mut want) = (Vec::new(), lanes.clone());
                push_lanes_with(&mut with, &words, count, at, 9);
                want.insert(at, 9);
                assert!((0..=count).all(|i| lane(&with, i) == want[i]), "{count} {at}");
                assert_eq!(with.len(), (count + 1).div_ceil(LANES));
                for delta in [3, 3_u16.wrapping_neg()] {
                    let mut moved = with.clone();
                    add_to_lanes(&mut moved, at, delta);
                    let added = |i: usize| if i < at { 0 } else { delta };
                    let fits = |i: usize| lane(&moved, i) == want[i].wrapping_add(added(i));
                    assert!((0..=count).all(fits), "{count} {at}");
                }
            }
        }
        let word = 0x0001_0000_8000_0000;
        assert_eq!(zero_lanes(word), 0x0000_8000_0000_8000);
        assert_eq!(zero_lanes(in_all_lanes(7) ^ in_all_lanes(7)), 0x8000_8000_8000_8000);
    }
}
