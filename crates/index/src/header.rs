//! The second word of every page.
//!
//! ```text
//! | words:16 | room:8 | prefix bytes:16 | entries:16 | kind:8 |     high to low
//! ```

/// What a page is, and how much is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageHeader {
    /// Whether it is a leaf, and not an inner page.
    pub(crate) is_leaf: bool,
    /// Paths a leaf was written with, children of an inner page.
    pub(crate) entries: usize,
    /// Paths that may be put behind a leaf's entries in place.
    pub(crate) room: usize,
    pub(crate) prefix_bytes: usize,
    /// Words of the whole page, those still free included.
    pub(crate) words: usize,
}

/// Words before a page's arrays: the slot's generation and the header.
pub(crate) const HEADER_WORDS: usize = 2;

impl PageHeader {
    #[inline(always)]
    pub(crate) fn unpack(word: u64) -> Self {
        Self {
            is_leaf: word & 0xFF == 0,
            entries: (word >> 8) as usize & 0xFFFF,
            prefix_bytes: (word >> 24) as usize & 0xFFFF,
            room: (word >> 40) as usize & 0xFF,
            words: (word >> 48) as usize,
        }
    }

    pub(crate) fn pack(self) -> u64 {
        u64::from(!self.is_leaf)
            | (self.entries as u64) << 8
            | (self.prefix_bytes as u64) << 24
            | (self.room as u64) << 40
            | (self.words as u64) << 48
    }
}
