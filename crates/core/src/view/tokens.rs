//! Live tokens: found by the keyed hash they are stored under.
//!
//! A token's storage hash is an HMAC, which costs more than all other steps of a lookup together.
//! So the hash of a token that exists is remembered under a *print*: 128 bits of SipHash under two
//! keys drawn for this process. A print opens nothing by itself: the hash it leads to must still
//! be in the table, so a revoked token is gone at once, whatever is remembered. Two texts with one
//! print would need a guess of 128 bits under unknown keys.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kallisto_cuckoo::siphash::{SipHash24, SipKey};
use kallisto_cuckoo::{Error, Guard, Table};

use super::cached_token::{CachedToken, Shapes};
use super::token_relations::{GatheredTokens, TokenRelation, TokenRelations};
use crate::api::request::TokenText;
use crate::records::token::ROOT_PATH;
use crate::records::token::TokenEntry;
use crate::records::token::TokenHash;
use crate::storage::cluster_identity::ClusterIdentity;
use crate::storage::keys::NamespaceNumber;

const TOKENS_AT_START: usize = 1 << 6;
/// Prints kept beyond the live tokens before all are forgotten.
const PRINTS_SPARE_MAX: usize = 1 << 10;

/// Makes prints of texts.
pub(super) struct Printer([SipKey; 2]);

impl Printer {
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Self([SipKey::make_random()?, SipKey::make_random()?]))
    }

    pub(super) fn print(&self, text: TokenText<'_>) -> [u8; 16] {
        let [low, high] = [0, 1].map(|at| SipHash24::hash(&self.0[at], text.expose().as_bytes()));
        ((u128::from(high) << 64) | u128::from(low)).to_le_bytes()
    }

    /// Half a print, for what is compared in full afterwards.
    pub(super) fn short(&self, text: &str) -> u64 {
        SipHash24::hash(&self.0[0], text.as_bytes())
    }
}

/// The token table of the view.
pub(crate) struct TokenTable {
    by_hash: Table<CachedToken>,
    hashes: Table<TokenHash>,
    printer: Printer,
    shapes: Shapes,
    relations: Mutex<TokenRelations>,
    /// How many have their parent in a namespace above.
    from_above: AtomicUsize,
}

/// Which tokens of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenSet<'h> {
    /// Those that hang on one.
    Below(&'h TokenHash),
    /// Those that hang on none of the namespace.
    Topmost,
    /// All.
    All,
}

