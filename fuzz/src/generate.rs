//! The n-th input of a seed: bytes at random, words of the target's dictionary, or an input of the
//! corpus changed a little.
//!
//! Nothing here remembers anything: the same corpus, seed and number give the same bytes.

use crate::corpus::Seed;

/// Longest input made, in bytes.
pub(crate) const INPUT_BYTES_MAX: usize = 4096;
/// Most changes to one input of the corpus.
const CHANGES_MAX: u64 = 8;
/// Longest stretch that one change inserts, copies or takes out, in bytes.
const STRETCH_BYTES_MAX: u64 = 64;
/// Most words strung together.
const WORDS_MAX: u64 = 48;
/// Bytes at the edges of what types and formats can say.
const EDGES: [u8; 8] = [0x00, 0x01, 0x20, 0x7f, 0x80, 0xc0, 0xfe, 0xff];

/// SplitMix64: small, seedable, and good enough to draw inputs.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `end`, which is not zero.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    /// A place in something of `len` parts, its end included.
    fn place(&mut self, len: usize) -> usize {
        self.below(len as u64 + 1) as usize
    }

    fn choose<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        match from.len() {
            0 => None,
            len => from.get(self.below(len as u64) as usize),
        }
    }
}

/// Input `number` of `seed`.
pub(crate) fn input(seed: u64, number: u64, corpus: &[Seed], words: &[&[u8]]) -> Vec<u8> {
    let mut dice = Dice::new(seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
    let mut bytes = match dice.below(8) {
        0 => noise(&mut dice),
        1 | 2 => sentence(&mut dice, words),
        _ => match dice.choose(corpus) {
            Some(seed) => {
                let mut bytes = seed.bytes.clone();
                for _ in 0..=dice.below(CHANGES_MAX) {
                    change(&mut bytes, &mut dice, corpus, words);
                }
                bytes
            }
            None => noise(&mut dice),
        },
    };
    bytes.truncate(INPUT_BYTES_MAX);
    bytes
}

/// Random bytes, more often few than many.
fn noise(dice: &mut Dice) -> Vec<u8> {
    let longest = (INPUT_BYTES_MAX as u64) >> dice.below(9);
    (0..dice.below(longest + 1)).map(|_| dice.byte()).collect()
}

fn sentence(dice: &mut Dice, words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..dice.below(WORDS_MAX + 1) {
        match dice.choose(words) {
            Some(word) if dice.below(16) > 0 => bytes.extend_from_slice(word),
            _ => bytes.push(dice.byte()),
        }
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, dice: &mut Dice, corpus: &[Seed], words: &[&[u8]]) {
    let at = dice.place(bytes.len());
    let end = bytes.len().min(at + dice.below(STRETCH_BYTES_MAX + 1) as usize);
    match dice.below(8) {
        0 => set(bytes, at, |byte, dice| byte ^ (1 << dice.below(8)), dice),
        1 => set(bytes, at, |_, dice| dice.byte(), dice),
        2 => set(bytes, at, |_, dice| *dice.choose(&EDGES).unwrap_or(&0), dice),
        3 => drop(bytes.drain(at..end)),
        4 => bytes.truncate(at),
        5 => {
            let again = bytes[at..end].to_vec();
            for _ in 0..=dice.below(4) {
                bytes.splice(at..at, again.iter().copied());
            }
        }
        6 => {
            let word = dice.choose(words).copied().unwrap_or_default();
            bytes.splice(at..at, word.iter().copied());
        }
        _ => {
            let other = dice.choose(corpus).map_or(&[][..], |seed| &seed.bytes);
            let from = dice.place(other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
    }
    bytes.truncate(INPUT_BYTES_MAX);
}

fn set(bytes: &mut [u8], at: usize, new: fn(u8, &mut Dice) -> u8, dice: &mut Dice) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = new(*byte, dice);
    }
}

/// FNV-1a of `bytes`, to name a file by what it holds.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_depends_on_seed_and_number_alone() {
        let corpus = [Seed { name: "a".to_owned(), bytes: b"[1,2,3]".to_vec() }];
        let words: [&[u8]; 2] = [b"{", b"}"];
        let all = |seed| (0..500).map(|n| input(seed, n, &corpus, &words)).collect::<Vec<_>>();
        assert_eq!(all(1), all(1));
        let different = all(1).iter().zip(all(2)).filter(|(a, b)| *a != b).count();
        assert!(different > 450, "{different}");
    }

    #[test]
    fn inputs_are_bounded_varied_and_near_the_corpus() {
        let corpus = [Seed { name: "a".to_owned(), bytes: vec![7; 3000] }];
        let made: Vec<Vec<u8>> = (0..2000).map(|n| input(3, n, &corpus, &[b"word"])).collect();
        assert!(made.iter().all(|bytes| bytes.len() <= INPUT_BYTES_MAX));
        let near = made.iter().filter(|bytes| bytes.starts_with(&[7; 32])).count();
        assert!(near > 500, "{near}");
        let spoken = made.iter().filter(|bytes| bytes.windows(8).any(|w| w == b"wordword")).count();
        assert!(spoken > 200, "{spoken}");
    }
}
