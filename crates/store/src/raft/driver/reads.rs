//! Reads that see everything committed before them: asked together under one number, answered once their entry is applied.

use std::collections::VecDeque;
use std::time::Duration;

use super::Driver;
use crate::Error;
use crate::commit::Promise;
use crate::raft::limits::READ_TICKS_MAX;

/// Reads that have to see everything committed before them.
#[derive(Default)]
pub(super) struct Reads {
    /// Not asked yet.
    pub(super) waiting: Vec<Promise>,
    /// Asked under a number, of a leader, and since when.
    asked: VecDeque<Asked>,
    next: u64,
}

/// Reads that were asked for together.
struct Asked {
    number: u64,
    leader_id: u64,
    since: Duration,
    promises: Vec<Promise>,
}

impl Reads {
    /// Everybody who waits.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Promise> {
        let asked = self.asked.drain(..).flat_map(|asked| asked.promises);
        asked.chain(self.waiting.drain(..))
    }
}

impl Driver {
    /// Asks for all reads that wait, under one number.
    pub(super) fn ask_reads(&mut self) {
        if self.reads.waiting.is_empty() {
            return;
        }
        if self.node.read_index(self.reads.next) {
            self.reads.asked.push_back(Asked {
                number: self.reads.next,
                leader_id: self.node.standing().leader_id,
                since: self.shared.clock.now(),
                promises: std::mem::take(&mut self.reads.waiting),
            });
            self.reads.next += 1;
        } else if !self.node.leads() {
            let waiting = std::mem::take(&mut self.reads.waiting);
            waiting.into_iter().for_each(|promise| promise.keep(Err(Error::NotLeader)));
        }
    }

    /// Gives up reads whose leader is none any more, and those whose question or answer seems to be lost.
    pub(super) fn refuse_lost_reads(&mut self) {
        let Some(oldest) = self.reads.asked.front() else { return };
        let (now, leader_id) = (self.shared.clock.now(), self.node.standing().leader_id);
        let patience = self.shared.tick * READ_TICKS_MAX;
        let is_lost = |asked: &Asked| asked.leader_id != leader_id || asked.since + patience <= now;
        if !is_lost(oldest) {
            return;
        }
        let (lost, kept): (VecDeque<_>, VecDeque<_>) =
            self.reads.asked.drain(..).partition(is_lost);
        self.reads.asked = kept;
        let promises = lost.into_iter().flat_map(|asked| asked.promises);
        promises.for_each(|promise| promise.keep(Err(Error::NotLeader)));
    }

    /// A read may be answered once everything up to its entry is applied.
    pub(super) fn admit_reads(&mut self, reads: Vec<(u64, u64)>) {
        for (number, index) in reads {
            while let Some(Asked { promises, .. }) =
                self.reads.asked.pop_front_if(|asked| asked.number <= number)
            {
                self.barriers.extend(promises.into_iter().map(|promise| (index, promise)));
            }
        }
    }
}
