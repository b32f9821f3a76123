//! Keeping the hot table to its budget, and taking back what left it.

use std::sync::TryLockError;
use std::sync::atomic::Ordering;

use kallisto_cuckoo::Hand;
use kallisto_store::Record;

use super::View;
use super::budget::{Folds, SLACK};
use super::damaged::DamagedRecord;
use crate::records::kv::SecretMetadata;
use crate::storage::keys::MountId;

impl View {
    /// How many batches were folded so far: to be asked before the store is read.
    pub(crate) fn folds(&self) -> Folds {
        Folds(self.budget.folds.load(Ordering::Acquire))
    }

    /// Entries that left the hot table to make room.
    pub fn evicted(&self) -> usize {
        self.budget.evicted.load(Ordering::Relaxed)
    }

    /// Entries that were read from the store and offered to the table again.
    pub(crate) fn offered(&self) -> u64 {
        self.budget.offered.load(Ordering::Relaxed)
    }

    /// Makes the hot table large enough for `secrets` secrets, or for as many as the budget has room for if they are as
    /// large as those it holds.
    pub(super) fn reserve(&self, secrets: usize) -> Result<(), kallisto_cuckoo::Error> {
        let mean = (self.hot.memory().entry_bytes / self.hot.len().max(1)).max(1);
        self.hot.reserve(secrets.min(self.budget.pool.bytes_max / mean))
    }

    /// Whether values are read into memory after an unseal (see `warm`).
    pub(crate) fn is_warming(&self) -> bool {
        self.budget.warming.load(Ordering::Relaxed)
    }

    /// Whether the budget has room for so many bytes more.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.budget.has_room_for(bytes)
    }

    /// Counts what the table holds now: its live bytes, and how many the pool is over its size.
    pub(super) fn count_hot(&self) -> (usize, usize) {
        let memory = self.hot.memory();
        let live = memory.entry_bytes - memory.retired_bytes;
        (live, self.budget.count(live))
    }

    /// Makes room, if the table holds more than it may.
    pub(super) fn keep_to_budget(&self, hand: &mut Hand) {
        let (live, over) = self.count_hot();
        if over == 0 || live == 0 {
            return;
        }
        let wanted = (over + self.budget.pool.bytes_max / SLACK).min(live);
        let before = self.hot.len();
        self.hot.evict(hand, wanted, |slot| slot.take_used());
        self.budget.evicted.fetch_add(before.saturating_sub(self.hot.len()), Ordering::Relaxed);
    }

    /// Takes a KV v2 secret back that was read from the store after `folds` were counted. Does
    /// nothing when somebody writes to the view or did since then: the next read will offer again.
    pub(crate) fn offer_secret(
        &self,
        folds: Folds,
        id: MountId,
        path: &str,
        metadata: &SecretMetadata,
        record: Option<&[u8]>,
    ) {
        self.offer(folds, || self.put_secret(id, path, metadata, record));
    }

    /// The same for a KV v1 secret.
    pub(crate) fn offer_one(&self, folds: Folds, id: MountId, path: &str, record: &Record) {
        self.offer(folds, || self.put_one(id, path, record.seqno, &record.value));
    }

    fn offer(&self, folds: Folds, put: impl FnOnce() -> Result<(), DamagedRecord>) {
        self.budget.offered.fetch_add(1, Ordering::Relaxed);
        let mut hand = match self.budget.hand.try_lock() {
            Ok(hand) => hand,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if self.folds() != folds {
            return;
        }
        // What was read and answered is sound; a table that refuses it only stays without.
        if put().is_ok() {
            self.keep_to_budget(&mut hand);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use kallisto_auth::Operation::{Read, Update};
    use kallisto_store::MemoryStore;

    use crate::platform::server_info::ServerInfo;
    use crate::routes::tests::{ROOT, ask};
    use crate::state::Core;
    use crate::view::hot_key;

    const BYTES_MAX: usize = 100_000;
    /// A few entries more may be there than the budget says.
    const BYTES_ABOVE: usize = BYTES_MAX / 10;
    const SECRETS: usize = 300;

    fn put(core: &Core, at: usize) {
        let body = format!(r#"{{"data":{{"v":"{}"}}}}"#, "x".repeat(1_000));
        ask(core, Some(ROOT), Update, &format!("secret/data/{at}"), &body).unwrap();
    }

    #[test]
    fn memory_is_kept_to_its_budget_and_what_left_it_comes_back_when_it_is_read() {
        let info = ServerInfo { hot_bytes_max: BYTES_MAX, ..ServerInfo::default() };
        let core = Core::new(Arc::new(MemoryStore::new()), info);
        let root = Some(ROOT.to_owned().into());
        pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
        let context = core.context.load_full().unwrap();
        let view = &context.view;
        let live = || {
            let memory = view.hot.memory();
            memory.entry_bytes - memory.retired_bytes
        };
        for at in 0..SECRETS {
            put(&core, at);
            assert!(live() <= BYTES_MAX + BYTES_ABOVE, "{at}");
        }
        assert!(live() > BYTES_MAX / 2, "{}", live());
        assert_eq!(view.hot.len() + view.evicted(), SECRETS);
        let (mount, _) = view.mounts.route("secret/").unwrap();
        let is_in_memory = |at: usize| {
            let guard = view.hot.pin();
            view.hot.get(&hot_key(mount.entry.id, &at.to_string()), &guard).is_some()
        };
        let gone = (0..SECRETS).find(|at| !is_in_memory(*at)).unwrap();
        assert_eq!(view.offered(), 0);
        ask(&core, Some(ROOT), Read, &format!("secret/data/{gone}"), "").unwrap();
        assert!(view.offered() == 1 && is_in_memory(gone));
        assert!(live() <= BYTES_MAX + BYTES_ABOVE);
        // What was read before something was folded may be old by now.
        let folds = view.folds();
        put(&core, SECRETS);
        view.hot.clear();
        let metadata = crate::engines::kv::v2::stage::metadata(&context, &mount, "0");
        let metadata = metadata.unwrap().0.unwrap();
        view.offer_secret(folds, mount.entry.id, "0", &metadata, None);
        assert!(view.offered() == 2 && !is_in_memory(0));
    }
}
