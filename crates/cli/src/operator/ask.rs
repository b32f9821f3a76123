//! Shares of keys from the command line, standard input or the terminal.
//!
//! A share as an argument stays in the shell's history, so the terminal is what people are asked
//! on, without echo; `-` is for scripts.

use std::io::{BufRead, IsTerminal, Write};

use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use crate::pairs::PairInputs;
use kallisto_command::config::Config;
use kallisto_command::error::Error;

/// The share in `argument`, on standard input for `-`, or asked for after `question`.
pub(super) fn share(
    argument: Option<&SecretString>,
    question: &str,
    config: &Config,
) -> Result<SecretString, Error> {
    match argument.map(|text| text.expose_secret()) {
        Some("-") => from_stdin(),
        Some(text) => Ok(trimmed(text)),
        None => from_terminal(question, config),
    }
}

/// Whether whoever sits at the terminal says yes to `question`; true where nobody is there to ask, or may be asked.
pub(crate) fn confirms(question: &str, config: &Config) -> Result<bool, Error> {
    if !config.may_ask || !std::io::stdin().is_terminal() {
        return Ok(true);
    }
    let failed = |error: std::io::Error| Error::usage(format!("the terminal: {error}"));
    let mut terminal = std::io::stderr().lock();
    write!(terminal, "{question} [y/N] ").and_then(|()| terminal.flush()).map_err(failed)?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}

/// A value that may be on standard input.
pub(super) fn value(argument: &SecretString) -> Result<SecretString, Error> {
    match argument.expose_secret() {
        "-" => from_stdin(),
        text => Ok(trimmed(text)),
    }
}

fn from_stdin() -> Result<SecretString, Error> {
    let bytes = PairInputs::process().stdin().map_err(Error::usage)?;
    let bytes = Zeroizing::new(bytes);
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(trimmed(text)),
        Err(_) => Err(Error::usage("what stdin holds is no text")),
    }
}

fn from_terminal(question: &str, config: &Config) -> Result<SecretString, Error> {
    let refused = |why: &str| {
        let text = format!("no key given and {why}; pass - to read it from stdin");
        Err(Error::usage(text))
    };
    if !config.may_ask {
        return refused("-non-interactive forbids to ask");
    }
    if !std::io::stdin().is_terminal() {
        return refused("there is no terminal to ask on");
    }
    match rpassword::prompt_password(format!("{question} (will be hidden): ")) {
        Ok(answer) => {
            let answer = Zeroizing::new(answer);
            Ok(trimmed(&answer))
        }
        Err(error) => refused(&error.to_string()),
    }
}

fn trimmed(text: &str) -> SecretString {
    SecretString::from(text.trim())
}
