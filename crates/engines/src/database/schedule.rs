//! Schedules of static roles: `minute hour day month weekday`, in UTC, as cron has them.
//!
//! A field is `*` or a list of numbers and ranges, each with an optional step; months and weekdays have names too, as `SAT`. Where both day and
//! weekday are restricted, either is enough.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// How many days ahead a time is looked for: a leap day comes within eight years.
const DAYS_MAX: u32 = 8 * 366;
/// The names of the months, from 1, and of the weekdays, from 0.
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A schedule: a bit for each value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RotationSchedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    any_day: bool,
    any_weekday: bool,
}

impl RotationSchedule {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = match text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(format!("expected 5 fields, found {}", fields.len()));
        };
        let weekdays = bits(weekday, (0, 7), &WEEKDAYS)?;
        Ok(Self {
            minutes: bits(minute, (0, 59), &[])?,
            hours: bits(hour, (0, 23), &[])?,
            days: bits(day, (1, 31), &[])?,
            months: bits(month, (1, 12), &MONTHS)?,
            // Sunday is 0 and 7.
            weekdays: (weekdays | (weekdays >> 7)) & 0x7f,
            any_day: day.starts_with(['*', '?']),
            any_weekday: weekday.starts_with(['*', '?']),
        })
    }

    /// The first time after `now`, both in seconds since 1970.
    pub(super) fn next_after(self, now: i64) -> Option<i64> {
        let from = Timestamp::from_second(now).ok()?.to_zoned(TimeZone::UTC).datetime();
        let mut date = from.date();
        for ahead in 0..DAYS_MAX {
            if self.has_day(date) {
                for hour in (0..24).filter(|hour| has(self.hours, *hour)) {
                    for minute in (0..60).filter(|minute| has(self.minutes, *minute)) {
                        let at = date.at(hour, minute, 0, 0);
                        if ahead > 0 || at > from {
                            return Some(at.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second());
                        }
                    }
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    fn has_day(self, date: Date) -> bool {
        let is_day = has(self.days, date.day());
        let is_weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        let fits = match (self.any_day, self.any_weekday) {
            (false, false) => is_day || is_weekday,
            _ => is_day && is_weekday,
        };
        fits && has(self.months, date.month())
    }
}

fn has(bits: u64, value: i8) -> bool {
    bits >> value & 1 == 1
}

/// The values of a field from `least` to `most`; `names` are those that have one.
fn bits(field: &str, (least, most): (u8, u8), names: &[&str]) -> Result<u64, String> {
    let bad = || format!("{field:?} is not within {least} and {most}");
    let number = |text: &str| {
        let named = (least..).zip(names).find(|(_, name)| text.eq_ignore_ascii_case(name));
        let number = named.map(|(number, _)| number).or_else(|| text.parse().ok());
        number.filter(|number| (least..=most).contains(number)).ok_or_else(bad)
    };
    let mut bits = 0;
    for part in field.split(',') {
        let (range, step) =
            part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let (first, last) = match range.split_once('-') {
            _ if matches!(range, "*" | "?") => (least, most),
            Some((first, last)) => (number(first)?, number(last)?),
            None if step.is_some() => (number(range)?, most),
            None => (number(range)?, number(range)?),
        };
        let step = step.map_or(Some(1), |step| step.parse::<u8>().ok()).filter(|step| *step > 0);
        let step = step.ok_or_else(bad)?;
        if first > last {
            return Err(bad());
        }
        for value in (first..=last).step_by(usize::from(step)) {
            bits |= 1 << value;
        }
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, now: &str) -> String {
        let now: Timestamp = now.parse().unwrap();
        let next = RotationSchedule::parse(schedule).unwrap().next_after(now.as_second()).unwrap();
        Timestamp::from_second(next).unwrap().to_string()
    }

    #[test]
    fn the_next_time_is_what_cron_says() {
        for (schedule, now, expected) in [
            ("0 2 * * *", "2026-11-24T01:59:59Z", "2026-11-24T02:00:00Z"),
            ("0 2 * * *", "2026-11-24T02:00:00Z", "2026-11-25T02:00:00Z"),
            ("*/15 * * * *", "2026-11-24T02:01:00Z", "2026-11-24T02:15:00Z"),
            ("0 0 * * 6", "2026-11-24T00:00:00Z", "2026-11-28T00:00:00Z"),
            ("0 0 * * 7", "2026-11-24T00:00:00Z", "2026-11-29T00:00:00Z"),
            ("0 0 * * 0,7", "2026-11-24T00:00:00Z", "2026-11-29T00:00:00Z"),
            ("0 2,1-3 * * *", "2026-11-24T01:00:00Z", "2026-11-24T02:00:00Z"),
            ("0 0 29 2 *", "2026-11-24T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("30 1-3,22 1 1 *", "2026-11-24T00:00:00Z", "2027-01-01T01:30:00Z"),
            ("0 0 13 * 5", "2026-11-24T00:00:00Z", "2026-11-27T00:00:00Z"),
            ("0 0 * * SAT", "2026-11-24T00:00:00Z", "2026-11-28T00:00:00Z"),
            ("0 0 * * mon-Fri", "2026-11-27T00:00:00Z", "2026-11-30T00:00:00Z"),
            ("0 0 1 jan,JUL ?", "2026-11-24T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("58/1 * * * *", "2026-11-24T00:58:00Z", "2026-11-24T00:59:00Z"),
            ("@monthly", "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"),
        ] {
            assert_eq!(next(schedule, now), expected, "{schedule} after {now}");
        }
        assert_eq!(RotationSchedule::parse("0 0 31 2 *").unwrap().next_after(0), None);
    }

    #[test]
    fn a_schedule_that_is_none_is_refused() {
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "a * * * *",
            "* * 0 * *",
            "* * * * 8",
            "* * * * saturday",
            "* * jan * *",
            "* * * mon *",
        ] {
            assert!(RotationSchedule::parse(text).is_err(), "{text}");
        }
    }
}
