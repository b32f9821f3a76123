//! `completion SHELL`: what a shell needs to complete commands, and `-autocomplete-install`.
//!
//! The script is made from the tree of commands, so it knows what `-h` knows. Installing adds one line to
//! the start file of each shell that has one, which asks for the script anew at every start: an update
//! of the program needs no second install.

use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::Shell;

use kallisto_command::config::Environment;
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::outcome::Outcome;

/// What our lines begin or end with, to find them again.
const MARK: &str = "# completion of kallisto";

/// Stands around the function that is made of the tree of commands, which knows flags with two dashes only. Of zsh and fish each flag is changed.
const BASH_FLAGS: &str = r#"
# Flags have one dash or two.
_kallisto_flags() {
    local cur="$2" prev="$3"
    [[ ${prev} == -[!-]?* ]] && prev="-${prev}"
    if [[ ${cur} == -[!-]* ]]; then
        _kallisto "$1" "-${cur}" "${prev}"
        COMPREPLY=("${COMPREPLY[@]#-}")
    else
        _kallisto "$1" "${cur}" "${prev}"
    fi
}
complete -F _kallisto_flags -o bashdefault -o default kallisto
"#;

/// Prints what a shell needs to complete commands.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto completion bash > /etc/bash_completion.d/kallisto\n  source <(kallisto completion zsh)\n  kallisto completion fish | source\n  kallisto -autocomplete-install"
)]
pub struct Completion {
    /// Which: bash, zsh, fish, elvish or powershell
    shell: Shell,
}

impl Completion {
    /// Prints it.
    pub fn run(&self, mut commands: clap::Command) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut commands, "kallisto", &mut script);
        match self.shell {
            Shell::Bash => script.extend_from_slice(BASH_FLAGS.as_bytes()),
            Shell::Zsh => script = by_lines(&script, zsh_line),
            Shell::Fish => script = by_lines(&script, fish_line),
            _ => {}
        }
        Outcome::print(script)
    }
}

/// A script with each of its lines changed.
fn by_lines(script: &[u8], changed: fn(&str) -> String) -> Vec<u8> {
    let script = String::from_utf8_lossy(script);
    script.split_inclusive('\n').map(changed).collect::<String>().into_bytes()
}

/// A flag of two dashes, such as `'--format=[How it looks]'`, as one of either: `''{--format,-format}'=[How it looks]'`. What it excludes and how often
/// it may be given stand before the dashes. Flags of one dash are no row of letters, which `-s` of `_arguments` would make of them.
fn zsh_line(line: &str) -> String {
    if line.trim_start().starts_with("_arguments_options=(") {
        return line.replace("(-s ", "(");
    }
    let split = || {
        let spec = line.strip_prefix('\'')?;
        let excluded = if spec.starts_with('(') { spec.find(')')? + 1 } else { 0 };
        let repeated = usize::from(spec.get(excluded..)?.starts_with('*'));
        let (before, rest) = spec.split_at_checked(excluded + repeated)?;
        let (name, rest) = split_name(rest.strip_prefix("--")?);
        Some(format!("'{before}'{{--{name},-{name}}}'{rest}"))
    };
    split().unwrap_or_else(|| line.to_owned())
}

/// A flag of two dashes, such as `-l format`, as one of either: `-l format -o format`.
fn fish_line(line: &str) -> String {
    match line.split_once(" -l ") {
        Some((before, after)) if line.starts_with("complete -c ") => {
            let (name, rest) = split_name(after);
            format!("{before} -l {name} -o {name}{rest}")
        }
        _ => line.to_owned(),
    }
}

/// The name of a flag, and what comes behind it.
fn split_name(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    text.split_at(end.unwrap_or(text.len()))
}

/// A shell that completion is installed for.
struct ShellStart {
    shell: &'static str,
    /// Its start file, below the home directory.
    file: &'static str,
    line: &'static str,
}

const STARTS: [ShellStart; 3] = [
    ShellStart {
        shell: "bash",
        file: ".bashrc",
        line: "command -v kallisto >/dev/null && eval \"$(kallisto completion bash)\"",
    },
    ShellStart {
        shell: "zsh",
        file: ".zshrc",
        line: "(( $+commands[kallisto] )) && { (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }; eval \"$(kallisto completion zsh)\" }",
    },
    ShellStart {
        shell: "fish",
        file: ".config/fish/config.fish",
        line: "command -q kallisto; and kallisto completion fish | source",
    },
];

/// Adds our line to the start files there are.
pub fn install() -> Result<Outcome, Error> {
    let mut told = String::new();
    for (start, path, text) in present()? {
        if text.contains(MARK) {
            told.push_str(&format!("{}: installed already in {}\n", start.shell, path.display()));
            continue;
        }
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        replace(&path, &format!("{text}{gap}{} {MARK}\n", start.line))?;
        told.push_str(&format!("{}: installed in {}\n", start.shell, path.display()));
    }
    if told.is_empty() {
        let names = STARTS.map(|start| format!("~/{}", start.file)).join(", ");
        return Err(Error::usage(format!("no shell to install for: none of {names} is there")));
    }
    Ok(Outcome::print(told))
}

/// Takes our line out of the start files again.
pub fn uninstall() -> Result<Outcome, Error> {
    let mut told = String::new();
    for (start, path, text) in present()?.into_iter().filter(|(_, _, text)| text.contains(MARK)) {
        let kept = text.split_inclusive('\n').filter(|line| !line.contains(MARK));
        replace(&path, &kept.collect::<String>())?;
        told.push_str(&format!("{}: removed from {}\n", start.shell, path.display()));
    }
    if told.is_empty() {
        return Err(Error::usage("completion is not installed"));
    }
    Ok(Outcome::print(told))
}

/// The start files that there are, with what is in them.
fn present() -> Result<Vec<(&'static ShellStart, PathBuf, String)>, Error> {
    let home = Environment::process().plain("HOME");
    let home = home.ok_or_else(|| Error::usage("there is no home directory to install in"))?;
    let mut found = Vec::new();
    for start in &STARTS {
        let path = Path::new(&home).join(start.file);
        let failed = |why: String| Error::usage(format!("{}: {why}", path.display()));
        match files::read(&path) {
            Ok(bytes) => {
                let text = String::from_utf8(bytes);
                let text = text.map_err(|_| failed("it is not UTF-8 text".to_owned()))?;
                found.push((start, path, text));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error.to_string())),
        }
    }
    Ok(found)
}

fn replace(path: &Path, text: &str) -> Result<(), Error> {
    files::rewrite(path, text.as_bytes())
        .map_err(|error| Error::usage(format!("{}: {error}", path.display())))
}
