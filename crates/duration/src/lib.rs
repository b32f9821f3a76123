//! Durations as Vault's API, its configuration and its clients write them: Go's notation, plain seconds, and `d` for days. Times as text: [`rfc3339`].
//!
//! `hcl` reads configuration with it, `command` flags and environment variables, `api` the fields of requests. Each says
//! in its own words what is wrong, so reading answers `None` and no error.
//!
//! ```text
//! duration := digit+                  whole seconds
//!           | (number unit)+          a number may have a fraction: "1.5", ".5", "1."
//! unit     := ns | us | µs | ms | s | m | h | d
//! ```
//!
//! Invariants:
//! - Reading never panics and never overflows: what does not fit is `None`.
//! - Both signs for micro are read, U+00B5 and U+03BC, as Go reads them; U+00B5 is written, as Go writes it.
//! - What is below a nanosecond is cut off.
#![forbid(unsafe_code)]

pub mod rfc3339;

use std::time::Duration;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// The unit that Go writes for millionths of a second: U+00B5 and not the Greek letter U+03BC.
const MICROSECONDS_NAME: &str = "\u{b5}s";
/// Nanoseconds in each unit that may follow a number.
const UNITS: [(&str, u64); 9] = [
    ("ns", 1),
    ("us", MICROSECOND),
    (MICROSECONDS_NAME, MICROSECOND),
    ("\u{3bc}s", MICROSECOND),
    ("ms", MILLISECOND),
    ("s", SECOND),
    ("m", MINUTE),
    ("h", HOUR),
    ("d", DAY),
];
/// Digits of a fraction that count. The smallest part of a day, a nanosecond, is in the 14th; what is behind is read and
/// cut off.
const FRACTION_DIGITS_MAX: usize = 18;

/// A signed duration of at most 292 years, as Go's `time.Duration`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    nanos: i64,
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self { nanos: 0 };

    /// A span of nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }

    /// A span of seconds; `None` when it does not fit.
    pub fn from_secs(secs: i64) -> Option<Self> {
        secs.checked_mul(SECOND.cast_signed()).map(Self::from_nanos)
    }

    /// The span in nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.nanos
    }

    /// Whole seconds, cut toward zero, but for what is shorter than a second: that is one. Where seconds are kept, 0 says that there is no limit,
    /// or that a default holds, and less than a second says neither.
    pub const fn secs(self) -> i64 {
        match self.nanos / SECOND.cast_signed() {
            0 => self.nanos.signum(),
            secs => secs,
        }
    }

    /// True for a span below zero.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Reads a duration that may have a sign and white space around it: `1h30m`, `-1s`, `90`. `None` when it is none or
    /// does not fit.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (is_negative, magnitude) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let nanos = i64::try_from(parse_nanos(magnitude)?).ok()?;
        Some(Self { nanos: if is_negative { -nanos } else { nanos } })
    }

    /// The span as Go writes it: `0s`, `250ms`, `1h0m0s`, `-3h25m19.5s`.
    pub fn to_go(self) -> String {
        let sign = if self.is_negative() { "-" } else { "" };
        format!("{sign}{}", go_text(self.nanos.unsigned_abs()))
    }
}

/// Reads a duration without a sign and without white space around it, of at most 584 years: `1h30m`, `250ms`, `90`.
pub fn parse_unsigned(text: &str) -> Option<Duration> {
    parse_nanos(text).map(Duration::from_nanos)
}

/// The duration as Go writes it, which is the form that Vault's clients send: `0s`, `250ms`, `1m30s`, `1h0m0s`. More than
/// 584 years are written as 584 years.
pub fn to_go(duration: Duration) -> String {
    go_text(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// The same without the units that are zero at its end: `768h`, `1h30m`, `1h0m5s`, `0s`.
pub fn to_go_short(duration: Duration) -> String {
    let text = to_go(duration);
    let minutes = text.strip_suffix("m0s").map(|rest| format!("{rest}m")).unwrap_or(text);
    minutes.strip_suffix("h0m").map(|rest| format!("{rest}h")).unwrap_or(minutes)
}

fn parse_nanos(text: &str) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse::<u64>().ok()?.checked_mul(SECOND);
    }
    let mut total = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let (nanos, behind) = split_part(rest)?;
        total = total.checked_add(nanos)?;
        rest = behind;
    }
    Some(total)
}

/// The nanoseconds of the number and the unit that `text` begins with, and the text behind them.
fn split_part(text: &str) -> Option<(u64, &str)> {
    let is_of_number = |next: char| next.is_ascii_digit() || next == '.';
    let (number, behind) = text.split_at(text.find(|next| !is_of_number(next))?);
    let (name, behind) = behind.split_at(behind.find(is_of_number).unwrap_or(behind.len()));
    let (_, unit) = UNITS.iter().find(|(known, _)| *known == name)?;
    Some((nanos_of(number, *unit)?, behind))
}

/// `number`, digits that may have a point in them, times `unit` nanoseconds.
fn nanos_of(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_bare = whole.is_empty() && fraction.is_empty();
    if is_bare || fraction.contains('.') {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u64>().ok() };
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = u128::from(digits(fraction)?) * u128::from(unit) / scale;
    digits(whole)?.checked_mul(unit)?.checked_add(u64::try_from(part).ok()?)
}

fn go_text(nanos: u64) -> String {
    if nanos == 0 {
        return "0s".to_owned();
    }
    for (name, unit) in [("ns", 1), (MICROSECONDS_NAME, MICROSECOND), ("ms", MILLISECOND)] {
        if nanos < unit * 1_000 {
            return format!("{}{name}", decimal(nanos, unit));
        }
    }
    let (hours, minutes) = (nanos / HOUR, nanos % HOUR / MINUTE);
    let seconds = decimal(nanos % MINUTE, SECOND);
    if hours > 0 {
        format!("{hours}h{minutes}m{seconds}s")
    } else if minutes > 0 {
        format!("{minutes}m{seconds}s")
    } else {
        format!("{seconds}s")
    }
}

