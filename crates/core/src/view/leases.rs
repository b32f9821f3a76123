//! The leases of dynamic secrets, as memory holds them: one for all namespaces.
//!
//! The table is the fold's, as everything in the view. Beside it stands what this server knows of its own work, which ends
//! with the view: the revocations that run, the creations that run, the mounts that are about to go, and owners whose
//! end was folded and whose leases were not looked up yet.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kallisto_cuckoo::siphash::SipKey;
use kallisto_leases::{
    GatheredLeases, LeaseCounts, LeaseId, LeaseRecord, LeaseTable, Located, Owner, RevocationQueue,
};

use crate::api::error::Error;

/// Most owners that are remembered as gone; with more, all owners are looked at.
const GONE_OWNERS_MAX: usize = 1 << 16;
/// Leases looked at in one step of a walk over all owners.
const OWNERS_PER_STEP: usize = 1 << 12;

/// All leases, and the work on them.
pub(crate) struct LeaseView {
    table: Mutex<LeaseTable>,
    work: Mutex<LeaseWork>,
    gone: Mutex<GoneOwners>,
}

/// What this server does about leases.
pub(crate) struct LeaseWork {
    /// What is revoked now.
    pub(crate) queue: RevocationQueue,
    /// The term in which the queue began.
    pub(crate) term: u64,
    /// Leases whose far end is at it, by namespace: they are rolled back by who creates them.
    pub(crate) creating: BTreeSet<(u32, LeaseId)>,
    /// What is being removed: nothing is created there.
    pub(crate) closing: BTreeSet<Closed>,
}

/// Something that no lease is created in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Closed {
    /// A mount.
    Mount(u32),
    /// A namespace.
    Namespace(u32),
}

/// Owners whose leases are to be looked for.
struct GoneOwners {
    hashes: BTreeSet<[u8; 32]>,
    /// Where a walk over all owners is; `None` while there is none to do.
    walk: Option<Option<u32>>,
}

impl LeaseView {
    /// Without a lease. Who fills it may have missed the end of an owner, so all are looked at once.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the operating system gives no randomness for the table's key.
    pub(crate) fn new() -> Result<Self, Error> {
        let key = SipKey::make_random().map_err(|error| Error::Unavailable(error.to_string()))?;
        Ok(Self {
            table: Mutex::new(LeaseTable::new(key)),
            work: Mutex::new(LeaseWork {
                queue: RevocationQueue::new(0),
                term: 0,
                creating: BTreeSet::new(),
                closing: BTreeSet::new(),
            }),
            gone: Mutex::new(GoneOwners { hashes: BTreeSet::new(), walk: Some(None) }),
        })
    }

    /// The table. Nobody waits with it.
    pub(crate) fn table(&self) -> MutexGuard<'_, LeaseTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The work. Taken before the table by who needs both.
    pub(crate) fn work(&self) -> MutexGuard<'_, LeaseWork> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gone(&self) -> MutexGuard<'_, GoneOwners> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a record in; false when it is damaged or there is no room.
    pub(crate) fn put(&self, namespace: u32, id: &str, value: &[u8]) -> bool {
        let record = LeaseRecord::decode(value);
        record.is_ok_and(|record| record.id.as_str() == id && self.table().put(namespace, &record))
    }

    /// Takes in a record of a load of the root namespace, to be sorted by [`Self::settle`].
    pub(super) fn gather(&self, id: &str, value: &[u8], gathered: &mut GatheredLeases) -> bool {
        let record = LeaseRecord::decode(value);
        record.is_ok_and(|record| {
            record.id.as_str() == id && self.table().gather(0, &record, gathered)
        })
    }

    /// Sorts what a load gathered.
    pub(super) fn settle(&self, gathered: GatheredLeases) {
        self.table().settle(gathered);
    }

    /// Forgets a lease.
    pub(super) fn remove(&self, namespace: u32, id: &str) {
        if let Ok(id) = LeaseId::parse(id) {
            self.table().remove(namespace, &id);
        }
    }

    /// Notes that a token is gone, if it has leases.
    pub(crate) fn owner_is_gone(&self, hash: &[u8]) {
        let Ok(hash) = <[u8; 32]>::try_from(hash) else { return };
        if !self.table().may_own(&hash) {
            return;
        }
        let mut gone = self.gone();
        if gone.hashes.len() < GONE_OWNERS_MAX {
            gone.hashes.insert(hash);
        } else {
            gone.walk = Some(None);
        }
    }

