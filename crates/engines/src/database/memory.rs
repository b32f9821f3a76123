//! What is decoded of the records of a mount: when static roles are due, and which root passwords are being changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kallisto_api::json;
use kallisto_engine::Memory;

use super::connection::DatabaseConnection;
use super::static_role::StaticRole;
use crate::rotation::{FinishedChanges, RotatedRecord as _};

#[derive(Default)]
struct RotationClock {
    due: BTreeMap<String, i64>,
    open_roots: BTreeSet<String>,
}

/// What is decoded of a mount.
#[derive(Default)]
pub(super) struct Database {
    clock: RwLock<RotationClock>,
    /// Static roles whose change is being finished for who asks.
    pub(super) finished: FinishedChanges,
}

impl Database {
    fn read(&self) -> RwLockReadGuard<'_, RotationClock> {
        self.clock.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, RotationClock> {
        self.clock.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The static roles that are due, the one that waited longest first.
    pub(super) fn roles_due(&self, now: i64, most: usize) -> Vec<String> {
        let clock = self.read();
        let mut due: Vec<(i64, &String)> =
            clock.due.iter().filter(|(_, at)| **at <= now).map(|(name, at)| (*at, name)).collect();
        due.sort_unstable();
        due.into_iter().take(most).map(|(_, name)| name.clone()).collect()
    }

    /// The connections whose root password is being changed.
    pub(super) fn open_roots(&self) -> Vec<String> {
        self.read().open_roots.iter().cloned().collect()
    }
}

impl Memory for Database {
    fn put(&self, name: &str, value: &[u8]) -> bool {
        let object = || json::parse_object(value).ok();
        if let Some(role) = name.strip_prefix("static-role/") {
            let Some(decoded) = object().and_then(|map| StaticRole::decode(&map).ok()) else {
                return false;
            };
            self.write().due.insert(role.to_owned(), decoded.change().next);
        } else if let Some(connection) = name.strip_prefix("config/") {
            let decoded = object().and_then(|map| DatabaseConnection::read(connection, map).ok());
            let Some(decoded) = decoded else { return false };
            let mut clock = self.write();
            match decoded.pending_since() {
                Some(_) => clock.open_roots.insert(connection.to_owned()),
                None => clock.open_roots.remove(connection),
            };
        }
        true
    }

    fn remove(&self, name: &str) {
        if let Some(role) = name.strip_prefix("static-role/") {
            self.write().due.remove(role);
        } else if let Some(connection) = name.strip_prefix("config/") {
            self.write().open_roots.remove(connection);
        }
    }
}
