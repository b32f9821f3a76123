//! A place in the text that moves forward, and what both languages count on the way.

use crate::limits::{DEPTH_MAX, VALUES_MAX};
use crate::{Error, TextPosition};

/// Reads a text character by character.
pub(crate) struct TextCursor<'a> {
    rest: &'a str,
    at: TextPosition,
    depth: usize,
    values: usize,
}

impl<'a> TextCursor<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { rest: text, at: TextPosition { line: 1, column: 1 }, depth: 0, values: 0 }
    }

    /// Where the next character stands.
    pub(crate) const fn at(&self) -> TextPosition {
        self.at
    }

    /// What is left.
    pub(crate) const fn rest(&self) -> &'a str {
        self.rest
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    pub(crate) fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = &self.rest[next.len_utf8()..];
        if next == '\n' {
            self.at = TextPosition { line: self.at.line + 1, column: 1 };
        } else {
            self.at.column += 1;
        }
        Some(next)
    }

    /// Takes `expected` if it is next.
    pub(crate) fn take_if(&mut self, expected: char) -> bool {
        let is_next = self.peek() == Some(expected);
        if is_next {
            self.take();
        }
        is_next
    }

    /// Takes characters as long as they are `wanted`.
    pub(crate) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let before = self.rest;
        while self.peek().is_some_and(&wanted) {
            self.take();
        }
        &before[..before.len() - self.rest.len()]
    }

    /// The rest of this line, without its end, which is taken as well. `None` at the end.
    pub(crate) fn take_line(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let line = self.take_while(|next| next != '\n');
        self.take();
        Some(line)
    }

    pub(crate) const fn error(&self, what: &'static str) -> Error {
        Error { at: self.at, what }
    }

    /// Counts one value.
    pub(crate) fn count(&mut self) -> Result<(), Error> {
        self.values += 1;
        if self.values > VALUES_MAX { Err(self.error("too many values")) } else { Ok(()) }
    }

    /// Goes one level down; [`TextCursor::leave`] comes back up.
    pub(crate) fn enter(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(self.error("nested too deeply")) } else { Ok(()) }
    }

    pub(crate) const fn leave(&mut self) {
        self.depth -= 1;
    }
}
