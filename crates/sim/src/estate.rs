//! What tenants of a simulated cluster have been given: tokens, wrapped answers, ids of secrets, and what is known of each.
//!
//! Things are told by their numbers, in order of their making; token 0 is root's. What is here is what somebody was told: a token
//! whose making nobody heard of is not.

use jiff::{SignedDuration, Timestamp};

/// A token.
#[derive(Clone, Debug)]
pub(crate) struct SimToken {
    pub(crate) text: String,
    /// Whose child it is.
    pub(crate) parent: Option<usize>,
    /// A position that holds it.
    pub(crate) index: u64,
    /// Requests that it is good for; 0 for any number.
    pub(crate) uses: u64,
    /// Requests that bore it, whatever came of them.
    pub(crate) tried: u64,
    /// It ends no earlier, unless somebody ends it; `None` for never.
    pub(crate) sure_until: Option<Timestamp>,
    /// Whether somebody set out to end it.
    pub(crate) doomed: bool,
    /// A position that holds it no more, if somebody was told so.
    pub(crate) gone_at: Option<u64>,
}

/// Something that is good for so many times, and never more.
#[derive(Clone, Debug)]
pub(crate) struct LimitedUse {
    pub(crate) text: String,
    /// A position that holds it.
    pub(crate) index: u64,
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Estate {
    pub(crate) tokens: Vec<SimToken>,
    pub(crate) wraps: Vec<LimitedUse>,
    pub(crate) secret_ids: Vec<LimitedUse>,
    /// The role that secret ids are of.
    pub(crate) role_id: String,
    /// The shares that open the seal.
    pub(crate) keys: Vec<String>,
    /// The latest that any server's clock was while it worked: it may have ended what was due by then.
    pub(crate) latest: Timestamp,
}

/// The number of root's token.
pub(crate) const ROOT: usize = 0;

impl Estate {
    /// A token and those above it.
    pub(crate) fn line_of(&self, token: usize) -> impl Iterator<Item = &SimToken> {
        let mut next = Some(token);
        std::iter::from_fn(move || {
            let token = &self.tokens[next?];
            next = token.parent;
            Some(token)
        })
    }

    /// The first position that holds a token no more, as far as somebody was told.
    pub(crate) fn gone_at(&self, token: usize) -> Option<u64> {
        self.line_of(token).filter_map(|token| token.gone_at).min()
    }

    /// Whether a token is certain to live at a server that holds `index`, whose clock shows `now`.
    pub(crate) fn is_sure(&self, token: usize, index: u64, now: Timestamp) -> bool {
        let latest = self.latest.max(now);
        let limited = &self.tokens[token];
        let is_left = limited.uses == 0 || limited.tried <= limited.uses;
        let lives =
            |token: &SimToken| !token.doomed && token.sure_until.is_none_or(|until| latest < until);
        is_left && limited.index <= index && self.line_of(token).all(lives)
    }

    /// A renewal was set out on: the token may end at another time.
    pub(crate) fn may_end_at(&mut self, token: usize, at: Timestamp, secs: u64) {
        let token = &mut self.tokens[token];
        let span = SignedDuration::from_secs(i64::try_from(secs).unwrap_or_default());
        let end = at.saturating_add(span).unwrap_or(Timestamp::MAX);
        token.sure_until = token.sure_until.map(|until| until.min(end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(parent: Option<usize>) -> SimToken {
        SimToken {
            text: String::new(),
            parent,
            index: 5,
            uses: 0,
            tried: 0,
            sure_until: parent.map(|_| Timestamp::from_second(10).unwrap()),
            doomed: false,
            gone_at: None,
        }
    }

    #[test]
    fn a_token_is_sure_while_it_and_those_above_it_are() {
        let at = |secs| Timestamp::from_second(secs).unwrap();
        let tokens = vec![token(None), token(Some(0)), token(Some(1))];
        let mut estate = Estate { tokens, ..Estate::default() };
        assert!(estate.is_sure(2, 5, at(9)) && !estate.is_sure(2, 4, at(9)));
        assert!(!estate.is_sure(2, 5, at(10)) && estate.is_sure(0, 5, at(99)));
        estate.may_end_at(1, at(3), 4);
        assert!(!estate.is_sure(2, 5, at(8)) && estate.is_sure(2, 5, at(6)));
        estate.tokens[1].gone_at = Some(8);
        assert_eq!((estate.gone_at(2), estate.gone_at(0)), (Some(8), None));
        estate.tokens[0].doomed = true;
        assert!(!estate.is_sure(2, 5, at(6)));
    }
}
