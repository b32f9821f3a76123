//! The pages of commands, environment variables and exit codes, made from what clap and the settings say.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, CommandFactory};
use kallisto_command::config::{SERVER_SETTINGS, SETTINGS};
use kallisto_command::error::{EXIT_SERVER, EXIT_USAGE};
use kallisto_reference::{hold, page, table};

use super::{Cli, EXIT_NO_COMMAND};

/// Every command that does something, with the words that lead to it.
fn leaves(command: &clap::Command, words: &str, found: &mut Vec<(String, clap::Command)>) {
    let mut below = command.get_subcommands().filter(|it| !it.is_hide_set()).peekable();
    if below.peek().is_none() {
        found.push((words.to_owned(), command.clone()));
    }
    below.for_each(|it| leaves(it, &format!("{words} {}", it.get_name()), found));
}

fn flags(command: &clap::Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set())
}

/// `-field=FIELD`, with one dash as the command line takes it.
fn spelled(arg: &Arg) -> String {
    let long = arg.get_long().map(|long| format!("-{long}"));
    let short = arg.get_short().map(|short| format!("-{short}"));
    let names = [short, long].into_iter().flatten().collect::<Vec<_>>().join("`, `");
    let takes = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let value = arg.get_value_names().and_then(|names| names.first()).filter(|_| takes);
    value.map_or_else(|| format!("`{names}`"), |value| format!("`{names}={value}`"))
}

fn row(arg: &Arg) -> Vec<String> {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values = arg.get_possible_values();
    let takes = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let values: Vec<_> =
        values.iter().filter(|_| takes).map(|it| format!("`{}`", it.get_name())).collect();
    let of = if values.is_empty() { String::new() } else { format!(" ({})", values.join(", ")) };
    let default = arg.get_default_values().first().filter(|_| takes);
    let default = default.map(|it| format!("`{}`", it.to_string_lossy())).unwrap_or_default();
    vec![spelled(arg), default, format!("{help}{of}")]
}

#[test]
fn the_page_of_commands_is_what_clap_says() {
    let mut root = Cli::command();
    root.build();
    let mut all = Vec::new();
    leaves(&root, "kallisto", &mut all);
    // Flags of most commands are told once.
    let mut counts = BTreeMap::new();
    for (_, command) in &all {
        flags(command).for_each(|arg| *counts.entry(row(arg)).or_insert(0_usize) += 1);
    }
    let is_common = |arg: &Arg| counts[&row(arg)] * 2 > all.len();
    let about = "Every command of the binary with its flags. A flag may be written with one dash or two. What is listed first holds for \
        nearly all commands that ask a server.";
    let mut text = page("Commands and flags", about, "the definition of the command line");
    let common =
        counts.iter().filter(|(_, count)| **count * 2 > all.len()).map(|(row, _)| row.clone());
    text.push_str("## Flags of nearly every command\n\n");
    table(&mut text, &["flag", "default", "meaning"], common);
    for (words, command) in &all {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage:").trim().replace("\n       ", "\n");
        text.push_str(&format!("## `{words}`\n\n{about}\n\n```text\n{usage}\n```\n\n"));
        let rows: Vec<_> = flags(command).filter(|arg| !is_common(arg)).map(row).collect();
        if !rows.is_empty() {
            table(&mut text, &["flag", "default", "meaning"], rows);
        }
    }
    hold("commands.md", &format!("{}\n", text.trim_end()));
}

#[test]
fn the_page_of_the_environment_is_what_is_read() {
    let about = "Each variable is read as `KALLISTO_<NAME>`, else as `BAO_<NAME>`, else as `VAULT_<NAME>`; an empty one counts as absent. A flag \
        wins over it.";
    let mut text = page("Environment variables", about, "the tables of settings");
    let rows = |settings: &[(&str, &str)]| -> Vec<Vec<String>> {
        settings
            .iter()
            .map(|(name, about)| vec![format!("`{name}`"), (*about).to_owned()])
            .collect()
    };
    text.push_str("## Of every command\n\n");
    table(&mut text, &["name", "meaning"], rows(&SETTINGS));
    text.push_str("## Of the server\n\nBesides those above; which of file and environment wins is in [operations](../operations.md#configuration).\n\n");
    table(&mut text, &["name", "stands for"], rows(&SERVER_SETTINGS));
    hold("environment.md", &format!("{}\n", text.trim_end()));
}

#[test]
fn the_page_of_exit_codes_is_what_is_returned() {
    let about = "What a command ends with. Scripts may rely on it: the rule is that of Vault's command line.";
    let mut text = page("Exit codes", about, "the constants of the command line");
    let row = |code: String, what: &str| vec![code, what.to_owned()];
    let rows = [
        row("0".to_owned(), "done; for `status`: unsealed"),
        row(
            EXIT_USAGE.to_string(),
            "an argument or a flag is missing, unknown or has no meaning, also by what it takes from a file (`key=@file`, `-pgp-keys=file`)",
        ),
        row(
            EXIT_SERVER.to_string(),
            "what the command works with cannot be used: the environment, the settings of the connection (however they are given), a file that it sends or writes as a whole, or the server, which refused or was not reached",
        ),
        row(EXIT_NO_COMMAND.to_string(), "there is no such command"),
    ];
    table(&mut text, &["code", "means"], rows);
    text.push_str(
        "`VAULT_FORMAT` counts as the flag `-format`, as in Vault.\n\n\
        Of some commands the code is an answer, and 1 is every failure:\n\n\
        - `status`: 0 unsealed, 2 sealed.\n\
        - `operator init -status`: 0 initialised, 2 not.\n\
        - `pki health-check`: 0 all is well, 2 and above [what was found](commands.md).\n\
        - `policy fmt`: 0 laid out, 1 not, or it cannot be.\n\
        - `server`: 1 it could not start, or its storage failed.\n\n",
    );
    text.push_str("`operator diagnose` and `operator validate-config` have codes of their own: see [operations](../operations.md#before-a-start). \
        `kallisto engine` and `kallisto exec` end with 1 for a mistake in the call or the input, and 2 for a damaged or failed store.\n");
    hold("exit-codes.md", &text);
}