impl TokenTable {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self {
            by_hash: Table::with_capacity(TOKENS_AT_START)?,
            hashes: Table::with_capacity(TOKENS_AT_START)?,
            printer: Printer::new()?,
            shapes: Shapes::default(),
            relations: Mutex::default(),
            from_above: AtomicUsize::new(0),
        })
    }

    pub(crate) fn pin(&self) -> Guard {
        self.by_hash.pin()
    }

    fn relations(&self) -> MutexGuard<'_, TokenRelations> {
        self.relations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The live token of a text, and the hash it is stored under.
    pub(crate) fn find<'g>(
        &self,
        cluster: &ClusterIdentity,
        text: TokenText<'_>,
        guard: &'g Guard,
    ) -> Option<(TokenHash, &'g CachedToken)> {
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
    pub(crate) fn entry(&self, hash: &TokenHash) -> Option<TokenEntry> {
        let guard = self.pin();
        self.by_hash.get(hash, &guard).map(|entry| entry.header().entry())
    }

    /// Whether there is a token under a hash whose time is not over at `now`. One whose time is over stays until a job ends it, and
    /// until then all that hangs on it.
    pub(crate) fn lives(&self, hash: &TokenHash, now: Timestamp) -> bool {
        self.lives_pinned(hash, now, &self.pin())
    }

    /// The same, for who has a pin.
    pub(super) fn lives_pinned(&self, hash: &TokenHash, now: Timestamp, guard: &Guard) -> bool {
        self.live_at(hash, guard).is_some_and(|live| !live.standing().is_expired(now))
    }

    /// Whether there is a token under a hash, be its time over or not.
    pub(crate) fn contains(&self, hash: &TokenHash) -> bool {
        self.live_at(hash, &self.pin()).is_some()
    }

    /// The hash of the token with this accessor.
    pub(crate) fn with_accessor(&self, accessor: &str) -> Option<TokenHash> {
        let guard = self.pin();
        let relations = self.relations();
        let mut found = relations.with_accessor(self.printer.short(accessor));
        found
            .find(|hash| self.live_at(hash, &guard).is_some_and(|live| live.accessor() == accessor))
    }

    /// All accessors, sorted.
    pub(crate) fn accessors(&self) -> Vec<String> {
        let guard = self.pin();
        let hashes: Vec<TokenHash> = self.relations().all().collect();
        let live = hashes.iter().filter_map(|hash| self.live_at(hash, &guard));
        let mut all: Vec<String> = live.map(|live| live.accessor().to_owned()).collect();
        all.sort();
        all
    }

    /// The hashes of all.
    pub(crate) fn hashes(&self) -> Vec<TokenHash> {
        self.relations().all().collect()
    }

    /// How many tokens there are, and how many of them end by themselves.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.by_hash.len(), self.relations().ending())
    }

    /// At most `limit` tokens that hang on this one.
    pub(crate) fn children_of(&self, hash: &TokenHash, limit: usize) -> Vec<TokenHash> {
        let guard = self.pin();
        let relations = self.relations();
        let hangs = |child: &TokenHash| {
            self.live_at(child, &guard).is_some_and(|live| live.parent() == Some(hash))
        };
        relations.children_of(start_of(hash)).filter(hangs).take(limit).collect()
    }

    /// The first `limit` tokens of a set by accessor after `after`. It looks at every one of them.
    pub(crate) fn page(
        &self,
        set: TokenSet<'_>,
        after: &str,
        limit: usize,
    ) -> Vec<(TokenHash, TokenEntry)> {
        let guard = self.pin();
        let hashes: Vec<TokenHash> = match set {
            TokenSet::Below(parent) => self.children_of(parent, usize::MAX),
            TokenSet::Topmost | TokenSet::All => self.relations().all().collect(),
        };
        let mut page = BTreeMap::new();
        for hash in hashes {
            let Some(live) = self.live_at(&hash, &guard) else { continue };
            let hangs = live.parent().is_some() && live.shared().parent_above.is_none();
            if live.accessor() <= after || (set == TokenSet::Topmost && hangs) {
                continue;
            }
            page.insert(live.accessor().to_owned(), hash);
            if page.len() > limit {
                page.pop_last();
            }
        }
        let entry = |hash: TokenHash| Some((hash, self.entry(&hash)?));
        page.into_values().filter_map(entry).collect()
    }

    /// At most `limit` tokens whose end has come at `now`.
    pub(crate) fn due(&self, now: Timestamp, limit: usize) -> Vec<TokenHash> {
        self.relations().due(now.as_second()).take(limit).collect()
    }

    /// At most `limit` tokens made at a path that starts with `prefix`.
    pub(crate) fn made_below(&self, prefix: &str, limit: usize) -> Vec<TokenHash> {
        self.relations().made_below(prefix).take(limit).collect()
    }

    /// How many tokens with leases were made at paths that begin with `prefix` and fit: paths are counted, not tokens, until there are
    /// `limit`.
    pub(crate) fn count_at(
        &self,
        prefix: &str,
        limit: usize,
        fits: impl Fn(&str) -> bool,
    ) -> usize {
        self.relations().count_at(prefix, limit, fits)
    }

    /// At most `limit` tokens made at exactly `path`.
    pub(crate) fn made_at(&self, path: &str, limit: usize) -> Vec<TokenHash> {
        self.relations().made_at(path).take(limit).collect()
    }

    /// The next segments of the paths below `folder` where tokens were made; at most `limit`.
    pub(crate) fn folders(&self, folder: &str, limit: usize) -> Vec<String> {
        self.relations().folders(folder, limit)
    }

    /// Whether a token of a namespace above may have made any of these.
    pub(crate) fn has_any_from_above(&self) -> bool {
        // Relaxed: who ends a token asks after its end was folded, as was every token it made.
        self.from_above.load(Ordering::Relaxed) > 0
    }

    /// Tokens whose parent is not there; `lives_above` answers for a parent in another namespace.
    pub(crate) fn without_parent(
        &self,
        lives_above: impl Fn(NamespaceNumber, &TokenHash) -> bool,
    ) -> Vec<TokenHash> {
        let guard = self.pin();
        let relations = self.relations();
        let gone = |child: &TokenHash| {
            let Some(live) = self.live_at(child, &guard) else { return false };
            let Some(parent) = live.parent() else { return false };
            match live.shared().parent_above {
                None => self.live_at(parent, &guard).is_none(),
                Some(number) => !lives_above(number, parent),
            }
        };
        relations.children().filter(gone).collect()
    }

    fn live_at<'g>(&self, hash: &TokenHash, guard: &'g Guard) -> Option<&'g CachedToken> {
        self.by_hash.get(hash, guard).map(|entry| entry.header())
    }

    /// The live form of an entry that stands for itself.
    pub(super) fn live(&self, entry: TokenEntry) -> CachedToken {
        CachedToken::new(entry, 0, &self.shapes)
    }

    fn tie<'t>(&self, live: &'t CachedToken) -> TokenRelation<'t> {
        TokenRelation {
            accessor: self.printer.short(live.accessor()),
            parent: live.parent().map(start_of),
            end: live.standing().expires_at.map(|end| end.as_second()),
            path: Some(live.path()).filter(|path| *path != ROOT_PATH),
        }
    }

    /// One more or one less, under the relations' lock.
    fn count_from_above(&self, live: &CachedToken, by: fn(usize, usize) -> usize) {
        if live.shared().parent_above.is_some() {
            let count = self.from_above.load(Ordering::Relaxed);
            self.from_above.store(by(count, 1), Ordering::Relaxed);
        }
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
        let Ok(hash) = TokenHash::try_from(hash) else { return Ok(()) };
        let guard = self.pin();
        let mut relations = self.relations();
        let old = self.live_at(&hash, &guard);
        let id = match old {
            Some(old) => Some(old.id()),
            None => relations.number(hash),
        };
        let live = CachedToken::new(entry, id.ok_or(Error::Capacity)?, &self.shapes);
        // Tied once it is there: what is tied can always be found.
        self.by_hash.upsert(&hash, live, &[])?;
        if let Some(old) = old {
            relations.untie(old.id(), self.tie(old));
            self.count_from_above(old, usize::wrapping_sub);
        }
        if let Some(live) = self.live_at(&hash, &guard) {
            relations.tie(live.id(), self.tie(live));
            self.count_from_above(live, usize::wrapping_add);
        }
        Ok(())
    }

    /// Puts a token of a load, whose hash comes once, under it. It is tied by [`TokenTable::settle`].
    pub(super) fn put_loaded(
        &self,
        hash: TokenHash,
        live: CachedToken,
        gathered: &mut GatheredTokens,
    ) -> Result<(), Error> {
        let mut relations = self.relations();
        let live = live.with_id(relations.number(hash).ok_or(Error::Capacity)?);
        relations.gather(live.id(), self.tie(&live), gathered);
        self.count_from_above(&live, usize::wrapping_add);
        self.by_hash.upsert(&hash, live, &[])?;
        Ok(())
    }

    /// Relates the tokens of a load.
    pub(super) fn settle(&self, gathered: GatheredTokens) {
        self.relations().settle(gathered);
    }

    pub(crate) fn remove(&self, hash: &[u8]) {
        let Ok(hash) = TokenHash::try_from(hash) else { return };
        let guard = self.pin();
        let mut relations = self.relations();
        if let Some(old) = self.live_at(&hash, &guard) {
            relations.untie(old.id(), self.tie(old));
            relations.forget(old.id());
            self.count_from_above(old, usize::wrapping_sub);
        }
        self.by_hash.remove(&hash);
    }
}

