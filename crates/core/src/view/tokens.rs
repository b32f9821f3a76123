//! Live tokens: found by the keyed hash they are stored under.
//!
//! A token's storage hash is an HMAC, which costs more than all other steps of a lookup together.
//! So the hash of a token that exists is remembered under a *print*: 128 bits of SipHash under two
//! keys drawn for this process. A print opens nothing by itself: the hash it leads to must still
//! be in the table, so a revoked token is gone at once, whatever is remembered. Two texts with one
//! print would need a guess of 128 bits under unknown keys.

use kallisto_auth::Token;
use kallisto_cuckoo::siphash::{Key, SipHash24};
use kallisto_cuckoo::{Error, Guard, Table};

use crate::cluster::Cluster;
use crate::request::TokenText;

const TOKENS_AT_START: usize = 1 << 6;
/// Prints kept beyond the live tokens before all are forgotten.
const PRINTS_SPARE_MAX: usize = 1 << 10;

/// The token table of the view.
pub(crate) struct Tokens {
    by_hash: Table<Token>,
    hashes: Table<[u8; 32]>,
    keys: [Key; 2],
}

impl Tokens {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self {
            by_hash: Table::with_capacity(TOKENS_AT_START)?,
            hashes: Table::with_capacity(TOKENS_AT_START)?,
            keys: [Key::make_random()?, Key::make_random()?],
        })
    }

    pub(crate) fn pin(&self) -> Guard {
        self.by_hash.pin()
    }

    /// The decoded entry of a token text.
    pub(crate) fn find<'g>(
        &self,
        cluster: &Cluster,
        text: TokenText<'_>,
        guard: &'g Guard,
    ) -> Option<&'g Token> {
        let print = self.print(text);
        if let Some(entry) = self.hashes.get(&print, guard) {
            return self.by_hash.get(entry.header(), guard).map(|entry| entry.header());
        }
        let tag = cluster.token_key.hash(text.expose());
        let found = self.by_hash.get(tag.as_ref(), guard)?;
        self.remember(&print, tag.as_ref());
        Some(found.header())
    }

    fn print(&self, text: TokenText<'_>) -> [u8; 16] {
        let [low, high] =
            [0, 1].map(|at| SipHash24::hash(&self.keys[at], text.expose().as_bytes()));
        ((u128::from(high) << 64) | u128::from(low)).to_le_bytes()
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
    pub(crate) fn put(&self, hash: &[u8], token: Token) -> Result<(), Error> {
        self.by_hash.upsert(hash, token, &[]).map(|_| ())
    }

    pub(crate) fn remove(&self, hash: &[u8]) {
        self.by_hash.remove(hash);
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