    /// Has all owners looked at: one may have ended unnoticed.
    pub(crate) fn look_at_all_owners(&self) {
        self.gone().walk = Some(None);
    }

    /// Owners that are noted as gone, and the next step of the walk over all, if there is one to do.
    pub(crate) fn owners_to_look_at(&self) -> (Vec<[u8; 32]>, Vec<Owner>) {
        let mut gone = self.gone();
        let noted = std::mem::take(&mut gone.hashes).into_iter().collect();
        let Some(after) = gone.walk else { return (noted, Vec::new()) };
        let step = self.table().owners(after, OWNERS_PER_STEP);
        gone.walk = step.as_ref().map(|(_, last)| Some(*last));
        (noted, step.map(|(owners, _)| owners).unwrap_or_default())
    }

    /// How many leases there are.
    pub(crate) fn counts(&self) -> LeaseCounts {
        let table = self.table();
        table.mounts().fold(LeaseCounts::default(), |sum, (_, counts)| LeaseCounts {
            all: sum.all + counts.all,
            revoking: sum.revoking + counts.revoking,
            irrevocable: sum.irrevocable + counts.irrevocable,
        })
    }

    /// Whether the far end of a lease is at it on this server.
    pub(crate) fn is_creating(&self, lease: &Located) -> bool {
        self.work().creating.contains(&(lease.namespace, lease.id.clone()))
    }
}

#[cfg(test)]
mod tests {
    use kallisto_leases::{LeaseState, Term};

    use super::*;

    fn lease(name: &str, hash: [u8; 32], state: LeaseState) -> LeaseRecord {
        LeaseRecord {
            id: LeaseId::parse(&format!("database/creds/{name}/abcdefghijklmnopqrstuvwx")).unwrap(),
            mount: 20,
            owner: Some(Owner { namespace: 0, hash }),
            term: Term {
                issued_ns: 1_000,
                expires_ns: 3_600_000_001_000,
                expires_ns_max: 86_400_000_001_000,
                renewed_ns: None,
                ttl_secs: 3_600,
                renewable: true,
            },
            state,
            revocation: Vec::new(),
        }
    }

    #[test]
    fn owners_that_ended_are_noted_and_all_are_looked_at_when_it_is_asked_for() {
        let leases = LeaseView::new().unwrap();
        let record = lease("a", [7; 32], LeaseState::Live);
        assert!(leases.put(0, record.id.as_str(), &record.encode()));
        let (noted, all) = leases.owners_to_look_at();
        assert_eq!((noted.len(), all.len()), (0, 1), "at first nobody knows who ended");
        assert_eq!(leases.owners_to_look_at(), (vec![], vec![]));
        leases.owner_is_gone(&[8; 32]);
        leases.owner_is_gone(&[7; 31]);
        assert_eq!(leases.owners_to_look_at(), (vec![], vec![]), "they own nothing");
        leases.owner_is_gone(&[7; 32]);
        assert_eq!(leases.owners_to_look_at(), (vec![[7; 32]], vec![]));
        assert_eq!(leases.owners_to_look_at(), (vec![], vec![]), "once");
        leases.look_at_all_owners();
        let owner = Owner { namespace: 0, hash: [7; 32] };
        assert_eq!(leases.owners_to_look_at(), (vec![], vec![owner]));
    }

    #[test]
    fn leases_are_counted_by_how_far_they_are() {
        let leases = LeaseView::new().unwrap();
        let revoking = LeaseState::Revoking { attempts: 1, next_try_ns: 0 };
        let irrevocable = LeaseState::irrevocable("why");
        let states = [LeaseState::Live, revoking.clone(), revoking, irrevocable];
        for (name, state) in ["a", "b", "c", "d"].into_iter().zip(states) {
            let record = lease(name, [7; 32], state);
            assert!(leases.put(0, record.id.as_str(), &record.encode()));
        }
        let counts = leases.counts();
        assert_eq!((counts.all, counts.revoking, counts.irrevocable), (4, 2, 1));
    }
}
