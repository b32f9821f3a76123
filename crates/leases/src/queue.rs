//! Which of the leases that are due are revoked now: bounded at a time, per mount and per second.
//!
//! Only the leader has a queue, and a new one whenever it begins to lead. What is due it asks the table, so it holds
//! nothing but what is at work; a lease that is not taken today is there tomorrow.
//!
//! - Mounts take turns: one whose far end hangs keeps its own leases from being revoked, and no others.
//! - A start with a million of expired leases works them off at the rate of the limits, as any other.
//! - A queue that is held gives nothing, until [`RevocationQueue::release`]. Who restores a backup holds it: the
//!   credentials may be in use by the cluster that the backup was made of. An operator's word releases it.

use std::collections::BTreeMap;

use crate::id::LeaseId;
use crate::limits::{AT_WORK_MAX, MOUNT_AT_WORK_MAX, TAKEN_PER_SECOND_MAX};
use crate::table::{LeaseTable, Located};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The leases that are being revoked, and how many more may be.
#[derive(Debug)]
pub struct RevocationQueue {
    /// By mount, with their namespace; at most [`MOUNT_AT_WORK_MAX`] of each.
    at_work: BTreeMap<u32, Vec<(u32, LeaseId)>>,
    /// The mount whose turn it was last.
    last_mount: Option<u32>,
    /// Leases that may be taken, in parts of [`NANOS_PER_SEC`]; at most what a second brings.
    allowance: u64,
    refilled_ns: i64,
    is_held: bool,
}

impl RevocationQueue {
    /// A queue that begins at `now_ns`.
    pub const fn new(now_ns: i64) -> Self {
        Self {
            at_work: BTreeMap::new(),
            last_mount: None,
            allowance: 0,
            refilled_ns: now_ns,
            is_held: false,
        }
    }

    /// Gives nothing from now on, until released.
    pub const fn hold(&mut self) {
        self.is_held = true;
    }

    /// Gives what is due again.
    pub const fn release(&mut self) {
        self.is_held = false;
    }

    /// Whether it gives nothing.
    pub const fn is_held(&self) -> bool {
        self.is_held
    }

    /// How many leases are at work.
    pub fn at_work(&self) -> usize {
        self.at_work.values().map(Vec::len).sum()
    }

    /// Takes leases that are due at `now_ns` to be revoked, at most `limit`. Each is at work until [`Self::finish`].
    pub fn take(&mut self, table: &LeaseTable, now_ns: i64, limit: usize) -> Vec<Located> {
        if self.is_held {
            return Vec::new();
        }
        self.refill(now_ns);
        let allowed = usize::try_from(self.allowance / NANOS_PER_SEC).unwrap_or(usize::MAX);
        let limit = limit.min(allowed).min(AT_WORK_MAX.saturating_sub(self.at_work()));
        let mut taken = Vec::new();
        // A round gives each mount one, so that they share what may be taken.
        while taken.len() < limit {
            let before = taken.len();
            for mount in self.turns(table) {
                if taken.len() == limit {
                    break;
                }
                if let Some(next) = self.next_of(table, mount, now_ns) {
                    self.at_work.entry(mount).or_default().push((next.namespace, next.id.clone()));
                    self.last_mount = Some(mount);
                    taken.push(next);
                }
            }
            if taken.len() == before {
                break;
            }
        }
        self.allowance -= NANOS_PER_SEC * taken.len() as u64;
        taken
    }

    /// Takes the next lease of a mount that is due at `now_ns`, for who has just finished one; `None` when there is none, or
    /// no more may be taken.
    pub fn take_of(&mut self, table: &LeaseTable, mount: u32, now_ns: i64) -> Option<Located> {
        if self.is_held || self.allowance < NANOS_PER_SEC || self.at_work() >= AT_WORK_MAX {
            return None;
        }
        let next = self.next_of(table, mount, now_ns)?;
        self.at_work.entry(mount).or_default().push((next.namespace, next.id.clone()));
        self.allowance -= NANOS_PER_SEC;
        Some(next)
    }

    /// Says that a lease is about to be revoked outside of the queue, for a caller who waits. Returns whether it
    /// was not at work already. It counts for its mount until [`Self::finish`], beyond its limit if need be.
    pub fn begin(&mut self, lease: &Located) -> bool {
        let at_work = self.at_work.entry(lease.mount).or_default();
        let is_new = !at_work.iter().any(|(namespace, id)| is(lease, *namespace, id));
        if is_new {
            at_work.push((lease.namespace, lease.id.clone()));
        }
        is_new
    }

