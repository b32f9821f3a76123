//! Restoring: the file is read and staged as it comes, verified at its end, and only then takes the place of everything.
//!
//! A file that is only checked goes the same way, with nothing staged: the answer says what it holds, and whether it would be accepted.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use kallisto_backup::{FilePart, FileReader, TAG};
use kallisto_barrier::RootKey;
use kallisto_store::{Commit, Error as StoreError, Position, Replicated, Store};

use crate::api::BoxFuture;
use crate::api::error::Error;
use crate::api::json::{self, Json, Map};
use crate::api::response::{Response, Upload};
use crate::backup::seal_records::{SealRecords, StoredPair};
use crate::state::Core;
use crate::state::seal::progress::SealTurns;
use crate::view::NamespaceContext;

/// Stagings that are under way at once.
const STAGINGS_MAX: usize = 8;

/// Whether a backup has to be of this cluster's root key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// It has to. The shares that count now unseal what was restored, also where the backup was saved before a rekey.
    Keys,
    /// It may be of another, and is restored as it is: the shares that counted when it was saved are needed then.
    Nothing,
}

/// A backup on its way in. Dropped before [`Upload::finish`], it changes nothing.
pub(crate) struct Restore {
    store: Arc<dyn Store>,
    root: Arc<RootKey>,
    check: Check,
    /// What is staged belongs to it; `None` for a file that is only checked.
    generation: Option<Position>,
    /// What the file says of itself.
    meta: Map,
    has_own_keys: bool,
    reader: FileReader,
    /// They wait for the end of the file.
    seal: SealRecords,
    turns: SealTurns,
    staging: VecDeque<Commit>,
    finished: bool,
}

/// Begins to restore: the answer takes the file.
///
/// # Errors
/// [`Error::NotLeader`], or what the store says.
pub(crate) async fn begin(
    core: &Core,
    context: &NamespaceContext,
    check: Check,
) -> Result<Response, Error> {
    let cluster = core.store.replicated().ok_or(Error::UnsupportedPath)?;
    let generation = cluster.begin_restore().await?;
    Ok(upload(core, context, check, Some(generation)))
}

/// Begins to check a file: the answer takes it, and nothing changes.
///
/// # Errors
/// [`Error::UnsupportedPath`] where nothing can be restored.
pub(crate) fn begin_check(core: &Core, context: &NamespaceContext) -> Result<Response, Error> {
    core.store.replicated().ok_or(Error::UnsupportedPath)?;
    Ok(upload(core, context, Check::Keys, None))
}

fn upload(
    core: &Core,
    context: &NamespaceContext,
    check: Check,
    generation: Option<Position>,
) -> Response {
    Response::Upload(Box::new(Restore {
        store: Arc::clone(&core.store),
        root: Arc::clone(&context.root),
        check,
        generation,
        meta: Map::new(),
        has_own_keys: false,
        reader: FileReader::default(),
        seal: SealRecords::new(context),
        turns: core.seal.turns(),
        staging: VecDeque::new(),
        finished: false,
    }))
}

fn refuse(why: impl fmt::Display) -> Error {
    Error::invalid(format!("the snapshot is not restored: {why}"))
}

impl Restore {
    fn cluster(&self) -> Result<&dyn Replicated, Error> {
        self.store.replicated().ok_or(Error::UnsupportedPath)
    }

