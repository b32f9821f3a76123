//! Replies that are written and may not leave yet: their reads are being written down.

use std::ops::Range;

use crate::buffer_pool;

/// The replies with `instead` in the place of each that is held. The ranges are in order.
pub(crate) fn replace<'r>(
    held: impl IntoIterator<Item = &'r Range<usize>>,
    mut replies: Vec<u8>,
    instead: &[u8],
) -> Vec<u8> {
    let (mut out, mut kept) = (Vec::new(), 0);
    for range in held {
        out.extend_from_slice(&replies[kept..range.start]);
        out.extend_from_slice(instead);
        kept = range.end;
    }
    out.extend_from_slice(&replies[kept..]);
    // Nobody may hear what was in them.
    buffer_pool::wipe(&mut replies);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_replaced_and_all_else_stays() {
        let replace = |held: &[Range<usize>]| {
            String::from_utf8(super::replace(held, b"0123456789".to_vec(), b"no")).unwrap()
        };
        assert_eq!(replace(&[]), "0123456789");
        assert_eq!(replace(&[0..3, 3..4, 6..10]), "nono45no");
        assert_eq!(replace(&[2..2, 9..9]), "01no2345678no9");
    }
}
