//! What hangs together among live tokens: by accessor, parent, end and the path they were made at.
//!
//! Written by the fold, asked by handlers and by what time brings; no plain request comes here. A
//! token is a number of four bytes in here, and the sets hold that number beside eight bytes of what
//! they are sorted by. What is due at a moment is the front of a set. Eight bytes of a keyed hash may be shared by two; [`super::TokenTable`] compares the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::records::token::TokenHash;

/// The number of a token, reused after its end.
pub(super) type TokenNumber = u32;

/// What one token is tied by.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenRelation<'a> {
    /// A keyed hash of its accessor.
    pub(super) accessor: u64,
    /// The start of its parent's hash.
    pub(super) parent: Option<u64>,
    /// When it ends, in seconds since 1970.
    pub(super) end: Option<i64>,
    /// Where it was made; `None` for a token without a lease.
    pub(super) path: Option<&'a str>,
}

/// The relations of all tokens.
#[derive(Default)]
pub(super) struct TokenRelations {
    hashes: Vec<TokenHash>,
    free: Vec<TokenNumber>,
    by_accessor: BTreeSet<(u64, TokenNumber)>,
    children: BTreeSet<(u64, TokenNumber)>,
    by_end: BTreeSet<(i64, TokenNumber)>,
    by_path: BTreeMap<Box<str>, BTreeSet<TokenNumber>>,
}

/// Relations of tokens that are loaded, to be sorted once and made into sets at once.
#[derive(Default)]
pub(super) struct GatheredTokens {
    accessors: Vec<(u64, TokenNumber)>,
    children: Vec<(u64, TokenNumber)>,
    ends: Vec<(i64, TokenNumber)>,
}

impl TokenRelations {
    /// Gives a token a number; `None` when there are four billion.
    pub(super) fn number(&mut self, hash: TokenHash) -> Option<TokenNumber> {
        if let Some(id) = self.free.pop() {
            self.hashes[id as usize] = hash;
            return Some(id);
        }
        let id = TokenNumber::try_from(self.hashes.len()).ok()?;
        self.hashes.push(hash);
        Some(id)
    }

    /// Takes a number back.
    pub(super) fn forget(&mut self, id: TokenNumber) {
        self.free.push(id);
    }

    pub(super) fn tie(&mut self, id: TokenNumber, tie: TokenRelation<'_>) {
        self.by_accessor.insert((tie.accessor, id));
        if let Some(parent) = tie.parent {
            self.children.insert((parent, id));
        }
        if let Some(end) = tie.end {
            self.by_end.insert((end, id));
        }
        self.tie_path(id, tie);
    }

    fn tie_path(&mut self, id: TokenNumber, tie: TokenRelation<'_>) {
        let Some(path) = tie.path else { return };
        match self.by_path.get_mut(path) {
            Some(made) => {
                made.insert(id);
            }
            None => {
                self.by_path.insert(path.into(), BTreeSet::from([id]));
            }
        }
    }

    /// Relates a token that nobody asks for before [`TokenRelations::settle`].
    pub(super) fn gather(
        &mut self,
        id: TokenNumber,
        tie: TokenRelation<'_>,
        gathered: &mut GatheredTokens,
    ) {
        gathered.accessors.push((tie.accessor, id));
        gathered.children.extend(tie.parent.map(|parent| (parent, id)));
        gathered.ends.extend(tie.end.map(|end| (end, id)));
        // Few paths, and numbers that rise: each is the last of its set.
        self.tie_path(id, tie);
    }

    /// Relates everything that was gathered.
    pub(super) fn settle(&mut self, gathered: GatheredTokens) {
        let GatheredTokens { accessors, children, ends } = gathered;
        add_all(&mut self.by_accessor, accessors);
        add_all(&mut self.children, children);
        add_all(&mut self.by_end, ends);
    }

    pub(super) fn untie(&mut self, id: TokenNumber, tie: TokenRelation<'_>) {
        self.by_accessor.remove(&(tie.accessor, id));
        if let Some(parent) = tie.parent {
            self.children.remove(&(parent, id));
        }
        if let Some(end) = tie.end {
            self.by_end.remove(&(end, id));
        }
        let Some(path) = tie.path else { return };
        if let Some(made) = self.by_path.get_mut(path) {
            made.remove(&id);
            if made.is_empty() {
                self.by_path.remove(path);
            }
        }
    }

