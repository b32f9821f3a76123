//! Entries by number, in chunks of their own: growing copies nothing, and no more than one chunk is unused.

/// The highest number given.
pub(super) const NUMBER_MAX: u32 = u32::MAX - 1;
/// Entries of a chunk.
const CHUNK: usize = 1 << 12;

/// Entries by number. A number that was given back is given again.
#[derive(Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<T> Slab<T> {
    /// How many entries there are.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Takes an entry in; `None` when every number is taken.
    pub(super) fn insert(&mut self, entry: T) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            *self.place_mut(number)? = Some(entry);
            self.len += 1;
            return Some(number);
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let before = (self.chunks.len() - 1) * CHUNK;
        let chunk = self.chunks.last_mut()?;
        let number =
            u32::try_from(before + chunk.len()).ok().filter(|&number| number <= NUMBER_MAX)?;
        chunk.push(Some(entry));
        self.len += 1;
        Some(number)
    }

    /// The entry of a number.
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        let (chunk, place) = split(number);
        self.chunks.get(chunk)?.get(place)?.as_ref()
    }

    /// The same, to change it.
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.place_mut(number)?.as_mut()
    }

    /// Gives an entry back, and its number with it.
    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let entry = self.place_mut(number)?.take()?;
        self.free.push(number);
        self.len -= 1;
        Some(entry)
    }

    fn place_mut(&mut self, number: u32) -> Option<&mut Option<T>> {
        let (chunk, place) = split(number);
        self.chunks.get_mut(chunk)?.get_mut(place)
    }
}

const fn split(number: u32) -> (usize, usize) {
    (number as usize / CHUNK, number as usize % CHUNK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reused_and_others_keep_theirs() {
        let mut slab = Slab::default();
        let count = CHUNK + 5;
        for number in 0..count {
            assert_eq!(slab.insert(number), u32::try_from(number).ok());
        }
        assert_eq!((slab.remove(7), slab.remove(7), slab.get(7)), (Some(7), None, None));
        assert_eq!((slab.len(), slab.get(8)), (count - 1, Some(&8)));
        assert_eq!((slab.insert(99), slab.get(7)), (Some(7), Some(&99)));
        assert_eq!(slab.remove(u32::MAX), None);
    }
}
