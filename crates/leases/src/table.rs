//! All leases in memory: found by id, and in order by mount and due time, owner, and path.
//!
//! A lease is a slot of four bytes in here. Its id is kept as the number of its path, which leases of one role share, and
//! the random part; the ordered sets hold the slot beside what they are sorted by. The first four bytes of a
//! hash may be shared by two owners, and the hash of an id by two ids; the rest is compared.
//!
//! ```text
//! slots     slot -> owner, random part, due time, path number, phase
//! ids       SipHash of namespace and id -> slot
//! due       (mount, due time, slot)      irrevocable leases at the end of time
//! owned     (start of the owner's hash, slot)
//! grouped   (path number, slot)
//! paths     (namespace, path, mount) -> path number
//! ```
//!
//! Driven by the fold of committed records: [`LeaseTable::put`] and [`LeaseTable::remove`] are idempotent. [`LeaseTable::postpone`] moves a
//! lease in the order of due times, until its record changes. All else reads, and takes a limit where it could be long.

mod paths;
mod slab;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use hashbrown::HashTable;
use kallisto_cuckoo::siphash::{SipHash24, SipKey};

use crate::id::LeaseId;
use crate::limits::{ID_BYTES_MAX, RANDOM_CHARS};
use crate::record::{LeasePhase, LeaseRecord, Owner};
use paths::{LeasePaths, PathNumber};
use slab::Slab;

/// The number of a lease in memory, reused after its end.
type LeaseSlot = u32;

/// When a lease is due that never is; all others are due before.
const NEVER: i64 = i64::MAX;

/// What is kept of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LeaseEntry {
    owner: Option<Owner>,
    random: [u8; RANDOM_CHARS],
    due_ns: i64,
    path: PathNumber,
    phase: LeasePhase,
}

/// A lease of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The number of its namespace.
    pub namespace: u32,
    /// The number of its mount.
    pub mount: u32,
    /// Its id.
    pub id: LeaseId,
    /// How far it is.
    pub phase: LeasePhase,
}

/// Where a walk over the leases below a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseCursor {
    path: Box<str>,
    mount: u32,
    slot: LeaseSlot,
}

/// What is known of leases that were gathered, to be sorted at once.
#[derive(Debug, Default)]
pub struct GatheredLeases {
    due: Vec<(u32, i64, LeaseSlot)>,
    owned: Vec<(u32, LeaseSlot)>,
    grouped: Vec<(PathNumber, LeaseSlot)>,
}

/// How many leases there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounts {
    /// In all phases.
    pub all: usize,
    /// Those that are being revoked.
    pub revoking: usize,
    /// Irrevocable ones.
    pub irrevocable: usize,
}

/// The index of all leases of a server.
#[derive(Debug)]
pub struct LeaseTable {
    key: SipKey,
    slots: Slab<LeaseEntry>,
    ids: HashTable<LeaseSlot>,
    due: BTreeSet<(u32, i64, LeaseSlot)>,
    owned: BTreeSet<(u32, LeaseSlot)>,
    grouped: BTreeSet<(PathNumber, LeaseSlot)>,
    paths: LeasePaths,
    counts: BTreeMap<u32, LeaseCounts>,
}

impl LeaseTable {
    /// An empty table. `key` is drawn for it: who chooses paths cannot aim their ids at one place of the table.
    pub fn new(key: SipKey) -> Self {
        Self {
            key,
            slots: Slab::default(),
            ids: HashTable::new(),
            due: BTreeSet::new(),
            owned: BTreeSet::new(),
            grouped: BTreeSet::new(),
            paths: LeasePaths::default(),
            counts: BTreeMap::new(),
        }
    }

    /// Forgets all leases.
    pub fn clear(&mut self) {
        *self = Self::new(self.key.clone());
    }

    /// How many leases there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes in the record of a lease of a namespace, in place of the one it had. Returns whether there was room: there
    /// is for four billion leases.
    pub fn put(&mut self, namespace: u32, record: &LeaseRecord) -> bool {
        self.remove(namespace, &record.id);
        let Some((slot, entry)) = self.enter(namespace, record) else { return false };
        self.due.insert((record.mount, entry.due_ns, slot));
        self.grouped.insert((entry.path, slot));
        if let Some(owner) = &entry.owner {
            self.owned.insert((head(&owner.hash), slot));
        }
        true
    }