    fn hash(&self, id: TokenNumber) -> TokenHash {
        self.hashes[id as usize]
    }

    /// Tokens whose accessor may be the one of this hash.
    pub(super) fn with_accessor(&self, accessor: u64) -> impl Iterator<Item = TokenHash> {
        self.by_accessor
            .range((accessor, 0)..=(accessor, TokenNumber::MAX))
            .map(|&(_, id)| self.hash(id))
    }

    /// Every token.
    pub(super) fn all(&self) -> impl Iterator<Item = TokenHash> {
        self.by_accessor.iter().map(|&(_, id)| self.hash(id))
    }

    /// Tokens whose parent's hash may start with these bytes.
    pub(super) fn children_of(&self, parent: u64) -> impl Iterator<Item = TokenHash> {
        self.children.range((parent, 0)..=(parent, TokenNumber::MAX)).map(|&(_, id)| self.hash(id))
    }

    /// Every token that has a parent.
    pub(super) fn children(&self) -> impl Iterator<Item = TokenHash> {
        self.children.iter().map(|&(_, id)| self.hash(id))
    }

    /// How many tokens end by themselves.
    pub(super) fn ending(&self) -> usize {
        self.by_end.len()
    }

    /// Tokens that end before `end`, the first to end first.
    pub(super) fn due(&self, end: i64) -> impl Iterator<Item = TokenHash> {
        self.by_end.range(..(end, 0)).map(|&(_, id)| self.hash(id))
    }

    /// Tokens made at a path that starts with `prefix`.
    pub(super) fn made_below(&self, prefix: &str) -> impl Iterator<Item = TokenHash> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let paths = self.by_path.range::<str, _>(from);
        let below = paths.take_while(move |(path, _)| path.starts_with(prefix));
        below.flat_map(|(_, made)| made).map(|&id| self.hash(id))
    }

    /// How many tokens were made at paths that begin with `prefix` and fit, up to `limit` or the path that reaches it.
    pub(super) fn count_at(
        &self,
        prefix: &str,
        limit: usize,
        fits: impl Fn(&str) -> bool,
    ) -> usize {
        let mut count = 0;
        let from = (Bound::Included(prefix), Bound::Unbounded);
        for (path, made) in self.by_path.range::<str, _>(from) {
            if count >= limit || !path.starts_with(prefix) {
                break;
            }
            if fits(path) {
                count += made.len();
            }
        }
        count
    }

    /// Tokens made at exactly `path`.
    pub(super) fn made_at(&self, path: &str) -> impl Iterator<Item = TokenHash> {
        self.by_path.get(path).into_iter().flatten().map(|&id| self.hash(id))
    }

    /// The next segments, with their slash, of the paths below `folder`, which is empty or ends in a
    /// slash; at most `limit`.
    pub(super) fn folders(&self, folder: &str, limit: usize) -> Vec<String> {
        let mut folders = Vec::new();
        let mut from = Bound::Included(folder.to_owned());
        while folders.len() < limit {
            let start = (from.as_ref().map(String::as_str), Bound::Unbounded);
            let Some((path, _)) = self.by_path.range::<str, _>(start).next() else { break };
            let Some(rest) = path.strip_prefix(folder) else { break };
            let segment = rest.split('/').next().unwrap_or_default();
            folders.push(format!("{segment}/"));
            // Behind all that starts with this segment and a slash, and behind the segment alone: a
            // name that sorts between the two, such as `create-orphan`, is met on the way.
            let alone = rest.len() == segment.len();
            from = match alone {
                true => Bound::Excluded(path.to_string()),
                false => Bound::Included(format!("{folder}{segment}0")),
            };
        }
        folders.sort();
        folders.dedup();
        folders
    }
}

