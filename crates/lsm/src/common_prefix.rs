//! How far two keys agree: blocks, indexes and prefix codes store a key by what it shares with its neighbour.

/// How many leading bytes are equal.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let (a_words, _) = a.as_chunks::<8>();
    let (b_words, _) = b.as_chunks::<8>();
    let mut at = 0;
    for (x, y) in a_words.iter().zip(b_words) {
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if difference != 0 {
            return at + (difference.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let tails = a.get(at..).unwrap_or_default().iter().zip(b.get(at..).unwrap_or_default());
    at + tails.take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_at_the_first_difference_wherever_words_begin() {
        let long = [7; 40];
        for len in 0..long.len() {
            assert_eq!(common_prefix(&long, &long[..len]), len);
            let mut other = long;
            other[len] ^= 0x80;
            assert_eq!(common_prefix(&long, &other), len);
        }
        assert_eq!(common_prefix(&long, &long), long.len());
    }
}