    /// As [`Self::put`] for the records of a start, each of which comes once: what is sorted is sorted at the end, by
    /// [`Self::settle`]. Until then leases are found by id only.
    pub fn gather(
        &mut self,
        namespace: u32,
        record: &LeaseRecord,
        gathered: &mut GatheredLeases,
    ) -> bool {
        if self.find(namespace, record.id.as_str()).is_some() {
            return false;
        }
        let Some((slot, entry)) = self.enter(namespace, record) else { return false };
        gathered.due.push((record.mount, entry.due_ns, slot));
        gathered.grouped.push((entry.path, slot));
        gathered.owned.extend(entry.owner.map(|owner| (head(&owner.hash), slot)));
        true
    }

    /// Sorts what was gathered.
    pub fn settle(&mut self, gathered: GatheredLeases) {
        let GatheredLeases { due, owned, grouped } = gathered;
        add_all(&mut self.due, due);
        add_all(&mut self.owned, owned);
        add_all(&mut self.grouped, grouped);
    }

    /// Gives a lease a slot, by which its id is found, and counts it.
    fn enter(&mut self, namespace: u32, record: &LeaseRecord) -> Option<(LeaseSlot, LeaseEntry)> {
        let entry = LeaseEntry {
            owner: record.owner,
            random: record.id.random(),
            due_ns: record.due_ns().map_or(NEVER, |due_ns| due_ns.min(NEVER - 1)),
            path: self.paths.enter(namespace, record.id.path(), record.mount)?,
            phase: record.state.phase(),
        };
        let Some(slot) = self.slots.insert(entry) else {
            self.paths.leave(entry.path);
            return None;
        };
        let hash = hash_id(&self.key, namespace, record.id.as_str());
        let Self { ids, slots, paths, key, .. } = self;
        ids.insert_unique(hash, slot, |&slot| match slots.get(slot) {
            Some(entry) => hash_entry(key, paths, entry),
            None => 0,
        });
        let counts = self.counts.entry(record.mount).or_default();
        counts.all += 1;
        counts.revoking += usize::from(entry.phase == LeasePhase::Revoking);
        counts.irrevocable += usize::from(entry.phase == LeasePhase::Irrevocable);
        Some((slot, entry))
    }

    /// Forgets a lease; returns whether it was there.
    pub fn remove(&mut self, namespace: u32, id: &LeaseId) -> bool {
        let hash = hash_id(&self.key, namespace, id.as_str());
        let Self { ids, slots, paths, .. } = self;
        let found = ids.find_entry(hash, |&slot| is_at(slots, paths, slot, namespace, id.as_str()));
        let Ok(found) = found else { return false };
        let (slot, _) = found.remove();
        let Some(entry) = self.slots.remove(slot) else { return false };
        let Some(mount) = self.paths.get(entry.path).map(|path| path.mount) else { return false };
        self.due.remove(&(mount, entry.due_ns, slot));
        self.grouped.remove(&(entry.path, slot));
        if let Some(owner) = &entry.owner {
            self.owned.remove(&(head(&owner.hash), slot));
        }
        self.paths.leave(entry.path);
        if let Some(counts) = self.counts.get_mut(&mount) {
            counts.all -= 1;
            counts.revoking -= usize::from(entry.phase == LeasePhase::Revoking);
            counts.irrevocable -= usize::from(entry.phase == LeasePhase::Irrevocable);
            if counts.all == 0 {
                self.counts.remove(&mount);
            }
        }
        true
    }

    /// Has a lease that is being revoked wait until `due_ns`, whatever its record says, until its record changes: its far end does not answer.
    pub fn postpone(&mut self, lease: &Located, due_ns: i64) {
        let id = lease.id.as_str();
        let hash = hash_id(&self.key, lease.namespace, id);
        let is_it = |&slot: &LeaseSlot| is_at(&self.slots, &self.paths, slot, lease.namespace, id);
        let Some(&slot) = self.ids.find(hash, is_it) else { return };
        let Some(entry) = self.slots.get_mut(slot) else { return };
        if entry.phase != LeasePhase::Revoking {
            return;
        }
        self.due.remove(&(lease.mount, entry.due_ns, slot));
        entry.due_ns = due_ns.min(NEVER - 1);
        self.due.insert((lease.mount, entry.due_ns, slot));
    }

