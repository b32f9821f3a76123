//! A snapshot on its way in: chunks become an engine beside the one in use.
//!
//! An [`Incoming`] that its carrier drops hands what came so far back to the driver, which keeps it for a while and has
//! the rest fetched. One that was sent nonsense is worth nothing, and neither is one whose sender does not hold that
//! snapshot any more.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use kallisto_lsm::{Engine, Sync};

use super::{ResumePoint, SnapshotChunk, SnapshotHead, read_chunk};
use crate::cluster::ChunkSink;
use crate::raft::limits::SNAPSHOT_HELD;
use crate::raft::machine::{Replacement, put_meta};
use crate::raft::requests::DriverRequest;
use crate::raft::shared::StoreShared;
use crate::{CHUNK_BYTES_MAX, Error};

/// What became of a fetch.
#[derive(Debug)]
pub(crate) enum Fetched {
    /// All of it is here.
    Whole(Replacement),
    /// It broke off.
    Part(Box<PartialSnapshot>),
    /// There is nothing to keep.
    Nothing,
    /// The disk had no room for it.
    NoRoom,
}

/// A snapshot on its way in.
pub(crate) struct Incoming {
    /// What came; gone once it is handed over or worth nothing.
    part: Option<Box<PartialSnapshot>>,
    shared: Weak<StoreShared>,
    lacked_room: bool,
}

/// What came of a snapshot: an engine that is not whole, and where it ends. Dropped, its files go too.
pub(crate) struct PartialSnapshot {
    shared: Weak<StoreShared>,
    from: u64,
    number: u64,
    engine: Option<Engine>,
    store_id: [u8; 16],
    head: Option<SnapshotHead>,
    checksum: u32,
    records: u64,
    last_key: Bytes,
    /// Until when its sender holds it at least as long as this server hopes so.
    until: Duration,
    ended: bool,
}

impl Incoming {
    /// Makes an engine to be filled for the store `store_id` by the server `from`.
    pub(crate) fn new(
        shared: &Arc<StoreShared>,
        store_id: [u8; 16],
        from: u64,
    ) -> Result<Self, Error> {
        let number = shared.machine.next_engine();
        // What a failed try before left.
        shared.machine.home().remove(number);
        let engine = shared.machine.home().open_apart(number)?;
        let part = PartialSnapshot {
            shared: Arc::downgrade(shared),
            from,
            number,
            engine: Some(engine),
            store_id,
            head: None,
            checksum: 0,
            records: 0,
            last_key: Bytes::new(),
            until: shared.clock.now() + SNAPSHOT_HELD,
            ended: false,
        };
        Ok(Self::resume(Box::new(part)))
    }

    /// Goes on with what came before.
    pub(crate) fn resume(part: Box<PartialSnapshot>) -> Self {
        Self { shared: part.shared.clone(), part: Some(part), lacked_room: false }
    }

    /// Makes an engine without records.
    pub(crate) fn fill_empty(shared: &StoreShared, with: &Replacement) -> Result<(), Error> {
        let home = shared.machine.home();
        home.remove(with.engine);
        let engine = home.open_apart(with.engine)?;
        let mut batch = kallisto_lsm::EntryBatch::new();
        put_meta(&mut batch, &with.store_id, &with.membership, &with.directory)?;
        engine.write(&batch, Sync::Mode)?;
        Ok(engine.close()?)
    }
}

impl PartialSnapshot {
    /// Whether the rest of it may be had from the server `from`, and is of use to one that knows what is committed up to
    /// `committed`.
    pub(crate) fn is_wanted(&self, from: u64, committed: u64, now: Duration) -> bool {
        let newer = self.head.as_ref().is_some_and(|head| head.index > committed);
        self.from == from && newer && !self.is_past(now)
    }

    /// Whether nobody holds the rest of it any more.
    pub(crate) fn is_past(&self, now: Duration) -> bool {
        self.until <= now
    }

    fn place(&self) -> Option<ResumePoint> {
        let head = self.head.as_ref()?;
        let (index, term) = (head.index, head.term);
        let last_key = self.last_key.to_vec();
        Some(ResumePoint { index, term, checksum: self.checksum, records: self.records, last_key })
    }

