//! The latest time that the server acted on, kept for batch tokens, which expire without a delete.
//!
//! A batch token is stored nowhere, so nothing but the clock says that it has ended, and a clock can be set back. So the
//! leader writes down how far its clock has come: the *mark*, one record in the engine storage of `sys/` (see `docs/format.md`),
//! written by a job at most every [`EVERY_SECS`], and only while a batch token may live. What has ended by the mark has
//! ended on every server, whatever its clock says.
//!
//! A clock can also be wrong ahead. When the leader finds its clock behind the mark, it begins a new *generation* with a mark of its own, and
//! batch tokens carry the generation that they were made in. A token is judged by the marks of its own generation and of all later
//! ones: what a jump ahead has ended stays ended, and what is made after the clock was corrected is not touched by it.
//!
//! Invariants of [`Marks`]:
//! - Generations rise from step to step, and their times fall: an earlier one that is not later in time says nothing.
//! - The last step is the current generation's.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwap;
use jiff::Timestamp;

use crate::api::json::{self, Json};

/// Where the marks are in the engine storage of `sys/` of the root namespace.
pub(crate) const RECORD: &str = "time/marks";
/// How far the clock goes on before it is written down again, in seconds.
const EVERY_SECS: i64 = 10;
/// By how much more than the last end is promised to be watched, in seconds: logins in a row ask for one write, not for one each.
const SPARE_SECS: i64 = 60;
/// Most generations with a time of their own; beyond, the two oldest share the later time.
const STEPS_MAX: usize = 16;
/// Before everything.
const NEVER: i64 = i64::MIN;

/// How far time has come by the tokens up to a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TimeStep {
    pub(crate) generation: u64,
    pub(crate) secs: i64,
}

/// What the record says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Marks {
    steps: Vec<TimeStep>,
    /// The mark follows the clock until then.
    until_secs: i64,
}

impl Default for Marks {
    fn default() -> Self {
        Self { steps: vec![TimeStep { generation: 0, secs: NEVER }], until_secs: NEVER }
    }
}

impl Marks {
    /// The current generation's.
    fn last(&self) -> TimeStep {
        *self.steps.last().expect("there is always a step")
    }

    /// How far time has come for the tokens of a generation. One that is not known is as the current one: a backup was
    /// restored.
    pub(crate) fn of(&self, generation: u64) -> i64 {
        let step = self.steps.iter().find(|step| step.generation >= generation);
        step.map_or_else(|| self.last().secs, |step| step.secs)
    }

    /// What is to be written at `now`, when a token is known that ends at `latest_end`; `None` while there is nothing new.
    fn at(&self, now: i64, latest_end: i64) -> Option<Self> {
        let mut next = self.clone();
        if latest_end > self.until_secs {
            next.until_secs = latest_end.saturating_add(SPARE_SECS);
        }
        if next.until_secs == NEVER {
            return None;
        }
        let last = self.last();
        let is_due = now >= last.secs.saturating_add(EVERY_SECS) && last.secs < next.until_secs;
        if now < last.secs {
            next.begin(now);
        } else if is_due || next.until_secs != self.until_secs {
            next.advance(now);
        } else {
            return None;
        }
        Some(next)
    }

    /// The clock went on.
    fn advance(&mut self, now: i64) {
        let generation = self.last().generation;
        self.steps.retain(|step| step.secs > now);
        self.steps.push(TimeStep { generation, secs: now });
    }

    /// The clock was set back.
    fn begin(&mut self, now: i64) {
        let generation = self.last().generation.saturating_add(1);
        self.steps.push(TimeStep { generation, secs: now });
        if self.steps.len() > STEPS_MAX {
            // The later time ends more: nothing that has ended comes back.
            let first = self.steps.remove(0);
            self.steps[0].secs = first.secs;
        }
    }

