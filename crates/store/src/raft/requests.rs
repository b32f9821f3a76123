//! What callers want of the driver, in the order in which they asked.
//!
//! Bounded: a commit over the limits is refused as busy before anything happened to it. Nothing that was taken in is
//! ever dropped: it is proposed, or its promise says why not.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use raft::eraftpb::{Message, MessageType};

use super::limits::{
    GROUP_BYTES_MAX, GROUP_MAX, MESSAGES_BYTES_MAX, MESSAGES_MAX, WAITING_BYTES_MAX, WAITING_MAX,
};
use super::lock;
use super::snapshot::Fetched;
use crate::cluster::{Invitation, MemberChange};
use crate::commit::Promise;
use crate::{Durability, Error, Need};

/// What a caller wants.
#[derive(Debug)]
pub(crate) enum DriverRequest {
    /// Commit an encoded batch.
    Commit { data: Vec<u8>, need: Need, promise: Promise },
    /// Say when everything before is on the disk and applied.
    Save(Promise),
    /// Acknowledge differently from here on.
    SetDurability(Durability, Promise),
    /// Hear a peer.
    Message(Message),
    /// Change the members.
    Change(Vec<MemberChange>, Promise),
    /// Say when everything committed anywhere before is applied here.
    ReadIndex(Promise),
    /// Let another server lead.
    Transfer(Option<u64>, Promise),
    /// Leave the cluster of one for another.
    Join(Invitation, Promise),
    /// A snapshot came, or not all of it.
    Fetched(Fetched),
}

/// Where callers and the driver meet.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    state: Mutex<RequestsState>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct RequestsState {
    waiting: VecDeque<DriverRequest>,
    /// What is taken whether the applier is behind or not.
    urgent: VecDeque<DriverRequest>,
    /// Bytes of the messages among them.
    message_bytes: usize,
    /// Bytes of the commits that wait.
    bytes: usize,
    /// Why nothing more is taken.
    refusal: Option<Error>,
    /// The driver waits to be woken, once so many wait.
    idle: bool,
    wanted: usize,
    /// Something happened that the driver should look at.
    nudged: bool,
}

/// Whether the driver leaves commits in the queue, because what it hands out is not worked off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backpressure {
    /// It may take commits.
    Off,
    /// The applier is behind.
    On,
}

/// How a group is gathered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gather {
    /// It is not.
    Nothing,
    /// Threads that want this core go first.
    Turn,
    /// The same, and if that brought more, a wait is worth it while fewer than `wanted` have come, for at most `patience`.
    Wait { wanted: usize, patience: Duration },
}

/// Since when something is to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// It came while others were served.
    Meanwhile,
    /// It was waited for, or time passed.
    Awaited,
}

/// What there was to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrainState {
    /// Requests, or time, or a nudge.
    Something,
    /// Nothing, and nothing will come.
    Ended,
}

impl Requests {
    /// Takes a request in, or says why not and keeps its promise.
    pub(crate) fn push(&self, request: DriverRequest) {
        let mut state = lock(&self.state);
        if let Some(error) = state.refuses(&request) {
            drop(state);
            request.refuse(error);
            return;
        }
        if request.is_urgent() {
            state.message_bytes += request.message_bytes();
            state.urgent.push_back(request);
            state.idle = false;
            drop(state);
            self.came.notify_one();
            return;
        }
        state.bytes += request.bytes();
        state.waiting.push_back(request);
        if state.idle && state.waiting.len() >= state.wanted {
            state.idle = false;
            drop(state);
            self.came.notify_one();
        }
    }

    /// Lets more come, where a wait is worth it.
    ///
    /// Threads that want this core go first: the workers have requests to take in, and the applier answers those who will
    /// ask again. If that brought more, nothing else has to be waited for. If it did not, there are cores to spare, and
    /// those who are still on their way come while this thread sleeps, until as many wait as came together before.
    pub(crate) fn gather(&self, gather: Gather, came: WaitOutcome) {
        if matches!(gather, Gather::Nothing) {
            return;
        }
        let before = lock(&self.state).gathering();
        if before.is_none() {
            return;
        }
        std::thread::yield_now();
        let Gather::Wait { wanted, patience } = gather else { return };
        let state = lock(&self.state);
        if came == WaitOutcome::Awaited || state.gathering() != before {
            // Who was awaited is served at once: it may be the only one.
            return;
        }
        let waits = |state: &mut RequestsState| {
            let short =
                state.waiting.len() < wanted && state.refusal.is_none() && state.urgent.is_empty();
            (state.idle, state.wanted) = (short, wanted);
            short
        };
        let waited = self.came.wait_timeout_while(state, patience, waits);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (state.idle, state.wanted) = (false, 0);
    }