    /// Says that the work on a lease is over, however it went.
    pub fn finish(&mut self, lease: &Located) {
        let Some(at_work) = self.at_work.get_mut(&lease.mount) else { return };
        at_work.retain(|(namespace, id)| !is(lease, *namespace, id));
        if at_work.is_empty() {
            self.at_work.remove(&lease.mount);
        }
    }

    fn refill(&mut self, now_ns: i64) {
        let elapsed_ns = now_ns.saturating_sub(self.refilled_ns).max(0).cast_unsigned();
        let more = elapsed_ns.saturating_mul(TAKEN_PER_SECOND_MAX);
        self.allowance =
            self.allowance.saturating_add(more).min(TAKEN_PER_SECOND_MAX * NANOS_PER_SEC);
        self.refilled_ns = now_ns;
    }

    /// The mounts with leases, from the one behind whose turn it was last.
    fn turns(&self, table: &LeaseTable) -> Vec<u32> {
        let mut mounts: Vec<u32> = table.mounts().map(|(mount, _)| mount).collect();
        let behind = mounts.partition_point(|&mount| Some(mount) <= self.last_mount);
        mounts.rotate_left(behind);
        mounts
    }

    /// The first lease of a mount that is due and not at work, if one more may be.
    fn next_of(&self, table: &LeaseTable, mount: u32, now_ns: i64) -> Option<Located> {
        let at_work = self.at_work.get(&mount).map_or(&[][..], Vec::as_slice);
        if at_work.len() >= MOUNT_AT_WORK_MAX {
            return None;
        }
        let is_free = |lease: &Located| !at_work.iter().any(|(at, id)| is(lease, *at, id));
        table.due_at(mount, now_ns).find(is_free)
    }
}

/// Whether this is the lease.
fn is(lease: &Located, namespace: u32, id: &LeaseId) -> bool {
    lease.namespace == namespace && lease.id == *id
}

#[cfg(test)]
mod tests {
    use kallisto_cuckoo::siphash::SipKey;

    use super::*;
    use crate::record::LeaseRecord;
    use crate::record::tests::record;

    const SEC: i64 = 1_000_000_000;

    fn lease(mount: u32, number: usize) -> LeaseRecord {
        let mut lease = record("a");
        lease.id = LeaseId::new(&format!("m{mount}/creds/r"), &format!("{number:024}")).unwrap();
        lease.mount = mount;
        lease.term.expires_ns = 0;
        lease
    }

    /// A table with so many expired leases of each of these mounts, and a queue that has its second's allowance.
    fn set_up(mounts: &[(u32, usize)]) -> (LeaseTable, RevocationQueue) {
        let mut table = LeaseTable::new(SipKey::from_bytes([1; 16]));
        for &(mount, count) in mounts {
            for number in 0..count {
                assert!(table.put(0, &lease(mount, number)));
            }
        }
        (table, RevocationQueue::new(0))
    }

    fn mounts(taken: &[Located]) -> Vec<u32> {
        taken.iter().map(|lease| lease.mount).collect()
    }

    #[test]
    fn mounts_take_turns_and_each_has_a_bounded_number_at_work() {
        let (table, mut queue) = set_up(&[(20, 100), (21, 100), (22, 1)]);
        assert_eq!(mounts(&queue.take(&table, SEC, 4)), [20, 21, 22, 20]);
        assert_eq!(mounts(&queue.take(&table, SEC, 2)), [21, 20]);
        let rest = queue.take(&table, SEC, usize::MAX);
        assert_eq!(queue.at_work(), 2 * MOUNT_AT_WORK_MAX + 1);
        assert_eq!(queue.take(&table, SEC, usize::MAX), []);
        let done = rest.iter().find(|lease| lease.mount == 21).unwrap();
        queue.finish(done);
        assert_eq!(mounts(&queue.take(&table, SEC, usize::MAX)), [21]);
    }

    #[test]
    fn a_mount_that_hangs_does_not_keep_others_waiting() {
        let (mut table, mut queue) = set_up(&[(20, 1000), (21, 40)]);
        let mut revoked = 0;
        for second in 1.. {
            for lease in queue.take(&table, second * SEC, usize::MAX) {
                if lease.mount == 21 {
                    queue.finish(&lease);
                    assert!(table.remove(lease.namespace, &lease.id));
                    revoked += 1;
                }
            }
            assert!(second < 10, "40 leases in steps of {MOUNT_AT_WORK_MAX}");
            if revoked == 40 {
                break;
            }
        }
        assert_eq!(queue.at_work(), MOUNT_AT_WORK_MAX);
    }

