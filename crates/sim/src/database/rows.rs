//! What the simulated database keeps, and its transactions: each happens at one moment, as serialised commits of PostgreSQL do.

use std::collections::BTreeMap;
use std::time::Duration;

use kallisto_store::{Error, Peer, Record, Seqno};
use kallisto_store_postgres::database::{
    ChangeRow, DatabaseFailure, DatabaseResult, LeaseLook, ListedServer, LoadedRecords,
    PolledChanges, RecordMap, TakenLease,
};
use kallisto_store_postgres::decode_changes;
use kallisto_store_postgres::limits::{ALIVE, POLL_ROWS, SILENT_MAX};

/// The row that says who leads, the records, the change rows and the servers.
#[derive(Clone, Debug, Default)]
pub(crate) struct DatabaseRows {
    pub(crate) epoch: u64,
    holder: u64,
    wanted: u64,
    mark: i64,
    pub(crate) position: u64,
    trimmed: u64,
    records: RecordMap,
    changes: BTreeMap<u64, StoredChange>,
    servers: BTreeMap<u64, SimListed>,
    /// There is no space left: what writes is refused.
    pub(crate) is_full: bool,
    /// Nobody's epoch is looked at, where a run is sabotaged.
    pub(crate) is_unfenced: bool,
    /// How many renewals and leases there were: no two marks are the same.
    marks: i64,
}

#[derive(Clone, Debug)]
struct StoredChange {
    first: u64,
    epoch: u64,
    body: Vec<u8>,
}

#[derive(Clone, Debug)]
struct SimListed {
    peer: Peer,
    is_willing: bool,
    seen: Duration,
}

/// A group as it travels.
#[derive(Clone, Debug)]
pub(crate) struct SentCommit {
    pub(crate) epoch: u64,
    pub(crate) before: u64,
    pub(crate) last: u64,
    pub(crate) puts: Vec<(Vec<u8>, u64, Vec<u8>)>,
    pub(crate) gone: Vec<Vec<u8>>,
    pub(crate) body: Vec<u8>,
}

impl DatabaseRows {
    /// Refuses what writes where there is no space.
    fn write(&self) -> DatabaseResult<()> {
        match self.is_full {
            true => Err(DatabaseFailure::Refused(Error::Full("no space left".to_owned()))),
            false => Ok(()),
        }
    }

    /// Another mark. A clock that is set back makes a smaller one.
    fn renew_mark(&mut self, clock_off: i64) {
        self.marks += 1;
        self.mark = self.marks + clock_off;
    }

    pub(crate) fn commit(&mut self, sent: SentCommit, off: i64) -> DatabaseResult<bool> {
        self.write()?;
        let is_fenced = self.epoch == sent.epoch && self.position == sent.before;
        if !is_fenced && !self.is_unfenced {
            return Ok(false);
        }
        self.position = sent.last;
        self.renew_mark(off);
        for (key, seqno, value) in sent.puts {
            self.records.insert(key.into(), Record { value: value.into(), seqno: Seqno(seqno) });
        }
        for key in sent.gone {
            self.records.remove(key.as_slice());
        }
        let change = StoredChange { first: sent.before + 1, epoch: sent.epoch, body: sent.body };
        self.changes.insert(sent.last, change);
        Ok(true)
    }

    pub(crate) fn poll(&self, behind: u64) -> PolledChanges {
        let row = |(last, change): (&u64, &StoredChange)| {
            let (first, last) = (change.first, *last);
            let batches = decode_changes(&change.body, first, last);
            ChangeRow { first, last, epoch: change.epoch, batches }
        };
        let rows: Vec<_> = self.changes.range(behind + 1..).take(POLL_ROWS).map(row).collect();
        PolledChanges {
            epoch: self.epoch,
            tip: self.position,
            generation: 0,
            trimmed: self.trimmed,
            holder: self.holder,
            has_more: rows.len() == POLL_ROWS,
            rows,
        }
    }

    pub(crate) fn load(&self) -> LoadedRecords {
        LoadedRecords {
            records: self.records.clone(),
            position: self.position,
            generation: 0,
            epoch: self.epoch,
        }
    }

    pub(crate) fn trim(&mut self, epoch: u64, to: u64) -> DatabaseResult<()> {
        if self.epoch == epoch && self.trimmed < to {
            self.forget_changes(to);
        }
        Ok(())
    }

    /// Forgets change rows up to a position.
    pub(crate) fn forget_changes(&mut self, to: u64) {
        self.trimmed = self.trimmed.max(to);
        self.changes.retain(|last, _| *last > to);
    }

    pub(crate) fn look(&self) -> LeaseLook {
        LeaseLook {
            epoch: self.epoch,
            holder: self.holder,
            wanted: self.wanted,
            position: self.position,
            mark: self.mark,
        }
    }

