//! Codes of keys: 32 bits that order as the keys do, and tell most of them apart.
//!
//! Keys of one kind share a long start and differ soon behind it, and a store has several kinds of keys. What such a
//! group shares is a *shared prefix*. A code says first whether the key is under a prefix, before, between or behind them, and then
//! the 27 bits that come after the prefix:
//!
//! ```text
//! under prefix n   2n + 1 (5 bits) | the next 27 bits of the key
//! before prefix n  2n              | 0
//! ```
//!
//! Prefixes are learned from keys that were there before ([`SharedPrefixes::learn`]). Prefixes that do not fit the keys to come cost
//! speed and nothing else: different keys may have the same code.
//!
//! Invariants:
//! - of two keys the lower one has the lower code, or both have the same;
//! - prefixes are sorted, and none starts with another.

use crate::common_prefix::common_prefix;

/// Prefixes of a list, and the least share of the sample that one stands for.
const PREFIXES_MAX: usize = 8;
/// Bits of a code that say where the key is among the prefixes.
const SLOT_BITS: u32 = (2 * PREFIXES_MAX as u32 + 1).next_power_of_two().trailing_zeros();
/// Bits of a code that come from behind the prefix.
const REST_BITS: u32 = u32::BITS - SLOT_BITS;

/// What groups of keys start with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedPrefixes(Vec<Vec<u8>>);

impl SharedPrefixes {
    /// The prefixes of keys like those of a sample, which is sorted; none if it is empty.
    pub(crate) fn learn(mut sample: Vec<Vec<u8>>) -> Self {
        sample.dedup();
        let group_min = sample.len().div_ceil(PREFIXES_MAX);
        let mut prefixes = Vec::new();
        // Each step goes at least one byte deeper into a group, and a group is at least an eighth of the sample.
        let mut open = vec![&sample[..]];
        while let Some(keys) = open.pop() {
            let (Some(first), Some(last)) = (keys.first(), keys.last()) else { continue };
            let shared = common_prefix(first, last);
            let groups = match is_told_apart(keys, shared) {
                true => Vec::new(),
                false => groups(keys, shared, group_min),
            };
            if groups.is_empty() {
                prefixes.push(first[..shared].to_vec());
            }
            open.extend(groups);
        }
        prefixes.sort();
        // A key that ends where others go on is a group of its own, and the shared prefix of the others starts with it.
        prefixes.dedup_by(|later, earlier| later.starts_with(earlier));
        Self(prefixes)
    }

    /// Whether nothing was learned.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The code of a key.
    #[inline]
    pub(crate) fn code(&self, key: &[u8]) -> u32 {
        let mut slot = 0;
        for prefix in &self.0 {
            if let Some(rest) = key.strip_prefix(prefix.as_slice()) {
                return (slot + 1) << REST_BITS | next_bits(rest);
            }
            if key < prefix.as_slice() {
                break;
            }
            slot += 2;
        }
        slot << REST_BITS
    }
}

/// Whether codes behind what the keys share would tell at least every second one from the one before.
fn is_told_apart(keys: &[Vec<u8>], shared: usize) -> bool {
    let mut codes: Vec<u32> = keys.iter().map(|key| next_bits(&key[shared..])).collect();
    codes.dedup();
    codes.len() > 1 && codes.len() * 2 >= keys.len()
}

/// The runs of keys with the same byte behind what all of them share, those of at least `group_min` keys.
fn groups(keys: &[Vec<u8>], shared: usize, group_min: usize) -> Vec<&[Vec<u8>]> {
    let runs = keys.chunk_by(|a, b| a.get(shared) == b.get(shared));
    runs.filter(|run| run.len() >= group_min && run.len() < keys.len()).collect()
}

/// The first bits of `rest`, zeros behind its end.
#[inline]
fn next_bits(rest: &[u8]) -> u32 {
    let word = match rest.first_chunk() {
        Some(bytes) => u32::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 4];
            bytes[..rest.len()].copy_from_slice(rest);
            u32::from_be_bytes(bytes)
        }
    };
    word >> SLOT_BITS
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn hashed(start: &[u8], count: usize, dice: &mut fastrand::Rng) -> Vec<Vec<u8>> {
        (0..count).map(|_| [start, &dice.u128(..).to_be_bytes()].concat()).collect()
    }

    #[test]
    fn each_kind_of_keys_has_a_stem() {
        let mut dice = fastrand::Rng::with_seed(1);
        let mut sample = hashed(b"\x01\x11\0\0\0\x05", 400, &mut dice);
        sample.extend(hashed(b"\x01\x04", 400, &mut dice));
        sample.extend(hashed(b"\x01\x07\0\0\0\x02", 100, &mut dice));
        sample.extend([b"\0\x01".to_vec(), b"\x03".to_vec()]);
        sample.sort();
        let prefixes = SharedPrefixes::learn(sample);
        assert_eq!(prefixes.0, [&b"\x01\x04"[..], b"\x01\x11\0\0\0\x05"]);
    }

    #[test]
    fn versions_of_one_secret_share_a_code_and_secrets_do_not() {
        let mut dice = fastrand::Rng::with_seed(2);
        let mut sample = Vec::new();
        for secret in hashed(b"\x01\x11\0\0\0\x05", 90, &mut dice) {
            sample.extend((0..11u64).map(|version| [&secret[..], &version.to_be_bytes()].concat()));
        }
        sample.sort();
        let prefixes = SharedPrefixes::learn(sample.clone());
        assert_eq!(prefixes.0, [b"\x01\x11\0\0\0\x05"]);
        let mut codes: Vec<u32> = sample.iter().map(|key| prefixes.code(key)).collect();
        codes.dedup();
        assert_eq!(codes.len(), 90);
    }

    #[test]
    fn one_key_and_one_that_starts_the_others_are_samples_too() {
        assert!(SharedPrefixes::learn(vec![]).is_empty());
        assert_eq!(SharedPrefixes::learn(vec![b"k".to_vec(); 9]).0, [b"k"]);
        let mut sample: Vec<_> = (0..40u8).map(|n| vec![b'a', n / 30, n]).collect();
        sample.insert(0, b"a".to_vec());
        assert_eq!(SharedPrefixes::learn(sample).0, [b"a"]);
    }

    /// The invariants, over keys of few letters and samples that need not be like them.
    #[test]
    fn codes_order_as_keys_do() {
        let mut dice = fastrand::Rng::with_seed(3);
        let letters = [0, 0, 1, 7, 255];
        let random = |dice: &mut fastrand::Rng| -> Vec<u8> {
            (0..dice.usize(..9)).map(|_| letters[dice.usize(..letters.len())]).collect()
        };
        for _ in 0..400 {
            let mut sample: Vec<_> = (0..dice.usize(..60)).map(|_| random(&mut dice)).collect();
            sample.sort();
            let prefixes = SharedPrefixes::learn(sample);
            assert!(prefixes.0.len() <= PREFIXES_MAX);
            assert!(prefixes.0.is_sorted());
            assert!(prefixes.0.windows(2).all(|pair| !pair[1].starts_with(&pair[0])));
            let mut keys: Vec<_> = (0..200).map(|_| random(&mut dice)).collect();
            keys.sort();
            assert!(keys.iter().map(|key| prefixes.code(key)).is_sorted(), "{prefixes:?}");
        }
    }
}
