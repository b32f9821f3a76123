//! Clients: each does one thing at a time, remembers what it was told, and gives up after a while.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kallisto_store::{Batch, Commit, Error, Position, Record, Seqno};

use crate::history::{Action, ClientOperation, Expect, OperationEnd};
use crate::mirror::{MirrorChanges, changes_of};
use crate::site::asks::CoreAnswer;

/// Keys that clients write.
const KEYS: u64 = 6;
/// The longest that a client waits for an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);
/// What follows a value's name, in bytes, so that little is much to the engine.
const PADDING_BYTES_MAX: usize = 1500;

/// A client.
pub(crate) struct SimClient {
    pub(crate) id: u64,
    made: u64,
    /// Counts what it was scheduled to do, so that it does the last of it only.
    pub(crate) scheduled: u64,
    pub(crate) pending: Option<PendingRequest>,
}

/// What a client waits for.
pub(crate) struct PendingRequest {
    pub(crate) commit: Commit,
    /// The server that was asked, and in which of its lives.
    pub(crate) server: (u64, u64),
    pub(crate) what: AskedFor,
    pub(crate) call: Duration,
}

/// What was asked.
#[derive(Clone, Debug)]
pub(crate) enum AskedFor {
    /// A batch that changes one key.
    Write { key: String, action: Action, changes: MirrorChanges },
    /// The latest of a key, once a majority says that the server may tell.
    Read { key: String },
}

/// A write that is not sent yet.
pub(crate) struct WriteDraft {
    pub(crate) batch: Batch,
    pub(crate) what: AskedFor,
}

impl SimClient {
    /// A client that did nothing yet.
    pub(crate) fn new(id: u64) -> Self {
        Self { id, made: 0, scheduled: 0, pending: None }
    }

    /// A key.
    pub(crate) fn key(dice: &mut fastrand::Rng) -> String {
        format!("key-{}", dice.u64(..KEYS))
    }

    /// Decides on a write of `key`, of which some server shows `found`.
    pub(crate) fn draft(
        &mut self,
        key: String,
        found: Option<Record>,
        dice: &mut fastrand::Rng,
    ) -> WriteDraft {
        let mut batch = Batch::new();
        let bytes = key.clone().into_bytes();
        let action = match dice.u8(..10) {
            0 => {
                batch.delete(bytes);
                Action::Delete
            }
            1..=4 => {
                let seqno = found.as_ref().map_or(Seqno::ABSENT, |record| record.seqno);
                let value = self.make_value(dice);
                batch.expect(bytes.clone(), seqno);
                batch.put(bytes, value.clone());
                let expect = found.map(|record| name_of(&record.value));
                Action::Swap(Expect::Value(expect), name_of(value.as_bytes()))
            }
            _ => {
                let value = self.make_value(dice);
                batch.put(bytes, value.clone());
                Action::Write(name_of(value.as_bytes()))
            }
        };
        let changes = changes_of(&batch);
        WriteDraft { batch, what: AskedFor::Write { key, action, changes } }
    }

    /// A value that nobody else makes.
    fn make_value(&mut self, dice: &mut fastrand::Rng) -> String {
        self.made += 1;
        let padding = if dice.u8(..4) == 0 { dice.usize(..PADDING_BYTES_MAX) } else { 0 };
        format!("{}-{} {}", self.id, self.made, "x".repeat(padding))
    }
}

/// What tells a value from all others, without what follows.
pub(crate) fn name_of(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    text.split(' ').next().unwrap_or_default().to_owned()
}

impl PendingRequest {
    /// How it ended, if it did.
    pub(crate) fn poll(&mut self) -> Option<Result<Position, Error>> {
        match Pin::new(&mut self.commit).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    /// The operation, as it ended.
    pub(crate) fn operation(&self, client: u64, end: OperationEnd) -> ClientOperation {
        let (key, action) = match &self.what {
            AskedFor::Write { key, action, .. } => (key.clone(), action.clone()),
            AskedFor::Read { key } => (key.clone(), Action::Read),
        };
        ClientOperation { client, key, action, call: micros(self.call), end }
    }
}

/// What an error says about the operation that it ended.
pub(crate) fn end_of(error: &Error, at: u64) -> OperationEnd {
    match error {
        Error::Conflict => OperationEnd::Refused { at },
        Error::NotLeader
        | Error::Busy
        | Error::Full(_)
        | Error::Unavailable(_)
        | Error::Io(_)
        | Error::TooLarge(_) => OperationEnd::Failed,
        Error::Unknown(_)
        | Error::Poisoned(_)
        | Error::Locked(_)
        | Error::Damaged(_)
        | Error::Lost(_) => OperationEnd::Unknown,
    }
}

/// What a core's answer to a write of a secret says about it.
pub(crate) fn end_of_answer(answer: &CoreAnswer, at: u64) -> OperationEnd {
    match answer {
        CoreAnswer::Done(told) => {
            OperationEnd::Done { at, found: None, version: told.data["version"].as_u64() }
        }
        CoreAnswer::Refused(_) => OperationEnd::Refused { at },
        CoreAnswer::Denied | CoreAnswer::NotLeader | CoreAnswer::Sealed => OperationEnd::Failed,
        CoreAnswer::Unclear(_) | CoreAnswer::Internal => OperationEnd::Unknown,
    }
}

/// A moment in a history.
pub(crate) fn micros(at: Duration) -> u64 {
    u64::try_from(at.as_micros()).unwrap_or(u64::MAX)
}
