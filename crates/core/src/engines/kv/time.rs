//! Times of KV records on the wire: RFC 3339 with up to nine digits of a second, trailing zeros
//! cut, in UTC.

use jiff::Timestamp;
use kallisto_duration::rfc3339;

/// Appends `at_ns` (nanoseconds since 1970) as text. The range of `i64` is the years 1677 to 2262.
pub(super) fn write(at_ns: i64, out: &mut Vec<u8>) {
    rfc3339::push_nanos(at_ns, out);
}

/// The text of `at_ns`.
pub(crate) fn text(at_ns: i64) -> String {
    let mut out = Vec::with_capacity(30);
    write(at_ns, &mut out);
    out.into_iter().map(char::from).collect()
}

/// The text of an optional time; empty for none.
pub(super) fn optional_text(at_ns: Option<i64>) -> String {
    at_ns.map(text).unwrap_or_default()
}

/// The time that an RFC 3339 text says, in the range that records have.
pub(super) fn parse(text: &str) -> Option<i64> {
    let at: Timestamp = text.parse().ok()?;
    i64::try_from(at.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NANOS: i64 = 1_000_000_000;
    const DAY_SECS: i64 = 86_400;

    /// The general formatter is the oracle, over the whole range and around every midnight hit.
    #[test]
    fn the_hand_written_form_is_that_of_a_general_formatter() {
        let oracle = |at: i64| Timestamp::from_nanosecond(i128::from(at)).unwrap().to_string();
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = i64::from_le_bytes(state.to_le_bytes());
            let midnight = at / (DAY_SECS * NANOS) * (DAY_SECS * NANOS);
            for at in [at, midnight, midnight - 1, i64::MAX, i64::MIN] {
                assert_eq!(text(at), oracle(at));
            }
        }
    }
}