    fn take(&mut self, chunk: &Bytes) -> Result<(), Error> {
        if chunk.len() > CHUNK_BYTES_MAX || self.ended {
            return Err(damaged("a chunk too many, or too large"));
        }
        let read = read_chunk(chunk, self.checksum);
        match (read.ok_or_else(|| damaged("a chunk cannot be read"))?, &self.head) {
            (SnapshotChunk::Head(head), None) if head.store_id == self.store_id => {
                self.head = Some(head)
            }
            (SnapshotChunk::Head(_), None) => return Err(damaged("it is of another store")),
            (SnapshotChunk::Records(records, checksum), Some(_)) => {
                self.put(&records)?;
                self.checksum = checksum;
            }
            (SnapshotChunk::End { checksum, records }, Some(_))
                if (checksum, records) == (self.checksum, self.records) =>
            {
                self.ended = true;
            }
            _ => return Err(damaged("chunks are missing or out of order")),
        }
        if let Some(shared) = self.shared.upgrade() {
            self.until = shared.clock.now() + SNAPSHOT_HELD;
        }
        Ok(())
    }

    fn put(&mut self, records: &[(Bytes, Bytes)]) -> Result<(), Error> {
        let Some(engine) = &self.engine else { return Err(damaged("it is over")) };
        let mut batch = kallisto_lsm::EntryBatch::new();
        for (key, value) in records {
            batch.put(key, value)?;
        }
        engine.write(&batch, Sync::Mode)?;
        self.records += records.len() as u64;
        if let Some((key, _)) = records.last() {
            // A copy: the rest of the chunk is not to stay for it.
            self.last_key = Bytes::copy_from_slice(key);
        }
        Ok(())
    }

    /// Makes what came an engine that can take the other's place, if all of it came.
    fn into_whole(mut self) -> Result<Replacement, Error> {
        let head = self.head.take().filter(|_| self.ended);
        let head = head.ok_or_else(|| damaged("it has no end"))?;
        if let Some(engine) = &self.engine {
            let mut batch = kallisto_lsm::EntryBatch::new();
            put_meta(&mut batch, &head.store_id, &head.membership, &head.directory)?;
            batch.set_position(head.index);
            engine.write(&batch, Sync::Mode)?;
            engine.close()?;
        }
        // The files stay now; whoever is given the replacement removes them if it comes too late.
        self.engine = None;
        Ok(Replacement {
            engine: self.number,
            store_id: head.store_id,
            index: head.index,
            term: head.term,
            membership: head.membership,
            directory: head.directory,
        })
    }
}

fn damaged(why: &str) -> Error {
    Error::Damaged(format!("a snapshot from a peer: {why}"))
}

impl ChunkSink for Incoming {
    fn place(&self) -> Option<Vec<u8>> {
        self.part.as_ref()?.place().map(|place| place.encode())
    }

    fn take(&mut self, chunk: Bytes) -> Result<(), Error> {
        let part = self.part.as_mut().ok_or_else(|| damaged("it is over"))?;
        let taken = part.take(&chunk);
        if let Err(error) = &taken {
            self.part = None;
            self.lacked_room = matches!(error, Error::Full(_));
        }
        taken
    }

    fn gone(mut self: Box<Self>) {
        self.part = None;
    }

    fn finish(mut self: Box<Self>) -> Result<(), Error> {
        let part = self.part.take().ok_or_else(|| damaged("it is over"))?;
        let replacement = part.into_whole();
        self.lacked_room = matches!(replacement, Err(Error::Full(_)));
        let replacement = replacement?;
        if let Some(shared) = std::mem::take(&mut self.shared).upgrade() {
            shared.requests.push(DriverRequest::Fetched(Fetched::Whole(replacement)));
        }
        Ok(())
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // Of one that was finished there is nobody to tell.
        let Some(shared) = self.shared.upgrade() else { return };
        let fetched = match self.part.take() {
            Some(part) if part.head.is_some() => Fetched::Part(part),
            None if self.lacked_room => Fetched::NoRoom,
            // Its files go before the driver may want their place.
            Some(_) | None => Fetched::Nothing,
        };
        shared.requests.push(DriverRequest::Fetched(fetched));
    }
}

impl Drop for PartialSnapshot {
    fn drop(&mut self) {
        let Some(engine) = self.engine.take() else { return };
        drop(engine);
        if let Some(shared) = self.shared.upgrade() {
            shared.machine.home().remove(self.number);
        }
    }
}

impl fmt::Debug for PartialSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartialSnapshot")
            .field("engine", &self.number)
            .field("records", &self.records)
            .finish()
    }
}