    /// The lease with this id in a namespace.
    pub fn find(&self, namespace: u32, id: &str) -> Option<Located> {
        if id.len() > ID_BYTES_MAX {
            return None;
        }
        let hash = hash_id(&self.key, namespace, id);
        let is_it = |&slot: &LeaseSlot| is_at(&self.slots, &self.paths, slot, namespace, id);
        self.ids.find(hash, is_it).and_then(|&slot| self.located(slot))
    }

    /// Whether any lease ends with the token of this hash, or one whose hash begins as this one does.
    pub fn may_own(&self, hash: &[u8; 32]) -> bool {
        let head = head(hash);
        self.owned.range((head, 0)..=(head, LeaseSlot::MAX)).next().is_some()
    }

    /// Leases in these phases that end with the token of this hash, at most `limit`, in no order that means something.
    pub fn owned_by(&self, hash: &[u8; 32], phases: &[LeasePhase], limit: usize) -> Vec<Located> {
        let head = head(hash);
        let same_head = self.owned.range((head, 0)..=(head, LeaseSlot::MAX)).map(|&(_, slot)| slot);
        let is_wanted = |slot: &LeaseSlot| {
            self.slots.get(*slot).is_some_and(|entry| {
                let is_theirs = entry.owner.is_some_and(|owner| owner.hash == *hash);
                is_theirs && phases.contains(&entry.phase)
            })
        };
        same_head.filter(is_wanted).filter_map(|slot| self.located(slot)).take(limit).collect()
    }

    /// Owners of leases, each once, behind `after` in the order of their hashes' first bytes: at most `limit` leases are
    /// looked at. `None` at the end.
    pub fn owners(&self, after: Option<u32>, limit: usize) -> Option<(Vec<Owner>, u32)> {
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded((after, LeaseSlot::MAX)));
        let mut owners: Vec<Owner> = Vec::new();
        let mut last = None;
        for (seen, &(head, slot)) in self.owned.range((from, Bound::Unbounded)).enumerate() {
            // All of one first part together: a walk that stops among them would begin behind them.
            if seen >= limit && last != Some(head) {
                break;
            }
            last = Some(head);
            let owner = self.slots.get(slot).and_then(|entry| entry.owner);
            owners.extend(owner.filter(|owner| !owners.contains(owner)));
        }
        last.map(|last| (owners, last))
    }

    /// Leases of a mount that may still be revoked, the first to be due first; at most `limit`.
    pub fn of_mount(&self, mount: u32, limit: usize) -> Vec<Located> {
        self.due_of(mount, NEVER - 1).take(limit).filter_map(|slot| self.located(slot)).collect()
    }

    /// Leases of a mount that are irrevocable, at most `limit`.
    pub fn irrevocable_of(&self, mount: u32, limit: usize) -> Vec<Located> {
        let range = self.due.range((mount, NEVER, 0)..=(mount, NEVER, LeaseSlot::MAX));
        range.take(limit).filter_map(|&(.., slot)| self.located(slot)).collect()
    }

    /// How many leases of a namespace have paths for which `fits` is true, of those that begin with `prefix`: paths are counted, not
    /// leases, until there are `limit`.
    pub fn count_at(
        &self,
        namespace: u32,
        prefix: &str,
        limit: usize,
        fits: impl Fn(&str) -> bool,
    ) -> usize {
        self.paths.count_at(namespace, prefix, limit, fits)
    }

    /// Every mount with leases, and how many.
    pub fn mounts(&self) -> impl Iterator<Item = (u32, LeaseCounts)> {
        self.counts.iter().map(|(&mount, &counts)| (mount, counts))
    }

    /// Leases of a mount that are due at `now_ns`, the first to be due first.
    pub(crate) fn due_at(&self, mount: u32, now_ns: i64) -> impl Iterator<Item = Located> {
        self.due_of(mount, now_ns.min(NEVER - 1)).filter_map(|slot| self.located(slot))
    }

    fn due_of(&self, mount: u32, until_ns: i64) -> impl Iterator<Item = LeaseSlot> {
        let range = self.due.range((mount, i64::MIN, 0)..=(mount, until_ns, LeaseSlot::MAX));
        range.map(|&(.., slot)| slot)
    }

    /// Leases of a namespace whose path is `prefix` or below it, by path, at most `limit`; every one for an empty prefix.
    /// A walk goes on behind the cursor it was given last, and meets each lease that is there from its begin to
    /// its end; one that was made meanwhile may be passed by.
    pub fn below(
        &self,
        namespace: u32,
        prefix: &str,
        after: Option<&LeaseCursor>,
        limit: usize,
    ) -> (Vec<Located>, Option<LeaseCursor>) {
        let mut found = Vec::new();
        let from = after.map(|cursor| (&*cursor.path, cursor.mount));
        for (path, known) in self.paths.below(namespace, prefix, from) {
            let is_at_cursor =
                |cursor: &&LeaseCursor| *cursor.path == *known.path && cursor.mount == known.mount;
            let start = match after.filter(is_at_cursor) {
                Some(cursor) => Bound::Excluded((path, cursor.slot)),
                None => Bound::Included((path, 0)),
            };
            let end = Bound::Included((path, LeaseSlot::MAX));
            for &(_, slot) in self.grouped.range((start, end)) {
                found.extend(self.located(slot));
                if found.len() >= limit {
                    let cursor =
                        LeaseCursor { path: (&*known.path).into(), mount: known.mount, slot };
                    return (found, Some(cursor));
                }
            }
        }
        (found, None)
    }

    /// The random parts of the leases at exactly `path`, and the next segments, with their slash, of paths below it:
    /// what a list of the folder `path` shows. At most `limit` of each; an empty path is the top.
    pub fn list(&self, namespace: u32, path: &str, limit: usize) -> Vec<String> {
        let mut names = self.paths.folders(namespace, path, limit);
        for (number, _) in self.paths.at(namespace, path) {
            let range = self.grouped.range((number, 0)..=(number, LeaseSlot::MAX));
            let entries = range.filter_map(|&(_, slot)| self.slots.get(slot));
            let randoms = entries.map(|entry| entry.random.map(char::from).iter().collect());
            names.extend(randoms.take(limit));
        }
        names
    }

    fn located(&self, slot: LeaseSlot) -> Option<Located> {
        let entry = self.slots.get(slot)?;
        let path = self.paths.get(entry.path)?;
        Some(Located {
            namespace: path.namespace,
            mount: path.mount,
            id: LeaseId::join(&path.path, &entry.random),
            phase: entry.phase,
        })
    }
}