/// `nanos / unit` as a decimal number without trailing zeros.
fn decimal(nanos: u64, unit: u64) -> String {
    let (whole, rest) = (nanos / unit, nanos % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{rest:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_leaves_out_the_zeros_at_the_end() {
        for (secs, text) in
            [(0, "0s"), (8, "8s"), (60, "1m"), (86_400, "24h"), (5400, "1h30m"), (3605, "1h0m5s")]
        {
            assert_eq!(to_go_short(Duration::from_secs(secs)), text);
        }
    }

    #[test]
    fn durations_are_read_and_written_as_go_does() {
        for (text, go) in [
            ("0", "0s"),
            ("0s", "0s"),
            ("90", "1m30s"),
            ("3h25m19s", "3h25m19s"),
            ("1h", "1h0m0s"),
            ("1.5h", "1h30m0s"),
            ("250ms", "250ms"),
            ("1500ms", "1.5s"),
            ("2d", "48h0m0s"),
            ("7d", "168h0m0s"),
            ("1us", "1\u{b5}s"),
            ("1500ns", "1.5\u{b5}s"),
            ("10ns", "10ns"),
            (".5s", "500ms"),
            ("1.s", "1s"),
            ("1m0.25s", "1m0.25s"),
            ("0.0000000019s", "1ns"),
            ("0.0000000010000000000000000000001s", "1ns"),
            ("2764800", "768h0m0s"),
            ("9223372036", "2562047h47m16s"),
        ] {
            assert_eq!(parse_unsigned(text).map(to_go).as_deref(), Some(go), "{text}");
            assert_eq!(Span::parse(text).map(Span::to_go).as_deref(), Some(go), "{text}");
        }
    }

    #[test]
    fn both_signs_for_micro_are_read() {
        for text in ["5us", "5\u{b5}s", "5\u{3bc}s"] {
            assert_eq!(parse_unsigned(text), Some(Duration::from_micros(5)), "{text}");
            assert_eq!(Span::parse(text), Some(Span::from_nanos(5_000)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "", " ", "bogus", "s", "h", "1x", "1h x", "1 s", "1h1", "1s5", "1ss", "1..5s",
            "1.5.5s", ".s", ".", "1.5", "--1s", "-", "+", "-+1", "\u{b5}s", "1\u{b5}",
        ] {
            assert_eq!(parse_unsigned(text), None, "{text}");
            assert_eq!(Span::parse(text), None, "{text}");
        }
    }

    #[test]
    fn signs_and_white_space_are_a_spans_alone() {
        for (text, nanos) in [
            ("-1s", -1_000_000_000),
            ("+1s", 1_000_000_000),
            ("-90", -90_000_000_000),
            (" 5s ", 5_000_000_000),
            ("-1.5ms", -1_500_000),
        ] {
            assert_eq!(Span::parse(text), Some(Span::from_nanos(nanos)), "{text}");
            assert_eq!(parse_unsigned(text), None, "{text}");
        }
        assert_eq!(Span::from_nanos(-12_319_500_000_000).to_go(), "-3h25m19.5s");
        assert_eq!(Span::from_nanos(i64::MIN).to_go(), "-2562047h47m16.854775808s");
    }

    #[test]
    fn a_span_of_seconds_is_cut_toward_zero_but_never_to_nothing_and_refused_where_it_does_not_fit()
    {
        let most = i64::MAX / 1_000_000_000;
        for secs in [0, 1, -1, 90, most, -most] {
            let span = Span::from_secs(secs).unwrap();
            assert_eq!((span.secs(), span.nanos()), (secs, secs * 1_000_000_000));
        }
        for secs in [most + 1, -most - 1, i64::MAX, i64::MIN] {
            assert_eq!(Span::from_secs(secs), None);
        }
        for (nanos, secs) in [
            (1_999_999_999, 1),
            (-1_999_999_999, -1),
            (999_999_999, 1),
            (1, 1),
            (0, 0),
            (-1, -1),
            (-500_000_000, -1),
        ] {
            let span = Span::from_nanos(nanos);
            assert_eq!((span.nanos(), span.secs(), span.is_negative()), (nanos, secs, nanos < 0));
        }
        assert!(!Span::ZERO.is_negative());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for text in
            ["18446744074", "213504d", "99999999999999999999", "999999999999h", "1h18446744073s"]
        {
            assert_eq!(parse_unsigned(text), None, "{text}");
            assert_eq!(Span::parse(text), None, "{text}");
        }
        assert_eq!(parse_unsigned("18446744073"), Some(Duration::from_secs(18_446_744_073)));
        assert_eq!(Span::parse("9223372037"), None);
        assert_eq!(Span::parse("-9223372037"), None);
        assert_eq!(Span::from_secs(i64::MAX), None);
        assert_eq!(to_go(Duration::MAX), "5124095h34m33.709551615s");
    }

    #[test]
    fn what_go_wrote_reads_back_as_it_was() {
        // Every number of digits, and the borders between the forms.
        for shift in 0..63 {
            for nanos in [1_u64 << shift, (1 << shift) - 1, (1 << shift) + 1, 999 << (shift / 2)] {
                let text = to_go(Duration::from_nanos(nanos));
                assert_eq!(parse_unsigned(&text), Some(Duration::from_nanos(nanos)), "{text}");
            }
        }
    }
}
