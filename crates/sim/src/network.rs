//! The wires: which of them are cut, and what becomes of a message.
//!
//! A wire has a direction, so a cut may be one-way. A message takes some time, differently each time, which is what lets
//! a later one overtake it; it may be lost, or come twice.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kallisto_store::{ChunkSink, Peer, Transport};

/// The time of a message on a good day.
const DELAY_MIN: Duration = Duration::from_micros(200);
/// See [`DELAY_MIN`].
const DELAY_MAX: Duration = Duration::from_millis(3);

/// What a server said and nobody carried yet.
#[derive(Default)]
pub(crate) struct SentMessage {
    /// To whom, and what.
    pub(crate) messages: Vec<(u64, Vec<u8>)>,
    /// Snapshots wanted: from whom, and where they go.
    pub(crate) fetches: Vec<(u64, Box<dyn ChunkSink>)>,
}

/// One server's end of the wires.
#[derive(Default)]
pub(crate) struct NetworkEnd(Mutex<SentMessage>);

impl NetworkEnd {
    /// What was said since it was last asked.
    pub(crate) fn take(&self) -> SentMessage {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Transport for NetworkEnd {
    fn know(&self, _peers: &[Peer]) {}

    fn send(&self, to: u64, message: Vec<u8>) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.messages.push((to, message));
    }

    fn fetch_snapshot(&self, from: u64, sink: Box<dyn ChunkSink>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fetches.push((from, sink));
    }
}

/// The wires between all servers.
#[derive(Debug, Default)]
pub(crate) struct SimNetwork {
    cut: BTreeSet<(u64, u64)>,
    /// Of a thousand messages, how many are lost.
    pub(crate) lost: u64,
    /// Of a thousand messages, how many come twice.
    pub(crate) doubled: u64,
    /// The longest that a message is held up besides.
    pub(crate) held_up: Duration,
}

impl SimNetwork {
    /// Cuts the wire from one server to another.
    pub(crate) fn cut(&mut self, from: u64, to: u64) {
        self.cut.insert((from, to));
    }

    /// Mends everything.
    pub(crate) fn mend(&mut self) {
        *self = Self::default();
    }

    /// Whether a message of one server reaches another.
    pub(crate) fn reaches(&self, from: u64, to: u64) -> bool {
        !self.cut.contains(&(from, to))
    }

    /// When the copies of a message come, from now.
    pub(crate) fn fates(&self, dice: &mut fastrand::Rng) -> Vec<Duration> {
        if dice.u64(..1000) < self.lost {
            return Vec::new();
        }
        let copies = if dice.u64(..1000) < self.doubled { 2 } else { 1 };
        (0..copies).map(|_| self.delay(dice)).collect()
    }

    /// How long something takes on the wire.
    pub(crate) fn delay(&self, dice: &mut fastrand::Rng) -> Duration {
        let most = DELAY_MAX + self.held_up;
        let micros = dice.u64(micros(DELAY_MIN)..micros(most));
        Duration::from_micros(micros)
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
