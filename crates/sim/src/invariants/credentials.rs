//! A credential lives as long as its lease, and no longer: what somebody was given a lease of is not taken back before the lease is up,
//! unless somebody set out to end it; and at the end of a run, when every lease is up, nobody is left at the far end.
//!
//! The first catches a server that led before, and takes back what its successor has renewed; the second one that makes what its
//! successor has rolled back already.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{InvariantViolation, violated};
use crate::estate::Estate;
use crate::site::LEASE_SECS;

/// What is known of the leases that somebody was told of, by the user that they are of.
#[derive(Debug, Default)]
pub(crate) struct CredentialsOracle(BTreeMap<String, Credential>);

#[derive(Clone, Debug)]
struct Credential {
    lease: String,
    /// The token it ends with.
    owner: usize,
    /// It ends no earlier, unless somebody ends it, or its owner.
    sure_until: Timestamp,
    /// No renewal moves its end beyond this.
    max: Timestamp,
    /// Whether somebody set out to end it.
    doomed: bool,
    /// Whether a renewal is under way.
    renewing: bool,
}

fn after(from: Timestamp, secs: u64) -> Timestamp {
    let span = SignedDuration::from_secs(i64::try_from(secs).unwrap_or(i64::MAX));
    from.saturating_add(span).unwrap_or(Timestamp::MAX)
}

impl CredentialsOracle {
    /// Somebody was told of a lease that was given at `at` for `secs`.
    pub(crate) fn made(&mut self, user: &str, lease: &str, owner: usize, at: Timestamp, secs: u64) {
        let max = after(at, LEASE_SECS);
        let (sure_until, lease) = (after(at, secs).min(max), lease.to_owned());
        let made = Credential { lease, owner, sure_until, max, doomed: false, renewing: false };
        self.0.insert(user.to_owned(), made);
    }

    /// Users whose leases nobody set out to end, the newest last, at most `limit`.
    pub(crate) fn known(&self) -> Vec<String> {
        let live = self.0.iter().filter(|(_, known)| !known.doomed && !known.renewing);
        live.map(|(user, _)| user.clone()).collect()
    }

    /// The id of the lease of a user, and the token it ends with.
    pub(crate) fn lease_of(&self, user: &str) -> Option<(String, usize)> {
        self.0.get(user).map(|known| (known.lease.clone(), known.owner))
    }

    /// A renewal is sent.
    pub(crate) fn renewing(&mut self, user: &str) {
        if let Some(known) = self.0.get_mut(user) {
            known.renewing = true;
        }
    }

    /// A server sets out to renew it for `secs` from `at`: it may end then.
    pub(crate) fn may_end_at(&mut self, user: &str, at: Timestamp, secs: u64) {
        if let Some(known) = self.0.get_mut(user) {
            known.sure_until = known.sure_until.min(after(at, secs));
        }
    }

    /// A renewal is over: `given` is from when and for how many seconds, if it was granted.
    pub(crate) fn renewed(&mut self, user: &str, given: Option<(Timestamp, u64)>) {
        if let Some(known) = self.0.get_mut(user) {
            known.renewing = false;
            if let Some((at, secs)) = given {
                known.sure_until = after(at, secs).min(known.max);
            }
        }
    }

    /// Somebody set out to end it.
    pub(crate) fn doomed(&mut self, user: &str) {
        if let Some(known) = self.0.get_mut(user) {
            known.doomed = true;
        }
    }

    /// A user was revoked at the far end, or is not there, when no clock showed more than `latest`.
    pub(crate) fn gone(
        &self,
        user: &str,
        estate: &Estate,
        latest: Timestamp,
    ) -> Result<(), InvariantViolation> {
        let Some(known) = self.0.get(user) else { return Ok(()) };
        let is_sure = !known.doomed
            && latest < known.sure_until
            && estate.is_sure(known.owner, u64::MAX, latest);
        if !is_sure {
            return Ok(());
        }
        Err(violated("a credential lives as long as its lease")(format!(
            "{user} is gone at {latest}: {known:?}"
        )))
    }

    /// Everything is over, and these are left.
    pub(crate) fn left(users: &[(String, std::time::Duration)]) -> Result<(), InvariantViolation> {
        if users.is_empty() {
            return Ok(());
        }
        Err(violated("no credential outlives its lease")(format!("{users:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estate::SimToken;

    #[test]
    fn a_credential_that_goes_too_early_or_stays_is_seen() {
        let at = |secs| Timestamp::from_second(secs).unwrap();
        let root = SimToken {
            text: String::new(),
            parent: None,
            index: 0,
            uses: 0,
            tried: 0,
            sure_until: None,
            doomed: false,
            gone_at: None,
        };
        let mut estate = Estate { tokens: vec![root], ..Estate::default() };
        let mut credentials = CredentialsOracle::default();
        credentials.made("u", "far/creds/9/x", 0, at(100), 10);
        assert!(credentials.gone("u", &estate, at(109)).is_err());
        assert!(credentials.gone("u", &estate, at(110)).is_ok());
        credentials.renewing("u");
        credentials.may_end_at("u", at(105), 20);
        assert!(credentials.known().is_empty() && credentials.gone("u", &estate, at(110)).is_ok());
        credentials.renewed("u", Some((at(105), 20)));
        assert!(credentials.gone("u", &estate, at(124)).is_err());
        credentials.renewed("u", Some((at(130), 40)));
        assert!(credentials.gone("u", &estate, at(144)).is_err());
        assert!(credentials.gone("u", &estate, at(145)).is_ok(), "its maximum");
        estate.tokens[0].doomed = true;
        assert!(credentials.gone("u", &estate, at(124)).is_ok());
        estate.tokens[0].doomed = false;
        credentials.doomed("u");
        assert!(credentials.gone("u", &estate, at(124)).is_ok());
        assert!(CredentialsOracle::left(&[("v".into(), std::time::Duration::ZERO)]).is_err());
    }
}
