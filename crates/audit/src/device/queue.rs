//! What waits for the writer, and how the device is, as its threads and its callers see it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{oneshot, watch};

use super::FinishedRecords;
use crate::anchor::AnchorVerdict;
use crate::chain::ChainHead;
use crate::limits::{SPARE_ROOM_BYTES_MAX, SPARE_ROOMS_MAX};

pub(super) struct DeviceShared {
    pub(super) state: Mutex<QueueState>,
    /// The writer waits here for work.
    pub(super) work: Condvar,
    /// The watchdog waits here for the end.
    pub(super) ended: Condvar,
    /// Rings after each group that was written, for who follows the destination.
    pub(super) written: watch::Sender<()>,
    /// Empty rooms of records that were written, for those that are handed in next.
    spare: Mutex<Vec<Vec<u8>>>,
}

pub(super) struct QueueState {
    pub(super) queue: VecDeque<DeviceJob>,
    pub(super) queued_bytes: usize,
    /// Who waits for the group that is being written.
    pub(super) in_flight: Vec<oneshot::Sender<bool>>,
    /// When the sink was called.
    pub(super) busy_since: Option<Instant>,
    pub(super) mode: QueueMode,
    pub(super) reopen: bool,
    pub(super) closing: bool,
    pub(super) head: ChainHead,
    /// How the destination was found when it was first opened; `None` before.
    pub(super) verdict: Option<AnchorVerdict>,
    /// Set when the writer has ended: the head stays what it is.
    pub(super) has_ended: bool,
    /// Set when the head is kept that stays, or where none is kept.
    pub(super) is_kept: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum QueueMode {
    Working,
    Failed { why: String, retry_at: Instant },
    Hanging,
}

pub(super) struct DeviceJob {
    pub(super) records: FinishedRecords,
    pub(super) done: oneshot::Sender<bool>,
}

impl DeviceShared {
    pub(super) fn new(state: QueueState) -> Self {
        let (work, ended) = (Condvar::new(), Condvar::new());
        let (written, spare) = (watch::Sender::new(()), Mutex::default());
        Self { state: Mutex::new(state), work, ended, written, spare }
    }

    /// Room for records, which has yet to grow if none is to spare.
    pub(super) fn take_room(&self) -> Vec<u8> {
        self.lock_spare().pop().unwrap_or_default()
    }

    /// Keeps the rooms of records that were written. Not of those of a device that masks nothing: what was in them stays there until somebody
    /// writes over it.
    pub(super) fn keep_rooms(&self, rooms: impl Iterator<Item = Vec<u8>>) {
        let mut spare = self.lock_spare();
        for mut room in rooms.filter(|room| room.capacity() <= SPARE_ROOM_BYTES_MAX) {
            if spare.len() == SPARE_ROOMS_MAX {
                return;
            }
            room.clear();
            spare.push(room);
        }
    }

    /// Gives the memory of spare rooms back.
    pub(super) fn drop_rooms(&self) {
        *self.lock_spare() = Vec::new();
    }

    fn lock_spare(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    /// A device to which nothing was given yet. `is_kept` where nobody keeps its heads.
    pub(super) fn new(is_kept: bool) -> Self {
        Self {
            queue: VecDeque::new(),
            queued_bytes: 0,
            in_flight: Vec::new(),
            busy_since: None,
            mode: QueueMode::Working,
            reopen: false,
            closing: false,
            head: ChainHead::default(),
            verdict: None,
            has_ended: false,
            is_kept,
        }
    }

    /// Fails everybody who waits.
    pub(super) fn refuse_all(&mut self) {
        let waiting = self.queue.drain(..).map(|job| job.done);
        for done in waiting.chain(self.in_flight.drain(..)) {
            // Who has gone away needs no answer.
            let _ = done.send(false);
        }
        self.queued_bytes = 0;
    }
}
