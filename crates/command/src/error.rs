//! What can go wrong in a client command, grouped by what the caller does next.
//!
//! A [`Error::Usage`] is fixed on the command line, a [`Error::Request`] at the server or on the
//! way to it, and an [`Error::Absent`] by writing the thing first. The exit code follows from the
//! group. Messages never hold a token or a value; hints say which knob to turn.

use std::fmt;

use super::client::error::{ApiError, ClientError};

/// Exit code of a mistake that never reached a server.
pub const EXIT_USAGE: u8 = 1;
/// Exit code of a request that failed or was refused.
pub const EXIT_SERVER: u8 = 2;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub enum Error {
    /// The call itself is wrong: nothing useful was sent.
    Usage(String),
    /// The settings are wrong: no client could be made.
    Settings(String),
    /// A request failed; the text says what we were doing and is empty for the `kv` preflight.
    Request(String, Box<ClientError>),
    /// The server has nothing there.
    Absent(String),
    /// What is shown instead of sending the request: `-output-curl-string`, `-output-policy`.
    Shown(String),
}

impl Error {
    /// The call is wrong in this way.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
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

    /// The exit code of this error.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => EXIT_USAGE,
            Self::Settings(_) | Self::Request(..) | Self::Absent(_) => EXIT_SERVER,
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
            Self::Usage(text) | Self::Settings(text) | Self::Absent(text) | Self::Shown(text) => {
                f.write_str(text)
            }
            Self::Request(what, error) if what.is_empty() => write!(f, "{error}"),
            Self::Request(what, error) => write!(f, "{what}: {error}"),
        }
    }
}
