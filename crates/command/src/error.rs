//! What can go wrong in a client command, grouped by what the caller does next.
//!
//! A [`Error::Usage`] is fixed on the command line, an [`Error::Unusable`] where the thing is that the message names, a
//! [`Error::Request`] at the server or on the way to it, and an [`Error::Absent`] by writing the thing first. Messages
//! never hold a token or a value; hints say which knob to turn.
//!
//! The exit code follows from the group, here and nowhere else ([`Error::exit_code`]):
//! - [`EXIT_USAGE`]: an argument or a flag is missing, unknown or has no meaning. What an argument takes from a file
//!   (`key=@file`, `-pgp-keys`) is a part of it. `VAULT_FORMAT` is read as the flag that it stands for.
//! - [`EXIT_SERVER`]: what the command works with cannot be used: the environment and the settings of the connection,
//!   however they are given, a file that it sends or writes as a whole, or the server, which refused or was not reached.
//!
//! These are the codes of Vault's command line, in which a flag is wrong before the client is made, and all that
//! comes after is 2. Commands whose codes are answers (`status`) have no failure but [`EXIT_USAGE`].

use std::fmt;

use super::client::error::{ApiError, ClientError};

/// Exit code of a wrong argument or flag.
pub const EXIT_USAGE: u8 = 1;
/// Exit code of what the command works with and cannot use: settings, files and servers.
pub const EXIT_SERVER: u8 = 2;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub enum Error {
    /// The call itself is wrong, in an argument or a flag: nothing useful was sent.
    Usage(String),
    /// What the call works with cannot be used: the environment, a setting of the connection, a file, a server.
    Unusable(String),
    /// A request failed; the text says what we were doing and is empty for the `kv` preflight.
    Request(String, Box<ClientError>),
    /// The server has nothing there.
    Absent(String),
    /// The same, and the hint why.
    AbsentBecause(String, String),
    /// What is shown instead of sending the request: `-output-curl-string`, `-output-policy`.
    Shown(String),
}

impl Error {
    /// The call is wrong in this way.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// What the call works with cannot be used, for this reason.
    pub fn unusable(text: impl Into<String>) -> Self {
        Self::Unusable(text.into())
    }

    /// There is no value at `path`.
    pub fn no_value(path: &str) -> Self {
        Self::Absent(format!("No value found at {path}"))
    }

    /// Turns a failed request into an error that says what it was for.
    pub fn doing(what: impl Into<String>) -> impl FnOnce(ClientError) -> Self {
        let what = what.into();
        move |error| match error {
            ClientError::Shown(text) => Self::Shown(text),
            ClientError::Usage(text) => Self::Usage(text),
            other => Self::Request(what, Box::new(other)),
        }
    }

    /// The same for a request about what is at `path`: a server that has nothing there may say so with an empty 404.
    pub fn doing_at(what: impl Into<String>, path: &str) -> impl FnOnce(ClientError) -> Self {
        let (doing, absent) = (Self::doing(what), Self::no_value(path));
        move |error| match error.api() {
            Some(api) if api.is_bare_not_found() => absent,
            _ => doing(error),
        }
    }

    /// The same for what Vault's command line reads: every 404 is nothing there, and the hint says why where the server does.
    pub fn reading(what: impl Into<String>, path: &str) -> impl FnOnce(ClientError) -> Self {
        Self::reading_or(what, Self::no_value(path).to_string())
    }

    /// The same, where `absent` says that there is nothing.
    pub fn reading_or(
        what: impl Into<String>,
        absent: impl Into<String>,
    ) -> impl FnOnce(ClientError) -> Self {
        let (doing, absent) = (Self::doing(what), absent.into());
        move |error| match error.api() {
            Some(api) if api.status == 404 => {
                let says = || format!("the server says: {}", api.words());
                Self::AbsentBecause(absent, api.hint().unwrap_or_else(says))
            }
            _ => doing(error),
        }
    }

    /// The server answered without what it was asked for, so nothing can be said of that.
    pub fn empty_answer(doing: &str) -> Self {
        Self::Absent(format!("{doing}: the answer is empty"))
    }

    /// The exit code of this error: the one place that decides it.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => EXIT_USAGE,
            Self::Unusable(_) | Self::Request(..) | Self::Absent(_) | Self::AbsentBecause(..) => {
                EXIT_SERVER
            }
            Self::Shown(_) => 0,
        }
    }

    /// The answer of the server, if that is what went wrong.
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Request(_, error) => error.api(),
            _ => None,
        }
    }

    /// The knob to turn, where there is a likely one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Request(_, error) => error.hint(),
            Self::AbsentBecause(_, why) => Some(why.clone()),
            _ => None,
        }
    }
}

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        Self::doing("")(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text)
            | Self::Unusable(text)
            | Self::Absent(text)
            | Self::AbsentBecause(text, _)
            | Self::Shown(text) => f.write_str(text),
            Self::Request(what, error) if what.is_empty() => write!(f, "{error}"),
            Self::Request(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_says_whether_the_call_is_wrong_or_what_it_works_with() {
        assert_eq!(Error::usage("no such flag").exit_code(), EXIT_USAGE);
        assert_eq!(Error::from(ClientError::Usage("flag".to_owned())).exit_code(), EXIT_USAGE);
        for error in [
            Error::unusable("a file that is not there"),
            Error::no_value("secret/a"),
            Error::from(ClientError::Settings("no certificate in PEM form".to_owned())),
            Error::from(ClientError::Answer("not JSON".to_owned())),
        ] {
            assert_eq!(error.exit_code(), EXIT_SERVER, "{error}");
        }
        assert_eq!(Error::from(ClientError::Shown("curl".to_owned())).exit_code(), 0);
    }
}