    #[test]
    fn what_expired_is_worked_off_at_a_bounded_rate() {
        let (mut table, mut queue) = set_up(&[(20, 3000)]);
        assert_eq!(queue.take(&table, 0, usize::MAX), [], "it begins with nothing");
        let mut revoked = 0;
        for step in 1..=400 {
            for lease in queue.take(&table, step * SEC / 100, usize::MAX) {
                queue.finish(&lease);
                assert!(table.remove(lease.namespace, &lease.id));
                revoked += 1;
            }
        }
        assert_eq!(revoked, 4 * TAKEN_PER_SECOND_MAX);
    }

    #[test]
    fn who_finished_one_takes_the_next_of_the_same_mount_at_the_same_rate() {
        let (mut table, mut queue) = set_up(&[(20, 2000), (21, 1)]);
        let mut revoked = 0;
        let mut next = queue.take(&table, SEC, 1).pop();
        while let Some(lease) = next {
            queue.finish(&lease);
            assert!(lease.mount == 20 && table.remove(lease.namespace, &lease.id));
            revoked += 1;
            next = queue.take_of(&table, 20, SEC);
        }
        assert_eq!((revoked, queue.at_work()), (TAKEN_PER_SECOND_MAX, 0));
        queue.hold();
        queue.refill(2 * SEC);
        assert_eq!(queue.take_of(&table, 20, SEC), None);
    }

    #[test]
    fn a_long_pause_brings_no_more_than_a_second() {
        let (table, mut queue) = set_up(&[(20, 1)]);
        queue.refill(i64::MAX);
        assert_eq!(queue.allowance, TAKEN_PER_SECOND_MAX * NANOS_PER_SEC);
        // A clock that goes back brings nothing, and breaks nothing.
        queue.refill(i64::MIN);
        assert_eq!(queue.take(&table, SEC, usize::MAX).len(), 1);
    }

    #[test]
    fn what_is_not_due_or_irrevocable_is_not_taken() {
        let (mut table, mut queue) = set_up(&[]);
        let later = LeaseRecord { term: record("a").term, ..lease(20, 1) };
        let mut hopeless = lease(20, 2);
        hopeless.state = crate::record::LeaseState::irrevocable("no");
        assert!(table.put(0, &later) && table.put(0, &hopeless));
        assert_eq!(queue.take(&table, 2 * SEC, usize::MAX), []);
        let due = queue.take(&table, later.term.expires_ns, usize::MAX);
        assert_eq!(due.iter().map(|lease| &lease.id).collect::<Vec<_>>(), [&later.id]);
        assert_eq!(queue.take(&table, i64::MAX, usize::MAX), []);
    }

    #[test]
    fn a_queue_that_is_held_gives_nothing_until_it_is_released() {
        let (table, mut queue) = set_up(&[(20, 1)]);
        queue.hold();
        assert!(queue.is_held() && queue.take(&table, SEC, usize::MAX).is_empty());
        queue.release();
        assert_eq!(queue.take(&table, SEC, usize::MAX).len(), 1);
    }

    #[test]
    fn a_lease_that_a_caller_revokes_is_not_taken_as_well() {
        let (table, mut queue) = set_up(&[(20, 2)]);
        let [first, second] = &table.of_mount(20, 2)[..] else { panic!("there are two") };
        assert!(queue.begin(first) && !queue.begin(first));
        assert_eq!(queue.take(&table, SEC, usize::MAX), std::slice::from_ref(second));
        queue.finish(first);
        queue.finish(first);
        assert_eq!(queue.at_work(), 1);
    }

    #[test]
    fn no_more_leases_are_at_work_than_their_limit_over_all_mounts() {
        let all: Vec<_> = (0..=AT_WORK_MAX / MOUNT_AT_WORK_MAX).map(|at| 20 + at as u32).collect();
        let of_each = all.iter().map(|&mount| (mount, MOUNT_AT_WORK_MAX)).collect::<Vec<_>>();
        let (table, mut queue) = set_up(&of_each);
        let mut taken = queue.take(&table, SEC, AT_WORK_MAX - 1);
        let last = *all.last().unwrap();
        taken.extend(queue.take_of(&table, last, SEC));
        assert_eq!((taken.len(), queue.at_work()), (AT_WORK_MAX, AT_WORK_MAX));
        let free = |mount: &u32| mounts(&taken).iter().filter(|at| *at == mount).count();
        let not_full = all.iter().find(|mount| free(mount) < MOUNT_AT_WORK_MAX).unwrap();
        assert_eq!(queue.take_of(&table, *not_full, SEC), None);
        queue.finish(&taken[0]);
        assert!(queue.take_of(&table, *not_full, SEC).is_some());
    }
}
