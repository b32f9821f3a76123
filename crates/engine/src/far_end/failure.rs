//! Why a far end did not do what it was asked.

use std::fmt;

use kallisto_api::Error;
use secrecy::{ExposeSecret, SecretString};

use super::FAILURE_CHARS_MAX;

/// Shortest part of a secret that is looked for in a text, in characters.
const SECRET_PART_CHARS: usize = 4;

/// Why a far end did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FarEndFailure {
    /// Too much waits for this far end already: it was not asked.
    Busy,
    /// There is no session with it: it was not asked.
    Unreachable(String),
    /// It says that the password of the login is wrong: it was not asked.
    LoginRefused(String),
    /// It does not let the login in, for a reason that says nothing about its password: it was not asked.
    LoginBarred(String),
    /// It has failed so too often, and is left alone for a while: it was not asked.
    Paused(Box<Self>),
    /// It refused the first of what it was asked, in its own words: nothing was done.
    NothingDone(String),
    /// It refused, in its own words: what it did before stays, where it has no transactions.
    Refused(String),
    /// It was asked, and did not answer: it may have done it, and may still do it.
    Unknown(String),
}

impl FarEndFailure {
    /// What went wrong, in the words of the far end or its driver.
    pub fn words(&self) -> &str {
        match self {
            Self::Busy => "too many calls wait for it already",
            Self::Paused(last) => last.words(),
            Self::Unreachable(words)
            | Self::LoginRefused(words)
            | Self::LoginBarred(words)
            | Self::NothingDone(words)
            | Self::Refused(words)
            | Self::Unknown(words) => words,
        }
    }

    /// The same in other words.
    #[must_use]
    pub fn map(self, change: impl FnOnce(&str) -> String) -> Self {
        match self {
            Self::Busy => Self::Busy,
            Self::Paused(last) => Self::Paused(Box::new(last.map(change))),
            Self::Unreachable(words) => Self::Unreachable(change(&words)),
            Self::LoginRefused(words) => Self::LoginRefused(change(&words)),
            Self::LoginBarred(words) => Self::LoginBarred(change(&words)),
            Self::NothingDone(words) => Self::NothingDone(change(&words)),
            Self::Refused(words) => Self::Refused(change(&words)),
            Self::Unknown(words) => Self::Unknown(change(&words)),
        }
    }

    /// Whether it was asked and refused.
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self::NothingDone(_) | Self::Refused(_))
    }

    /// Whether nothing of what it was to do is done, for certain: it was not asked, or refused the first of it.
    pub const fn did_nothing(&self) -> bool {
        match self {
            Self::Busy
            | Self::Unreachable(_)
            | Self::LoginRefused(_)
            | Self::LoginBarred(_)
            | Self::Paused(_)
            | Self::NothingDone(_) => true,
            Self::Refused(_) | Self::Unknown(_) => false,
        }
    }

    /// Whether the password of the login is wrong, as it says or last said.
    pub fn is_wrong_password(&self) -> bool {
        match self {
            Self::LoginRefused(_) => true,
            Self::Paused(last) => last.is_wrong_password(),
            _ => false,
        }
    }

    /// What a client hears of it: what the far end refused can be put right by who asks, the rest has to be waited for. Leases tell by it
    /// whether the far end has answered.
    #[must_use]
    pub fn to_error(&self, doing: &str) -> Error {
        let text = format!("{doing}: {self}");
        match self {
            Self::LoginRefused(_)
            | Self::LoginBarred(_)
            | Self::NothingDone(_)
            | Self::Refused(_) => Error::invalid(text),
            Self::Busy | Self::Paused(_) | Self::Unreachable(_) | Self::Unknown(_) => {
                Error::Unavailable(text)
            }
        }
    }
}

impl fmt::Display for FarEndFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

impl std::error::Error for FarEndFailure {}

/// A far end's text without any part of these secrets, on one line, and not too long. Far ends quote what they were sent, from wherever they
/// stopped reading it.
pub fn without_secrets(text: &str, secrets: &[&SecretString]) -> String {
    let text: Vec<char> = text.chars().take(FAILURE_CHARS_MAX).collect();
    let secrets: Vec<Vec<char>> =
        secrets.iter().map(|secret| secret.expose_secret().chars().collect()).collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let longest = secrets.iter().map(|secret| common_part(rest, secret)).max().unwrap_or(0);
        if longest >= SECRET_PART_CHARS {
            out.push_str("***");
            at += longest;
        } else {
            let c = rest[0];
            out.push(if c.is_control() { ' ' } else { c });
            at += 1;
        }
    }
    out
}

/// How many characters at the beginning of `text` stand together anywhere in `secret`; a secret that is short counts when it is whole.
fn common_part(text: &[char], secret: &[char]) -> usize {
    let starting = |at: usize| text.iter().zip(&secret[at..]).take_while(|(a, b)| a == b).count();
    let longest = (0..secret.len()).map(starting).max().unwrap_or(0);
    match !secret.is_empty() && longest == secret.len() {
        true => longest.max(SECRET_PART_CHARS),
        false => longest,
    }
    .min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &str, secrets: &[&str]) -> String {
        let secrets: Vec<SecretString> =
            secrets.iter().map(|secret| SecretString::from(*secret)).collect();
        without_secrets(text, &secrets.iter().collect::<Vec<_>>())
    }

    #[test]
    fn no_part_of_a_secret_is_told() {
        let secret = "x9-Ab7Kq-22zLmPw";
        for text in [
            "syntax error at or near \"Ab7Kq\"",
            "near 'zLmPw' VALID UNTIL' at line 1",
            "password x9-Ab7Kq-22zLmPw is wrong",
        ] {
            let told = cleaned(text, &[secret]);
            for part in ["Ab7K", "b7Kq", "LmPw", "zLmP", "22zL"] {
                assert!(!told.contains(part), "{told}");
            }
            assert!(told.contains("***"), "{told}");
        }
        assert_eq!(cleaned("role \"v-app\" exists", &[secret]), "role \"v-app\" exists");
    }

    #[test]
    fn what_was_not_asked_is_no_refusal() {
        let wrong = FarEndFailure::LoginRefused("no such password".into());
        assert!(matches!(wrong.to_error("dropping"), Error::Invalid(_)));
        let paused = FarEndFailure::Paused(Box::new(wrong));
        assert!(paused.is_wrong_password() && !paused.is_refusal());
        let error = paused.to_error("dropping");
        assert_eq!(error, Error::Unavailable("dropping: no such password".into()));
    }

    #[test]
    fn what_is_told_is_one_short_line() {
        assert_eq!(cleaned("a\nb\u{1b}[31m", &[]), "a b [31m");
        assert_eq!(cleaned(&"x".repeat(9999), &[]).len(), FAILURE_CHARS_MAX);
    }
}
