//! Rotation: a new data key, and the old records under it in the background.
//!
//! A record that is damaged is named in the log and left as it is; the others are not kept waiting for it.
//!
//! New writes use the new key from the moment its keyring is committed; the re-encryption reads
//! every record under an older key and writes it back unless another write was faster. Whoever leads goes on with it
//! until it has seen that nothing is left: the leader that began may be gone.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use jiff::Timestamp;
use kallisto_barrier::{KeyVersion, envelope_key_version};
use kallisto_store::{Batch, Error as StoreError, Seqno, Visit};

use super::init::unavailable;
use crate::api::error::Error;
use crate::platform::threads::outcome_of;
use crate::state::Core;
use crate::storage::keys::{self, kind};
use crate::view::NamespaceContext;

/// Records looked up in one pass of the re-encryption; bounds its memory.
const PASS_RECORDS_MAX: usize = 1 << 16;
/// Records written back in one batch.
const BATCH_RECORDS_MAX: usize = 128;
/// Damaged records that are passed over; with more, the re-encryption stops.
const DAMAGED_MAX: usize = 1 << 12;
/// Their bytes. A larger record has a batch of its own.
const BATCH_BYTES_MAX: usize = 1 << 20;

impl Core {
    /// The active data key: its version, since when, and how many records it sealed.
    pub(crate) fn active_key(context: &NamespaceContext) -> Option<KeyVersion> {
        context.store.keys().load().versions().last().copied()
    }

    /// Adds a data key, makes it the active one, and starts the re-encryption.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without randomness or when the store refuses.
    pub(crate) async fn rotate(
        &self,
        context: &Arc<NamespaceContext>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let _turn = self.seal.turn().await;
        let record = self.store.get(&keys::keyring())?;
        let seqno = record.map_or(Seqno::ABSENT, |record| record.seqno);
        let next = context.store.keys().load().rotated(now.as_second()).map_err(unavailable)?;
        let mut batch = Batch::new();
        batch.expect(keys::keyring(), seqno);
        batch.put(keys::keyring(), next.seal(&context.root).map_err(unavailable)?);
        // The fold takes the committed keyring into use, here as on every other server.
        self.store.commit(batch).await?;
        tracing::info!(key_version = next.active_version(), "rotated");
        start_reencryption(context)
    }
}

/// Goes on with a re-encryption that somebody began, unless this server, which leads, has seen its end.
///
/// # Errors
/// As [`start_reencryption`].
pub(crate) fn reencryption_due(context: &Arc<NamespaceContext>) -> Result<(), Error> {
    let active = u64::from(context.store.keys().load().active_version());
    match context.reencryption.finished.load(Ordering::Acquire) == active {
        true => Ok(()),
        false => start_reencryption(context),
    }
}

/// Starts the re-encryption unless it runs or there is but one key; it ends by itself when the server is sealed.
pub(crate) fn start_reencryption(context: &Arc<NamespaceContext>) -> Result<(), Error> {
    if context.store.keys().load().versions().len() < 2 {
        return Ok(());
    }
    if context.reencryption.running.swap(1, Ordering::AcqRel) == 1 {
        return Ok(());
    }
    let weak = Arc::downgrade(context);
    let run = move || {
        let outcome = reencrypt(&weak);
        if let Some(context) = weak.upgrade() {
            context.reencryption.running.store(0, Ordering::Release);
        }
        match outcome {
            Ok(ReencryptionTally { records, damaged: 0 }) => {
                tracing::info!(records, "re-encrypted")
            }
            Ok(ReencryptionTally { records, damaged }) => tracing::error!(
                records,
                damaged,
                "re-encrypted all but damaged records, which stay under an older key; the log names them"
            ),
            Err(error) => tracing::error!(%error, "re-encryption stopped"),
        }
    };
    context.threads.start("reencrypt", Box::new(run)).map_err(|error| {
        context.reencryption.running.store(0, Ordering::Release);
        Error::Unavailable(format!("no thread: {error}"))
    })
}

/// What a re-encryption did.
struct ReencryptionTally {
    /// Records written back.
    records: u64,
    /// Records passed over, since they are damaged.
    damaged: u64,
}

