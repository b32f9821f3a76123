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

/// Stands around the function that is made of the tree of commands, which knows flags with two dashes only.
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
        if self.shell == Shell::Bash {
            script.extend_from_slice(BASH_FLAGS.as_bytes());
        }
        Outcome::print(script)
    }
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
