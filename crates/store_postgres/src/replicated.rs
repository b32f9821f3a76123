//! The cluster side: who leads and who is there, as the database says. Servers come and go by themselves.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kallisto_store::{
    AsOf, BackupHead, BackupWriter, Candidacy, Chunks, Commit, Error, Invitation, Leadership,
    Member, MemberChange, MemberRole, Peer, Position, Replicated, Store,
};

use crate::PostgresStore;
use crate::shared::{PgRestoreStep, lock, lock_feed};

/// What servers of a cluster on their own disks do, and these do not.
fn not_here() -> Error {
    Error::Unavailable(
        "the storage is a database: servers that share it come and go by themselves".to_owned(),
    )
}

impl Replicated for PostgresStore {
    fn leadership(&self) -> Leadership {
        self.shared.leadership()
    }

    fn store_id(&self) -> [u8; 16] {
        self.shared.store_id
    }

    fn members(&self) -> Vec<Member> {
        let mut known = lock(&self.shared.members).clone();
        // What is committed is in the database, where all of them have it.
        let matched = self.position().0;
        known.iter_mut().for_each(|member| member.matched = matched);
        if known.iter().any(|member| member.peer.id == self.shared.own.id) {
            return known;
        }
        let own = Member {
            peer: self.shared.own.clone(),
            role: MemberRole::Voter,
            matched,
            silent_ms: None,
        };
        known.into_iter().chain([own]).collect()
    }

    fn is_alone(&self) -> bool {
        !self.shared.is_ha
    }

    fn shares_records(&self) -> bool {
        true
    }

    fn change(&self, _changes: Vec<MemberChange>) -> Commit {
        Commit::decided(Err(not_here()))
    }

    fn read_index(&self) -> Commit {
        let (promise, commit) = Commit::promised();
        let pushed = lock(&self.shared.queue).push_read(promise);
        match pushed {
            Ok(()) => self.shared.wake.notify_one(),
            Err((promise, error)) => promise.keep(Err(error)),
        }
        commit
    }

    fn as_of(&self) -> AsOf {
        self.shared.as_of()
    }

    fn now(&self) -> Duration {
        self.shared.clock.now()
    }

    fn is_removed(&self) -> bool {
        false
    }

    fn told_removed(&self) {}

    fn transfer(&self, to: Option<u64>) -> Commit {
        if !self.leads() {
            return Commit::decided(Err(Error::NotLeader));
        }
        let (promise, commit) = Commit::promised();
        let before = lock(&self.shared.transfer).replace((to.unwrap_or(0), promise));
        if let Some((_, promise)) = before {
            promise.keep(Err(Error::Busy));
        }
        self.shared.keeper_wake.notify_one();
        commit
    }

    fn stand(&self, candidacy: Candidacy) {
        *lock(&self.shared.candidacy) = candidacy;
        self.shared.keeper_wake.notify_one();
    }

    fn on_leadership(&self, news: Arc<dyn Fn() + Send + Sync>) {
        *lock(&self.shared.on_leadership) = Some(news);
    }

    fn join(&self, _invitation: Invitation) -> Commit {
        Commit::decided(Err(not_here()))
    }

    fn receive(&self, _from: u64, _message: Bytes) {}

    fn meet(&self, _peer: Peer) {}

    fn snapshot(&self) -> Result<Box<dyn Chunks>, Error> {
        Err(not_here())
    }

    fn snapshot_behind(&self, _place: &[u8]) -> Result<Option<Box<dyn Chunks>>, Error> {
        Ok(None)
    }

    fn backup(&self) -> Result<(Position, Box<dyn Chunks>), Error> {
        // The feed is what keeps the records as they are.
        let feed = lock_feed(&self.shared);
        let (position, records) = (self.position(), self.shared.records.all());
        drop(feed);
        let head = BackupHead {
            store_id: self.shared.store_id,
            index: position.0,
            term: self.leadership().term,
        };
        Ok((position, Box::new(BackupWriter::new(head, records.into_iter()))))
    }

    fn begin_restore(&self) -> Commit {
        self.step(PgRestoreStep::Begin)
    }

    fn stage(&self, generation: Position, records: Vec<(Bytes, Bytes)>) -> Commit {
        self.step(PgRestoreStep::Stage(generation.0, records))
    }

    fn finish_restore(&self, generation: Position, records: u64) -> Commit {
        self.step(PgRestoreStep::Switch(generation.0, records))
    }

    fn abandon_restore(&self, generation: Position) -> Commit {
        self.step(PgRestoreStep::Abandon(generation.0))
    }
}