/// Passes over the store until no record is under an older key but those that are damaged.
fn reencrypt(context: &Weak<NamespaceContext>) -> Result<ReencryptionTally, StoreError> {
    let (mut records, mut damaged) = (0, HashSet::new());
    let ended = |records, damaged: &HashSet<_>| {
        Ok(ReencryptionTally { records, damaged: damaged.len() as u64 })
    };
    if let Some(live) = context.upgrade() {
        live.reencryption.damaged.store(0, Ordering::Relaxed);
    }
    loop {
        let Some(live) = context.upgrade() else { return ended(records, &damaged) };
        let active = live.store.keys().load().active_version();
        let StaleRecords { first: stale, count } = find_stale(&live, active, &damaged)?;
        live.reencryption.left.store(count, Ordering::Relaxed);
        if stale.is_empty() {
            live.reencryption.finished.store(u64::from(active), Ordering::Release);
            return ended(records, &damaged);
        }
        drop(live);
        for chunk in stale.chunks(BATCH_RECORDS_MAX) {
            let Some(live) = context.upgrade() else { return ended(records, &damaged) };
            let written = write_back(&live, chunk, &mut damaged)?;
            live.reencryption.done.fetch_add(written, Ordering::Relaxed);
            live.reencryption.damaged.store(damaged.len() as u64, Ordering::Relaxed);
            // Nobody else writes it while this runs.
            let left = live.reencryption.left.load(Ordering::Relaxed);
            live.reencryption.left.store(left.saturating_sub(written), Ordering::Relaxed);
            records += written;
        }
    }
}

/// Records under an older key.
#[derive(Default)]
struct StaleRecords {
    /// The storage keys of the first [`PASS_RECORDS_MAX`] that are not known to be damaged.
    first: Vec<Vec<u8>>,
    /// How many there are, damaged or not.
    count: u64,
}

fn find_stale(
    context: &NamespaceContext,
    active: u32,
    damaged: &HashSet<Vec<u8>>,
) -> Result<StaleRecords, StoreError> {
    let mut stale = StaleRecords::default();
    context.store.below().scan(&[], &mut |key, record| {
        let older = envelope_key_version(&record.value).is_some_and(|version| version < active);
        if key.first() != Some(&kind::BARRIER) && older {
            stale.count += 1;
            if stale.first.len() < PASS_RECORDS_MAX && !damaged.contains(key) {
                stale.first.push(key.to_vec());
            }
        }
        Visit::Continue
    })?;
    Ok(stale)
}

/// Seals records anew, each on the condition that it is still the one that was read. When one lost
/// its race the others of its batch are found again by the next pass. Those that do not open are added to `damaged`.
fn write_back(
    context: &NamespaceContext,
    storage_keys: &[Vec<u8>],
    damaged: &mut HashSet<Vec<u8>>,
) -> Result<u64, StoreError> {
    let (mut batch, mut bytes, mut written) = (Batch::new(), 0, 0);
    for storage in storage_keys {
        let (key, record) = match context.store.get_stored(storage) {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            Err(error @ StoreError::Damaged(_)) if damaged.len() < DAMAGED_MAX => {
                tracing::error!(%error, "a record is not re-encrypted");
                damaged.insert(storage.clone());
                continue;
            }
            Err(error) => return Err(error),
        };
        if bytes + record.value.len() > BATCH_BYTES_MAX {
            written += commit_back(context, std::mem::take(&mut batch))?;
            bytes = 0;
        }
        bytes += record.value.len();
        batch.expect(key.clone(), record.seqno);
        batch.put(key, record.value);
    }
    Ok(written + commit_back(context, batch)?)
}

/// Commits what was sealed anew; how many records that were.
fn commit_back(context: &NamespaceContext, batch: Batch) -> Result<u64, StoreError> {
    let written = batch.ops().len() as u64;
    if written == 0 {
        return Ok(0);
    }
    match outcome_of(&*context.threads, context.store.commit(batch)) {
        Some(Ok(_)) => Ok(written),
        Some(Err(StoreError::Conflict)) => Ok(0),
        Some(Err(error)) => Err(error),
        None => Err(StoreError::Unknown("nobody says what became of a batch".into())),
    }
}