    fn encode(&self) -> Vec<u8> {
        let number = |secs: i64| Json::Number(secs.to_string().into());
        let step = |step: &TimeStep| Json::Array(vec![step.generation.into(), number(step.secs)]);
        Json::object([
            ("marks", Json::Array(self.steps.iter().map(step).collect())),
            ("until", number(self.until_secs)),
        ])
        .to_text()
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let map = json::parse_object(value).ok()?;
        let Json::Array(steps) = map.get("marks")? else { return None };
        let step = |step: &Json| match step {
            Json::Array(pair) => match pair.as_slice() {
                [Json::Number(generation), Json::Number(secs)] => Some(TimeStep {
                    generation: generation.parse().ok()?,
                    secs: secs.parse().ok()?,
                }),
                _ => None,
            },
            _ => None,
        };
        let steps = steps.iter().map(step).collect::<Option<Vec<_>>>()?;
        let rises =
            |two: &[TimeStep]| two[0].generation < two[1].generation && two[0].secs > two[1].secs;
        let Json::Number(until) = map.get("until")? else { return None };
        let is_sound = !steps.is_empty() && steps.len() <= STEPS_MAX && steps.windows(2).all(rises);
        is_sound.then_some(Self { steps, until_secs: until.parse().ok()? })
    }
}

/// The marks as the view has them; those of a cluster are one, whichever namespace asks.
pub(crate) struct TimeMarks {
    marks: ArcSwap<Marks>,
    /// The latest time of any generation: what ends after it need not be looked up.
    latest: AtomicI64,
    /// The latest end of a batch token that this server made or met.
    latest_end: AtomicI64,
}

impl Default for TimeMarks {
    fn default() -> Self {
        Self {
            marks: ArcSwap::default(),
            latest: AtomicI64::new(NEVER),
            latest_end: AtomicI64::new(NEVER),
        }
    }
}

impl TimeMarks {
    /// The generation that tokens are made in.
    pub(crate) fn generation(&self) -> u64 {
        self.marks.load().last().generation
    }

    /// Takes note of a token that ends at `end`.
    pub(crate) fn meet(&self, end: Timestamp) {
        // Relaxed: the next run may see it.
        self.latest_end.fetch_max(end.as_second(), Ordering::Relaxed);
    }

    /// Whether a token of `generation` that ends at `end` has ended, whatever a clock says.
    pub(crate) fn has_ended(&self, generation: u64, end: Timestamp) -> bool {
        // A mark says that its second has begun, not that it is over.
        let end_secs = end.as_second() + i64::from(end.subsec_nanosecond() > 0);
        // Relaxed: nothing else is read by what this says, and a mark may count from the next request on.
        end_secs <= self.latest.load(Ordering::Relaxed)
            && end_secs <= self.marks.load().of(generation)
    }

    /// The record that is to be written at `now`; `None` while there is nothing new.
    pub(crate) fn due(&self, now: Timestamp) -> Option<Vec<u8>> {
        let before = self.marks.load_full();
        let latest_end = self.latest_end.load(Ordering::Relaxed);
        let marks = before.at(now.as_second(), latest_end)?;
        if marks.last().generation != before.last().generation {
            let behind_secs = before.last().secs.saturating_sub(now.as_second());
            tracing::warn!(
                behind_secs,
                "the clock was set back; batch tokens that have ended stay so"
            );
        }
        Some(marks.encode())
    }

