//! Live tokens: found by the keyed hash they are stored under.
//!
//! A token's storage hash is an HMAC, which costs more than all other steps of a lookup together.
//! So the hash of a token that exists is remembered under a *print*: 128 bits of SipHash under two
//! keys drawn for this process. A print opens nothing by itself: the hash it leads to must still
//! be in the table, so a revoked token is gone at once, whatever is remembered. Two texts with one
//! print would need a guess of 128 bits under unknown keys.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use kallisto_cuckoo::siphash::{Key, SipHash24};
use kallisto_cuckoo::{Error, Guard, Table};

use super::View;
use crate::cluster::Cluster;
use crate::policies::Compiled;
use crate::request::TokenText;
use crate::token::{Hash, TokenEntry};

const TOKENS_AT_START: usize = 1 << 6;
/// Prints kept beyond the live tokens before all are forgotten.
const PRINTS_SPARE_MAX: usize = 1 << 10;

/// A token that can be used: its entry, and what its policies grant.
pub(crate) struct LiveToken {
    pub(crate) entry: TokenEntry,
    compiled: ArcSwapOption<Compiled>,
}

impl LiveToken {
    pub(crate) fn new(entry: TokenEntry) -> Self {
        Self { entry, compiled: ArcSwapOption::empty() }
    }

    /// What it grants at `now`; compiled anew only after a change of policies, groups, or the entity
    /// that bears it.
    pub(crate) fn compiled(&self, view: &View, now: Timestamp) -> Arc<Compiled> {
        if let Some(compiled) = &*self.compiled.load()
            && view.policies.holds(compiled, now)
        {
            return Arc::clone(compiled);
        }
        let compiled = Arc::new(view.compile(&self.entry, now));
        self.compiled.store(Some(Arc::clone(&compiled)));
        compiled
    }

    /// Asks `decide` with what it grants, without a count of references; `None` when the entity that
    /// bears it is disabled or gone.
    pub(crate) fn with_acl<T>(
        &self,
        view: &View,
        now: Timestamp,
        decide: impl FnOnce(&kallisto_auth::AclSet) -> T,
    ) -> Option<T> {
        let compiled = self.compiled.load();
        match &*compiled {
            Some(compiled) if view.policies.holds(compiled, now) => compiled.acl().map(decide),
            _ => self.compiled(view, now).acl().map(decide),
        }
    }
}

/// Makes prints of texts.
pub(super) struct Printer([Key; 2]);

impl Printer {
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Self([Key::make_random()?, Key::make_random()?]))
    }

    pub(super) fn print(&self, text: TokenText<'_>) -> [u8; 16] {
        let [low, high] = [0, 1].map(|at| SipHash24::hash(&self.0[at], text.expose().as_bytes()));
        ((u128::from(high) << 64) | u128::from(low)).to_le_bytes()
    }
}

/// The token table of the view.
pub(crate) struct Tokens {
    by_hash: Table<LiveToken>,
    hashes: Table<Hash>,
    printer: Printer,
    ties: Mutex<Ties>,
}

/// What hangs together: kept for the fold and for handlers, asked for by no plain request.
#[derive(Default)]
struct Ties {
    by_accessor: HashMap<Box<str>, Hash>,
    children: HashMap<Hash, HashSet<Hash>>,
    by_expiry: BTreeMap<i64, BTreeSet<Hash>>,
}

impl Ties {
    fn tie(&mut self, hash: Hash, entry: &TokenEntry) {
        self.by_accessor.insert(entry.auth.accessor.as_str().into(), hash);
        if let Some(parent) = entry.parent {
            self.children.entry(parent).or_default().insert(hash);
        }
        if let Some(end) = entry.auth.expires_at {
            self.by_expiry.entry(end.as_second()).or_default().insert(hash);
        }
    }

    fn untie(&mut self, hash: &Hash, entry: &TokenEntry) {
        self.by_accessor.remove(entry.auth.accessor.as_str());
        if let Some(parent) = entry.parent
            && let Some(siblings) = self.children.get_mut(&parent)
        {
            siblings.remove(hash);
            if siblings.is_empty() {
                self.children.remove(&parent);
            }
        }
        if let Some(end) = entry.auth.expires_at
            && let Some(due) = self.by_expiry.get_mut(&end.as_second())
        {
            due.remove(hash);
            if due.is_empty() {
                self.by_expiry.remove(&end.as_second());
            }
        }
    }
}

