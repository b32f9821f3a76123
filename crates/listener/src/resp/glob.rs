//! The patterns of `KEYS` and `SCAN`: `*`, `?`, `[abc]`, `[^a-z]`, and `\` before any of them
//! (redis.io, command `KEYS`).

/// Whether `text` is one of those that `pattern` stands for.
///
/// A star that turns out too short is made longer by one and the rest tried again; only the last star
/// needs that, so the work is at most the product of the two lengths.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        match one(&pattern[p..], text[t]) {
            Some(length) => {
                p += length;
                t += 1;
            }
            None => match &mut star {
                Some((after, from)) => {
                    *from += 1;
                    (p, t) = (*after, *from);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// Bytes of the pattern that stand for one byte, when they stand for this one.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', class @ ..] => {
            let (is_in, length) = in_class(class, byte);
            is_in.then_some(length + 1)
        }
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

/// Whether a class, its opening bracket left out, holds `byte`, and how long it is.
fn in_class(class: &[u8], byte: u8) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    while let Some(&first) = class.get(at) {
        match (first, class.get(at + 1), class.get(at + 2)) {
            (b']', ..) => return (found != negated, at + 1),
            (b'\\', Some(&escaped), _) => {
                found |= escaped == byte;
                at += 2;
            }
            // What comes after the hyphen is the end of the range, also a bracket: `[5-]` is the range from `5` to `]`, and
            // ends with the pattern unless another bracket closes it. Redis reads it so, in `stringmatchlen`.
            (low, Some(b'-'), Some(&high)) => {
                let (low, high) = (low.min(high), low.max(high));
                found |= (low..=high).contains(&byte);
                at += 3;
            }
            _ => {
                found |= first == byte;
                at += 1;
            }
        }
    }
    // A class that is never closed ends with the pattern.
    (found != negated, at)
}

/// The folder that everything a pattern stands for is in: up to the last slash before its first special
/// character.
pub(crate) fn folder(pattern: &str) -> &str {
    let literal = pattern.find(['*', '?', '[', '\\']).unwrap_or(pattern.len());
    let end = pattern[..literal].rfind('/').map_or(0, |slash| slash + 1);
    &pattern[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_what_redis_says() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "a/b", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("[\\]]", "]", true),
            ("[a", "a", true),
            ("a*b*c", "a12b3bc", true),
            ("a*b*c", "a12b3", false),
            ("", "", true),
            ("", "a", false),
            ("a**", "a", true),
            ("[^a]", "^", true),
            ("[a^]", "^", true),
            ("[aa]", "a", true),
            ("[\\a\\a]", "a", true),
            ("[a-cb-d]", "b", true),
            // From `]` to `a`, and from `5` to `]`.
            ("[a-]", "-", false),
            ("[a-]", "^", true),
            ("[a-]", "b", false),
            ("[5-]", "5", true),
            ("[5-]", "A", true),
            ("[5-]", "]", true),
            ("[5-]", "-", false),
            ("[5-]", "4", false),
            ("[5-]", "5]", false),
            ("[5-]]", "6", true),
            ("[^5-]", "6", false),
            ("[^5-]", "-", true),
            ("[5-", "-", true),
            ("[5-", "5", true),
            ("[5-", "6", false),
            ("[\\5-]", "-", true),
            ("[\\5-]", "6", false),
            ("[-5]", "-", true),
            ("[5-\\]]", "6]", true),
            ("[5-\\]]", "6", false),
            ("[]", "]", false),
            ("[\\a-c]", "b", false),
            ("[\\a-c]", "-", true),
            ("[a-cx]y", "by", true),
            ("[a-cx]y", "xy", true),
            ("[a-cx]y", "dy", false),
            ("[ab", "b", true),
            ("[^ab", "b", false),
            ("[", "a", false),
            ("\\", "\\", true),
            ("?", "", false),
            ("*?", "a", true),
            ("*a?c", "aabacabc", true),
            ("*a?c", "aabacab", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_made_to_take_long_does_not() {
        let (pattern, text) = ("*a".repeat(50) + "b", "a".repeat(4096));
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
    }

    #[test]
    fn a_pattern_says_where_to_look() {
        for (pattern, expected) in [
            ("*", ""),
            ("a/b", "a/"),
            ("a/b*", "a/"),
            ("a/b/?c/d", "a/b/"),
            ("a\\/b/c", ""),
            ("/", "/"),
        ] {
            assert_eq!(folder(pattern), expected, "{pattern}");
        }
    }
}