    /// Waits until there is something to take, for at most `patience` if there is one.
    pub(crate) fn wait(
        &self,
        patience: Option<Duration>,
        backpressure: Backpressure,
    ) -> WaitOutcome {
        let mut state = lock(&self.state);
        if !state.is_idle(backpressure) {
            return WaitOutcome::Meanwhile;
        }
        let waits = |state: &mut RequestsState| {
            state.idle = state.is_idle(backpressure);
            state.idle
        };
        match patience {
            None => {
                drop(self.came.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner));
            }
            Some(patience) => {
                let waited = self.came.wait_timeout_while(state, patience, waits);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                state.idle = false;
            }
        }
        WaitOutcome::Awaited
    }

    /// Moves what is to be served next to `taken`.
    pub(crate) fn take(
        &self,
        taken: &mut Vec<DriverRequest>,
        backpressure: Backpressure,
    ) -> DrainState {
        let mut state = lock(&self.state);
        let ended = state.waiting.is_empty() && state.urgent.is_empty() && state.refusal.is_some();
        taken.extend(state.urgent.drain(..));
        state.message_bytes = 0;
        state.nudged = false;
        if backpressure == Backpressure::Off {
            state.move_group(taken);
        }
        if ended { DrainState::Ended } else { DrainState::Something }
    }

    /// Makes the driver look around.
    pub(crate) fn nudge(&self) {
        let mut state = lock(&self.state);
        state.nudged = true;
        state.idle = false;
        drop(state);
        self.came.notify_one();
    }

    /// Takes nothing more in; what waits is still served.
    pub(crate) fn close(&self, refusal: Error) {
        let mut state = lock(&self.state);
        state.refusal.get_or_insert(refusal);
        state.idle = false;
        drop(state);
        self.came.notify_one();
    }

    /// Takes nothing more in and refuses what waits.
    pub(crate) fn abandon(&self, refusal: &Error) {
        let waiting = {
            let mut state = lock(&self.state);
            state.refusal = Some(refusal.clone());
            (state.bytes, state.message_bytes) = (0, 0);
            let mut waiting = std::mem::take(&mut state.waiting);
            waiting.append(&mut state.urgent);
            waiting
        };
        waiting.into_iter().for_each(|request| request.refuse(refusal.clone()));
        self.nudge();
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        lock(&self.state).waiting.len()
    }
}

impl RequestsState {
    /// How many wait, if it is they who are to be served next.
    fn gathering(&self) -> Option<usize> {
        (!self.waiting.is_empty() && self.urgent.is_empty()).then_some(self.waiting.len())
    }

    /// Whether there is nothing for the driver to do.
    fn is_idle(&self, backpressure: Backpressure) -> bool {
        let group = backpressure == Backpressure::Off && !self.waiting.is_empty();
        let ended = self.waiting.is_empty() && self.refusal.is_some();
        !group && !ended && !self.nudged && self.urgent.is_empty()
    }

    fn refuses(&self, request: &DriverRequest) -> Option<Error> {
        if let Some(error) = &self.refusal {
            return Some(error.clone());
        }
        let messages = request.message_bytes();
        if messages > 0
            && (self.urgent.len() >= MESSAGES_MAX
                || self.message_bytes + messages > MESSAGES_BYTES_MAX)
        {
            return Some(Error::Busy);
        }
        let bytes = request.bytes();
        let busy = bytes > 0
            && (self.waiting.len() >= WAITING_MAX
                || (self.bytes > 0 && self.bytes + bytes > WAITING_BYTES_MAX));
        busy.then_some(Error::Busy)
    }

    fn move_group(&mut self, taken: &mut Vec<DriverRequest>) {
        let (mut bytes, mut count) = (0, 0);
        while count < GROUP_MAX && bytes < GROUP_BYTES_MAX {
            let Some(request) = self.waiting.pop_front() else { return };
            bytes += request.bytes();
            self.bytes -= request.bytes();
            count += 1;
            taken.push(request);
        }
    }
}

impl DriverRequest {
    /// Bytes of memory of the batch, if there is one.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            // One that is kept is there twice.
            Self::Commit { data, promise, .. } => {
                data.len() * (1 + usize::from(promise.batch().is_some()))
            }
            _ => 0,
        }
    }

    /// What a message counts for: its entries, and itself.
    fn message_bytes(&self) -> usize {
        match self {
            Self::Message(message) => {
                1 + message.entries.iter().map(|entry| entry.data.len()).sum::<usize>()
            }
            _ => 0,
        }
    }

    /// Whether a message brings entries, which may be lost while the applier is behind.
    pub(crate) fn brings_entries(&self) -> bool {
        matches!(self, Self::Message(message)
            if message.msg_type == MessageType::MsgAppend && !message.entries.is_empty())
    }

    fn is_urgent(&self) -> bool {
        !matches!(self, Self::Commit { .. } | Self::Save(_) | Self::SetDurability(..))
    }

    /// Keeps its promise with an error.
    pub(crate) fn refuse(self, error: Error) {
        match self {
            Self::Commit { promise, .. }
            | Self::Save(promise)
            | Self::SetDurability(_, promise)
            | Self::Change(_, promise)
            | Self::ReadIndex(promise)
            | Self::Transfer(_, promise)
            | Self::Join(_, promise) => promise.keep(Err(error)),
            Self::Message(_) | Self::Fetched(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
