//! `MULTI`, `EXEC` and `DISCARD`: transactions, which are refused as a whole.
//!
//! Secrets are written one by one, so there is nothing to run a transaction with. Most clients send all of it at once, and some pipeline
//! through `MULTI` by default: were `MULTI` an unknown command, what follows it would be run, and only `EXEC` would fail. So a
//! transaction is begun as in Redis, each of its commands is refused, and `EXEC` answers as it does there after a command was.
//!
//! Invariant: nothing between `MULTI` and `EXEC` or `DISCARD` is run, no login either.

use super::commands::RespVerb;
use super::session::CommandFailure;

/// Refuses what does not fit the state of the transaction: commands within one, and the end of none.
pub(super) fn admit(verb: RespVerb, is_in_transaction: bool) -> Result<(), CommandFailure> {
    let text = match (verb, is_in_transaction) {
        (RespVerb::Multi, true) => "MULTI calls can not be nested",
        (RespVerb::Discard, false) => "DISCARD without MULTI",
        (RespVerb::Exec, false) => "EXEC without MULTI",
        (RespVerb::Discard | RespVerb::Exec, true) => return Ok(()),
        // They end the transaction, or the connection with it, as in Redis.
        (RespVerb::Reset | RespVerb::Quit, true) => return Ok(()),
        (_, true) => "transactions are not supported: send the commands without MULTI and EXEC",
        (_, false) => return Ok(()),
    };
    Err(CommandFailure::plain(text))
}

/// What `EXEC` answers: clients know that nothing was run.
pub(super) fn aborted() -> CommandFailure {
    CommandFailure {
        word: "EXECABORT",
        text: "Transaction discarded because transactions are not supported.".into(),
    }
}
