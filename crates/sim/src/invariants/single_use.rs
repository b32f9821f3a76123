//! Single use is exact: what is good for so many times is good for no more, over all servers together, whoever crashed or led in
//! between. A wrapped answer is given once, a token of N uses lets N requests in, a secret id N logins.

use std::collections::BTreeMap;

use super::{InvariantViolation, violated};

/// How often each thing may be used, and was.
#[derive(Debug, Default)]
pub(crate) struct SingleUse(BTreeMap<Thing, (u64, Vec<u64>)>);

/// Something with a number of uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Thing {
    /// A token, by its number.
    Token(usize),
    /// A wrapped answer.
    Wrap(usize),
    /// The id of a role's secret.
    SecretId(usize),
}

impl SingleUse {
    /// A thing was made.
    pub(crate) fn made(&mut self, thing: Thing, uses: u64) {
        self.0.entry(thing).or_default().0 = uses;
    }

    /// A server granted it once.
    pub(crate) fn granted(&mut self, thing: Thing, server: u64) -> Result<(), InvariantViolation> {
        let Some((uses, servers)) = self.0.get_mut(&thing) else { return Ok(()) };
        servers.push(server);
        if servers.len() as u64 <= *uses {
            return Ok(());
        }
        let (count, servers) = (servers.len(), &*servers);
        Err(violated("single use is exact")(format!(
            "{thing:?} is good for {uses}, and was granted {count} times, by servers {servers:?}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_time_too_many_is_seen() {
        let mut single = SingleUse::default();
        single.made(Thing::Token(1), 2);
        single.made(Thing::Wrap(1), 1);
        single.granted(Thing::Token(1), 1).unwrap();
        single.granted(Thing::Wrap(1), 2).unwrap();
        single.granted(Thing::Token(1), 3).unwrap();
        assert!(single.granted(Thing::Token(1), 1).is_err());
        assert!(single.granted(Thing::Wrap(1), 2).is_err());
        single.granted(Thing::SecretId(9), 1).unwrap();
    }
}
