//! Requests that wait for something: `sys/in-flight-req`.
//!
//! Reads that memory answers never wait and are never seen here, so they pay nothing. What waits, for
//! a disk or for other servers, is written down for as long as it does.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kallisto_auth::Operation;

use crate::api::request::Request;

/// The waiting requests, by number of arrival: those that wait for one thing stand together, under the number of the first.
#[derive(Default)]
pub(crate) struct Registry(Mutex<WaitingCount>);

#[derive(Default)]
struct WaitingCount {
    next: u64,
    requests: BTreeMap<u64, Vec<InFlight>>,
}

/// A request that waits.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    pub(crate) since: Timestamp,
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) path: String,
    pub(crate) operation: Operation,
}

/// Places in the registry, one after another; dropping them gives them up.
pub(crate) struct InFlightEntry<'r> {
    registry: &'r Registry,
    first: u64,
}

impl InFlight {
    /// What is written down of a request.
    pub(crate) fn of(request: &Request<'_>) -> Self {
        Self {
            since: request.now,
            remote: request.remote,
            path: request.path.as_str().to_owned(),
            operation: request.operation,
        }
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, WaitingCount> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a request down until the place is dropped.
    pub(crate) fn enter(&self, request: &Request<'_>) -> InFlightEntry<'_> {
        self.enter_all(vec![InFlight::of(request)])
    }

    /// The same for requests that wait for one thing.
    pub(crate) fn enter_all(&self, requests: Vec<InFlight>) -> InFlightEntry<'_> {
        let mut waiting = self.lock();
        let first = waiting.next;
        waiting.next += requests.len().max(1) as u64;
        waiting.requests.insert(first, requests);
        InFlightEntry { registry: self, first }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().requests.values().map(Vec::len).sum()
    }

    /// What waits, in order of arrival, by number.
    pub(crate) fn all(&self) -> Vec<(u64, InFlight)> {
        let waiting = self.lock();
        let together = waiting.requests.iter();
        together.flat_map(|(first, requests)| (*first..).zip(requests.iter().cloned())).collect()
    }
}

impl Drop for InFlightEntry<'_> {
    fn drop(&mut self) {
        // Freed behind the lock.
        let _gone = self.registry.lock().requests.remove(&self.first);
    }
}
