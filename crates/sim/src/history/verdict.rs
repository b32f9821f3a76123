//! What is to be said of a history, and how it is told.

use std::fmt;

use super::search::STATES_MAX;

/// What is to be said of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryVerdict {
    /// There is an order that explains it.
    Linearizable(HistoryFigures),
    /// There is none.
    Broken(Breach),
    /// There may be one: the search was given up.
    Undecided {
        /// The key whose history was too hard.
        key: String,
    },
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryFigures {
    /// Keys.
    pub keys: usize,
    /// Operations, those of which nothing came included.
    pub operations: usize,
    /// Those whose end nobody knows.
    pub unknown: usize,
    /// States that the search came by.
    pub states: usize,
}

/// A history that no order explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The key.
    pub key: String,
    /// How many operations were given a place in the longest order that was found.
    pub placed: usize,
    /// How many have to be.
    pub certain: usize,
    /// What the key was then.
    pub state: String,
    /// The last of those operations, as lines.
    pub last: Vec<String>,
    /// Those that would have had to come next, none of which can, as lines.
    pub stuck: Vec<String>,
}

impl fmt::Display for HistoryVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linearizable(HistoryFigures { keys, operations, unknown, states }) => write!(
                f,
                "linearizable: {operations} operations on {keys} keys, {unknown} of unknown outcome, {states} states"
            ),
            Self::Undecided { key } => {
                write!(f, "undecided: key {key:?} has more than {STATES_MAX} states")
            }
            Self::Broken(breach) => {
                let Breach { key, placed, certain, state, .. } = breach;
                writeln!(f, "NOT linearizable: key {key:?}: {placed} of {certain} explained")?;
                breach.last.iter().try_for_each(|line| writeln!(f, "  after  {line}"))?;
                write!(f, "  it is  {state}")?;
                breach.stuck.iter().try_for_each(|line| write!(f, "\n  stuck  {line}"))
            }
        }
    }
}
