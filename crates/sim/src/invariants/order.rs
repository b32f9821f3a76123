//! There is one order: what all clients did and were answered is linearizable. The checker of [`crate::history`] decides it, when
//! the run is over; it knows nothing of positions, only of what clients saw.

use super::{InvariantViolation, violated};
use crate::history::{self, ClientOperation, HistoryVerdict};

/// What clients did.
#[derive(Debug, Default)]
pub(crate) struct ClientOrder(Vec<ClientOperation>);

impl ClientOrder {
    /// An operation ended, or was given up.
    pub(crate) fn ended(&mut self, operation: ClientOperation) {
        self.0.push(operation);
    }

    /// Judges everything so far.
    pub(crate) fn judge(&self) -> Result<(), InvariantViolation> {
        match history::check(&self.0) {
            HistoryVerdict::Linearizable(_) => Ok(()),
            verdict => Err(violated("there is one order")(verdict.to_string())),
        }
    }
}
