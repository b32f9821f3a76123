//! The values of secrets, read into memory once the server answers.
//!
//! A load takes the paths of secrets alone (`load`); until it was warmed, the hot table has only what was asked for or
//! written since, and everything else is read from the store when it is asked for, like an entry that was evicted. So
//! nothing waits for this, and nothing is wrong without it: it makes reads fast again.
//!
//! It goes through the store in chunks of records, mount by mount, and offers each chunk as a read offers what it found
//! ([`super::budget`]): a chunk counts only if nothing was folded since before it was read. On a server that is
//! written to it reads smaller ones, and in the end leaves out what it could not read between two writes.
//!
//! It ends at the memory budget, with the last secret, and when the server is sealed or takes over another state.

mod gather;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use kallisto_store::{Error as StoreError, Records, Seqno, Visit};
use zeroize::Zeroizing;

use super::budget::Folds;
use super::hot::HotSlot;
use super::mounts::Mount;
use super::{NamespaceContext, View};
use crate::records::engine_kind::KvState;
use crate::storage::barrier_store::BarrierRecords;
use crate::storage::keys::{self, NamespaceNumber, ParsedKey, kind};
use crate::view::damaged::{DamagedRecord, unsound};
pub(super) use gather::GatheredSecrets;
use gather::Gatherer;

/// How long it waits before it begins: the first second after an unseal is for those who waited for it.
const FIRST_REST: Duration = Duration::from_secs(1);
/// Secrets that are read and put in together; a quarter of a millisecond of work on a fast machine.
const CHUNK_SECRETS_MAX: usize = 128;
/// So many when they were read too slowly to come between two writes again and again.
const CHUNK_SECRETS_MIN: usize = 8;
/// Bytes of secrets that are put in together; one secret may be longer.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Tries to read the smallest chunk between two writes.
const TRIES_MAX: usize = 8;
/// How long it rests after as many secrets as a chunk may have: it takes about a fifth of a core, and a request that comes
/// meanwhile does not wait for long. It cannot give way as other long work does ([`crate::platform::threads`]): folds wait for
/// the chunk that is being put in.
const REST: Duration = Duration::from_millis(1);
/// How many secrets before one is put in its place in the table is asked for, which is in no cache.
const AHEAD: usize = 8;
/// Secrets that are taken for a sample of all: they come in the order of hidden names, which is none.
const SECRETS_SAMPLED: usize = 4_096;

/// Starts to read the values of secrets into memory, if there are any.
pub(crate) fn start_warming(context: &Arc<NamespaceContext>) {
    let namespaces = context.view.namespaces.views();
    if count_secrets(&context.view) + namespaces.iter().map(|view| count_secrets(view)).sum::<u64>()
        == 0
    {
        return;
    }
    context.view.budget.warming.store(true, Ordering::Relaxed);
    let (root, threads) = (Arc::downgrade(context), Arc::clone(&context.threads));
    let run = move || {
        threads.pause(FIRST_REST);
        // A server that was sealed meanwhile, or a core that is gone, waited for nobody here.
        let Some(root) = root.upgrade() else { return };
        let mut warming = Warming::new(&root);
        let outcome = warming.warm_all();
        root.view.budget.warming.store(false, Ordering::Relaxed);
        warming.report(outcome);
    };
    if let Err(error) = context.threads.start("warm-up", Box::new(run)) {
        context.view.budget.warming.store(false, Ordering::Relaxed);
        tracing::warn!(%error, "no thread: secrets come into memory when they are asked for");
    }
}

/// Why no more secrets are read.
enum WarmingEnd {
    /// The hot tables hold what they may.
    Full,
    /// The server was sealed, or takes over another state.
    Outdated,
    /// The store cannot be read.
    Unreadable(StoreError),
}

/// Reads values into memory.
struct Warming<'c> {
    root: &'c NamespaceContext,
    /// Secrets put in.
    secrets: u64,
    /// Those that were left out, since writes came in between again and again.
    left: u64,
    /// Records that are damaged.
    damaged: u64,
    /// Secrets until the next rest.
    until_rest: usize,
}

/// What is read of one view.
struct WarmedView<'v> {
    view: &'v View,
    /// In front of the storage keys of its namespace.
    front: Vec<u8>,
    /// Whether its table is as large as it will have to be.
    has_room: bool,
}

/// A chunk that was read.
#[derive(Default)]
struct Chunk {
    secrets: GatheredSecrets,
    /// The storage key behind which the next one begins; `None` when this is the last.
    next: Option<Vec<u8>>,
    /// What does not open, or says nothing sound.
    damaged: Vec<StoreError>,
}