impl Tokens {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self {
            by_hash: Table::with_capacity(TOKENS_AT_START)?,
            hashes: Table::with_capacity(TOKENS_AT_START)?,
            printer: Printer::new()?,
            ties: Mutex::default(),
        })
    }

    pub(crate) fn pin(&self) -> Guard {
        self.by_hash.pin()
    }

    fn ties(&self) -> MutexGuard<'_, Ties> {
        self.ties.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The live token of a text, and the hash it is stored under.
    pub(crate) fn find<'g>(
        &self,
        cluster: &Cluster,
        text: TokenText<'_>,
        guard: &'g Guard,
    ) -> Option<(Hash, &'g LiveToken)> {
        let print = self.printer.print(text);
        if let Some(entry) = self.hashes.get(&print, guard) {
            let hash = *entry.header();
            return self.by_hash.get(&hash, guard).map(|entry| (hash, entry.header()));
        }
        let tag = cluster.token_key.hash(text.expose());
        let found = self.by_hash.get(tag.as_ref(), guard)?;
        self.remember(&print, tag.as_ref());
        Some((tag.as_ref().try_into().ok()?, found.header()))
    }

    /// A copy of the entry under a hash.
    pub(crate) fn entry(&self, hash: &Hash) -> Option<TokenEntry> {
        let guard = self.pin();
        self.by_hash.get(hash, &guard).map(|entry| entry.header().entry.clone())
    }

    /// Whether there is a token under a hash.
    pub(crate) fn contains(&self, hash: &Hash, guard: &Guard) -> bool {
        self.by_hash.get(hash, guard).is_some()
    }

    /// The hash of the token with this accessor.
    pub(crate) fn with_accessor(&self, accessor: &str) -> Option<Hash> {
        self.ties().by_accessor.get(accessor).copied()
    }

    /// All accessors, sorted.
    pub(crate) fn accessors(&self) -> Vec<String> {
        let mut all: Vec<String> = self.ties().by_accessor.keys().map(|a| a.to_string()).collect();
        all.sort();
        all
    }

    /// How many tokens there are, and how many of them end by themselves.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let ties = self.ties();
        (self.by_hash.len(), ties.by_expiry.values().map(BTreeSet::len).sum())
    }

    /// The tokens that hang on this one.
    pub(crate) fn children_of(&self, hash: &Hash) -> Vec<Hash> {
        self.ties().children.get(hash).map_or_else(Vec::new, |all| all.iter().copied().collect())
    }

    /// At most `limit` tokens whose end has come at `now`.
    pub(crate) fn due(&self, now: Timestamp, limit: usize) -> Vec<Hash> {
        let ties = self.ties();
        let due = ties.by_expiry.range(..now.as_second()).flat_map(|(_, due)| due);
        due.take(limit).copied().collect()
    }

    /// The tokens made at a path below `mount` (which ends in a slash).
    pub(crate) fn made_at(&self, mount: &str) -> Vec<Hash> {
        let guard = self.pin();
        let made = |hash: &&Hash| {
            let token = self.by_hash.get(*hash, &guard);
            token.is_some_and(|token| token.header().entry.auth.path.starts_with(mount))
        };
        self.ties().by_accessor.values().filter(made).copied().collect()
    }

    /// Tokens whose parent is not there.
    pub(crate) fn without_parent(&self) -> Vec<Hash> {
        let guard = self.pin();
        let ties = self.ties();
        let gone = |parent: &Hash| self.by_hash.get(parent, &guard).is_none();
        let orphaned = ties.children.iter().filter(|(parent, _)| gone(parent));
        orphaned.flat_map(|(_, children)| children).copied().collect()
    }

    /// Only tokens that exist are remembered, so nobody fills this table with guesses.
    fn remember(&self, print: &[u8], hash: &[u8]) {
        if self.hashes.len() > self.by_hash.len() + PRINTS_SPARE_MAX {
            self.hashes.clear();
        }
        if let Ok(hash) = hash.try_into() {
            // A print that finds no place is found the slow way next time.
            let _ = self.hashes.insert(print, hash, &[]);
        }
    }

    /// Puts a decoded token under its storage hash.
    pub(crate) fn put(&self, hash: &[u8], entry: TokenEntry) -> Result<(), Error> {
        let Ok(hash) = Hash::try_from(hash) else { return Ok(()) };
        let mut ties = self.ties();
        if let Some(old) = self.entry(&hash) {
            ties.untie(&hash, &old);
        }
        ties.tie(hash, &entry);
        self.by_hash.upsert(&hash, LiveToken::new(entry), &[]).map(|_| ())
    }

    pub(crate) fn remove(&self, hash: &[u8]) {
        let Ok(hash) = Hash::try_from(hash) else { return };
        let mut ties = self.ties();
        if let Some(old) = self.entry(&hash) {
            ties.untie(&hash, &old);
        }
        self.by_hash.remove(&hash);
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use zeroize::Zeroizing;

    use super::*;
    use crate::cluster::TokenKey;
    use crate::token;

    #[test]
    fn a_removed_token_is_gone_although_its_print_is_remembered() {
        let cluster = Cluster {
            id: String::new(),
            name: String::new(),
            token_key: TokenKey::new(Zeroizing::new([7; 32])),
        };
        let tokens = Tokens::new().unwrap();
        let guard = tokens.pin();
        let text = TokenText::new("hvs.a");
        assert!(tokens.find(&cluster, text, &guard).is_none());
        assert_eq!(tokens.hashes.len(), 0);
        let hash = cluster.token_key.hash("hvs.a");
        tokens.put(hash.as_ref(), token::make_root(Timestamp::UNIX_EPOCH).unwrap()).unwrap();
        for _ in 0..2 {
            assert!(tokens.find(&cluster, text, &guard).is_some());
        }
        assert_eq!(tokens.hashes.len(), 1);
        assert!(tokens.find(&cluster, TokenText::new("hvs.b"), &guard).is_none());
        tokens.remove(hash.as_ref());
        assert!(tokens.find(&cluster, text, &guard).is_none());
    }
}
