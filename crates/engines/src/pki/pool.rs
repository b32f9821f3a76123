//! Keys of RSA with 2048 bits that are made ahead, since making one takes some hundred milliseconds of a processor and a burst of requests waits for all
//! of them.
//!
//! A mount keeps as many as were taken of it within an hour, and none when nobody asks: who issues other keys pays nothing. A job makes a few at
//! each pass, beside those who answer requests.
//!
//! Invariants:
//! - They are in memory alone, and gone with it when the server is sealed or stopped: nothing of them is written.
//! - A key is handed out once: who takes it has it, and the pool has it no more.
//! - At most [`KEYS_MAX`] of a mount.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kallisto_api::Error;
use kallisto_engine::EngineContext;
use kallisto_pki::{PkiKeyKind, PrivateKey};

use super::given::refuse;
use super::memory::Pki;

/// The kind of key that is made ahead.
const KIND: PkiKeyKind = PkiKeyKind::Rsa(2048);
/// Most keys of a mount: some 5 KB each.
const KEYS_MAX: usize = 1_000;
/// Most keys of a pass of the job, which comes every second.
const PASS_KEYS: usize = 4;
/// For how long it counts that a key was taken, at the least; twice as long at the most.
const WINDOW_SECS: i64 = 1_800;

#[derive(Default)]
struct KeyPoolState {
    keys: Vec<PrivateKey>,
    /// When the window began that counts now, and how many keys were taken in it and in the one before.
    since: i64,
    taken: usize,
    taken_before: usize,
}

impl KeyPoolState {
    /// Begins another window when it is time.
    fn turn(&mut self, now: i64) {
        let age = now.saturating_sub(self.since);
        if age < WINDOW_SECS {
            return;
        }
        self.taken_before = if age < 2 * WINDOW_SECS { self.taken } else { 0 };
        self.taken = 0;
        self.since = now;
    }

    /// How many keys there should be.
    fn wanted(&self) -> usize {
        self.taken.max(self.taken_before).min(KEYS_MAX)
    }
}

/// Keys that are made ahead.
#[derive(Default)]
pub(super) struct KeyPool(Mutex<KeyPoolState>);

impl KeyPool {
    fn state(&self) -> MutexGuard<'_, KeyPoolState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key of a kind, if there is one; it is remembered that somebody wanted it.
    pub(super) fn take(&self, kind: PkiKeyKind, now: i64) -> Option<PrivateKey> {
        if kind != KIND {
            return None;
        }
        let mut state = self.state();
        state.turn(now);
        state.taken = state.taken.saturating_add(1);
        state.keys.pop()
    }

    /// How many keys to make now. What nobody wants any more is let go.
    fn lacks(&self, now: i64) -> usize {
        let mut state = self.state();
        state.turn(now);
        let wanted = state.wanted();
        state.keys.truncate(wanted);
        (wanted - state.keys.len()).min(PASS_KEYS)
    }

    fn put(&self, key: PrivateKey) {
        let mut state = self.state();
        if state.keys.len() < KEYS_MAX {
            state.keys.push(key);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.state().keys.len()
    }
}

/// Makes some of the keys that lack.
pub(super) async fn run(context: EngineContext<'_>) -> Result<(), Error> {
    let memory = context.memory::<Pki>()?;
    for _ in 0..memory.pool.lacks(context.now.as_second()) {
        // Where many wait for keys of their own, none is made ahead.
        let made = match context.run_heavy(|| PrivateKey::make(KIND)).await {
            Err(Error::Busy(_)) => return Ok(()),
            made => made?,
        };
        memory.pool.put(made.map_err(refuse)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOW, issue, parsed, with_root};
    use super::*;
    use crate::testing::TestMount;

    fn ready(mount: &TestMount) -> usize {
        mount.memory::<Pki>().pool.len()
    }

    #[test]
    fn as_many_keys_are_ready_as_were_taken_lately_and_each_is_handed_out_once() {
        let (mount, _) = with_root();
        let rsa = r#"{"allow_any_name":true,"key_type":"rsa","ttl":"1h"}"#;
        mount.ask(NOW, kallisto_auth::Operation::Update, "roles/rsa", rsa).unwrap();
        issue(&mount, "any", r#"{"common_name":"a.example.com"}"#).unwrap();
        mount.run_job(NOW, "keys").unwrap();
        assert_eq!(ready(&mount), 0, "who issues other keys has none made ahead");
        let mut seen = Vec::new();
        for round in 0..2 {
            for _ in 0..3 {
                let issued = issue(&mount, "rsa", r#"{"common_name":"a.example.com"}"#).unwrap();
                let spki = parsed(&issued, "certificate").public.spki().to_vec();
                assert!(!seen.contains(&spki), "a key was handed out twice");
                seen.push(spki);
            }
            mount.run_job(NOW + 1, "keys").unwrap();
            mount.run_job(NOW + 2, "keys").unwrap();
            assert_eq!(ready(&mount), 3 + 3 * round);
        }
        let names = mount.names();
        assert!(!names.iter().any(|name| name.contains("pool")), "{names:?}");
        // An hour later nobody wants them.
        mount.run_job(NOW + WINDOW_SECS + 1, "keys").unwrap();
        assert_eq!(ready(&mount), 6);
        mount.run_job(NOW + 3 * WINDOW_SECS, "keys").unwrap();
        assert_eq!(ready(&mount), 0);
        let mount = mount.restarted();
        assert_eq!(ready(&mount), 0);
    }

    #[test]
    fn a_pool_has_an_end() {
        let pool = KeyPool::default();
        for _ in 0..2 * KEYS_MAX {
            assert!(pool.take(KIND, NOW).is_none());
        }
        assert!(pool.take(PkiKeyKind::Rsa(4096), NOW).is_none());
        assert_eq!(pool.state().wanted(), KEYS_MAX);
        assert_eq!(pool.lacks(NOW), PASS_KEYS);
    }
}
