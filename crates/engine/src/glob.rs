//! Patterns in which `*` stands for any text, as fields of roles, of connections and of searches have them.
//!
//! Two kinds of patterns have rules of their own: those of the values that a policy allows (`auth::policy::literal`), in which a star is one
//! only at the ends, and those of the names that PKI roles allow (`pki::names`).

/// Whether a text is as a pattern says. Each part between two stars is taken at the first place where it is found: the stars around it give
/// way, so the first place is as good as any, and a match takes no more than one pass.
pub fn matches_glob(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The obvious way: try every place for every star.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|at| naive(rest, &text[at..])),
            Some((byte, rest)) => text.first() == Some(byte) && naive(rest, &text[1..]),
        }
    }

    /// Every word of these letters with at most so many of them.
    fn words(letters: &str, most: usize) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut last = words.clone();
        for _ in 0..most {
            last = last
                .iter()
                .flat_map(|word| letters.chars().map(move |c| format!("{word}{c}")))
                .collect();
            words.extend(last.iter().cloned());
        }
        words
    }

    #[test]
    fn a_glob_is_what_trying_every_place_finds() {
        for pattern in words("ab*", 5) {
            for text in words("ab", 6) {
                let expected = naive(pattern.as_bytes(), text.as_bytes());
                assert_eq!(matches_glob(&pattern, &text), expected, "{pattern:?} {text:?}");
            }
        }
    }

    #[test]
    fn parts_do_not_share_a_letter() {
        assert!(matches_glob("aa*aa", "aaaa") && !matches_glob("aa*aa", "aaa"));
        assert!(matches_glob("é*é", "éxé") && !matches_glob("é*é", "é"));
    }
}
