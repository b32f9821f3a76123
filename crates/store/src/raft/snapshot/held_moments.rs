//! The moments that members were sent, held for a while after the last byte of them: one whose fetch broke off asks for
//! the rest of the same.
//!
//! A held moment pins what it saw in the engine, and the log behind it: a member that took it in goes on from there. Both
//! are bounded: by [`SNAPSHOT_HELD`], by [`SNAPSHOTS_HELD_MAX`], and the log by its own limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::ResumePoint;
use crate::raft::limits::{SNAPSHOT_HELD, SNAPSHOTS_HELD_MAX};
use crate::raft::lock;
use crate::raft::machine::Moment;

/// Moments that are held.
pub(crate) struct HeldMoments {
    moments: Mutex<Vec<HeldMoment>>,
    /// The index of the first of them; `u64::MAX` of none. The driver reads it every turn.
    floor: AtomicU64,
}

struct HeldMoment {
    moment: Arc<Moment>,
    until: Duration,
}

impl Default for HeldMoments {
    fn default() -> Self {
        Self { moments: Mutex::default(), floor: AtomicU64::new(u64::MAX) }
    }
}

impl HeldMoments {
    /// Holds a moment that a member is sent from the start.
    pub(crate) fn keep(&self, moment: Arc<Moment>, now: Duration) {
        self.sweep(now);
        self.change(|moments| {
            if moments.len() == SNAPSHOTS_HELD_MAX {
                moments.remove(0);
            }
            moments.push(HeldMoment { moment, until: now + SNAPSHOT_HELD });
        });
    }

    /// The moment that a place is in, if it is still held.
    pub(crate) fn find(&self, place: &ResumePoint, now: Duration) -> Option<Arc<Moment>> {
        self.sweep(now);
        let moments = lock(&self.moments);
        let mut moments = moments.iter().map(|held| &held.moment);
        moments
            .find(|moment| (moment.index, moment.term) == (place.index, place.term))
            .map(Arc::clone)
    }

    /// Lets go of what nobody has read for long enough.
    pub(crate) fn sweep(&self, now: Duration) {
        self.change(|moments| {
            moments.retain_mut(|held| {
                if Arc::strong_count(&held.moment) > 1 {
                    // It is on its way out.
                    held.until = now + SNAPSHOT_HELD;
                }
                held.until > now
            });
        });
    }

    /// Lets go of everything.
    pub(crate) fn clear(&self) {
        self.change(Vec::clear);
    }

    /// The index of the first moment held; `u64::MAX` of none.
    pub(crate) fn floor(&self) -> u64 {
        // Relaxed: what is compacted a turn too late or too early costs nobody more than a snapshot from the start.
        self.floor.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<HeldMoment>)) {
        let mut moments = lock(&self.moments);
        change(&mut moments);
        let floor = moments.iter().map(|held| held.moment.index).min();
        self.floor.store(floor.unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}
