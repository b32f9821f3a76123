//! What a policy may be called.
//!
//! Names are lower-cased when they are read, here and nowhere later, so that one policy has one
//! name (lesson 3). The alphabet is small on purpose: a name becomes part of request paths and of
//! lists divided by commas, and two names must never look alike (lessons 4 and 6).

use std::fmt;
use std::ops::Deref;

use super::limits::NAME_BYTES_MAX;

/// The one name that no policy has.
const ROOT: &str = "root";

/// The checked, lower-case name of a policy: letters, digits and `_ . - / : @ + = ~` of ASCII,
/// without empty or dot segments.
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
    /// A segment that is empty, `.` or `..`.
    BadSegment,
    /// `root` in any case: it is a kind of token, not a policy.
    Root,
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
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-/:@+=~".contains(&byte);
        if let Some(at) = text.bytes().position(|byte| !is_allowed(byte)) {
            return Err(NameError::BadCharacter(at));
        }
        if text.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(NameError::BadSegment);
        }
        let name = text.to_ascii_lowercase();
        if name == ROOT { Err(NameError::Root) } else { Ok(Self(name.into())) }
    }
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
        for (text, name) in
            [("web", "web"), ("Team/Web.RO", "team/web.ro"), ("a:b@c+d=~", "a:b@c+d=~")]
        {
            assert_eq!(&*PolicyName::parse(text).unwrap(), name);
        }
        assert!(PolicyName::parse(&"a".repeat(NAME_BYTES_MAX)).is_ok());
        assert_eq!(PolicyName::parse(&"a".repeat(NAME_BYTES_MAX + 1)), Err(NameError::TooLong));
    }

    #[test]
    fn lesson_04_no_separators_and_no_dot_segments() {
        for text in ["..", "a/../b", "./a", "a//b", "/a", "a/"] {
            assert_eq!(PolicyName::parse(text), Err(NameError::BadSegment), "{text}");
        }
        for text in ["a b", "a,b", "a\\b", "a\0b", "a%2fb", "a*", "{{a}}", "a\"b", "a|b", "a#b"] {
            assert_eq!(
                PolicyName::parse(text),
                Err(NameError::BadCharacter(1).at_of(text)),
                "{text}"
            );
        }
    }

    #[test]
    fn lesson_06_nothing_that_looks_like_root_is_a_policy() {
        for text in ["root", "ROOT", "Root", "rOOT"] {
            assert_eq!(PolicyName::parse(text), Err(NameError::Root));
        }
        for text in
            [" root", "root ", "root\t", "\u{200b}root", "r\u{043e}\u{043e}t", "ｒｏｏｔ", "root\n"]
        {
            assert!(matches!(PolicyName::parse(text), Err(NameError::BadCharacter(_))), "{text:?}");
        }
    }

    impl NameError {
        /// The error for the first byte of `text` outside the alphabet.
        fn at_of(self, text: &str) -> Self {
            let bad = |byte: u8| !(byte.is_ascii_alphanumeric() || b"_.-/:@+=~".contains(&byte));
            text.bytes().position(bad).map_or(self, Self::BadCharacter)
        }
    }
}
