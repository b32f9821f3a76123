//! What a policy may be called.
//!
//! Names are lower-cased when they are read, here and nowhere later, so that one policy has one
//! name. A name is text that is one thing wherever it stands: it is never joined with others into a key, and in
//! a list it is an item of an array. What it may not hold is what a request's path cannot, and what would make two
//! names look alike: marks and signs outside ASCII, so that a letter with an accent has one form; space at an
//! end; and whatever reads as `root`.

use std::fmt;
use std::ops::Deref;

use super::limits::NAME_BYTES_MAX;

/// The one name that no policy has.
const ROOT: &str = "root";

/// The checked, lower-case name of a policy: letters and digits, and all of ASCII that can be printed but for the
/// backslash, without empty or dot segments.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyName(Box<str>);

/// Why a text does not name a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Nothing there.
    Empty,
    /// Longer than [`NAME_BYTES_MAX`].
    TooLong,
    /// A character outside the alphabet, at this byte.
    BadCharacter(usize),
    /// A space at its beginning or end.
    OuterSpace,
    /// A segment that is empty, `.` or `..`.
    BadSegment,
    /// `root` in any case: it is a kind of token, not a policy.
    Root,
    /// What looks like `root`.
    LikeRoot,
}

impl PolicyName {
    /// The name of a policy that can be written, deleted, or attached to a token.
    ///
    /// # Errors
    /// [`NameError`]; [`NameError::Root`] for `root`, which callers may answer in their own words.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > NAME_BYTES_MAX {
            return Err(NameError::TooLong);
        }
        let name = text.to_lowercase();
        if let Some((at, _)) = name.char_indices().find(|(_, character)| !is_allowed(*character)) {
            return Err(NameError::BadCharacter(at));
        }
        if text.starts_with(' ') || text.ends_with(' ') {
            return Err(NameError::OuterSpace);
        }
        if text.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(NameError::BadSegment);
        }
        match name.as_str() {
            ROOT => Err(NameError::Root),
            name if looks_like_root(name) => Err(NameError::LikeRoot),
            _ => Ok(Self(name.into())),
        }
    }
}

fn is_allowed(character: char) -> bool {
    match character {
        '\\' => false,
        ' '..='~' => true,
        _ => character.is_alphanumeric() && !is_form(character),
    }
}

/// Whether a letter or digit is another form of one that there is without: wide, mathematical, in a circle, a number of
/// Rome or a letter raised.
const fn is_form(character: char) -> bool {
    matches!(
        character,
        '\u{aa}' | '\u{b2}'..='\u{b3}' | '\u{b9}'..='\u{ba}' | '\u{bc}'..='\u{be}' | '\u{2b0}'..='\u{2ff}'
            | '\u{1d00}'..='\u{1dbf}' | '\u{2070}'..='\u{209f}' | '\u{2100}'..='\u{218f}' | '\u{2460}'..='\u{24ff}'
            | '\u{ff00}'..='\u{ffef}' | '\u{1d400}'..='\u{1d7ff}' | '\u{1f100}'..='\u{1f1ff}'
    )
}

/// Whether the letters of a name are those of `root`, with letters of other scripts for some of them. Letters of Latin
/// with a mark are seen to be others.
fn looks_like_root(name: &str) -> bool {
    let mut letters = name.chars().filter(|character| character.is_alphanumeric());
    let is_foreign = |letter: char| letter > '\u{24f}';
    let mut own = 0;
    for expected in ROOT.chars() {
        match letters.next() {
            Some(letter) if letter == expected => own += 1,
            Some(letter) if is_foreign(letter) => {}
            _ => return false,
        }
    }
    own > 0 && letters.next().is_none() && name.chars().any(is_foreign)
}

impl Deref for PolicyName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("policy name is empty"),
            Self::TooLong => write!(f, "policy name is longer than {NAME_BYTES_MAX} bytes"),
            Self::BadCharacter(at) => {
                write!(f, "policy name has a character at byte {at} that is not allowed")
            }
            Self::OuterSpace => f.write_str("policy name begins or ends with a space"),
            Self::LikeRoot => f.write_str("policy name looks like root"),
            Self::BadSegment => f.write_str("policy name has an empty or dot segment"),
            Self::Root => f.write_str("root is not a policy that can be attached or changed"),
        }
    }
}

impl std::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_and_plain() {
        for (text, name) in [
            ("web", "web"),
            ("Team/Web.RO", "team/web.ro"),
            ("a:b@c+d=~", "a:b@c+d=~"),
            ("A b", "a b"),
            ("É", "é"),
            ("a(b)[c],d*", "a(b)[c],d*"),
            ("{{a}}\"%2f#|;?", "{{a}}\"%2f#|;?"),
            ("日本/東京", "日本/東京"),
            ("Кот", "кот"),
            ("r00t", "r00t"),
            ("rööt", "rööt"),
            ("a root", "a root"),
        ] {
            assert_eq!(&*PolicyName::parse(text).unwrap(), name);
        }
        assert!(PolicyName::parse(&"a".repeat(NAME_BYTES_MAX)).is_ok());
        assert_eq!(PolicyName::parse(&"a".repeat(NAME_BYTES_MAX + 1)), Err(NameError::TooLong));
    }

    #[test]
    fn no_dot_segments_and_nothing_that_no_path_can_hold() {
        for text in ["..", "a/../b", "./a", "a//b", "/a", "a/"] {
            assert_eq!(PolicyName::parse(text), Err(NameError::BadSegment), "{text}");
        }
        for text in [
            "a\\b",
            "a\0b",
            "a\nb",
            "a\u{7f}",
            "a\u{85}",
            "a\u{301}",
            "a\u{200b}",
            "a\u{a0}b",
            "a…",
        ] {
            assert_eq!(PolicyName::parse(text), Err(NameError::BadCharacter(1)), "{text:?}");
        }
        for text in [" a", "a ", " "] {
            assert_eq!(PolicyName::parse(text), Err(NameError::OuterSpace), "{text:?}");
        }
    }

    #[test]
    fn nothing_that_looks_like_root_is_a_policy() {
        for text in ["root", "ROOT", "Root", "rOOT"] {
            assert_eq!(PolicyName::parse(text), Err(NameError::Root));
        }
        for text in [
            " root",
            "root ",
            "root\t",
            "\u{200b}root",
            "r\u{043e}\u{043e}t",
            "ｒｏｏｔ",
            "root\n",
            "ROO\u{0422}",
            "\u{433}oo\u{442}",
            "r\u{3bf}ot",
            "r\u{1d428}ot",
            "ⓡⓞⓞⓣ",
            "r\u{043e}-\u{043e}t",
        ] {
            let refused = matches!(
                PolicyName::parse(text),
                Err(NameError::BadCharacter(_) | NameError::OuterSpace | NameError::LikeRoot)
            );
            assert!(refused, "{text:?}");
        }
    }
}