/// Adds to a set, which is empty at a start, by building one of what is sorted: each node is written once and full.
fn add_all<T: Ord>(set: &mut BTreeSet<T>, all: Vec<T>) {
    set.append(&mut BTreeSet::from_iter(all));
}

/// The first bytes of an owner's hash.
fn head(hash: &[u8; 32]) -> u32 {
    let [a, b, c, d, ..] = *hash;
    u32::from_be_bytes([a, b, c, d])
}

/// Whether the lease in `slot` has this id.
fn is_at(
    slots: &Slab<LeaseEntry>,
    paths: &LeasePaths,
    slot: LeaseSlot,
    namespace: u32,
    id: &str,
) -> bool {
    let Some(entry) = slots.get(slot) else { return false };
    let Some(path) = paths.get(entry.path) else { return false };
    let rest = id.as_bytes().strip_prefix(path.path.as_bytes());
    let random = rest.and_then(|rest| rest.strip_prefix(b"/"));
    path.namespace == namespace && random == Some(entry.random.as_slice())
}

fn hash_entry(key: &SipKey, paths: &LeasePaths, entry: &LeaseEntry) -> u64 {
    let Some(path) = paths.get(entry.path) else { return 0 };
    hash_parts(key, path.namespace, &path.path, &entry.random)
}

fn hash_id(key: &SipKey, namespace: u32, id: &str) -> u64 {
    match id.rsplit_once('/') {
        Some((path, random)) => hash_parts(key, namespace, path, random.as_bytes()),
        None => 0,
    }
}

/// The hash of an id in a namespace; the random part first, whose length is known.
fn hash_parts(key: &SipKey, namespace: u32, path: &str, random: &[u8]) -> u64 {
    let mut bytes = [0; 4 + ID_BYTES_MAX];
    let parts: [&[u8]; 3] = [&namespace.to_le_bytes(), random, path.as_bytes()];
    let mut length = 0;
    for part in parts {
        let room = &mut bytes[length..];
        let taken = part.len().min(room.len());
        room[..taken].copy_from_slice(&part[..taken]);
        length += taken;
    }
    SipHash24::hash(key, &bytes[..length])
}
