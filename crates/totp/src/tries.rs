//! What was tried with a key.

use std::time::Duration;

use kallisto_api::json::{self, Json};

use crate::key::{SKEW_MAX, TotpKey};

/// What was tried with a key: which codes were taken, and how many were wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    /// The periods whose codes were taken, as far as they may still come.
    used: Vec<u64>,
    /// The period in which wrong codes were last tried.
    period: u64,
    /// How many.
    wrong: u64,
}

/// What a code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgedCode {
    /// It is good, and from now on used.
    Valid,
    /// It is not that of now.
    Wrong,
    /// It was good, and was taken.
    Used,
    /// It was not looked at: too many were wrong.
    TooMany {
        /// For how long none is.
        left: Duration,
    },
}

impl Tries {
    /// Judges a code at a time, in seconds since 1970, and says what was tried then; `None` where that is what it was.
    ///
    /// A code that was taken and is shown again is no wrong one: it tells nothing to who guesses.
    pub fn judge(
        &self,
        key: &TotpKey,
        code: &str,
        now: u64,
        wrong_max: u64,
    ) -> (JudgedCode, Option<Self>) {
        let period = now / key.period_secs;
        let wrong = if self.period == period { self.wrong } else { 0 };
        if wrong >= wrong_max {
            let left = Duration::from_secs(key.period_secs - now % key.period_secs);
            return (JudgedCode::TooMany { left }, None);
        }
        let (first, last) = (period.saturating_sub(key.skew), period.saturating_add(key.skew));
        // All are compared, so that the time it takes tells nothing.
        let matching: Vec<u64> =
            (first..=last).filter(|number| key.is_code_of(*number, code)).collect();
        // What is kept does not depend on the skew: the key may be written again with another one.
        let kept = period.saturating_sub(SKEW_MAX)..=period.saturating_add(SKEW_MAX);
        let used = self.used.iter().copied().filter(|number| kept.contains(number));
        let mut used: Vec<u64> = used.collect();
        if matching.is_empty() {
            return (JudgedCode::Wrong, Some(Self { used, period, wrong: wrong + 1 }));
        }
        // Two periods may have the same code; whoever saw it used has it for both.
        if matching.iter().any(|number| used.contains(number)) {
            return (JudgedCode::Used, None);
        }
        used.extend(matching);
        (JudgedCode::Valid, Some(Self { used, period, wrong }))
    }

    /// From when on none of the codes that were taken could come again, whatever the skew, in seconds since 1970; `None` if none was taken.
    pub fn used_until(&self, key: &TotpKey) -> Option<u64> {
        let last = self.used.iter().max()?;
        Some(last.saturating_add(SKEW_MAX + 1).saturating_mul(key.period_secs))
    }

    /// The record's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let used = self.used.iter().map(|number| Json::from(*number)).collect();
        let record = Json::object([
            ("period", self.period.into()),
            ("used", Json::Array(used)),
            ("wrong", self.wrong.into()),
        ]);
        record.to_text()
    }

    /// Reads a record back; `None` when it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |value: &Json| match value {
            Json::Number(text) => text.parse::<u64>().ok(),
            _ => None,
        };
        let map = json::parse_object(bytes).ok()?;
        let Json::Array(used) = map.get("used")? else { return None };
        let used = used.iter().map(number).collect::<Option<Vec<u64>>>()?;
        Some(Self { used, period: number(map.get("period")?)?, wrong: number(map.get("wrong")?)? })
    }
}
