//! Password policies: what a generated password is made of, and the generation.
//!
//! ```text
//! length = 20
//! rule "charset" { charset = "abcdefghijklmnopqrstuvwxyz" min-chars = 1 }
//! rule "charset" { charset = "0123456789" min-chars = 1 }
//! ```
//!
//! `core` stores the text and asks a [`PasswordPolicy`] for passwords; where the randomness comes
//! from is an argument. A password takes the least number of characters from each rule's set, the
//! rest from all sets together, and is then shuffled: so it always fits its policy, in bounded time,
//! and is at least as hard to guess as its characters were to draw.

mod read;

use std::fmt;

use kallisto_hcl::{Error as Syntax, TextPosition};
use zeroize::Zeroizing;

/// Shortest password that may be asked for, in characters.
pub const LENGTH_MIN: usize = 4;
/// Longest password that may be asked for, in characters.
pub const LENGTH_MAX: usize = 100;
/// Most rules in one policy.
pub const RULES_MAX: usize = 64;
/// Most different characters in one rule.
pub const CHARSET_CHARS_MAX: usize = 4096;
/// Random bytes asked for at a time.
const DRAW_BYTES: usize = 64;

/// What a password is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordPolicy {
    length: usize,
    rules: Vec<Charset>,
    /// Every character of every rule, once.
    union: Vec<char>,
}

/// A set of characters, and how many of them there must be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Charset {
    chars: Vec<char>,
    least: usize,
}

/// Why a text is no password policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordPolicyError {
    /// Where.
    pub at: TextPosition,
    /// What.
    pub fault: PasswordPolicyFault,
}

/// What can be wrong with a password policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordPolicyFault {
    /// Neither HCL nor JSON.
    Syntax(&'static str),
    /// A key that no password policy has.
    UnknownKey,
    /// No length, or no number.
    NoLength,
    /// Shorter or longer than a password may be.
    LengthOutOfBounds,
    /// A rule that is no `charset`.
    UnknownRule,
    /// No rule, or a rule without characters.
    NoCharset,
    /// A character that cannot be printed.
    NotPrintable,
    /// `min-chars` is no number.
    BadLeast,
    /// More than [`RULES_MAX`] rules or [`CHARSET_CHARS_MAX`] characters.
    TooMany,
    /// The rules together ask for more characters than there are.
    LeastsPastLength,
}

impl PasswordPolicy {
    /// Reads a policy, in HCL or JSON.
    ///
    /// # Errors
    /// [`PasswordPolicyError`] with the place of the first fault.
    pub fn parse(text: &str) -> Result<Self, PasswordPolicyError> {
        read::policy(text)
    }

    /// How many characters a password has.
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Makes a password out of bytes that `fill` draws.
    ///
    /// # Errors
    /// What `fill` says.
    pub fn make<E>(
        &self,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<Zeroizing<String>, E> {
        let mut draws = Draws { fill, bytes: Zeroizing::new([0; DRAW_BYTES]), used: DRAW_BYTES };
        // Neither grows after this, so nothing of a password is left behind.
        let mut chars = Zeroizing::new(Vec::with_capacity(self.length));
        for rule in &self.rules {
            for _ in 0..rule.least {
                chars.push(rule.chars[draws.below(rule.chars.len())?]);
            }
        }
        while chars.len() < self.length {
            chars.push(self.union[draws.below(self.union.len())?]);
        }
        for last in (1..chars.len()).rev() {
            chars.swap(last, draws.below(last + 1)?);
        }
        let mut password = Zeroizing::new(String::with_capacity(4 * self.length));
        password.extend(chars.iter());
        Ok(password)
    }
}

/// Numbers out of random bytes.
struct Draws<'a, E> {
    fill: &'a mut dyn FnMut(&mut [u8]) -> Result<(), E>,
    bytes: Zeroizing<[u8; DRAW_BYTES]>,
    used: usize,
}

impl<E> Draws<'_, E> {
    /// A number below `end`, each as likely: draws past the last whole multiple of `end` are thrown
    /// away, fewer than half of them. `end` is a count of characters, above zero and small.
    fn below(&mut self, end: usize) -> Result<usize, E> {
        let end = u32::try_from(end).expect("fewer characters than Unicode has");
        let limit = u32::MAX - u32::MAX % end;
        loop {
            let word = self.word()?;
            if word < limit {
                return Ok((word % end) as usize);
            }
        }
    }

    fn word(&mut self) -> Result<u32, E> {
        if self.used + 4 > DRAW_BYTES {
            (self.fill)(&mut *self.bytes)?;
            self.used = 0;
        }
        let word = std::array::from_fn(|at| self.bytes[self.used + at]);
        self.used += 4;
        Ok(u32::from_le_bytes(word))
    }
}

impl From<Syntax> for PasswordPolicyError {
    fn from(error: Syntax) -> Self {
        Self { at: error.at, fault: PasswordPolicyFault::Syntax(error.what) }
    }
}

impl fmt::Display for PasswordPolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            PasswordPolicyFault::LengthOutOfBounds => {
                write!(f, "passwords must be between {LENGTH_MIN} and {LENGTH_MAX} characters")
            }
            fault => write!(f, "invalid password policy: {} at {}", fault.what(), self.at),
        }
    }
}

impl PasswordPolicyFault {
    const fn what(self) -> &'static str {
        match self {
            Self::Syntax(what) => what,
            Self::UnknownKey => "unknown key",
            Self::NoLength => "length must be > 0",
            Self::LengthOutOfBounds => "length out of bounds",
            Self::UnknownRule => "unrecognized rule type",
            Self::NoCharset => "no charset specified",
            Self::NotPrintable => "non-printable character in charset",
            Self::BadLeast => "min-chars is not a whole number",
            Self::TooMany => "too many rules or characters",
            Self::LeastsPastLength => "the rules require more characters than the length has",
        }
    }
}

impl std::error::Error for PasswordPolicyError {}

#[cfg(test)]
mod tests;
