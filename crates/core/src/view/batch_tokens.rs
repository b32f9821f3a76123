//! Batch tokens that were used lately, decoded.
//!
//! A batch token is opened and decoded when it is first met and then found by its print (see
//! `tokens`), as a stored token is. What is kept is bounded: past the bound the tokens that were not
//! used lately leave (CLOCK) and cost a decryption when they come again. The whole goes with the view
//! when the server is sealed. A text that does not open is not remembered, so this cannot be filled with
//! guesses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use kallisto_cuckoo::{Error, Guard, Hand, Table};

use super::CachedToken;
use super::tokens::{Printer, TokenTable};
use crate::api::request::TokenText;
use crate::records::batch_token;
use crate::records::time_marks::TimeMarks;
use crate::records::token::TokenHash;
use crate::storage::barrier_store::KeysInUse;
use crate::storage::cluster_identity::ClusterIdentity;
use crate::storage::keys::NamespaceNumber;

/// Most batch tokens kept decoded.
const CACHED_MAX: usize = 1 << 16;
/// The part of them that leaves at once, so that not every new one has to look for room.
const SLACK: usize = 64;
const CACHED_AT_START: usize = 1 << 6;
/// How often a token that was put is looked for, when others make room meanwhile.
const FIND_TRIES_MAX: usize = 8;

/// A batch token met before.
struct Cached {
    live: CachedToken,
    /// The generation of time it was made in.
    generation: u64,
    hash: TokenHash,
    /// Set by use, cleared by the hand that makes room.
    used: AtomicBool,
}

/// The batch tokens of the view.
pub(crate) struct BatchTokens {
    keys: KeysInUse,
    marks: Arc<TimeMarks>,
    printer: Printer,
    cached: Table<Cached>,
    hand: Mutex<Hand>,
}

impl BatchTokens {
    pub(super) fn new(keys: KeysInUse, marks: Arc<TimeMarks>) -> Result<Self, Error> {
        Ok(Self {
            keys,
            marks,
            printer: Printer::new()?,
            cached: Table::with_capacity(CACHED_AT_START)?,
            hand: Mutex::default(),
        })
    }

    /// The batch token of a text, of which `sealed` is what was sealed in `namespace`, and a hash that names it; `None` when this cluster did not make it
    /// or it has ended by the marks, or its parent has by `now`. One that ends by the clock alone is given: who asks looks at its time.
    pub(crate) fn find<'g>(
        &self,
        cluster: &ClusterIdentity,
        stored: &TokenTable,
        namespace: NamespaceNumber,
        (text, sealed): (TokenText<'_>, &str),
        now: Timestamp,
        guard: &'g Guard,
    ) -> Option<(TokenHash, &'g CachedToken)> {
        let print = self.printer.print(text);
        for _ in 0..FIND_TRIES_MAX {
            if let Some(entry) = self.cached.get(&print, guard) {
                let cached = entry.header();
                // The line is in reach anyway; it is written only when that says something new.
                if !cached.used.load(Ordering::Relaxed) {
                    cached.used.store(true, Ordering::Relaxed);
                }
                let parent = cached.live.parent();
                let lives = parent.is_none_or(|parent| stored.lives_pinned(parent, now, guard))
                    && !self.has_ended(cached);
                return lives.then_some((cached.hash, &cached.live));
            }
            let (entry, generation) = batch_token::open(sealed, namespace, &self.keys.load())?;
            self.marks.meet(entry.auth.expires_at.unwrap_or(Timestamp::MAX));
            let hash = cluster.token_key.hash(text.expose()).as_ref().try_into().ok()?;
            let live = stored.live(entry);
            self.keep(&print, Cached { live, generation, hash, used: AtomicBool::new(true) });
        }
        None
    }

    /// Whether a token's time had come by the clock of a leader, whatever this server's says.
    fn has_ended(&self, cached: &Cached) -> bool {
        let end = cached.live.standing().expires_at;
        end.is_some_and(|end| self.marks.has_ended(cached.generation, end))
    }

    fn keep(&self, print: &[u8], token: Cached) {
        if self.cached.len() >= CACHED_MAX {
            let mut hand = self.hand.lock().unwrap_or_else(PoisonError::into_inner);
            let wanted = self.cached.memory().entry_bytes / SLACK;
            self.cached
                .evict(&mut hand, wanted, |cached| cached.used.swap(false, Ordering::Relaxed));
        }
        // A token that finds no place is looked for again, and refused if there is none for long.
        let _ = self.cached.insert(print, token, &[]);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.cached.len()
    }
}

#[cfg(test)]
mod tests {
    use arc_swap::ArcSwap;
    use kallisto_barrier::Keyring;
    use zeroize::Zeroizing;

    use super::*;
    use crate::storage::cluster_identity::TokenKey;

    #[test]
    fn a_guess_is_not_remembered() {
        let ring = Keyring::generate([1; 16], 0).unwrap();
        let tokens =
            BatchTokens::new(Arc::new(ArcSwap::from_pointee(ring)), Arc::default()).unwrap();
        let cluster = ClusterIdentity {
            id: String::new(),
            name: String::new(),
            token_key: TokenKey::new(Zeroizing::new([7; 32])),
        };
        let stored = TokenTable::new().unwrap();
        let guard = stored.pin();
        for guess in ["hvb.", "hvb.AAAA", "hvb.%"] {
            let text = (TokenText::new(guess), guess);
            let found = tokens.find(
                &cluster,
                &stored,
                NamespaceNumber::ROOT,
                text,
                Timestamp::UNIX_EPOCH,
                &guard,
            );
            assert!(found.is_none());
        }
        assert_eq!(tokens.len(), 0);
    }
}
