//! A way back for a server whose cluster lost its majority for good: it becomes the only member.
//!
//! Called while a store opens, before anything runs. Everything in its log is applied, committed or not, since nobody else
//! is left to say which; then engine and log name this server as the only member, in a new term. In this order, so that a
//! crash in between finds a store that can be recovered again. Changes of the members in the log mean nothing any more.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use raft::eraftpb::{ConfState, EntryType, HardState};
use raft::{GetEntriesContext, Storage};

use super::lock;
use super::log::RaftLog;
use super::log::index::LogIndex;
use super::log::record::SegmentState;
use super::machine::StateMachine;
use super::node::Committed;
use crate::{Error, Peer};

/// Makes `own` the only member, and returns the log in memory that goes with it.
pub(super) fn become_only_member(
    log: &Arc<Mutex<RaftLog>>,
    index: &LogIndex,
    machine: &StateMachine,
    own: Peer,
) -> Result<LogIndex, Error> {
    let (last, last_term) = index.last();
    for at in machine.position().0 + 1..=last {
        match machine.apply(&entry(index, at)?, None) {
            Ok(_) | Err(Error::Conflict) => {}
            Err(error) => return Err(error),
        }
    }
    let membership = ConfState { voters: vec![own.id], ..ConfState::default() };
    machine.force_members(last, &membership, own)?;
    // The vote of a term that is past binds nobody.
    let term = index.hard_state().term.max(last_term) + 1;
    let hard_state = HardState { term, vote: 0, commit: last, ..HardState::default() };
    let mut log = lock(log);
    let (identity, engine) = log.belongs_to();
    log.restart(&SegmentState {
        identity,
        engine,
        last_index: last,
        last_term,
        hard_state: hard_state.clone(),
        membership,
    })?;
    Ok(log.fresh_index(hard_state, index.fault()))
}

/// How many batches are in a log behind what it knows to be committed.
pub(super) fn undecided(index: &LogIndex, applied: u64) -> Result<u64, Error> {
    let (last, _) = index.last();
    let committed = index.hard_state().commit.max(applied).min(last);
    let mut count = 0;
    for at in committed + 1..=last {
        count += u64::from(!entry(index, at)?.data.is_empty());
    }
    Ok(count)
}

fn entry(index: &LogIndex, at: u64) -> Result<Committed, Error> {
    let missing = || Error::Damaged(format!("raft log: entry {at} cannot be read"));
    let entries = index.entries(at, at + 1, None, GetEntriesContext::empty(false));
    let entry = entries.ok().and_then(|mut entries| entries.pop()).ok_or_else(missing)?;
    let data = match entry.entry_type {
        EntryType::EntryNormal => entry.data,
        EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => Bytes::new(),
    };
    Ok(Committed { index: at, term: entry.term, data, members: None })
}