    /// Takes a record of the engine storage in; false when it is damaged. Records of others are passed over.
    pub(crate) fn put(&self, name: &str, value: &[u8]) -> bool {
        if name != RECORD {
            return true;
        }
        let Some(marks) = Marks::decode(value) else { return false };
        let latest = marks.steps.iter().map(|step| step.secs).max().unwrap_or(NEVER);
        self.marks.store(Arc::new(marks));
        self.latest.store(latest, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(known: &TimeMarks, marks: &Marks) {
        assert_eq!(Marks::decode(&marks.encode()).as_ref(), Some(marks));
        assert!(known.put(RECORD, &marks.encode()));
    }

    fn ends(known: &TimeMarks, generation: u64, secs: i64) -> bool {
        known.has_ended(generation, Timestamp::from_second(secs).unwrap())
    }

    #[test]
    fn nothing_is_written_before_the_first_token_and_behind_the_last() {
        let marks = Marks::default();
        assert_eq!(marks.at(1000, NEVER), None);
        let first = marks.at(1000, 1100).unwrap();
        assert_eq!((first.last().secs, first.until_secs), (1000, 1160));
        // A login each second asks for no write each second.
        assert_eq!(first.at(1009, 1160), None);
        let second = first.at(1009, 1161).unwrap();
        assert_eq!((second.last().secs, second.until_secs), (1009, 1221));
        let (mut now, mut writes) = (second, 0);
        for secs in (1010..2000).step_by(3) {
            if let Some(next) = now.at(secs, 1161) {
                (now, writes) = (next, writes + 1);
            }
        }
        assert!(writes <= 22 && now.last().secs >= 1221, "{now:?}");
    }

    #[test]
    fn a_wrong_jump_ahead_ends_what_it_met_and_nothing_that_is_made_later() {
        let known = TimeMarks::default();
        let far = 1_000_000;
        let before = Marks::default().at(1000, 1100).unwrap();
        let ahead = before.at(far, 1100).unwrap();
        put(&known, &ahead);
        assert!(ends(&known, 0, 1100));
        let corrected = ahead.at(1020, far + 60).unwrap();
        put(&known, &corrected);
        assert_eq!(known.generation(), 1);
        assert!(ends(&known, 0, 1100) && !ends(&known, 1, 1100) && !ends(&known, 0, far + 60));
        let later = corrected.at(1101, NEVER).unwrap();
        put(&known, &later);
        assert!(ends(&known, 1, 1100) && !ends(&known, 1, 1200));
        // Once the clock is there again, the first generation needs no time of its own.
        let there = later.at(far, far + 60).unwrap();
        assert_eq!(there.steps, [TimeStep { generation: 1, secs: far }]);
    }

    #[test]
    fn a_clock_that_is_set_back_again_and_again_keeps_the_record_small() {
        let mut marks = Marks::default().at(1000, 1100).unwrap();
        for at in 1..=100 {
            marks = marks.at(1000 - at, 1100).unwrap();
            assert!(marks.steps.len() <= STEPS_MAX);
            assert_eq!(marks.of(0), 1000, "the oldest stay ended");
            assert_eq!(marks.last(), TimeStep { generation: at.cast_unsigned(), secs: 1000 - at });
            assert_eq!(Marks::decode(&marks.encode()).as_ref(), Some(&marks));
        }
    }

    #[test]
    fn a_token_that_ends_between_two_seconds_has_not_ended_by_the_mark_of_the_first() {
        let known = TimeMarks::default();
        put(&known, &Marks::default().at(1000, 1100).unwrap());
        let ended = |millis| known.has_ended(0, Timestamp::from_millisecond(millis).unwrap());
        assert!(ended(999_999) && ended(1_000_000) && !ended(1_000_001) && !ended(1_001_000));
    }

    #[test]
    fn damage_is_told_and_changes_nothing() {
        let known = TimeMarks::default();
        put(&known, &Marks::default().at(1000, 1100).unwrap());
        for damaged in [
            "",
            "{}",
            r#"{"marks":[],"until":1}"#,
            r#"{"marks":[[0]],"until":1}"#,
            r#"{"marks":[[1,5],[0,4]],"until":1}"#,
            r#"{"marks":[[0,4],[1,5]],"until":1}"#,
            r#"{"marks":[[0,4]]}"#,
        ] {
            assert!(!known.put(RECORD, damaged.as_bytes()), "{damaged}");
        }
        assert!(known.put("time/other", b"") && ends(&known, 0, 1000) && !ends(&known, 0, 1001));
    }
}