/// What became of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    Taken,
    /// Something was folded since it was read.
    Late,
    /// There is no room for it.
    Full,
}

impl<'c> Warming<'c> {
    fn new(root: &'c NamespaceContext) -> Self {
        Self { root, secrets: 0, left: 0, damaged: 0, until_rest: CHUNK_SECRETS_MAX }
    }

    fn warm_all(&mut self) -> Result<(), WarmingEnd> {
        let root = self.root;
        self.warm_view(&root.view)?;
        root.view.namespaces.views().iter().try_for_each(|view| self.warm_view(view))
    }

    fn warm_view(&mut self, view: &View) -> Result<(), WarmingEnd> {
        let front = match view.namespace_number() {
            NamespaceNumber::ROOT => Vec::new(),
            number => keys::inside(number, &[]),
        };
        let mut warmed = WarmedView { view, front, has_room: false };
        view.mounts.all().iter().try_for_each(|mount| self.warm_mount(&mut warmed, mount))
    }

    fn warm_mount(&mut self, warmed: &mut WarmedView<'_>, mount: &Mount) -> Result<(), WarmingEnd> {
        let Some(kind) = kind_of(mount) else { return Ok(()) };
        let id = mount.entry.id;
        let prefix = [&warmed.front[..], &keys::engine_prefix(kind, id)].concat();
        let mut next = Some(prefix.clone());
        let mut secrets_max = CHUNK_SECRETS_MAX;
        let mut tries = 0;
        while let Some(behind) = next {
            self.rest();
            if self.root.outdated.is_set() {
                return Err(WarmingEnd::Outdated);
            }
            let folds = warmed.view.folds();
            // Only what was so when the folds were counted is known to be so when the chunk is put in.
            if warmed.view.mounts.with_id(id).is_none_or(|now| kind_of(&now) != Some(kind)) {
                return Ok(());
            }
            let chunk = self.read(warmed, (&prefix, &behind), secrets_max);
            let chunk = chunk.map_err(WarmingEnd::Unreadable)?;
            self.until_rest = self.until_rest.saturating_sub(chunk.secrets.len().max(1));
            match warmed.view.offer_chunk(folds, &chunk.secrets) {
                Offered::Taken => {
                    self.secrets += chunk.secrets.len() as u64;
                    self.note_damage(&chunk.damaged);
                    warmed.make_room();
                }
                Offered::Full => return Err(WarmingEnd::Full),
                Offered::Late if secrets_max > CHUNK_SECRETS_MIN => {
                    secrets_max /= 2;
                    next = Some(behind);
                    continue;
                }
                Offered::Late if tries < TRIES_MAX => {
                    tries += 1;
                    next = Some(behind);
                    continue;
                }
                Offered::Late => self.left += chunk.secrets.len() as u64,
            }
            tries = 0;
            secrets_max = (secrets_max * 2).min(CHUNK_SECRETS_MAX);
            next = chunk.next;
        }
        Ok(())
    }

    fn note_damage(&mut self, damaged: &[StoreError]) {
        self.damaged += damaged.len() as u64;
        for error in damaged {
            // A read of it says so to whoever asks.
            tracing::error!(%error, "a secret stays out of memory");
        }
    }

    /// Lets others have the processor after as many secrets as a chunk may have.
    fn rest(&mut self) {
        if self.until_rest == 0 {
            self.until_rest = CHUNK_SECRETS_MAX;
            self.root.threads.pause(REST);
        }
    }

    /// Reads the secrets behind a storage key, as long as they begin with `prefix`, and up to so many.
    fn read(
        &self,
        warmed: &WarmedView<'_>,
        (prefix, behind): (&[u8], &[u8]),
        secrets_max: usize,
    ) -> Result<Chunk, StoreError> {
        let keyring = self.root.store.keys().load();
        let records: &dyn Records = &**self.root.store.below();
        let clear = BarrierRecords::new(records, &keyring);
        let mut chunk = Chunk::default();
        let mut gatherer = Gatherer::default();
        let mut plain = Zeroizing::new(Vec::new());
        let mut last: Vec<u8> = Vec::new();
        records.scan_borrowed(prefix, Some(behind), &mut |storage, seqno, envelope| {
            let is_full =
                chunk.secrets.len() >= secrets_max || chunk.secrets.bytes() >= CHUNK_BYTES_MAX;
            if is_full && keys::version_of(storage).is_none() {
                chunk.next = Some(keys::behind_secret(&last));
                return Visit::Stop;
            }
            last.clear();
            last.extend_from_slice(storage);
            match keys::version_of(storage) {
                Some(version) if !gatherer.waits_for(version) => return Visit::Continue,
                Some(_) => {}
                None => {
                    let settled = gatherer.settle(warmed.view, &mut chunk.secrets);
                    chunk.damaged.extend(settled.err().map(|damaged| unsound(&damaged)));
                }
            }
            let taken = open(&clear, (storage, envelope), seqno, &mut plain, |record, seqno| {
                gatherer.take(warmed.view, record, seqno, &mut chunk.secrets)
            });
            if let Err(error) = taken {
                gatherer.forget();
                chunk.damaged.push(error);
            }
            Visit::Continue
        })?;
        let settled = gatherer.settle(warmed.view, &mut chunk.secrets);
        chunk.damaged.extend(settled.err().map(|damaged| unsound(&damaged)));
        Ok(chunk)
    }

