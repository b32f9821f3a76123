//! Commands from a file or a pipe.
//!
//! A line that is no command ends the run with its number: what was before it is kept. Lines may hold secrets, so no
//! message quotes one. The lines are cut by the engine's reader, in bounded memory.

use std::path::Path;

use super::failure::ExecFailure;
use super::line::{self, ExecLineError};
use super::session::{SessionFlow, StoreSession};
use crate::engine::{Lines, Refill, commands_at};

/// What stands for standard input.
pub(super) const STANDARD: &str = "-";

/// Carries out every line.
pub(super) fn run(path: &Path, session: &mut StoreSession<'_>) -> Result<(), ExecFailure> {
    let source = commands_at(path).map_err(ExecFailure::mistake)?;
    let mut lines = Lines::new(source.from);
    let mut number = 0u64;
    loop {
        let range = match lines.next_buffered() {
            Some(range) => range,
            None => {
                // Before it waits: whoever feeds the pipe may be waiting for these answers.
                session.settle()?;
                let name = &source.name;
                match lines.refill() {
                    Ok(Refill::More) => continue,
                    Ok(Refill::TooLong) => {
                        break Err(ExecFailure::mistake(format!(
                            "{name}:{}: a line is too long",
                            number + 1
                        )));
                    }
                    Err(error) => {
                        break Err(ExecFailure::mistake(format!("cannot read {name}: {error}")));
                    }
                    Ok(Refill::Ended) => match lines.remainder() {
                        Some(range) => range,
                        None => break Ok(()),
                    },
                }
            }
        };
        number += 1;
        match step(lines.bytes(range), session) {
            Ok(SessionFlow::Command) => {}
            Ok(SessionFlow::End) => break Ok(()),
            Err(failure) => break Err(failure.at(&format!("{}:{number}", source.name))),
        }
    }
}

fn step(line: &[u8], session: &mut StoreSession<'_>) -> Result<SessionFlow, ExecFailure> {
    match line::parse(line) {
        Ok(Some(command)) => session.execute(command),
        Ok(None) => Ok(SessionFlow::Command),
        Err(ExecLineError(text)) => Err(ExecFailure::mistake(text)),
    }
}
