//! Times of KV records on the wire: RFC 3339 with up to nine digits of a second, trailing zeros
//! cut, in UTC.

use jiff::Timestamp;

/// Appends `at_ns` (nanoseconds since 1970) as text.
pub(super) fn write(at_ns: i64, out: &mut Vec<u8>) {
    use std::io::Write;
    let at = Timestamp::from_nanosecond(i128::from(at_ns)).unwrap_or(Timestamp::UNIX_EPOCH);
    write!(out, "{at}").expect("writing to memory");
}

/// The text of `at_ns`.
pub(super) fn text(at_ns: i64) -> String {
    let at = Timestamp::from_nanosecond(i128::from(at_ns)).unwrap_or(Timestamp::UNIX_EPOCH);
    at.to_string()
}

/// The text of an optional time; empty for none.
pub(super) fn optional_text(at_ns: Option<i64>) -> String {
    at_ns.map(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_with_trailing_zeros_cut() {
        for (at, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_500_000_000, "1970-01-01T00:00:01.5Z"),
            (1_795_290_463_146_601_710, "2026-11-21T19:47:43.14660171Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
        ] {
            assert_eq!(text(at), expected);
        }
    }
}
