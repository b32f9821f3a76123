//! A live token as the view holds it.
//!
//! A million containers that log in alike have tokens that differ in little: accessor, times, parent,
//! uses. All else is one [`TokenShape`], shared by the tokens that have it in common, and with it what
//! their policies grant, which is far larger than the token and compiled once per shape and change of policies.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash as StdHash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use kallisto_auth::TokenStanding;

use super::token_relations::TokenNumber;
use crate::api::json::Json;
use crate::records::token::TokenEntry;
use crate::records::token::TokenHash;
use crate::view::policies::Compiled;
use kallisto_engine::address::AddressRange;

/// Shapes kept before those that no token has are looked for.
const SHAPES_SPARE: usize = 1 << 10;

/// A token that can be used.
pub(crate) struct CachedToken {
    pub(super) shape: Arc<TokenShape>,
    accessor: Box<str>,
    parent: Option<TokenHash>,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    renewed_at: Option<Timestamp>,
    uses_left: i64,
    id: TokenNumber,
}

/// What many tokens have in common: an entry without what is a token's own.
pub(super) struct TokenShape {
    entry: CommonEntry,
    /// What its policies grant.
    pub(super) compiled: ArcSwapOption<Compiled>,
    /// What stands for clients without an entity where they are counted, once it was asked for.
    client_id: OnceLock<Box<str>>,
}

/// An entry that is looked for among shapes by what it says.
#[derive(PartialEq, Eq)]
struct CommonEntry(TokenEntry);

/// A shape, found among others by what it says.
struct Shared(Arc<TokenShape>);

impl Borrow<CommonEntry> for Shared {
    fn borrow(&self) -> &CommonEntry {
        &self.0.entry
    }
}

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        self.0.entry == other.0.entry
    }
}

impl Eq for Shared {}

impl StdHash for Shared {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.entry.hash(state);
    }
}

impl StdHash for CommonEntry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let entry = &self.0;
        entry.auth.policies.hash(state);
        entry.auth.display_name.hash(state);
        entry.auth.path.hash(state);
        entry.entity_id.hash(state);
        entry.parent_above.hash(state);
        entry.role.hash(state);
        entry.ttl_secs.hash(state);
        for map in [entry.meta.as_ref(), Some(&entry.kept)].into_iter().flatten() {
            if !map.is_empty() {
                Json::Object(map.clone()).to_text().hash(state);
            }
        }
    }
}

/// The shapes of live tokens.
#[derive(Default)]
pub(super) struct Shapes(Mutex<HashSet<Shared>>);

