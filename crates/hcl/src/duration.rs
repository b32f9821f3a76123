//! Spans of time as these files write them: seconds, or text such as `90s`, `1h30m`, `2d`.

use std::time::Duration;

/// Nanoseconds in each unit that may follow a number. Two letters before one: `ms` is not `m`.
const UNITS: [(&str, u64); 9] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Most digits after the point.
const FRACTION_DIGITS_MAX: usize = 18;

/// Reads a span; `None` when `text` is none, is negative, or does not fit into 584 years.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let nanos = text.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
        return Some(Duration::from_nanos(nanos));
    }
    let mut rest = text;
    let mut total: u64 = 0;
    loop {
        let digits = rest.find(|next: char| !next.is_ascii_digit() && next != '.')?;
        let (number, tail) = rest.split_at(digits);
        let (unit, nanos) = UNITS.iter().find(|(unit, _)| tail.starts_with(unit))?;
        total = total.checked_add(nanos_of(number, *nanos)?)?;
        rest = &tail[unit.len()..];
        if rest.is_empty() {
            return Some(Duration::from_nanos(total));
        }
    }
}

/// `number` units of `nanos` nanoseconds; what is below a nanosecond is cut.
fn nanos_of(number: &str, nanos: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_bare = whole.is_empty() && fraction.is_empty();
    if is_bare || fraction.contains('.') || fraction.len() > FRACTION_DIGITS_MAX {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u64>().ok() };
    let parts = u128::from(digits(fraction)?) * u128::from(nanos)
        / 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    digits(whole)?.checked_mul(nanos)?.checked_add(u64::try_from(parts).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_what_go_reads_and_days() {
        for (text, nanos) in [
            ("0", 0),
            ("90", 90_000_000_000),
            (" 5s ", 5_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("250ms", 250_000_000),
            ("1.5h", 5_400_000_000_000),
            ("2d", 172_800_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("0.0000000019s", 1),
        ] {
            assert_eq!(parse(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        for text in
            ["", " ", "s", "1", "-1s", "+1s", "1x", "1..5s", ".s", "1s5", "1 s", "999999999999h"]
        {
            assert_eq!(parse(text).is_some(), text == "1", "{text}");
        }
    }
}
