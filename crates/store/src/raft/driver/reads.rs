//! Reads that see everything committed before them: asked together under one number, answered once their entry is applied.
//!
//! The store asks for one by itself, too, as often as it is told, since every answer says up to when its state holds everything
//! ([`crate::raft::lease`]).

use std::collections::VecDeque;
use std::time::Duration;

use super::Driver;
use crate::commit::Promise;
use crate::raft::limits::{ADMITTED_MAX, READ_TICKS_MAX};
use crate::raft::tasks::ApplierTask;
use crate::{AsOf, Error};

/// Reads that have to see everything committed before them.
#[derive(Default)]
pub(super) struct PendingReads {
    /// Not asked yet.
    pub(super) waiting: Vec<Promise>,
    /// Asked under a number, of a leader, and since when.
    asked: VecDeque<ReadRound>,
    /// Answered by the leader, and not handed out up to the entry that it named.
    admitted: VecDeque<AdmittedReads>,
    /// The first number of this run of the server, and the next one. Where they begin is drawn: an answer to an earlier run may
    /// still be on its way and says nothing of what was committed since, and a leader may still have its question.
    first: u64,
    next: u64,
    /// When the store asks by itself again.
    confirm_at: Duration,
    alone: AloneFrom,
}

/// Where the log ended when this server became the only member; `None` while there are others.
#[derive(Default)]
struct AloneFrom(Option<u64>);

impl AloneFrom {
    /// Whether everything is `applied` that the log held, up to `last`, when this was asked first.
    fn has_everything(&mut self, last: u64, applied: u64) -> bool {
        applied >= *self.0.get_or_insert(last)
    }
}

/// Reads that were asked for together.
struct ReadRound {
    number: u64,
    leader_id: u64,
    since: Duration,
    promises: Vec<Promise>,
}

/// Reads of a round that wait for an entry.
struct AdmittedReads {
    index: u64,
    /// When the leader was asked.
    since: Duration,
    promises: Vec<Promise>,
}

impl PendingReads {
    /// None yet. `seed` is another one in each run of a server.
    pub(super) fn new(seed: u64) -> Self {
        // Half of all numbers are above it: no run comes to their end.
        let first = fastrand::Rng::with_seed(seed).u64(..) >> 1;
        Self { first, next: first, ..Self::default() }
    }

    /// Everybody who waits.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Promise> {
        let asked = self.asked.drain(..).flat_map(|asked| asked.promises);
        let admitted = self.admitted.drain(..).flat_map(|admitted| admitted.promises);
        asked.chain(admitted).chain(self.waiting.drain(..))
    }

    /// What the applier has to do for the first round, if its entry is among the first `handed_out`.
    pub(super) fn pop_reached(
        &mut self,
        handed_out: u64,
    ) -> Option<impl Iterator<Item = ApplierTask> + use<>> {
        let first = self.admitted.pop_front_if(|admitted| admitted.index <= handed_out)?;
        let settled = first.promises.into_iter().map(ApplierTask::Settled);
        Some(std::iter::once(ApplierTask::Confirmed(first.since)).chain(settled))
    }

    /// Those that wait for entries.
    pub(super) fn admitted(&mut self) -> impl Iterator<Item = Promise> {
        self.admitted.drain(..).flat_map(|admitted| admitted.promises)
    }

    /// Those that have waited for their entry for too long: it may never come to a server that was removed. What the answers say of the
    /// state's age stays.
    fn overdue(&mut self, now: Duration) -> impl Iterator<Item = Promise> {
        let overdue = self
            .admitted
            .iter_mut()
            .take_while(move |admitted| admitted.since + ADMITTED_MAX <= now);
        overdue.flat_map(|admitted| admitted.promises.drain(..))
    }
}

impl Driver {
    /// Asks for all reads that wait, under one number; also when nobody waits, so that the store knows how old its state is.
    pub(super) fn ask_reads(&mut self) {
        // Before the question: what is committed while it is on its way may be missing in the answer.
        let since = self.shared.clock.now();
        let due = self.reads.confirm_at <= since && !self.node.leads_alone();
        if self.reads.waiting.is_empty() && !due {
            return;
        }
        if self.node.read_index(self.reads.next) {
            self.reads.asked.push_back(ReadRound {
                number: self.reads.next,
                leader_id: self.node.standing().leader_id,
                since,
                promises: std::mem::take(&mut self.reads.waiting),
            });
            self.reads.next += 1;
            self.reads.confirm_at = since + self.shared.confirm_every;
        } else if !self.node.leads() {
            let waiting = std::mem::take(&mut self.reads.waiting);
            waiting.into_iter().for_each(|promise| promise.keep(Err(Error::NotLeader)));
        }
    }

