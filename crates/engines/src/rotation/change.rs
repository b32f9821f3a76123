//! What is kept of a password while it changes, and which step comes next: decisions alone. [`super`] carries them out.

use std::fmt;

use jiff::Timestamp;
use kallisto_api::{Error, Fields, Map};
use kallisto_engine::FarEndFailure;
use secrecy::{ExposeSecret, SecretString};

/// The first pause after a failure, in seconds; each further one is twice as long.
const PAUSE_FIRST_SECS: i64 = 10;
/// The longest, in seconds.
const PAUSE_SECS_MAX: i64 = 600;

/// A password, and the change that it is in.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct PasswordChange {
    /// The one that logs in; empty before the first change.
    pub(crate) password: String,
    /// The one that is to; empty while there is no change.
    pub(crate) pending: String,
    /// Whether the far end refused to set the pending one: a login with it says whether it is set all the same.
    pub(crate) is_refused: bool,
    /// Which pending password it is.
    pub(crate) number: i64,
    /// How often the far end was asked to set the pending one: written down before it is.
    pub(crate) asked: i64,
    /// How many of those are known to have set nothing.
    pub(crate) in_vain: i64,
    /// When the password was changed.
    pub(crate) rotated: String,
    /// When it changes next, in seconds since 1970.
    pub(crate) next: i64,
    /// How often that has failed since.
    pub(crate) failures: i64,
    /// What went wrong the last time.
    pub(crate) last_error: String,
}

impl fmt::Debug for PasswordChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("PasswordChange");
        shown.field("is_pending", &!self.pending.is_empty()).field("is_refused", &self.is_refused);
        shown.field("number", &self.number).field("asked", &self.asked);
        shown.field("in_vain", &self.in_vain).field("rotated", &self.rotated);
        shown.field("next", &self.next).field("failures", &self.failures);
        shown.field("last_error", &self.last_error).finish_non_exhaustive()
    }
}

/// A step at the far end.
#[derive(Clone, Debug)]
pub(crate) enum ChangeStep {
    /// The password is set.
    Set(SecretString),
    /// Whose password it is logs in with it.
    Check(SecretString),
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeOutcome {
    /// The pending password is the password.
    Changed,
    /// The far end refused it: a check comes next.
    Refused,
    /// It is known not to be set: there is no pending password any more.
    Dropped,
    /// It is not known: it is set again.
    Open,
}

impl PasswordChange {
    /// Reads what [`Self::keep`] kept.
    pub(crate) fn take(fields: Fields<'_>) -> Result<Self, Error> {
        let text = |name: &str| Ok::<_, Error>(fields.string(name)?.unwrap_or_default());
        let number = |name: &str| Ok::<_, Error>(fields.int(name)?.unwrap_or(0));
        let pending = text("pending")?;
        // A version that did not count had asked for what is pending.
        let asked = fields.int("asked")?.unwrap_or_else(|| i64::from(!pending.is_empty()));
        Ok(Self {
            password: text("password")?,
            pending,
            is_refused: fields.boolean("refused")?.unwrap_or(false),
            number: number("number")?,
            asked,
            in_vain: number("in_vain")?,
            rotated: text("rotated")?,
            next: number("next")?,
            failures: number("failures")?,
            last_error: text("last_error")?,
        })
    }

    pub(crate) fn keep(&self, map: &mut Map) {
        for (name, text) in [
            ("password", &self.password),
            ("pending", &self.pending),
            ("rotated", &self.rotated),
            ("last_error", &self.last_error),
        ] {
            map.insert(name.to_owned(), text.as_str().into());
        }
        for (name, number) in [
            ("number", self.number),
            ("asked", self.asked),
            ("in_vain", self.in_vain),
            ("next", self.next),
            ("failures", self.failures),
        ] {
            map.insert(name.to_owned(), number.into());
        }
        map.insert("refused".to_owned(), self.is_refused.into());
    }

    /// When it changes next after a write that changed nothing at the far end: a period after the last change, or now if that is over. Whoever
    /// writes again and again puts nothing off.
    pub(crate) fn next_by_period(&self, period_secs: i64, now: i64) -> i64 {
        let after_now = now.saturating_add(period_secs);
        match self.rotated.parse::<Timestamp>() {
            Ok(last) => last.as_second().saturating_add(period_secs).clamp(now, after_now),
            Err(_) if self.next > 0 => self.next.min(after_now),
            Err(_) => after_now,
        }
    }

    /// Whether the password at the far end may be the pending one already.
    pub(crate) const fn may_be_set(&self) -> bool {
        !self.pending.is_empty() && self.asked > self.in_vain
    }

    /// The step that comes next; without a pending password this one becomes it.
    pub(crate) fn begin(&mut self, password: &SecretString) -> ChangeStep {
        if self.pending.is_empty() {
            password.expose_secret().clone_into(&mut self.pending);
            self.is_refused = false;
            self.number += 1;
            (self.asked, self.in_vain) = (0, 0);
        }
        let pending = SecretString::from(self.pending.as_str());
        if self.is_refused {
            return ChangeStep::Check(pending);
        }
        self.asked += 1;
        ChangeStep::Set(pending)
    }

