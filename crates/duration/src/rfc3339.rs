//! Times as RFC 3339 has them, in UTC, with up to nine digits of a second and no zeros at their end: `2026-11-21T19:47:43.14660171Z`.
//!
//! Every read of a secret writes one, and every audit record, so it is done by hand: a general formatter takes longer than the look-up.
//! All arithmetic is unsigned: it counts from the first of March of the year 0, before which nothing is written.

const DAY_SECS: u64 = 86_400;
/// Days from the first of March of the year 0 to the first of 1970.
const DAYS_TO_1970: u64 = 719_468;
const SECS_TO_1970: u64 = DAYS_TO_1970 * DAY_SECS;
/// Seconds from there to the year 10000, which has more digits than there is room for.
const SECS_END: u64 = SECS_TO_1970 + 253_402_300_800;
const NANOS: i64 = 1_000_000_000;

// So nanoseconds of 64 bits, the years 1677 to 2262, are never outside.
const _: () = assert!(SECS_TO_1970 > i64::MIN.unsigned_abs() / NANOS as u64 + 1);

/// Appends the time so many nanoseconds after 1970.
#[inline]
pub fn push_nanos(at_ns: i64, out: &mut Vec<u8>) {
    let secs = SECS_TO_1970.wrapping_add_signed(at_ns.div_euclid(NANOS));
    push_since_march(secs, at_ns.rem_euclid(NANOS) as u32, out);
}

/// Appends the time so many seconds after 1970, and nanoseconds after that. Returns whether it was written: not before March of the year 0, not
/// after the year 9999.
#[inline]
#[must_use]
pub fn push_secs(secs: i64, nanos: u32, out: &mut Vec<u8>) -> bool {
    let since_march = SECS_TO_1970.checked_add_signed(secs).filter(|secs| *secs < SECS_END);
    if let Some(secs) = since_march {
        push_since_march(secs, nanos, out);
    }
    since_march.is_some()
}

#[inline]
fn push_since_march(secs: u64, nanos: u32, out: &mut Vec<u8>) {
    let (year, month, day) = date(secs / DAY_SECS);
    let of_day = (secs % DAY_SECS) as u32;
    let mut text = *b"0000-00-00T00:00:00.000000000Z";
    for (place, number) in [
        (0..4, year),
        (5..7, month),
        (8..10, day),
        (11..13, of_day / 3_600),
        (14..16, of_day / 60 % 60),
        (17..19, of_day % 60),
        (20..29, nanos),
    ] {
        let mut rest = number;
        for place in text[place].iter_mut().rev() {
            *place = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }
    let last = text[..29].iter().rposition(|&byte| byte != b'0').unwrap_or_default();
    // Where there is nothing behind the point, the `Z` takes its place.
    let end = if nanos == 0 { 19 } else { last + 1 };
    text[end] = b'Z';
    out.extend_from_slice(&text[..=end]);
}

/// Year, month and day of the day so many after the first of March of the year 0, by the algorithm of Howard Hinnant's `civil_from_days`: years that
/// begin in March have their leap day at the end.
#[inline]
const fn date(days: u64) -> (u32, u32, u32) {
    const ERA_DAYS: u64 = 146_097;
    let (era, of_era) = ((days / ERA_DAYS) as u32, (days % ERA_DAYS) as u32);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (400 * era + year_of_era + (month <= 2) as u32, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_nanos(at_ns: i64) -> String {
        let mut out = Vec::new();
        push_nanos(at_ns, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn of_secs(secs: i64, nanos: u32) -> Option<String> {
        let mut out = Vec::new();
        let is_written = push_secs(secs, nanos, &mut out);
        assert!(is_written || out.is_empty());
        is_written.then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn times_have_the_digits_that_they_need() {
        for (at, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_500_000_000, "1970-01-01T00:00:01.5Z"),
            (1_795_290_463_146_601_710, "2026-11-21T19:47:43.14660171Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (951_782_400 * NANOS, "2000-02-29T00:00:00Z"),
            (i64::MIN, "1677-09-21T00:12:43.145224192Z"),
            (i64::MAX, "2262-04-11T23:47:16.854775807Z"),
        ] {
            assert_eq!(of_nanos(at), expected);
            let (secs, nanos) = (at.div_euclid(NANOS), at.rem_euclid(NANOS));
            assert_eq!(of_secs(secs, nanos as u32).as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_four_digits_of_a_year_do_not_tell_is_not_written() {
        let first = -SECS_TO_1970.cast_signed();
        assert_eq!(of_secs(first, 0).as_deref(), Some("0000-03-01T00:00:00Z"));
        assert_eq!(of_secs(253_402_300_799, 1).unwrap(), "9999-12-31T23:59:59.000000001Z");
        for secs in [first - 1, 253_402_300_800, i64::MIN, i64::MAX] {
            assert_eq!(of_secs(secs, 0), None);
        }
    }

    /// Counts days one by one, as the calendar does.
    #[test]
    fn every_day_of_eight_hundred_years_has_its_date() {
        let is_leap = |year: u32| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..800 * 365 {
            assert_eq!(date(DAYS_TO_1970 + days), (year, month, day));
            let length = match month {
                2 => 28 + u32::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }
}
