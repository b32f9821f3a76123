//! Nobody votes twice in a term, not even after a crash: read off the messages that servers send.

use std::collections::BTreeMap;

use super::{InvariantViolation, violated};
use crate::wire::Vote;

/// Whom each server voted for, by server and term.
#[derive(Debug, Default)]
pub(crate) struct Votes(BTreeMap<(u64, u64), u64>);

impl Votes {
    /// A vote was on the wire.
    pub(crate) fn cast(&mut self, vote: Vote) -> Result<(), InvariantViolation> {
        let Vote { voter, candidate, term } = vote;
        match self.0.insert((voter, term), candidate) {
            Some(known) if known != candidate => Err(violated("nobody votes twice")(format!(
                "server {voter} votes for {known} and for {candidate} in term {term}"
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_vote_is_seen() {
        let mut votes = Votes::default();
        let vote = Vote { voter: 1, candidate: 2, term: 3 };
        votes.cast(vote).unwrap();
        votes.cast(vote).unwrap();
        votes.cast(Vote { term: 4, candidate: 1, ..vote }).unwrap();
        assert!(votes.cast(Vote { candidate: 3, ..vote }).is_err());
    }
}