    fn report(&self, outcome: Result<(), WarmingEnd>) {
        let Self { secrets, left, damaged, .. } = *self;
        match outcome {
            Ok(()) => tracing::info!(secrets, left, damaged, "the values of secrets are in memory"),
            Err(WarmingEnd::Full) => tracing::info!(
                secrets,
                left,
                damaged,
                "the values of secrets fill cache_size: the others are read from the store when they are asked for"
            ),
            Err(WarmingEnd::Outdated) => {}
            Err(WarmingEnd::Unreadable(error)) => {
                // The store is closed, or reads meet the same error and say so.
                tracing::info!(%error, secrets, "reading the values of secrets into memory ended early");
            }
        }
    }
}

/// Which records hold the secrets of a mount; `None` if it has none, or is being upgraded and has them as records of both kinds.
fn kind_of(mount: &Mount) -> Option<u8> {
    match mount.entry.kind.kv()? {
        KvState::V1 => Some(kind::KV_ONE),
        KvState::V2 => Some(kind::KV_META),
        KvState::Upgrading => None,
    }
}

/// How many secrets a view has that are read into memory.
fn count_secrets(view: &View) -> u64 {
    let mounts = view.mounts.all();
    mounts.iter().filter(|mount| kind_of(mount).is_some()).map(|mount| mount.index.len()).sum()
}

/// Opens a record, and has `take` take it under its own namespace's key.
fn open(
    clear: &BarrierRecords<'_>,
    (storage, envelope): (&[u8], &[u8]),
    seqno: Seqno,
    plain: &mut Vec<u8>,
    take: impl FnOnce((ParsedKey<'_>, &[u8]), Seqno) -> Result<(), DamagedRecord>,
) -> Result<(), StoreError> {
    let Some((key, value)) = clear.open_into(storage, envelope, plain)? else { return Ok(()) };
    let key = match keys::parse(key) {
        ParsedKey::Inside(_, inner) => keys::parse(inner),
        key => key,
    };
    take((key, value), seqno).map_err(|damaged| unsound(&damaged))
}

impl WarmedView<'_> {
    /// Makes the hot table large enough once, when a sample says how large secrets are: one that grows by itself moves every
    /// entry two or three times, and looks for places in an array that is nearly full.
    fn make_room(&mut self) {
        if self.has_room || self.view.hot.len() < SECRETS_SAMPLED {
            return;
        }
        self.has_room = true;
        let secrets = usize::try_from(count_secrets(self.view)).unwrap_or(usize::MAX);
        // What it is not given now it asks for again as it fills.
        let _ = self.view.reserve(secrets);
    }
}

impl View {
    /// Takes secrets into memory that were read after `folds` were counted. Nothing leaves the hot table for them.
    pub(super) fn offer_chunk(&self, folds: Folds, chunk: &GatheredSecrets) -> Offered {
        // Held for as long as a chunk takes, and by a thread as urgent as those that wait for it.
        let _hand = self.budget.hand.lock().unwrap_or_else(PoisonError::into_inner);
        if self.folds() != folds {
            return Offered::Late;
        }
        if !self.has_room_for(chunk.bytes()) {
            return Offered::Full;
        }
        for (at, (header, key, value)) in chunk.iter().enumerate() {
            if let Some(later) = chunk.key(at + AHEAD) {
                self.hot.prefetch(later, &self.hot.pin());
            }
            if self.hot.upsert(key, HotSlot::new(header), value).is_err() {
                // A table that refuses it only stays without.
                break;
            }
        }
        self.count_hot();
        Offered::Taken
    }
}

#[cfg(test)]
mod tests;