/// The first bytes of a hash, as a number.
fn start_of(hash: &TokenHash) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *hash;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use zeroize::Zeroizing;

    use super::*;
    use crate::records::token::make_root;
    use crate::storage::cluster_identity::TokenKey;

    #[test]
    fn a_removed_token_is_gone_although_its_print_is_remembered() {
        let cluster = ClusterIdentity {
            id: String::new(),
            name: String::new(),
            token_key: TokenKey::new(Zeroizing::new([7; 32])),
        };
        let tokens = TokenTable::new().unwrap();
        let guard = tokens.pin();
        let text = TokenText::new("hvs.a");
        assert!(tokens.find(&cluster, text, &guard).is_none());
        assert_eq!(tokens.hashes.len(), 0);
        let hash = cluster.token_key.hash("hvs.a");
        tokens.put(hash.as_ref(), make_root(Timestamp::UNIX_EPOCH).unwrap()).unwrap();
        for _ in 0..2 {
            assert!(tokens.find(&cluster, text, &guard).is_some());
        }
        assert_eq!(tokens.hashes.len(), 1);
        assert!(tokens.find(&cluster, TokenText::new("hvs.b"), &guard).is_none());
        tokens.remove(hash.as_ref());
        assert!(tokens.find(&cluster, text, &guard).is_none());
    }

    #[test]
    fn prints_differ_in_both_their_halves() {
        let printer = Printer::new().unwrap();
        let halves = |text: &str| {
            let print = printer.print(TokenText::new(text));
            let half = |at: usize| u64::from_le_bytes(print[at..at + 8].try_into().unwrap());
            (half(0), half(8))
        };
        let (one, other) = (halves("hvs.a"), halves("hvs.b"));
        assert!(one.0 != other.0 && one.1 != other.1 && one.0 != one.1);
        assert!(one.0 != 0 && one.1 != 0);
        assert_ne!(printer.short("hvs.a"), printer.short("hvs.b"));
        let mut hash = [9; 32];
        hash[..8].copy_from_slice(&77_u64.to_le_bytes());
        assert_eq!(start_of(&hash), 77);
    }

    #[test]
    fn tokens_are_counted_and_those_whose_end_has_come_are_due() {
        let tokens = TokenTable::new().unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!((tokens.counts(), tokens.has_any_from_above()), ((0, 0), false));
        for (hash, end) in [(1_u8, None), (2, Some(50)), (3, Some(60))] {
            let mut entry = make_root(Timestamp::UNIX_EPOCH).unwrap();
            entry.auth.expires_at = end.map(at);
            tokens.put(&[hash; 32], entry).unwrap();
        }
        assert_eq!((tokens.counts(), tokens.has_any_from_above()), ((3, 2), false));
        assert!(tokens.due(at(50), 9).is_empty(), "it lasts to its end");
        assert_eq!(tokens.due(at(51), 9), [[2; 32]]);
        assert_eq!(tokens.due(at(61), 9), [[2; 32], [3; 32]]);
        assert_eq!(tokens.due(at(61), 1), [[2; 32]]);
        let mut inside = make_root(Timestamp::UNIX_EPOCH).unwrap();
        (inside.parent, inside.parent_above) = (Some([1; 32]), Some(NamespaceNumber::ROOT));
        tokens.put(&[4; 32], inside).unwrap();
        assert!(tokens.has_any_from_above());
        tokens.remove(&[4; 32]);
        assert!(!tokens.has_any_from_above());
    }

    #[test]
    fn prints_of_tokens_that_are_gone_are_forgotten_once_there_are_many() {
        let tokens = TokenTable::new().unwrap();
        let most = PRINTS_SPARE_MAX + 1;
        for at in 0..most {
            tokens.remember(&at.to_be_bytes(), &[1; 32]);
            assert_eq!(tokens.hashes.len(), at + 1);
        }
        tokens.remember(&most.to_be_bytes(), &[1; 32]);
        assert_eq!(tokens.hashes.len(), 1);
        let entry = make_root(Timestamp::UNIX_EPOCH).unwrap();
        (1..4).for_each(|hash| tokens.put(&[hash; 32], entry.clone()).unwrap());
        for at in 0..most + 3 {
            tokens.remember(&at.to_be_bytes(), &[1; 32]);
        }
        assert_eq!(tokens.hashes.len(), most + 3, "as many more as there are tokens");
    }
}
