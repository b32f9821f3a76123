//! Durations in flags, in the environment and in what people are shown.
//!
//! Shown on the wire with every unit (`1h30m0s`), and to people without the empty ones (`1h30m`).

use std::time::Duration;

pub use kallisto_duration::to_go as wire;

/// Reads a duration; the error is a sentence for a flag's message.
///
/// # Errors
/// The sentence that Go's clients say.
pub fn parse(text: &str) -> Result<Duration, String> {
    kallisto_duration::parse_unsigned(text)
        .ok_or_else(|| format!("time: invalid duration {text:?}"))
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
    fn refuses_what_is_no_duration() {
        for text in ["bogus", "-5s", " 5s", ""] {
            assert_eq!(parse(text), Err(format!("time: invalid duration {text:?}")));
        }
        assert_eq!(parse("1m0.25s").map(wire), Ok("1m0.25s".to_owned()));
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
