//! What a command leaves behind: two streams and an exit code.
//!
//! Commands return it instead of writing, so a test sees exactly what a terminal would, and the
//! split between the streams (data out, everything else to the side) is decided in one place.

use zeroize::Zeroize;

use super::error::Error;
use super::output;

/// The two streams and the exit code of one run.
#[derive(Default)]
pub struct Outcome {
    /// Data: what a script pipes on. Often a secret, so wiped on drop.
    pub stdout: Vec<u8>,
    /// Warnings and errors.
    pub stderr: Vec<u8>,
    /// The exit code.
    pub code: u8,
    /// Whether stderr may be coloured, if it is a terminal.
    pub colour: bool,
}

impl Outcome {
    /// Success that prints `text`.
    pub fn print(text: impl Into<Vec<u8>>) -> Self {
        let mut outcome = Self::default();
        outcome.stdout = text.into();
        outcome
    }

    /// Success that prints `text` and a line break.
    pub fn line(text: impl AsRef<str>) -> Self {
        Self::print(format!("{}\n", text.as_ref()))
    }

    /// The same with `text` on stderr as well.
    pub fn with_notice(mut self, text: &str) -> Self {
        self.stderr.extend_from_slice(text.as_bytes());
        self
    }

    /// The same with another exit code.
    pub fn with_code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        self.stdout.zeroize();
    }
}

impl From<Error> for Outcome {
    /// The message, the warnings that came with it, and a hint where there is one.
    fn from(error: Error) -> Self {
        if let Error::Shown(text) = error {
            return Self::line(text);
        }
        let mut text = format!("{error}\n");
        if let Some(secret) = error.api().and_then(|api| api.secret.as_ref()) {
            text.push_str(&output::warnings(secret));
        }
        if let Some(hint) = error.hint() {
            text.push_str(&format!("hint: {hint}\n"));
        }
        Self::default().with_notice(&text).with_code(error.exit_code())
    }
}
