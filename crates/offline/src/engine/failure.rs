//! Why an engine command stopped, grouped by what the caller does next, and its exit code.
//!
//! Messages name files, lines and offsets and never quote a key or a value.

use std::fmt;

use kallisto_lsm::Error as StoreError;

use kallisto_command::outcome::Outcome;

/// Exit code of a mistake in the call or in a file of commands.
const EXIT_MISTAKE: u8 = 1;
/// Exit code of a store that is damaged or cannot go on.
const EXIT_STORE: u8 = 2;

/// Why an engine command did not do what was asked.
#[derive(Debug)]
pub(super) enum EngineFailure {
    /// The call or its input has to change.
    Mistake(String),
    /// The store refused; the text says during what and may be empty.
    Store(String, StoreError),
}

impl EngineFailure {
    /// The call or its input is wrong in this way.
    pub(super) fn mistake(text: impl Into<String>) -> Self {
        Self::Mistake(text.into())
    }

    /// The same failure with what it happened during.
    pub(super) fn during(self, what: &str) -> Self {
        match self {
            Self::Store(_, error) => Self::Store(what.to_owned(), error),
            mistake @ Self::Mistake(_) => mistake,
        }
    }

    /// 1 when another call would help, 2 when the store itself needs a look.
    const fn exit_code(&self) -> u8 {
        match self {
            Self::Mistake(_)
            | Self::Store(_, StoreError::Invalid(_) | StoreError::Locked(_) | StoreError::Closed) => {
                EXIT_MISTAKE
            }
            Self::Store(
                _,
                StoreError::Full(_)
                | StoreError::Poisoned(_)
                | StoreError::Corrupt { .. }
                | StoreError::Unsupported { .. }
                | StoreError::Io(_),
            ) => EXIT_STORE,
        }
    }

    /// What to do next, where it is not plain from the message.
    const fn hint(&self) -> Option<&'static str> {
        let Self::Store(_, error) = self else { return None };
        match error {
            StoreError::Locked(_) => Some("wait for the process that has it open, or end it"),
            StoreError::Full(_) => Some("free space on the disk, then run the file again"),
            StoreError::Poisoned(_) => {
                Some("what was synced is safe; look at the disk, then check")
            }
            // A member of a cluster that forgot what it acknowledged would harm the others.
            StoreError::Corrupt { .. } => Some(
                "restore the directory from a copy, unless it is a server's: replace that server in its cluster, or restore a snapshot",
            ),
            StoreError::Unsupported { .. } => Some("use the release that wrote it"),
            StoreError::Invalid(_) | StoreError::Io(_) | StoreError::Closed => None,
        }
    }
}

impl From<StoreError> for EngineFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(String::new(), error)
    }
}

impl fmt::Display for EngineFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mistake(text) => f.write_str(text),
            Self::Store(what, error) if what.is_empty() => write!(f, "{error}"),
            Self::Store(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl From<EngineFailure> for Outcome {
    fn from(failure: EngineFailure) -> Self {
        let mut text = format!("{failure}\n");
        if let Some(hint) = failure.hint() {
            text.push_str(&format!("hint: {hint}\n"));
        }
        Self::default().with_notice(&text).with_code(failure.exit_code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_exit_with_one_and_the_store_with_two() {
        let corrupt = StoreError::Corrupt { file: "a.sst".into(), offset: 7, what: "checksum" };
        for (failure, code) in [
            (EngineFailure::mistake("no"), 1),
            (EngineFailure::from(StoreError::Locked("d".into())), 1),
            (EngineFailure::from(StoreError::Full("d".to_owned())), 2),
            (EngineFailure::from(StoreError::Poisoned("d".to_owned())), 2),
            (EngineFailure::from(corrupt), 2),
        ] {
            assert_eq!(Outcome::from(failure).code, code);
        }
    }

    #[test]
    fn a_store_failure_says_during_what_and_what_to_do() {
        let failure =
            EngineFailure::from(StoreError::Full("write x.wal".to_owned())).during("line 9");
        let outcome = Outcome::from(failure);
        let text = String::from_utf8_lossy(&outcome.stderr);
        assert!(text.starts_with("line 9: disk is full") && text.contains("\nhint: "), "{text}");
    }
}
