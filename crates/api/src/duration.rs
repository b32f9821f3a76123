//! Durations as the wire contract writes them: Go's notation, plain seconds, and `d` for days.
//!
//! Values are signed nanoseconds. Reading never overflows: what does not fit is an error.

use std::fmt::Write;

/// A signed span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    nanos: i64,
}

const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];
const SECOND: i64 = 1_000_000_000;

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self { nanos: 0 };

    /// A span of nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }

    /// A span of seconds; `None` when it does not fit.
    pub fn from_secs(secs: i64) -> Option<Self> {
        secs.checked_mul(SECOND).map(Self::from_nanos)
    }

    /// The span in nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.nanos
    }

    /// Whole seconds, cut toward zero.
    pub const fn secs(self) -> i64 {
        self.nanos / SECOND
    }

    /// True for a span below zero.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Reads `1h30m`, `250ms`, `1.5h`, `2d`, `-1s`, or plain seconds such as `90`; `None` when it
    /// is none of these or does not fit.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (negative, body) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let sign = if negative { -1 } else { 1 };
        if let Ok(secs) = body.parse::<u32>() {
            return Self::from_secs(sign * i64::from(secs));
        }
        if body.bytes().all(|byte| byte.is_ascii_digit()) {
            return Self::from_secs(body.parse::<i64>().ok()?.checked_mul(sign)?);
        }
        let mut total = 0_i64;
        let mut rest = body;
        while !rest.is_empty() {
            let (part, after) = parse_part(rest)?;
            total = total.checked_add(part)?;
            rest = after;
        }
        Some(Self { nanos: total.checked_mul(sign)? })
    }

    /// Writes the span as Go does: `0s`, `250ms`, `1h0m0s`, `3h25m19.5s`.
    pub fn to_go(self) -> String {
        let nanos = self.nanos.unsigned_abs();
        let mut text = String::from(if self.nanos < 0 { "-" } else { "" });
        let second = SECOND.unsigned_abs();
        if nanos == 0 {
            return "0s".to_owned();
        }
        if nanos < second {
            let (unit, scale) = match nanos {
                n if n < 1_000 => ("ns", 1),
                n if n < 1_000_000 => ("µs", 1_000),
                _ => ("ms", 1_000_000),
            };
            push_decimal(&mut text, nanos, scale);
            text.push_str(unit);
            return text;
        }
        let (hours, minutes) = (nanos / (3_600 * second), nanos / (60 * second) % 60);
        if hours > 0 {
            write!(text, "{hours}h").expect("writing to a string");
        }
        if hours > 0 || minutes > 0 {
            write!(text, "{minutes}m").expect("writing to a string");
        }
        push_decimal(&mut text, nanos % (60 * second), second);
        text.push('s');
        text
    }
}

/// One `number unit` pair off the front of `rest`, in nanoseconds.
fn parse_part(rest: &str) -> Option<(i64, &str)> {
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, after) = rest.split_at(end);
    let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
    let (unit, after) = after.split_at(unit_end);
    let scale = UNITS.iter().find(|(name, _)| *name == unit)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(scale)?;
    let mut place = scale;
    for digit in fraction.bytes() {
        if !digit.is_ascii_digit() {
            return None;
        }
        place /= 10;
        nanos = nanos.checked_add(place * i64::from(digit - b'0'))?;
    }
    Some((nanos, after))
}

fn push_decimal(text: &mut String, value: u64, scale: u64) {
    write!(text, "{}", value / scale).expect("writing to a string");
    let fraction = value % scale;
    if fraction > 0 {
        let width = scale.ilog10() as usize;
        let digits = format!("{fraction:0width$}");
        write!(text, ".{}", digits.trim_end_matches('0')).expect("writing to a string");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_write_like_go() {
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
            ("-1s", "-1s"),
            ("1us", "1µs"),
            ("100ns", "100ns"),
            (".5s", "500ms"),
            ("2764800", "768h0m0s"),
        ] {
            assert_eq!(Span::parse(text).unwrap().to_go(), go, "{text}");
        }
        for text in [
            "",
            "bogus",
            "1x",
            "h",
            "1h x",
            "--1s",
            "1..5s",
            "99999999999999999999",
            "300000000d",
            "-",
            ".",
        ] {
            assert_eq!(Span::parse(text), None, "{text}");
        }
    }
}