/// Adds to a set, which is empty in a load, by building one of what is sorted: each node is written once
/// and full.
fn add_all<T: Ord>(set: &mut BTreeSet<T>, mut all: Vec<T>) {
    all.sort_unstable();
    set.append(&mut BTreeSet::from_iter(all));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One token of the model: hash, accessor, parent, end, path.
    type Row = (TokenHash, u64, Option<u64>, Option<i64>, String);

    fn tie(row: &Row) -> TokenRelation<'_> {
        TokenRelation { accessor: row.1, parent: row.2, end: row.3, path: Some(&row.4) }
    }

    fn sorted(hashes: impl Iterator<Item = TokenHash>) -> Vec<TokenHash> {
        let mut hashes: Vec<TokenHash> = hashes.collect();
        hashes.sort_unstable();
        hashes
    }

    fn check(relations: &TokenRelations, model: &BTreeMap<TokenNumber, Row>) {
        let of = |wanted: &dyn Fn(&Row) -> bool| {
            sorted(model.values().filter(|row| wanted(row)).map(|row| row.0))
        };
        assert_eq!(sorted(relations.all()), of(&|_| true));
        assert_eq!(relations.ending(), of(&|row| row.3.is_some()).len());
        assert_eq!(sorted(relations.children()), of(&|row| row.2.is_some()));
        for at in 0..8_u64 {
            assert_eq!(sorted(relations.with_accessor(at)), of(&|row| row.1 == at));
            assert_eq!(sorted(relations.children_of(at)), of(&|row| row.2 == Some(at)));
            let end = at as i64;
            assert_eq!(sorted(relations.due(end)), of(&|row| row.3.is_some_and(|e| e < end)));
        }
        for path in ["", "a", "a/", "a/b", "a/b/", "a-b"] {
            assert_eq!(sorted(relations.made_below(path)), of(&|row| row.4.starts_with(path)));
            assert_eq!(sorted(relations.made_at(path)), of(&|row| row.4 == path));
            let below = |fits: &dyn Fn(&str) -> bool| {
                model.values().filter(|row| row.4.starts_with(path) && fits(&row.4)).count()
            };
            let all = relations.count_at(path, usize::MAX, |_| true);
            assert_eq!(all, below(&|_| true));
            let some = relations.count_at(path, usize::MAX, |path| path.contains('b'));
            assert_eq!(some, below(&|path| path.contains('b')));
            assert_eq!(relations.count_at(path, 0, |_| true), 0);
            let limited = relations.count_at(path, all / 2, |_| true);
            assert!((all / 2..=all).contains(&limited));
        }
        for folder in ["", "a/", "a/b/"] {
            let rests = model.values().filter_map(|row| row.4.strip_prefix(folder));
            let expected: BTreeSet<String> =
                rests.map(|rest| format!("{}/", rest.split('/').next().unwrap())).collect();
            let expected = Vec::from_iter(expected);
            assert_eq!(relations.folders(folder, 100), expected, "{folder}");
            assert_eq!(relations.folders(folder, 0), Vec::<String>::new());
            assert!(relations.folders(folder, 1).len() <= 1);
        }
    }

    #[test]
    fn ties_answer_as_a_list_of_tokens_would() {
        const PATHS: [&str; 6] = ["a", "a/b", "a/b/c", "a-b", "a/bc", "b"];
        let mut rng = fastrand::Rng::with_seed(5);
        let (mut relations, mut model) =
            (TokenRelations::default(), BTreeMap::<TokenNumber, Row>::new());
        for step in 0..3000_u32 {
            if rng.bool() {
                let mut hash = [0; 32];
                hash[..4].copy_from_slice(&step.to_be_bytes());
                let parent = rng.bool().then(|| rng.u64(0..8));
                let end = rng.bool().then(|| rng.i64(0..8));
                let path = PATHS[rng.usize(0..PATHS.len())].to_owned();
                let row = (hash, rng.u64(0..8), parent, end, path);
                let id = relations.number(hash).unwrap();
                if step % 3 == 0 {
                    let mut gathered = GatheredTokens::default();
                    relations.gather(id, tie(&row), &mut gathered);
                    relations.settle(gathered);
                } else {
                    relations.tie(id, tie(&row));
                }
                assert!(model.insert(id, row).is_none());
            } else if let Some((id, row)) = model.pop_first() {
                relations.untie(id, tie(&row));
                relations.forget(id);
            }
            if step % 50 == 0 {
                check(&relations, &model);
            }
        }
        assert!(model.len() > 1 && relations.hashes.len() < 1000, "numbers are reused");
    }
}