    /// Takes note of what came of a step at `now`.
    pub(crate) fn end(
        &mut self,
        step: &ChangeStep,
        outcome: Result<(), &FarEndFailure>,
        now: i64,
    ) -> ChangeOutcome {
        let failure = match outcome {
            Ok(()) => {
                self.password = std::mem::take(&mut self.pending);
                (self.asked, self.in_vain) = (0, 0);
                self.is_refused = false;
                self.failures = 0;
                self.last_error.clear();
                return ChangeOutcome::Changed;
            }
            Err(failure) => failure,
        };
        if matches!(step, ChangeStep::Set(_)) && did_nothing(failure) {
            self.in_vain += 1;
        }
        match step {
            ChangeStep::Set(_) if failure.is_refusal() => {
                self.is_refused = true;
                self.next = now;
                failure.words().clone_into(&mut self.last_error);
                ChangeOutcome::Refused
            }
            ChangeStep::Set(_) => {
                self.put_off(failure.words(), now);
                ChangeOutcome::Open
            }
            // What the far end said as it refused is what is of use.
            ChangeStep::Check(_) => {
                let refusal = self.last_error.clone();
                self.put_off(&refusal, now);
                self.is_refused = false;
                match failure {
                    FarEndFailure::LoginRefused(_) => {
                        self.pending.clear();
                        ChangeOutcome::Dropped
                    }
                    _ => ChangeOutcome::Open,
                }
            }
        }
    }

    /// Waits before the next try.
    pub(super) fn put_off(&mut self, why: &str, now: i64) {
        let doublings = u32::try_from(self.failures.clamp(0, 16)).unwrap_or(0);
        self.next = now + (PAUSE_FIRST_SECS << doublings).min(PAUSE_SECS_MAX);
        self.failures += 1;
        why.clone_into(&mut self.last_error);
    }
}

/// Whether a far end that failed so has not set what it was asked to set.
const fn did_nothing(failure: &FarEndFailure) -> bool {
    !matches!(failure, FarEndFailure::Refused(_) | FarEndFailure::Unknown(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> SecretString {
        SecretString::from(text)
    }

    #[test]
    fn a_change_reads_back() {
        let mut change = PasswordChange { password: "p".into(), next: 9, ..Default::default() };
        let _ = change.begin(&secret("q"));
        let failure = FarEndFailure::Refused("no".into());
        let _ = change.end(&ChangeStep::Set(secret("q")), Err(&failure), 5);
        let mut map = Map::new();
        change.keep(&mut map);
        assert_eq!(PasswordChange::take(Fields::new(&map)).unwrap(), change);
    }

    #[test]
    fn no_password_is_shown() {
        let mut change = PasswordChange { password: "one-secret".into(), ..Default::default() };
        let _ = change.begin(&secret("other-secret"));
        let shown = format!("{change:?}");
        assert!(shown.contains("is_pending: true") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn only_a_wrong_password_is_dropped() {
        let words = || "no".to_owned();
        for (set, check, expected) in [
            (FarEndFailure::Busy, None, ChangeOutcome::Open),
            (FarEndFailure::Unreachable(words()), None, ChangeOutcome::Open),
            (FarEndFailure::LoginRefused(words()), None, ChangeOutcome::Open),
            (FarEndFailure::LoginBarred(words()), None, ChangeOutcome::Open),
            (FarEndFailure::Unknown(words()), None, ChangeOutcome::Open),
            (
                FarEndFailure::Refused(words()),
                Some(FarEndFailure::LoginRefused(words())),
                ChangeOutcome::Dropped,
            ),
            (
                FarEndFailure::NothingDone(words()),
                Some(FarEndFailure::LoginRefused(words())),
                ChangeOutcome::Dropped,
            ),
            (
                FarEndFailure::Refused(words()),
                Some(FarEndFailure::LoginBarred(words())),
                ChangeOutcome::Open,
            ),
            (
                FarEndFailure::Refused(words()),
                Some(FarEndFailure::Unreachable(words())),
                ChangeOutcome::Open,
            ),
            (FarEndFailure::Refused(words()), Some(FarEndFailure::Busy), ChangeOutcome::Open),
        ] {
            let mut change = PasswordChange { password: "p".into(), ..Default::default() };
            let step = change.begin(&secret("q"));
            assert!(matches!(&step, ChangeStep::Set(one) if one.expose_secret() == "q"));
            let mut ended = change.end(&step, Err(&set), 100);
            if let Some(check) = &check {
                assert_eq!(ended, ChangeOutcome::Refused);
                let step = change.begin(&secret("r"));
                assert!(matches!(&step, ChangeStep::Check(one) if one.expose_secret() == "q"));
                ended = change.end(&step, Err(check), 100);
            }
            assert_eq!(ended, expected, "{set:?} {check:?}");
            assert_eq!(change.password, "p");
            assert_eq!(change.pending.is_empty(), expected == ChangeOutcome::Dropped);
            assert_eq!((change.failures, change.next), (1, 110));
            // What comes next is the same password again, or another one.
            let next = match expected {
                ChangeOutcome::Dropped => "r",
                _ => "q",
            };
            let step = change.begin(&secret("r"));
            assert!(matches!(&step, ChangeStep::Set(one) if one.expose_secret() == next));
        }
    }

    #[test]
    fn pauses_grow_to_their_limit() {
        let mut change = PasswordChange::default();
        let mut pauses = Vec::new();
        for _ in 0..40 {
            change.put_off("no", 0);
            pauses.push(change.next);
        }
        assert_eq!(pauses[..4], [10, 20, 40, 80]);
        assert_eq!(pauses.last(), Some(&PAUSE_SECS_MAX));
    }
}
