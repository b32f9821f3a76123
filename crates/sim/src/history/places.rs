//! Which operations have a place in the order that is being searched: as it is, and as it is kept.

/// Which operations have a place.
pub(super) struct Bits(Box<[u64]>);

/// The same for keeping: without the words at both ends that say nothing, since nearly everything before a moment has a
/// place and nearly nothing after it.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct TrimmedPath {
    full: usize,
    words: Box<[u64]>,
}

impl Bits {
    /// No operation of so many has a place.
    pub(super) fn none(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)].into())
    }

    /// Gives an operation a place, or takes it.
    pub(super) fn flip(&mut self, bit: usize) {
        self.0[bit / 64] ^= 1 << (bit % 64);
    }

    /// As it is kept.
    pub(super) fn places(&self) -> TrimmedPath {
        let full = self.0.iter().take_while(|&&word| word == u64::MAX).count();
        let rest = &self.0[full..];
        let used = rest.len() - rest.iter().rev().take_while(|&&word| word == 0).count();
        TrimmedPath { full, words: rest[..used].into() }
    }
}
