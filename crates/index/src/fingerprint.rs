//! A path's hash, and the short fingerprint of a path that is taken from it.
//!
//! Fingerprints stand for paths in the `membership_filter` and side by side in a `leaf`. They decide nothing: what
//! is there is settled by comparing the path. So the hash is fast, not keyed; someone who makes
//! fingerprints collide on purpose turns a refusal at the membership filter into a walk down the tree, and a look
//! at a leaf into at most a leaf's worth of comparisons.

use crate::packed::{be_word, in_all_lanes};

/// A path and its hash.
#[derive(Clone, Copy)]
pub(crate) struct HashedPath<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) hash: u64,
    /// Sixteen bits of the hash, neither all zero (no fingerprint) nor all one (any fingerprint).
    pub(crate) fingerprint: u16,
}

const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
const SEED: u64 = 0xD6E8_FEB8_6659_FD93;

/// Both halves of the product, folded: every bit of `word` reaches every bit of the result.
#[inline(always)]
fn mix(word: u64) -> u64 {
    let product = u128::from(word) * u128::from(ODD);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn hash(bytes: &[u8]) -> u64 {
    let mut sum = SEED ^ bytes.len() as u64;
    let mut at = 0;
    while at < bytes.len() {
        sum = mix(sum ^ be_word(bytes, at));
        at += 8;
    }
    mix(sum)
}

impl<'a> HashedPath<'a> {
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, ..Self::of_hash(hash(bytes)) }
    }

    /// The key of a path of which only the hash is known.
    #[inline(always)]
    pub(crate) fn of_hash(hash: u64) -> Self {
        Self { bytes: &[], hash, fingerprint: (hash as u16).clamp(1, 0xFFFE) }
    }

    /// The fingerprint in all lanes of a word.
    #[inline(always)]
    pub(crate) fn fingerprints(&self) -> u64 {
        in_all_lanes(self.fingerprint)
    }
}