    /// Gives up reads whose leader is none any more, and those whose question or answer seems to be lost.
    pub(super) fn refuse_lost_reads(&mut self) {
        let (now, leader_id) = (self.shared.clock.now(), self.node.standing().leader_id);
        self.reads.overdue(now).for_each(|promise| promise.keep(Err(Error::NotLeader)));
        let Some(oldest) = self.reads.asked.front() else { return };
        let patience = self.shared.tick * READ_TICKS_MAX;
        let is_lost =
            |asked: &ReadRound| asked.leader_id != leader_id || asked.since + patience <= now;
        if !is_lost(oldest) {
            return;
        }
        self.reads.confirm_at = now;
        let (lost, kept): (VecDeque<_>, VecDeque<_>) =
            self.reads.asked.drain(..).partition(is_lost);
        self.reads.asked = kept;
        let promises = lost.into_iter().flat_map(|asked| asked.promises);
        promises.for_each(|promise| promise.keep(Err(Error::NotLeader)));
    }

    /// A read may be answered once everything up to its entry is applied.
    pub(super) fn admit_reads(&mut self, reads: Vec<(u64, u64)>) {
        for (number, index) in reads {
            if !(self.reads.first..self.reads.next).contains(&number) {
                continue;
            }
            while let Some(ReadRound { promises, since, .. }) =
                self.reads.asked.pop_front_if(|asked| asked.number <= number)
            {
                self.reads.admitted.push_back(AdmittedReads { index, since, promises });
            }
        }
    }

    /// Says whether there is anybody else who could commit something. Asked behind every change of the members.
    ///
    /// Who becomes alone may still have to apply what others, or an earlier run, were told is committed: until then it is as old as
    /// it was.
    pub(super) fn note_company(&mut self, turn_began: Duration) {
        if !self.node.leads_alone() {
            self.reads.alone = AloneFrom::default();
            self.shared.lease.not_alone(turn_began);
            return;
        }
        let last = self.node.standing().last_index;
        let applied = self.shared.machine.position().0;
        if self.reads.alone.has_everything(last, applied) {
            self.shared.lease.alone();
        }
    }

    /// Whether it leads alone and waits for what was committed before to be applied.
    pub(super) fn becomes_alone(&self) -> bool {
        self.node.leads_alone() && self.shared.lease.as_of() != AsOf::ALWAYS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl PendingReads {
        /// The numbers under which reads were asked for.
        pub(in crate::raft::driver) fn numbers(&self) -> Vec<u64> {
            self.asked.iter().map(|asked| asked.number).collect()
        }

        /// When the store asks by itself again.
        pub(in crate::raft::driver) fn confirm_at(&self) -> Duration {
            self.confirm_at
        }

        /// One that was asked of a leader.
        pub(in crate::raft::driver) fn asked_of(
            leader_id: u64,
            since: Duration,
            promise: Promise,
        ) -> Self {
            let round = ReadRound { number: 0, leader_id, since, promises: vec![promise] };
            Self { asked: VecDeque::from([round]), next: 1, ..Self::default() }
        }
    }

    /// Found by a model: what others were told is committed may still wait to be applied when a server finds itself alone.
    #[test]
    fn who_becomes_alone_is_up_to_date_once_it_applied_what_its_log_held() {
        let mut alone = AloneFrom::default();
        assert!(!alone.has_everything(7, 5));
        assert!(!alone.has_everything(8, 6), "what it decides itself meanwhile counts for nothing");
        assert!(alone.has_everything(9, 7));
        assert!(alone.has_everything(12, 9), "and does so from then on");
        alone = AloneFrom::default();
        assert!(!alone.has_everything(12, 9), "others were there in between");
        assert!(alone.has_everything(12, 12));
    }
}
