//! Names as people type them and as directories compare them (RFC 4518).

use unicode_normalization::{UnicodeNormalization, is_nfkc};

/// Code points that say nothing by themselves (`Default_Ignorable_Code_Point` of Unicode 16), and those besides that RFC 4518, section 2.2,
/// maps to nothing: directories pass over them.
const PASSED_OVER: &[(u32, u32)] = &[
    (0x00ad, 0x00ad),
    (0x034f, 0x034f),
    (0x061c, 0x061c),
    (0x06dd, 0x06dd),
    (0x070f, 0x070f),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x1806, 0x1806),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x2028, 0x202e),
    (0x2060, 0x206f),
    (0x3164, 0x3164),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xff00, 0xffef),
    (0xfff0, 0xfffd),
    (0x1_bca0, 0x1_bca3),
    (0x1_d173, 0x1_d17a),
    (0xe_0000, 0x10_ffff),
];

/// Whether a text can be the name of somebody who logs in: it is its own normalization form KC, and has no character that directories pass
/// over. Else many texts would be one name.
pub fn is_name(text: &str) -> bool {
    let is_passed_over = |c: char| {
        let code = u32::from(c);
        c.is_control() || PASSED_OVER.iter().any(|(first, last)| (*first..=*last).contains(&code))
    };
    !text.is_empty() && !text.contains(is_passed_over) && is_nfkc(text)
}

/// The one spelling of a name: normalization form KC, in lower case, with single spaces.
pub fn canonical(name: &str) -> String {
    // Character by character: the lower case of a whole text depends on where a letter stands.
    let lower: String = name.nfkc().flat_map(char::to_lowercase).nfkc().collect();
    with_single_spaces(&lower)
}

/// A text without spaces around it, and with single ones inside.
pub fn with_single_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_characters_that_directories_pass_over_are_none() {
        for bad in [
            "",
            "a\0",
            "a\nb",
            "ali\u{ad}ce",
            "\u{feff}alice",
            "al\u{200b}ice",
            "al\u{34f}ice",
            "alice\u{61c}",
            "al\u{115f}ice",
            "al\u{17b4}ice",
            "al\u{180e}ice",
            "al\u{2063}ice",
            "al\u{3164}ice",
            "al\u{fe0f}ice",
            "al\u{fffc}ice",
            "al\u{1d173}ice",
            "al\u{e0061}ice",
            // Not their own form KC: wide letters, a ligature, a long s, a superscript, a space that does not break, a decomposed letter.
            "\u{ff41}lice",
            "\u{fb01}na",
            "li\u{17f}a",
            "a\u{b2}",
            "alice\u{a0}a",
            "gro\u{308}\u{df}e",
            "\u{1d41a}lice",
        ] {
            assert!(!is_name(bad), "{bad:?}");
        }
        for good in ["alice", "Bob (B)", "*()\\", "größe", "a,b", "a@b.c", "Жанна", "山田"]
        {
            assert!(is_name(good), "{good}");
        }
    }

    #[test]
    fn a_name_has_one_spelling() {
        for same in ["Alice A", "alice  a", " ALICE\u{a0}A ", "alice\u{3000}a", "\u{ff21}lice a"] {
            assert_eq!(canonical(same), "alice a", "{same}");
        }
        // Where a letter stands says nothing.
        assert_eq!(canonical("ΑΣ"), canonical("ασ"));
        assert_eq!(canonical("gro\u{308}\u{df}e"), "größe");
        assert_ne!(canonical("ı"), canonical("i"));
    }
}
