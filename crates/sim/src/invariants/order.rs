//! There is one order: what all clients did and were answered is linearizable. The checker of [`crate::history`] decides it, when
//! the run is over; it knows nothing of positions, only of what clients saw.

use super::{Violation, violated};
use crate::history::{self, Operation, Verdict};

/// What clients did.
#[derive(Debug, Default)]
pub(crate) struct Order(Vec<Operation>);

impl Order {
    /// An operation ended, or was given up.
    pub(crate) fn ended(&mut self, operation: Operation) {
        self.0.push(operation);
    }

    /// Judges everything so far.
    pub(crate) fn judge(&self) -> Result<(), Violation> {
        match history::check(&self.0) {
            Verdict::Linearizable(_) => Ok(()),
            verdict => Err(violated("there is one order")(verdict.to_string())),
        }
    }
}
