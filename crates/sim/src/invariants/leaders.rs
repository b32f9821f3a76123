//! A term has one leader at most.

use std::collections::BTreeMap;

use super::{InvariantViolation, violated};

/// Who led in which term.
#[derive(Debug, Default)]
pub(crate) struct Leaders(BTreeMap<u64, u64>);

impl Leaders {
    /// A server says that it leads in `term`; true if that is news.
    pub(crate) fn leads(&mut self, server: u64, term: u64) -> Result<bool, InvariantViolation> {
        match self.0.insert(term, server) {
            None => Ok(true),
            Some(known) if known == server => Ok(false),
            Some(known) => Err(violated("one leader a term")(format!(
                "servers {known} and {server} both lead in term {term}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_leader_is_seen() {
        let mut leaders = Leaders::default();
        assert_eq!(leaders.leads(1, 5), Ok(true));
        assert_eq!(leaders.leads(1, 5), Ok(false));
        assert_eq!(leaders.leads(2, 6), Ok(true));
        assert!(leaders.leads(2, 5).is_err());
    }
}
