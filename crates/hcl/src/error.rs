//! What is wrong with a file, and where.

use std::fmt;

/// A place in a file. Lines and columns count from one, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextPosition {
    /// The line.
    pub line: u32,
    /// The column in it.
    pub column: u32,
}

/// A file that is neither HCL nor JSON, or that passes a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// Where reading stopped.
    pub at: TextPosition,
    /// What was wrong there. Never a part of the file.
    pub what: &'static str,
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "At {}: {}", self.at, self.what)
    }
}

impl std::error::Error for Error {}
