//! Durations as people write them and as Go's clients show them.
//!
//! Read: whole seconds (`90`), or numbers with units (`1h30m`, `250ms`, `1.5h`, `7d`). Shown on
//! the wire with every unit (`1h30m0s`), and to people without the empty ones (`1h30m`).

use std::fmt::Write;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
/// Nanoseconds in each unit that may follow a number. Two letters before one: `ms` is not `m`.
const UNITS: [(&str, u64); 9] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
    ("d", 24 * 3600 * SECOND),
];

/// Reads a duration; the error is a sentence for a flag's message.
pub fn parse(text: &str) -> Result<Duration, String> {
    let error = || format!("time: invalid duration {text:?}");
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(Duration::from_secs).map_err(|_| error());
    }
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
        let (number, tail) = rest.split_at(digits);
        let (unit, nanos) =
            UNITS.iter().find(|(unit, _)| tail.starts_with(unit)).ok_or_else(error)?;
        let part = nanos_of(number, *nanos).ok_or_else(error)?;
        total = total.checked_add(part).ok_or_else(error)?;
        rest = &tail[unit.len()..];
    }
    if text.is_empty() { Err(error()) } else { Ok(Duration::from_nanos(total)) }
}

/// `number` (digits, perhaps with a fraction) times `unit` nanoseconds.
fn nanos_of(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(unit)?;
    let mut scale = unit;
    for digit in fraction.chars() {
        scale /= 10;
        nanos = nanos.checked_add(u64::from(digit.to_digit(10)?) * scale)?;
    }
    Some(nanos)
}

/// The form Go's clients put on the wire: `1m30s`, `1h0m0s`, `250ms`, `0s`.
pub fn wire(duration: Duration) -> String {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if nanos == 0 {
        return "0s".to_owned();
    }
    for (unit, size) in [("ns", 1), ("\u{b5}s", 1_000), ("ms", 1_000_000)] {
        if nanos < size * 1000 {
            return format!("{}{unit}", decimal(nanos, size));
        }
    }
    let minutes = nanos / (60 * SECOND);
    let mut out = String::new();
    if minutes >= 60 {
        let _ = write!(out, "{}h", minutes / 60);
    }
    if minutes > 0 {
        let _ = write!(out, "{}m", minutes % 60);
    }
    let _ = write!(out, "{}s", decimal(nanos % (60 * SECOND), SECOND));
    out
}

/// `nanos / size` as a decimal without trailing zeros.
fn decimal(nanos: u64, size: u64) -> String {
    let width = size.ilog10() as usize;
    let fraction = format!("{:0width$}", nanos % size);
    let fraction = if width == 0 { "" } else { fraction.trim_end_matches('0') };
    if fraction.is_empty() {
        (nanos / size).to_string()
    } else {
        format!("{}.{fraction}", nanos / size)
    }
}

/// The form for people, from whole seconds: `768h`, `1m30s`, `1h1s`.
pub fn human(seconds: u64) -> String {
    let text = wire(Duration::from_secs(seconds));
    let text = text.strip_suffix("m0s").map_or_else(|| text.clone(), |short| format!("{short}m"));
    match text.find("h0m") {
        Some(at) => format!("{}{}", &text[..=at], &text[at + 3..]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_shows() {
        let table = [
            ("90", "1m30s"),
            ("0", "0s"),
            ("3h25m19s", "3h25m19s"),
            ("1h", "1h0m0s"),
            ("1.5h", "1h30m0s"),
            ("250ms", "250ms"),
            ("1500ms", "1.5s"),
            ("7d", "168h0m0s"),
            ("1us", "1\u{b5}s"),
            ("10ns", "10ns"),
            ("1m0.25s", "1m0.25s"),
        ];
        for (given, wanted) in table {
            assert_eq!(parse(given).map(wire), Ok(wanted.to_owned()), "{given}");
        }
    }

    #[test]
    fn refuses_what_is_no_duration() {
        for text in ["", "bogus", "1", "h", "1x", ".s", "-5s", "99999999999999999999", "1h1"] {
            assert_eq!(parse(text).is_ok(), text == "1", "{text}");
        }
    }

    #[test]
    fn people_see_no_empty_units() {
        let table = [
            (0, "0s"),
            (60, "1m"),
            (90, "1m30s"),
            (3600, "1h"),
            (3601, "1h1s"),
            (3660, "1h1m"),
            (2_764_800, "768h"),
        ];
        for (given, wanted) in table {
            assert_eq!(human(given), wanted);
        }
    }
}
