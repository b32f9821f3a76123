//! Up to when this server's state holds everything that was committed anywhere.
//!
//! The driver asks for a read index again and again (`driver/reads.rs`). Its answer says that whoever leads still had a
//! majority, and up to where everything was committed, after the question was asked. Once everything up to there is applied and
//! folded here, the state holds all that was committed before the question: that time is kept, and whoever answers from the state
//! holds it against the time of now. No two clocks are compared, so nothing depends on what others say the time is; a server that
//! was stopped finds its clock gone on.
//!
//! Invariants:
//! - the time is taken before the question is asked;
//! - it is kept by the applier, behind everything that the answer asks to be applied;
//! - a server without other members is always up to date, and stops being so with the turn that takes one in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::AsOf;

/// See the module.
#[derive(Debug)]
pub(crate) struct Lease(AtomicU64);

impl Default for Lease {
    fn default() -> Self {
        Self(AtomicU64::new(AsOf::NEVER.to_bits()))
    }
}

impl Lease {
    /// Up to when.
    pub(crate) fn as_of(&self) -> AsOf {
        // Acquire: who sees the time sees what was folded before it.
        AsOf::from_bits(self.0.load(Ordering::Acquire))
    }

    /// Everything that was committed before `asked` is here.
    pub(crate) fn confirm(&self, asked: Duration) {
        let confirmed = AsOf::at(asked).to_bits();
        // Of a server that is alone by now nothing is to be confirmed.
        self.0.fetch_max(confirmed, Ordering::AcqRel);
    }

    /// There are no other members.
    pub(crate) fn alone(&self) {
        self.0.store(AsOf::ALWAYS.to_bits(), Ordering::Release);
    }

    /// There are, as of a turn that began at `now`.
    pub(crate) fn not_alone(&self, now: Duration) {
        let always = AsOf::ALWAYS.to_bits();
        let now = AsOf::at(now).to_bits();
        // Else it was not alone before, and what it knows holds.
        let _ = self.0.compare_exchange(always, now, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Nothing is known any more: the state is another's.
    pub(crate) fn forget(&self) {
        self.0.store(AsOf::NEVER.to_bits(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_state_is_as_old_as_the_last_question_that_was_answered() {
        let lease = Lease::default();
        assert_eq!(lease.as_of().age(9 * SECOND), None, "nothing was answered yet");
        lease.confirm(2 * SECOND);
        lease.confirm(SECOND);
        assert_eq!(lease.as_of().age(9 * SECOND), Some(7 * SECOND), "answers may overtake");
        lease.alone();
        lease.confirm(3 * SECOND);
        assert_eq!(lease.as_of().age(9 * SECOND), Some(Duration::ZERO));
        lease.not_alone(4 * SECOND);
        lease.not_alone(8 * SECOND);
        assert_eq!(lease.as_of().age(9 * SECOND), Some(5 * SECOND), "the first turn counts");
        lease.forget();
        assert_eq!(lease.as_of().age(9 * SECOND), None);
        lease.not_alone(8 * SECOND);
        assert_eq!(lease.as_of().age(9 * SECOND), None, "it never was");
        lease.confirm(Duration::ZERO);
        assert_eq!(lease.as_of().age(Duration::ZERO), Some(Duration::ZERO), "a clock may begin");
    }
}
