//! Room for replies, which a worker lends to the connection whose turn it is.
//!
//! Replies are written into it and leave it in the same turn, so a connection that waits holds none. What a
//! client does not take moves to a place of its own (`write_backpressure`), and the room comes back at once.
//!
//! Invariants:
//! - Room that is lent is empty: what one connection wrote is wiped before another one gets it.
//! - A worker keeps one room, of at most [`SPARE_BYTES_MAX`].

use std::cell::Cell;

/// Largest room that a worker keeps for the connection that is next.
const SPARE_BYTES_MAX: usize = 128 << 10;

thread_local! {
    /// Room that no connection of this worker uses now.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Takes the room that the worker has to spare, or one that has yet to grow.
pub(crate) fn borrow() -> Vec<u8> {
    SPARE.take()
}

/// Gives room back, whatever is still in it.
pub(crate) fn give_back(mut room: Vec<u8>) {
    clear(&mut room);
    if room.capacity() <= SPARE_BYTES_MAX {
        SPARE.set(room);
    }
}

/// Empties room that others will use: what was in it is nobody else's.
pub(crate) fn clear(room: &mut Vec<u8>) {
    wipe(room);
    room.clear();
}

/// Overwrites bytes that held a token or a secret.
///
/// [`zeroize::Zeroize`] of a slice writes byte by byte, which for a large reply takes longer than decrypting it.
pub(crate) fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    // The compiler has to take it that somebody looks.
    zeroize::optimization_barrier(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_room_of_a_bounded_size_is_kept_and_holds_nothing_of_before() {
        let mut room = borrow();
        room.extend_from_slice(b"a secret");
        let place = room.as_ptr();
        give_back(room);
        let room = borrow();
        assert_eq!(room.as_ptr(), place);
        assert!(room.is_empty());
        assert_eq!(borrow().capacity(), 0);
        give_back(Vec::with_capacity(SPARE_BYTES_MAX + 1));
        assert_eq!(borrow().capacity(), 0);
        let mut secret = *b"a secret";
        wipe(&mut secret);
        assert_eq!(secret, [0; 8]);
    }
}
