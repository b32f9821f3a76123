//! The register that a key is compared with: a value or none, and the count of the values it had.
//!
//! [`KeyOperation`] is an operation on one key with its texts replaced by numbers, so that a state is a few bytes and is compared in no
//! time. [`KeyOperation::follow`] is the whole meaning of a history: what may happen in a state, and what comes of it.

use std::collections::HashMap;

use super::{Action, ClientOperation, Expect, OperationEnd};

/// What a key is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct KeyState {
    /// How many values were written.
    pub(super) version: u64,
    /// The number of the text that is there.
    pub(super) value: Option<u32>,
}

/// An operation on one key.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyOperation {
    act: Act,
    known: KnownEnd,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Read,
    Write(u32),
    SwapValue(Option<u32>, u32),
    SwapVersion(u64, u32),
    Delete,
}

/// What is known of how it ended.
#[derive(Clone, Copy, Debug)]
enum KnownEnd {
    Done { found: Option<u32>, version: Option<u64> },
    Refused,
    Nothing,
}

/// The texts of a history, by number.
#[derive(Default)]
pub(super) struct Texts<'a> {
    numbers: HashMap<&'a str, u32>,
    texts: Vec<&'a str>,
}

impl<'a> Texts<'a> {
    fn number(&mut self, text: &'a str) -> u32 {
        *self.numbers.entry(text).or_insert_with(|| {
            self.texts.push(text);
            // Operations are bounded far below, and none has more than three texts.
            (self.texts.len() - 1) as u32
        })
    }

    /// A state for a person.
    pub(super) fn describe(&self, state: KeyState) -> String {
        let value = state.value.and_then(|value| self.texts.get(value as usize));
        match value {
            Some(value) => format!("{value:?} at version {}", state.version),
            None => format!("nothing at version {}", state.version),
        }
    }
}

impl KeyOperation {
    /// The deed of an operation; `None` if nothing came of it that anybody could see.
    pub(super) fn of<'a>(operation: &'a ClientOperation, texts: &mut Texts<'a>) -> Option<Self> {
        let known = match &operation.end {
            OperationEnd::Failed => return None,
            OperationEnd::Unknown if operation.action == Action::Read => return None,
            OperationEnd::Unknown => KnownEnd::Nothing,
            OperationEnd::Refused { .. } => KnownEnd::Refused,
            OperationEnd::Done { found, version, .. } => KnownEnd::Done {
                found: found.as_deref().map(|found| texts.number(found)),
                version: *version,
            },
        };
        let act = match &operation.action {
            Action::Read => Act::Read,
            Action::Write(value) => Act::Write(texts.number(value)),
            Action::Swap(Expect::Version(version), value) => {
                Act::SwapVersion(*version, texts.number(value))
            }
            Action::Swap(Expect::Value(expect), value) => {
                let expect = expect.as_deref().map(|expect| texts.number(expect));
                Act::SwapValue(expect, texts.number(value))
            }
            Action::Delete => Act::Delete,
        };
        Some(Self { act, known })
    }

    /// Whether it has to have happened.
    pub(super) fn is_certain(&self) -> bool {
        !matches!(self.known, KnownEnd::Nothing)
    }

    /// Whether it replaces what is there without a look at it.
    pub(super) fn is_blind(&self) -> bool {
        matches!(self.act, Act::Write(_) | Act::Delete)
    }

    /// Whether it speaks of a version.
    pub(super) fn counts(&self) -> bool {
        let told = matches!(self.known, KnownEnd::Done { version: Some(_), .. });
        told || matches!(self.act, Act::SwapVersion(..))
    }

    /// Whether it never changes anything, whatever the state.
    pub(super) fn only_looks(&self) -> bool {
        matches!(self.act, Act::Read) || matches!(self.known, KnownEnd::Refused)
    }

    /// The state after it, or `None` if a register in `state` would not have answered so. What is not known to have happened
    /// and would change nothing is not worth a place either.
    pub(super) fn follow(&self, state: KeyState) -> Option<KeyState> {
        let written = |value| KeyState { version: state.version + 1, value: Some(value) };
        let (holds, next) = match self.act {
            Act::Read => (true, state),
            Act::Write(value) => (true, written(value)),
            Act::SwapValue(expect, value) => (state.value == expect, written(value)),
            Act::SwapVersion(expect, value) => (state.version == expect, written(value)),
            Act::Delete => (true, KeyState { value: None, ..state }),
        };
        match self.known {
            KnownEnd::Refused => (!holds).then_some(state),
            KnownEnd::Nothing => (holds && next != state).then_some(next),
            KnownEnd::Done { found, version } => {
                let seen = !matches!(self.act, Act::Read) || found == state.value;
                let told = version.is_none_or(|version| version == next.version);
                (holds && seen && told).then_some(next)
            }
        }
    }
}