    fn taken(&mut self, own: u64, off: i64) -> TakenLease {
        self.epoch += 1;
        (self.holder, self.wanted) = (own, 0);
        self.renew_mark(off);
        TakenLease { epoch: self.epoch, position: self.position }
    }

    pub(crate) fn take(
        &mut self,
        own: u64,
        seen: &LeaseLook,
        off: i64,
    ) -> DatabaseResult<Option<TakenLease>> {
        self.write()?;
        let is_same = (self.epoch, self.holder, self.mark) == (seen.epoch, seen.holder, seen.mark);
        Ok(is_same.then(|| self.taken(own, off)))
    }

    pub(crate) fn take_blank(&mut self, own: u64, off: i64) -> DatabaseResult<Option<TakenLease>> {
        self.write()?;
        Ok((self.position == 0).then(|| self.taken(own, off)))
    }

    pub(crate) fn refence(
        &mut self,
        own: u64,
        epoch: u64,
        off: i64,
    ) -> DatabaseResult<Option<TakenLease>> {
        self.write()?;
        let is_own = (self.epoch, self.holder) == (epoch, own);
        Ok(is_own.then(|| self.taken(own, off)))
    }

    pub(crate) fn renew(&mut self, own: u64, epoch: u64, off: i64) -> DatabaseResult<bool> {
        self.write()?;
        let is_own = (self.epoch, self.holder) == (epoch, own);
        if is_own {
            self.renew_mark(off);
        }
        Ok(is_own)
    }

    pub(crate) fn release(
        &mut self,
        own: u64,
        epoch: u64,
        wanted: u64,
        off: i64,
    ) -> DatabaseResult<bool> {
        self.write()?;
        let is_own = (self.epoch, self.holder) == (epoch, own);
        if is_own {
            (self.holder, self.wanted) = (0, wanted);
            self.renew_mark(off);
        }
        Ok(is_own)
    }

    pub(crate) fn be_there(&mut self, peer: Peer, is_willing: bool, now: Duration) {
        self.servers.insert(peer.id, SimListed { peer, is_willing, seen: now });
    }

    pub(crate) fn supersede(&mut self, own: &Peer, now: Duration) {
        self.servers.retain(|id, listed| {
            let is_silent = now.saturating_sub(listed.seen) > ALIVE;
            *id == own.id
                || listed.peer.cluster_address != own.cluster_address
                    && (listed.peer.name != own.name || !is_silent)
        });
    }

    pub(crate) fn list(&self, now: Duration) -> Vec<ListedServer> {
        let listed = |listed: &SimListed| ListedServer {
            peer: listed.peer.clone(),
            is_willing: listed.is_willing,
            silent_ms: u64::try_from(now.saturating_sub(listed.seen).as_millis())
                .unwrap_or(u64::MAX),
        };
        let is_heard = |known: &&SimListed| now.saturating_sub(known.seen) < SILENT_MAX;
        self.servers.values().filter(is_heard).map(listed).collect()
    }

    pub(crate) fn forget_servers(&mut self, now: Duration) {
        self.servers.retain(|_, listed| now.saturating_sub(listed.seen) < SILENT_MAX);
    }

    pub(crate) fn leave(&mut self, own: u64) {
        self.servers.remove(&own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(epoch: u64, before: u64) -> SentCommit {
        let puts = vec![(b"k".to_vec(), before + 1, b"v".to_vec())];
        SentCommit { epoch, before, last: before + 1, puts, gone: Vec::new(), body: Vec::new() }
    }

    #[test]
    fn a_commit_of_an_epoch_that_is_over_changes_nothing() {
        let mut rows = DatabaseRows::default();
        let first = rows.take_blank(1, 0).unwrap().unwrap();
        assert!(rows.commit(commit(first.epoch, 0), 0).unwrap());
        let second = rows.take(2, &rows.look(), 0).unwrap().unwrap();
        let late = (rows.commit(commit(first.epoch, 1), 0).unwrap(), rows.position);
        assert_eq!(late, (false, 1));
        assert!(!rows.commit(commit(second.epoch, 0), 0).unwrap());
        assert!(rows.commit(commit(second.epoch, 1), 0).unwrap());
        assert_eq!(rows.refence(1, first.epoch, 0).unwrap(), None);
    }

    #[test]
    fn a_lease_is_taken_as_it_was_seen_only() {
        let mut rows = DatabaseRows::default();
        let seen = rows.look();
        let taken = rows.take(1, &seen, 0).unwrap().unwrap();
        assert_eq!(rows.take(2, &seen, 0).unwrap(), None);
        let seen = rows.look();
        assert!(rows.renew(1, taken.epoch, -9).unwrap());
        assert_eq!(rows.take(2, &seen, 0).unwrap(), None);
    }
}
