//! `kallisto-sim`: judges histories that clients wrote down.
//!
//! ```text
//! kallisto-sim check FILE      is the history in FILE linearizable?
//! ```
//!
//! The exit code is 0 for yes, 1 for no, and 2 where it cannot be said.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::BufReader;
use std::process::ExitCode;

use kallisto_sim::history::{self, Verdict};

const USAGE: &str = "usage: kallisto-sim check FILE";

/// The answer is no.
const BROKEN: u8 = 1;
/// There is no answer.
const UNDECIDED: u8 = 2;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check", file] => check(file),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(UNDECIDED)
        }
    }
}

fn check(file: &str) -> ExitCode {
    let operations = open(file)
        .map_err(|error| error.to_string())
        .and_then(|text| history::read(text).map_err(|error| error.to_string()));
    match operations {
        Ok(operations) => {
            let verdict = history::check(&operations);
            eprintln!("{file}: {verdict}");
            match verdict {
                Verdict::Linearizable(_) => ExitCode::SUCCESS,
                Verdict::Broken(_) => ExitCode::from(BROKEN),
                Verdict::Undecided { .. } => ExitCode::from(UNDECIDED),
            }
        }
        Err(error) => {
            eprintln!("{file}: {error}");
            ExitCode::from(UNDECIDED)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the file that a person names")]
fn open(file: &str) -> std::io::Result<BufReader<File>> {
    File::open(file).map(BufReader::new)
}