impl Shapes {
    /// The one shape that says what `entry` says.
    fn share(&self, entry: TokenEntry) -> Arc<TokenShape> {
        let mut shapes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = CommonEntry(entry);
        if let Some(known) = shapes.get(&entry) {
            return Arc::clone(&known.0);
        }
        // Growing would move them all anyway: time to see which are of no use.
        if shapes.len() + 1 >= shapes.capacity() && shapes.len() > SHAPES_SPARE {
            shapes.retain(|shape| Arc::strong_count(&shape.0) > 1);
        }
        let (compiled, client_id) = (ArcSwapOption::empty(), OnceLock::new());
        let shape = Arc::new(TokenShape { entry, compiled, client_id });
        shapes.insert(Shared(Arc::clone(&shape)));
        shape
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl CachedToken {
    /// The live form of an entry, under a number among the ties.
    pub(super) fn new(mut entry: TokenEntry, id: TokenNumber, shapes: &Shapes) -> Self {
        let accessor = std::mem::take(&mut entry.auth.accessor).into();
        let parent = entry.parent.take();
        let created_at = std::mem::replace(&mut entry.auth.created_at, Timestamp::UNIX_EPOCH);
        let expires_at = entry.auth.expires_at.take();
        let renewed_at = entry.renewed_at.take();
        let uses_left = std::mem::take(&mut entry.uses_left);
        let shape = shapes.share(entry);
        Self { shape, accessor, parent, created_at, expires_at, renewed_at, uses_left, id }
    }

    /// The same under a number among the ties.
    pub(super) fn with_id(self, id: TokenNumber) -> Self {
        Self { id, ..self }
    }

    /// The whole entry, put together.
    pub(crate) fn entry(&self) -> TokenEntry {
        let mut entry = self.shape.entry.0.clone();
        entry.auth.accessor = self.accessor.to_string();
        entry.auth.created_at = self.created_at;
        entry.auth.expires_at = self.expires_at;
        entry.parent = self.parent;
        entry.renewed_at = self.renewed_at;
        entry.uses_left = self.uses_left;
        entry
    }

    /// What it has in common with others; its accessor, times, parent and uses are blank there.
    pub(crate) fn shared(&self) -> &TokenEntry {
        &self.shape.entry.0
    }

    /// What stands for its client where clients are counted, made of its policies by `make` and kept.
    pub(crate) fn client_id(&self, make: impl FnOnce(&[String]) -> String) -> &str {
        let make = || make(&self.shape.entry.0.auth.policies).into_boxed_str();
        self.shape.client_id.get_or_init(make)
    }

    /// When it was made.
    pub(crate) const fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Requests left; 0 for no such limit.
    pub(crate) const fn uses_left(&self) -> i64 {
        self.uses_left
    }

    /// What the decision asks for.
    pub(crate) fn standing(&self) -> TokenStanding {
        TokenStanding { kind: self.shape.entry.0.auth.kind, expires_at: self.expires_at }
    }

    /// Whether it is for a number of requests only.
    pub(crate) const fn is_limited(&self) -> bool {
        self.uses_left != 0
    }

    /// Where it may be used from; empty for anywhere.
    pub(crate) fn bound_cidrs(&self) -> &[AddressRange] {
        &self.shape.entry.0.bound_cidrs
    }

    pub(crate) const fn parent(&self) -> Option<&TokenHash> {
        self.parent.as_ref()
    }

    pub(crate) fn accessor(&self) -> &str {
        &self.accessor
    }

    pub(super) fn path(&self) -> &str {
        &self.shape.entry.0.auth.path
    }

    pub(super) const fn id(&self) -> TokenNumber {
        self.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::token::make_root;

    #[test]
    fn tokens_that_differ_in_what_is_their_own_share_a_shape_and_come_back_whole() {
        let shapes = Shapes::default();
        let mut first = make_root(Timestamp::UNIX_EPOCH).unwrap();
        first.auth.expires_at = Some(Timestamp::MAX);
        first.uses_left = 3;
        let mut second = make_root(Timestamp::from_second(7).unwrap()).unwrap();
        second.parent = Some([1; 32]);
        second.renewed_at = Some(Timestamp::UNIX_EPOCH);
        let mut third = second.clone();
        third.meta = Some([("a".to_owned(), "b".into())].into());
        let live =
            [&first, &second, &third].map(|entry| CachedToken::new(entry.clone(), 0, &shapes));
        assert_eq!(shapes.len(), 2);
        assert!(Arc::ptr_eq(&live[0].shape, &live[1].shape));
        for (live, entry) in live.iter().zip([&first, &second, &third]) {
            assert_eq!(live.entry(), *entry);
        }
    }

    #[test]
    fn shapes_that_no_token_has_go() {
        let shapes = Shapes::default();
        for at in 0..10 * SHAPES_SPARE {
            let mut entry = make_root(Timestamp::UNIX_EPOCH).unwrap();
            entry.auth.display_name = at.to_string();
            drop(CachedToken::new(entry, 0, &shapes));
        }
        assert!(shapes.len() <= 4 * SHAPES_SPARE, "{}", shapes.len());
    }

    #[test]
    fn a_shape_that_a_token_has_stays() {
        let shapes = Shapes::default();
        let entry = make_root(Timestamp::UNIX_EPOCH).unwrap();
        let live = CachedToken::new(entry.clone(), 0, &shapes);
        for at in 0..5 * SHAPES_SPARE {
            let mut entry = entry.clone();
            entry.auth.display_name = at.to_string();
            drop(CachedToken::new(entry, 0, &shapes));
        }
        let again = CachedToken::new(entry, 0, &shapes);
        assert!(Arc::ptr_eq(&live.shape, &again.shape));
    }

    /// The entry of a root token with this in its metadata.
    fn with_meta(text: &str) -> TokenEntry {
        let mut entry = make_root(Timestamp::UNIX_EPOCH).unwrap();
        entry.meta = Some([("a".to_owned(), text.into())].into());
        entry
    }

    #[test]
    fn shapes_are_found_by_all_that_they_say() {
        let shapes = Shapes::default();
        let of = |text: &str| CachedToken::new(with_meta(text), 0, &shapes).shape;
        let (one, same, other) = (Shared(of("b")), Shared(of("b")), Shared(of("c")));
        assert!(one == same && one != other);
        let hashed = |shared: &Shared| {
            let mut hasher = std::hash::DefaultHasher::new();
            shared.hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hashed(&one), hashed(&same));
        assert_ne!(hashed(&one), hashed(&other));
    }

    #[test]
    fn nobody_looks_for_shapes_without_a_token_while_there_is_room() {
        let shapes = Shapes::default();
        let count = SHAPES_SPARE + SHAPES_SPARE / 16;
        for at in 0..count {
            drop(CachedToken::new(with_meta(&at.to_string()), 0, &shapes));
        }
        assert_eq!(shapes.len(), count);
    }
}
