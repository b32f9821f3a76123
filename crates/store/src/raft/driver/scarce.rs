//! Room on disks: who has some, and what is taken while there is little.
//!
//! The end of the last segment that a log could make is a reserve ([`RESERVE_PART`]). A server that has no other room left,
//! or whose engine cannot write its memory to files, is *short*. A leader takes usual batches while it is not short and
//! most voters are not; essential ones, which revoke and remove, while there is room at all. Followers say with every
//! answer whether they are short, and take what their leader sends into the reserve, so that what was under way when a
//! disk filled up does not stand in front of what is essential.
//!
//! A short leader gives its place to a voter that is not; where all are short, the one that leads goes on.
//!
//! [`RESERVE_PART`]: crate::raft::limits::RESERVE_PART

use std::collections::BTreeSet;

use raft::eraftpb::{Message, MessageType};

use super::{Driver, TURN_FRAMES};
use crate::raft::limits::{FRAME_OVERHEAD_BYTES, HEARD_TICKS, SHORT_LOOK_TICKS};
use crate::raft::lock;
use crate::raft::log::record::ENTRY_HEADER_BYTES;
use crate::raft::requests::DriverRequest;
use crate::{Error, Need};

/// What an answer of a short member says in a field that answers have no other use for.
const SHORT: i64 = 1;

/// Who has room, as far as this server knows.
#[derive(Debug, Default)]
pub(super) struct Scarce {
    /// Why this server is short.
    pub(super) own: Option<Error>,
    /// Ticks until it looks again.
    pub(super) wait: u32,
    /// Members that said that they are short, in this term.
    pub(super) others: BTreeSet<u64>,
    pub(super) term: u64,
}

/// Why commits are refused.
#[derive(Debug, Default)]
pub(super) struct CommitRefusal {
    /// Usual ones.
    pub(super) usual: Option<Error>,
    /// All of them, and changes of the members.
    pub(super) all: Option<Error>,
}

impl CommitRefusal {
    /// Why one of this need is.
    pub(super) fn of(&self, need: Need) -> Option<&Error> {
        match need {
            Need::Usual => self.all.as_ref().or(self.usual.as_ref()),
            Need::Essential => self.all.as_ref(),
        }
    }
}

impl Driver {
    /// Whether the log has room for so many bytes and for what Raft may want to remember besides, the reserve included.
    pub(super) fn has_room(&self, bytes: usize) -> Result<bool, Error> {
        let bytes = bytes + TURN_FRAMES * FRAME_OVERHEAD_BYTES;
        Ok(full(lock(&self.shared.log).make_room(bytes, Need::Essential))?.is_none())
    }

    /// Makes room for the commits among the requests, or says why some of them cannot be taken.
    pub(super) fn admit(&mut self, requests: &[DriverRequest]) -> Result<CommitRefusal, Error> {
        let mut refusal = CommitRefusal::default();
        if requests.is_empty() {
            return Ok(refusal);
        }
        if let Some(full) = self.shared.stalled() {
            refusal.all = Some(full);
            return Ok(refusal);
        }
        let usual = |request: &DriverRequest| {
            matches!(request, DriverRequest::Commit { need: Need::Usual, .. })
        };
        if requests.iter().any(usual) {
            let bytes = requests.iter().map(log_bytes).sum();
            self.scarce.own = self.lacks_room(bytes)?;
            refusal.usual = self.scarce.own.clone().or_else(|| self.most_are_short());
        }
        let left = requests.iter().filter(|request| refusal.usual.is_none() || !usual(request));
        let bytes = left.map(log_bytes).sum();
        refusal.all = full(lock(&self.shared.log).make_room(bytes, Need::Essential))?;
        Ok(refusal)
    }

    /// Looks for room from time to time, so that a leader hears whether there is some.
    pub(super) fn look_for_room(&mut self) -> Result<(), Error> {
        self.scarce.wait = self.scarce.wait.saturating_sub(1);
        if self.scarce.own.is_none() || self.scarce.wait == 0 {
            self.scarce.own = self.lacks_room(0)?;
            self.scarce.wait = SHORT_LOOK_TICKS;
        }
        self.node.set_short(self.scarce.own.is_some());
        Ok(())
    }

    /// A leader that refuses for want of room lets somebody lead who has some.
    pub(super) fn give_way_if_short(&mut self) {
        let own = self.node.id();
        let someone = self.voters_with_room().iter().any(|&id| id != own);
        if self.scarce.own.is_some() && someone {
            self.node.step_down();
        }
    }

    /// Says in an answer whether this server is short.
    pub(super) fn say_if_short(&self, message: &mut Message) {
        if is_answer(message) && self.scarce.own.is_some() {
            message.priority = SHORT;
        }
    }

    /// Takes note of what a member says of its room.
    pub(super) fn hear_if_short(&mut self, message: &mut Message) {
        if !is_answer(message) {
            return;
        }
        let term = self.node.standing().term;
        if self.scarce.term != term {
            self.scarce.term = term;
            self.scarce.others.clear();
        }
        match std::mem::take(&mut message.priority) {
            SHORT => self.scarce.others.insert(message.from),
            _ => self.scarce.others.remove(&message.from),
        };
    }

    /// Why nothing usual can be written here, if so.
    pub(super) fn lacks_room(&self, bytes: usize) -> Result<Option<Error>, Error> {
        let bytes = bytes + TURN_FRAMES * FRAME_OVERHEAD_BYTES;
        let log = full(lock(&self.shared.log).make_room(bytes, Need::Usual))?;
        Ok(match log {
            None => full(self.shared.machine.records().0.check_room().map_err(Error::from))?,
            lacks => lacks,
        })
    }

    /// What is said while so few voters have room that nothing usual could be kept by most.
    pub(super) fn most_are_short(&self) -> Option<Error> {
        let voters = self.node.membership().voters.len();
        let known = !self.scarce.others.is_empty() && self.scarce.term == self.node.standing().term;
        let short = known && self.voters_with_room().len() < voters / 2 + 1;
        short.then(|| Error::Full("most servers have no room".into()))
    }

    /// Voters that are heard and do not say that they are short, this server among them if it is not.
    pub(super) fn voters_with_room(&self) -> Vec<u64> {
        let own = self.node.id();
        let now = self.shared.clock.now();
        let known = lock(&self.shared.members);
        let has_room = |id: &&u64| {
            if **id == own {
                return self.scarce.own.is_none();
            }
            let heard =
                known.heard.get(*id).is_some_and(|at| *at + self.shared.tick * HEARD_TICKS >= now);
            heard && !self.scarce.others.contains(*id)
        };
        self.node.membership().voters.iter().filter(has_room).copied().collect()
    }
}

/// Whether a message is a follower's answer to its leader.
fn is_answer(message: &Message) -> bool {
    matches!(message.msg_type, MessageType::MsgHeartbeatResponse | MessageType::MsgAppendResponse)
}

/// What a request takes of the log.
pub(super) fn log_bytes(request: &DriverRequest) -> usize {
    match request {
        DriverRequest::Commit { data, .. } => data.len() + ENTRY_HEADER_BYTES,
        _ => FRAME_OVERHEAD_BYTES,
    }
}

/// A full disk as a value; any other failure stays one.
fn full(made: Result<(), Error>) -> Result<Option<Error>, Error> {
    match made {
        Ok(()) => Ok(None),
        Err(full @ Error::Full(_)) => Ok(Some(full)),
        Err(error) => Err(error),
    }
}