    async fn take_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for part in self.reader.take(bytes).map_err(refuse)? {
            match part {
                FilePart::Meta(bytes) => {
                    self.meta =
                        json::parse_object(&bytes).map_err(|_| refuse("it is of another kind"))?;
                }
                FilePart::Records(records) => self.stage_records(records).await?,
                FilePart::Tag(tag) => self.check_seal(&tag)?,
            }
        }
        Ok(())
    }

    async fn stage_records(&mut self, mut records: Vec<StoredPair>) -> Result<(), Error> {
        let Some(generation) = self.generation else { return Ok(()) };
        self.seal.hold(&mut records);
        if records.is_empty() {
            return Ok(());
        }
        let commit = self.cluster()?.stage(generation, records);
        self.staging.push_back(commit);
        while self.staging.len() > STAGINGS_MAX {
            self.await_staging().await?;
        }
        Ok(())
    }

    /// Stages the records of the seal, and says how many there are. The caller has the turn of the seal.
    async fn stage_seal(&mut self, generation: Position) -> Result<u64, Error> {
        let is_of_before = self.has_own_keys && self.seal.are_others(&*self.store)?;
        let records = match self.check {
            // The tag was verified: the file is of this root key.
            Check::Keys => self.seal.of_cluster(&self.store, &self.root)?,
            Check::Nothing => self.seal.of_file(),
        };
        match self.check {
            Check::Keys if is_of_before => tracing::warn!(
                "the snapshot was saved before a rekey: the shares of this cluster stay as they are"
            ),
            Check::Nothing if is_of_before => tracing::warn!(
                "the snapshot was saved before a rekey: its shares count again, and those of the rekey do not any more"
            ),
            Check::Keys | Check::Nothing => {}
        }
        let count = records.len() as u64;
        for record in records {
            let commit = self.cluster()?.stage(generation, vec![record]);
            self.staging.push_back(commit);
        }
        while !self.staging.is_empty() {
            self.await_staging().await?;
        }
        Ok(count)
    }

    async fn await_staging(&mut self) -> Result<(), Error> {
        let Some(commit) = self.staging.pop_front() else { return Ok(()) };
        commit.await.map(|_| ()).map_err(other_began)
    }

    /// A backup of other keys is of another cluster, or of this one before its keys were replaced. Its certificates'
    /// authority is another one too, so members that are here already could not go on talking to those that come.
    fn check_seal(&mut self, tag: &[u8]) -> Result<(), Error> {
        let key = self.root.tag_key(TAG).map_err(|error| Error::internal(&error))?;
        self.has_own_keys = key.verify(self.reader.sums().as_bytes(), tag);
        if self.has_own_keys || self.generation.is_none() {
            return Ok(());
        }
        if self.check == Check::Keys {
            return Err(refuse(
                "it is of a cluster with other unseal keys, or was changed; snapshot-force restores it even so",
            ));
        }
        if self.cluster()?.members().len() > 1 {
            return Err(refuse(
                "it is of a cluster with other unseal keys: remove the other servers first, and have them join again",
            ));
        }
        Ok(())
    }

    /// Verifies the whole, and has it take the place of everything.
    async fn replace_all(mut self) -> Result<Response, Error> {
        let records = self.reader.records().map_err(refuse)?;
        let Some(generation) = self.generation else { return self.describe(records) };
        // Nobody rekeys from here on.
        let turn = self.turns.next().await;
        let staged = records - self.seal.count() + self.stage_seal(generation).await?;
        let finishing = self.cluster()?.finish_restore(generation, staged);
        self.finished = true;
        let position = finishing.await.map_err(other_began)?;
        drop(turn);
        tracing::warn!(records, index = position.0, "restored a snapshot");
        Ok(Response::Empty)
    }

    /// What a file holds that was read to its end, and which route would take it.
    fn describe(&self, records: u64) -> Result<Response, Error> {
        let members = self.cluster()?.members().len();
        let here = self.store.position().0;
        let takes = match (self.has_own_keys, members) {
            (true, _) => "snapshot".into(),
            (false, 0 | 1) => "snapshot-force".into(),
            (false, _) => Json::Null,
        };
        let of = |name: &str| self.meta.get(name).cloned().unwrap_or(Json::Null);
        Ok(Response::data(&Json::object([
            ("records", records.into()),
            ("index", of("Index")),
            ("term", of("Term")),
            ("store", of("Store")),
            ("format", of("Format")),
            ("same_keys", self.has_own_keys.into()),
            ("restorable_by", takes),
            ("current_index", here.into()),
        ])))
    }
}

impl Upload for Restore {
    fn take<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.take_bytes(bytes))
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<Response, Error>> {
        Box::pin(self.replace_all())
    }
}

fn other_began(error: StoreError) -> Error {
    match error {
        StoreError::Conflict => refuse("another restore began"),
        // What was staged at another leader is of no use to this file's reader.
        StoreError::NotLeader => {
            Error::Unavailable("another server leads now: send it again".into())
        }
        other => other.into(),
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        if let (false, Some(generation), Some(cluster)) =
            (self.finished, self.generation, self.store.replicated())
        {
            // Staged records are in nobody's way; the next restore would give them up as well.
            drop(cluster.abandon_restore(generation));
        }
    }
}

impl fmt::Debug for Restore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Restore").field("generation", &self.generation).finish_non_exhaustive()
    }
}
