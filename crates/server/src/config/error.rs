//! Why a configuration was refused. Whoever meets one of these edits a file or the environment.

use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;

/// Where something stands in a file. The file may also be `VAULT_LOCAL_CONFIG`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePosition {
    /// The file.
    pub(crate) file: Rc<str>,
    /// The line, counted from one.
    pub(crate) line: u32,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueOrigin {
    /// A key of a file: its place and its name.
    File(FilePosition, String),
    /// A variable of the environment, as it was spelled.
    Environment(String),
}

/// What is wrong with a configuration. Never holds a value.
#[derive(Debug)]
pub(crate) enum Error {
    /// A file or directory could not be read.
    Unreadable(PathBuf, std::io::Error),
    /// A file is neither HCL nor JSON, or a stanza does not have the form it must have.
    Form(FilePosition, &'static str),
    /// A value is not what it must be, or does not go with another.
    Value(ValueOrigin, String),
    /// A stanza lacks something, or may not be there.
    Stanza(FilePosition, String),
    /// What comes of something that was refused in the same stanza, and is said no more once that is mended; and what was
    /// found mistyped there.
    Follows(FilePosition, Vec<String>),
    /// Something is missing altogether.
    Missing(String),
}

/// Everything that is wrong with a configuration, and what its author should know besides: a line each, by file and line.
#[derive(Debug)]
pub(crate) struct Problems(pub(super) Vec<String>);

impl Problems {
    /// The lines, by place; what has no place comes last.
    pub(super) fn sorted(mut lines: Vec<String>) -> Vec<String> {
        lines.sort_by_cached_key(|line| match place(line) {
            Some((file, number)) => (0, file.to_owned(), number),
            None => (1, String::new(), 0),
        });
        lines
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Problems {}

/// The file and the number at the beginning of a line, where it has them.
fn place(line: &str) -> Option<(&str, u32)> {
    let (place, _) = line.split_once(": ")?;
    let (file, number) = place.rsplit_once(':')?;
    Some((file, number.parse().ok()?))
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl fmt::Display for ValueOrigin {
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
            Self::Follows(place, _) => write!(f, "{place}: see above"),
            Self::Missing(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}
