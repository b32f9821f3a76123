//! `kallisto`, the one binary: the server, and the command line that speaks to one.
//!
//! This file only carries: arguments and environment in, bytes and an exit code out. What there is
//! to run is in [`command`].

mod args;
mod command;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use kallisto_command::outcome::Outcome;

/// What memory comes from: one that gives back to the system what nobody uses, half a second after it was
/// freed. The system's own kept what a flush or a herd had needed for the life of the process.
#[cfg(target_os = "linux")]
use tikv_jemallocator::Jemalloc as Memory;

#[cfg(not(target_os = "linux"))]
use std::alloc::System as Memory;

/// Wipes memory when it is freed: bodies, replies and whatever else a secret passed through.
#[global_allocator]
static ALLOCATOR: zeroizing_alloc::ZeroAlloc<Memory> = zeroizing_alloc::ZeroAlloc(Memory);

fn main() -> ExitCode {
    let outcome = command::run(std::env::args_os().collect());
    ExitCode::from(deliver(&outcome))
}

/// Writes the outcome where it belongs and returns the code to exit with.
fn deliver(outcome: &Outcome) -> u8 {
    let written = write_all(std::io::stdout(), &outcome.stdout);
    let mut stderr = std::io::stderr();
    let painted = outcome.colour && stderr.is_terminal();
    let text = if painted { paint(&outcome.stderr) } else { outcome.stderr.clone() };
    // Nobody is left to hear that stderr is gone.
    let _ = write_all(&mut stderr, &text);
    match written {
        Ok(()) => outcome.code,
        // The reader closed the pipe (`kallisto list | head`): it has what it wanted.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => outcome.code,
        Err(error) => {
            let text = format!("cannot write to standard output: {error}\n");
            let _ = write_all(&mut stderr, text.as_bytes());
            1
        }
    }
}

fn write_all(mut to: impl Write, bytes: &[u8]) -> std::io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

/// Red for what went wrong; callers made sure that a person is watching.
fn paint(text: &[u8]) -> Vec<u8> {
    if text.is_empty() {
        return Vec::new();
    }
    [b"\x1b[31m", text, b"\x1b[0m"].concat()
}
