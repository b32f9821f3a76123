//! Whether output is coloured: what the arguments and the environment say of it.

use std::ffi::OsString;

use super::Environment;
use crate::flags::parse_switch;

/// Whether colours are wanted at all; whether the stream can show them is the caller's to know.
///
/// Takes the arguments as they are typed, because a mistake in them wants no colours either.
pub fn colours_wanted(arguments: &[OsString], environment: &Environment<'_>) -> bool {
    let given = arguments.iter().rev().filter_map(|argument| argument.to_str());
    let given = given.filter_map(|text| text.strip_prefix("--no-color")).find_map(|value| {
        if value.is_empty() { Some(true) } else { parse_switch(value.strip_prefix('=')?).ok() }
    });
    let unwanted = given == Some(true)
        || environment.value("CLI_NO_COLOR").is_some()
        || environment.plain("NO_COLOR").is_some();
    !unwanted
}

/// Whether a log on standard error is coloured: at a terminal, unless the environment wants no colours.
pub fn log_colours_wanted(is_terminal: bool, environment: &Environment<'_>) -> bool {
    is_terminal && colours_wanted(&[], environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_coloured_at_a_terminal_that_wants_it() {
        let wanted = |is_terminal, name: &'static str| {
            let environment = Environment::of(move |asked| (asked == name).then(|| "1".to_owned()));
            log_colours_wanted(is_terminal, &environment)
        };
        assert!(wanted(true, "TERM"));
        assert!(!wanted(false, "TERM"));
        for name in ["NO_COLOR", "VAULT_CLI_NO_COLOR", "BAO_CLI_NO_COLOR", "KALLISTO_CLI_NO_COLOR"]
        {
            assert!(!wanted(true, name), "{name}");
        }
    }
}
