//! Why a run stopped, grouped by what the caller does next, and its exit code.
//!
//! Messages name files and lines and never quote a value or a key.

use std::fmt;

use kallisto_securedb::Error as StoreError;

use kallisto_command::outcome::Outcome;

/// Exit code of a mistake in the call or in a script.
const EXIT_MISTAKE: u8 = 1;
/// Exit code of a store that is damaged or cannot go on.
const EXIT_STORE: u8 = 2;

/// Why a run did not do what was asked.
#[derive(Debug)]
pub(super) enum ExecFailure {
    /// The call or the script has to change.
    Mistake(String),
    /// The store refused.
    Store(StoreError),
    /// The same, at this place of a script.
    StoreAt(String, StoreError),
}

impl ExecFailure {
    /// The call or the script is wrong in this way.
    pub(super) fn mistake(text: impl Into<String>) -> Self {
        Self::Mistake(text.into())
    }

    /// The same failure with where it happened.
    pub(super) fn at(self, place: &str) -> Self {
        match self {
            Self::Store(error) => Self::StoreAt(place.to_owned(), error),
            Self::Mistake(text) => Self::Mistake(format!("{place}: {text}")),
            placed @ Self::StoreAt(..) => placed,
        }
    }

    /// Whether another line may go well: the store itself is sound.
    pub(super) const fn is_mistake(&self) -> bool {
        self.exit_code() == EXIT_MISTAKE
    }

    const fn store(&self) -> Option<&StoreError> {
        match self {
            Self::Mistake(_) => None,
            Self::Store(error) | Self::StoreAt(_, error) => Some(error),
        }
    }

    const fn exit_code(&self) -> u8 {
        use kallisto_lsm::Error as Engine;
        match self.store() {
            None
            | Some(
                StoreError::Invalid(_)
                | StoreError::Name(_)
                | StoreError::WrongKey
                | StoreError::Store(Engine::Invalid(_) | Engine::Locked(_) | Engine::Closed),
            ) => EXIT_MISTAKE,
            Some(
                StoreError::KeysMissing(_)
                | StoreError::Damaged(_)
                | StoreError::Machine(_)
                | StoreError::Store(_),
            ) => EXIT_STORE,
        }
    }

    /// What to do next, where it is not plain from the message.
    const fn hint(&self) -> Option<&'static str> {
        use kallisto_lsm::Error as Engine;
        match self.store() {
            Some(StoreError::WrongKey) => Some("nothing was changed; try the store's own key"),
            Some(StoreError::KeysMissing(_) | StoreError::Damaged(_)) => {
                Some("restore the directory from a copy")
            }
            Some(StoreError::Store(Engine::Locked(_))) => {
                Some("wait for the process that has it open, or end it")
            }
            Some(StoreError::Store(Engine::Full(_))) => Some("free space on the disk"),
            _ => None,
        }
    }
}

impl From<StoreError> for ExecFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for ExecFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mistake(text) => f.write_str(text),
            Self::Store(error) => write!(f, "{error}"),
            Self::StoreAt(place, error) => write!(f, "{place}: {error}"),
        }
    }
}

impl From<ExecFailure> for Outcome {
    fn from(failure: ExecFailure) -> Self {
        let mut text = format!("{failure}\n");
        if let Some(hint) = failure.hint() {
            text.push_str(&format!("hint: {hint}\n"));
        }
        Self::default().with_notice(&text).with_code(failure.exit_code())
    }
}
