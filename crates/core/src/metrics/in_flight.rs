//! Requests that wait for something: `sys/in-flight-req`.
//!
//! Reads that memory answers never wait and are never seen here, so they pay nothing. What waits, for
//! a disk or for other servers, is written down for as long as it does.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kallisto_auth::Operation;

use crate::api::request::Request;

/// The waiting requests, by number of arrival.
#[derive(Default)]
pub(crate) struct Registry(Mutex<WaitingCount>);

#[derive(Default)]
struct WaitingCount {
    next: u64,
    requests: BTreeMap<u64, InFlight>,
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
    numbers: Range<u64>,
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
        self.enter_all(std::iter::once(InFlight::of(request)))
    }

    /// The same for requests that wait for one thing.
    pub(crate) fn enter_all(
        &self,
        requests: impl IntoIterator<Item = InFlight>,
    ) -> InFlightEntry<'_> {
        let mut waiting = self.lock();
        let first = waiting.next;
        for waits in requests {
            let number = waiting.next;
            waiting.next += 1;
            waiting.requests.insert(number, waits);
        }
        InFlightEntry { registry: self, numbers: first..waiting.next }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().requests.len()
    }

    /// What waits, in order of arrival, by number.
    pub(crate) fn all(&self) -> Vec<(u64, InFlight)> {
        self.lock().requests.iter().map(|(number, waits)| (*number, waits.clone())).collect()
    }
}

impl Drop for InFlightEntry<'_> {
    fn drop(&mut self) {
        let mut waiting = self.registry.lock();
        for number in self.numbers.clone() {
            waiting.requests.remove(&number);
        }
    }
}
