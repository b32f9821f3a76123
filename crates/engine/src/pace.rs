//! Long work that lets others in: how long it goes on before they have their turn.

/// Items of work between two turns, where an item takes some microseconds.
pub const ITEMS_PER_TURN: usize = 64;

/// Goes behind all other work of this thread, what has just come over its sockets included: a task that merely wakes itself
/// is run again before anybody looks at the sockets.
pub async fn cooperative_yield() {
    tokio::task::yield_now().await;
}

/// Effort after which long work lets others in.
const EFFORT_PER_TURN: usize = 64;
/// Bytes that are hashed, encrypted or copied with an effort of one.
const EFFORT_BYTES: usize = 4 << 10;

/// Lets others take their turns in the midst of long work, about every millisecond.
#[derive(Debug, Default)]
pub struct TurnPace(usize);

impl TurnPace {
    /// An effort of some microseconds, or as many of them.
    pub async fn spend(&mut self, effort: usize) {
        self.0 = self.0.saturating_add(effort);
        if self.0 >= EFFORT_PER_TURN {
            self.0 = 0;
            cooperative_yield().await;
        }
    }

    /// The effort of something done once for so many bytes.
    pub const fn of_bytes(bytes: usize) -> usize {
        1 + bytes / EFFORT_BYTES
    }

    /// The effort that is a turn of its own.
    pub const TURN: usize = EFFORT_PER_TURN;
}
