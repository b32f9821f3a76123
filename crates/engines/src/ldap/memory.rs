//! What is decoded of the records of a mount: when passwords are due, and whether that of the connection is being changed.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kallisto_api::json;
use kallisto_engine::Memory;

use super::directory::{self, LdapDirectory};
use super::rotation::Rotation;
use crate::rotation::{FinishedChanges, RotatedRecord as _};

#[derive(Default)]
struct LdapClock {
    due: BTreeMap<String, i64>,
    is_root_open: bool,
}

/// What is decoded of a mount.
#[derive(Default)]
pub(super) struct LdapMemory {
    clock: RwLock<LdapClock>,
    /// Static roles whose change is being finished for who asks.
    pub(super) finished: FinishedChanges,
}

fn is_rotated(name: &str) -> bool {
    name.starts_with("static-role/") || name.starts_with("account/")
}

impl LdapMemory {
    fn read(&self) -> RwLockReadGuard<'_, LdapClock> {
        self.clock.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, LdapClock> {
        self.clock.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The records whose passwords are due, the one that waited longest first.
    pub(super) fn due(&self, now: i64, most: usize) -> Vec<String> {
        let clock = self.read();
        let due = clock.due.iter().filter(|(_, at)| **at <= now);
        let mut due: Vec<(i64, &String)> = due.map(|(name, at)| (*at, name)).collect();
        due.sort_unstable();
        due.into_iter().take(most).map(|(_, name)| name.clone()).collect()
    }

    pub(super) fn is_root_open(&self) -> bool {
        self.read().is_root_open
    }
}

impl Memory for LdapMemory {
    fn put(&self, name: &str, value: &[u8]) -> bool {
        if is_rotated(name) {
            let map = json::parse_object(value).ok();
            let Some(rotation) = map.and_then(|map| Rotation::decode(&map).ok()) else {
                return false;
            };
            self.write().due.insert(name.to_owned(), rotation.change.next);
        } else if name == directory::RECORD {
            let Some(directory) = LdapDirectory::decode(value) else { return false };
            self.write().is_root_open = directory.has_pending();
        }
        true
    }

    fn remove(&self, name: &str) {
        if is_rotated(name) {
            self.write().due.remove(name);
        } else if name == directory::RECORD {
            self.write().is_root_open = false;
        }
    }
}
