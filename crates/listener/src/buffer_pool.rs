//! Room for replies, which a worker lends to the connection whose turn it is.
//!
//! Replies are written into it and leave it in the same turn, so a connection that waits for its client holds none. What a
//! client does not take moves to a place of its own (`write_backpressure`), and the room comes back at once.
//!
//! Invariants:
//! - Room that is lent is empty: what one connection wrote is wiped before another one gets it.
//! - A worker keeps [`SPARE_ROOMS_MAX`] rooms, and no more than [`SPARE_BYTES_MAX`] in them.

use std::cell::RefCell;

/// Rooms that a worker keeps for the connections that are next.
const SPARE_ROOMS_MAX: usize = 64;
/// Most bytes of those rooms, all together.
const SPARE_BYTES_MAX: usize = 256 << 10;

thread_local! {
    /// Rooms that no connection of this worker uses now.
    static SPARE: RefCell<SpareRooms> = const { RefCell::new(SpareRooms::new()) };
}

/// Rooms to spare.
struct SpareRooms {
    rooms: Vec<Vec<u8>>,
    bytes: usize,
}

impl SpareRooms {
    const fn new() -> Self {
        Self { rooms: Vec::new(), bytes: 0 }
    }

    fn take(&mut self) -> Vec<u8> {
        let room = self.rooms.pop().unwrap_or_default();
        self.bytes -= room.capacity();
        room
    }

    fn keep(&mut self, room: Vec<u8>) {
        let bytes = self.bytes + room.capacity();
        if room.capacity() > 0 && bytes <= SPARE_BYTES_MAX && self.rooms.len() < SPARE_ROOMS_MAX {
            self.bytes = bytes;
            self.rooms.push(room);
        }
    }
}

/// Takes room that the worker has to spare, or one that has yet to grow.
pub(crate) fn borrow() -> Vec<u8> {
    SPARE.with_borrow_mut(SpareRooms::take)
}

/// Gives room back, whatever is still in it.
pub(crate) fn give_back(mut room: Vec<u8>) {
    clear(&mut room);
    SPARE.with_borrow_mut(|spare| spare.keep(room));
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
    fn rooms_are_kept_up_to_a_bound_and_hold_nothing_of_before() {
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
        for (room_bytes, kept) in [(SPARE_BYTES_MAX / 4, 4), (16, SPARE_ROOMS_MAX)] {
            (0..2 * SPARE_ROOMS_MAX).for_each(|_| give_back(Vec::with_capacity(room_bytes)));
            for at in 0..=kept {
                assert_eq!(borrow().capacity() > 0, at < kept, "{room_bytes} {at}");
            }
        }
        let mut secret = *b"a secret";
        wipe(&mut secret);
        assert_eq!(secret, [0; 8]);
    }
}
