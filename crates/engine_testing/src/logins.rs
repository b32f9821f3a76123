//! What a server does for login methods, done by a mount of tests: it notes the login that a method grants, and counts wrong passwords.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kallisto_api::{BoxFuture, Error, Response};
use kallisto_engine::{Attempts, Login, Logins};

use super::TestMount;

impl Logins for TestMount {
    fn grant(&self, login: Login) -> BoxFuture<'_, Result<Response, Error>> {
        *self.granted.lock().unwrap() = Some(login);
        Box::pin(std::future::ready(Ok(Response::Empty)))
    }

    fn attempts(&self, _: &str) -> Arc<dyn Attempts> {
        Arc::clone(&self.attempts) as Arc<dyn Attempts>
    }
}

/// Wrong passwords, of all names together.
#[derive(Default)]
pub(super) struct CountedAttempts {
    of_users: AtomicU64,
    of_nobody: AtomicU64,
    locks: AtomicBool,
}

impl CountedAttempts {
    pub(super) fn counted(&self) -> (u64, u64) {
        (self.of_users.load(Ordering::SeqCst), self.of_nobody.load(Ordering::SeqCst))
    }

    pub(super) fn lock(&self, locks: bool) {
        self.locks.store(locks, Ordering::SeqCst);
    }
}

impl Attempts for CountedAttempts {
    fn is_locked(&self) -> bool {
        self.locks.load(Ordering::SeqCst)
    }

    fn fail(&self, is_user: bool) {
        let counter = if is_user { &self.of_users } else { &self.of_nobody };
        counter.fetch_add(1, Ordering::SeqCst);
    }

    fn forget(&self) {
        self.of_users.store(0, Ordering::SeqCst);
    }
}
