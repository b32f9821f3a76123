//! Why a configuration was refused. Whoever meets one of these edits a file or the environment.

use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;

/// Where something stands in a file. The file may also be `VAULT_LOCAL_CONFIG`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The file.
    pub(crate) file: Rc<str>,
    /// The line, counted from one.
    pub(crate) line: u32,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A key of a file: its place and its name.
    File(Place, String),
    /// A variable of the environment, as it was spelled.
    Environment(String),
}

/// What is wrong with a configuration. Never holds a value.
#[derive(Debug)]
pub(crate) enum Error {
    /// A file or directory could not be read.
    Unreadable(PathBuf, std::io::Error),
    /// A file is neither HCL nor JSON, or a stanza does not have the form it must have.
    Form(Place, &'static str),
    /// A value is not what it must be, or does not go with another.
    Value(Origin, String),
    /// A stanza lacks something, or may not be there.
    Stanza(Place, String),
    /// Something is missing altogether.
    Missing(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(place, key) => write!(f, "{place}: {key}"),
            Self::Environment(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Form(place, what) => write!(f, "{place}: {what}"),
            Self::Value(origin, what) => write!(f, "{origin}: {what}"),
            Self::Stanza(place, what) => write!(f, "{place}: {what}"),
            Self::Missing(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}
