//! A path's hashes: one of its folder, and a short print of the whole.
//!
//! The folder's hash finds a hint (`hints`), the print stands for a path in its leaf page. Neither
//! decides anything: a hint is checked against the page it leads to, a print against the path. So
//! the hash is fast, not keyed; someone who makes prints collide on purpose turns one lookup into
//! at most a leaf's worth of comparisons.

use crate::packed::be_word;

/// A path and its two hashes.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    pub(crate) bytes: &'a [u8],
    /// Hash of the bytes before the last slash, never zero.
    pub(crate) folder: u32,
    /// Short hash of all bytes, never zero.
    pub(crate) print: u16,
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
fn hash(bytes: &[u8], seed: u64) -> u64 {
    let mut sum = seed ^ bytes.len() as u64;
    let mut at = 0;
    while at < bytes.len() {
        sum = mix(sum ^ be_word(bytes, at));
        at += 8;
    }
    mix(sum)
}

impl<'a> Key<'a> {
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let slash = bytes.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        let (folder, name) = bytes.split_at(slash);
        let folder = hash(folder, SEED);
        let whole = hash(name, folder);
        Self { bytes, folder: ((folder >> 32) as u32).max(1), print: ((whole >> 48) as u16).max(1) }
    }
}
