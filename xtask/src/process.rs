//! Runs other programs: shows the command line first, then runs it where the workspace is.

use std::env;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write as _};
use std::process::{Command, ExitStatus, Stdio};

use crate::steps::{StepOutcome, VerbStep};
use crate::workspace;

/// A program to run, with what differs from our own environment.
pub(crate) struct Program {
    program: String,
    args: Vec<String>,
    variables: Vec<(&'static str, String)>,
    /// Below the workspace.
    folder: &'static str,
}

impl Program {
    /// `cargo` with these arguments.
    pub(crate) fn cargo<S: Into<String>>(args: impl IntoIterator<Item = S>) -> Self {
        Self::new("cargo", args)
    }

    /// Any program with these arguments.
    pub(crate) fn new<S: Into<String>>(program: &str, args: impl IntoIterator<Item = S>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self { program: program.to_owned(), args, variables: Vec::new(), folder: "" }
    }

    /// In a folder of the workspace.
    pub(crate) fn within(self, folder: &'static str) -> Self {
        Self { folder, ..self }
    }

    /// Adds arguments.
    pub(crate) fn args(mut self, args: &[String]) -> Self {
        self.args.extend_from_slice(args);
        self
    }

    /// Appends `flags` to those that the environment variable `name` already holds.
    pub(crate) fn with_flags(mut self, name: &'static str, flags: &str) -> Self {
        let value = match env::var(name) {
            Ok(given) if !given.is_empty() => format!("{given} {flags}"),
            _ => flags.to_owned(),
        };
        self.variables.push((name, value));
        self
    }

    /// Sets an environment variable.
    pub(crate) fn with_variable(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    /// Runs it as a step called `name`, its output to ours.
    pub(crate) fn step(self, name: &str) -> VerbStep {
        VerbStep::run(name, || self.run())
    }

    /// Runs it as a step called `name`, all that it says to a file.
    pub(crate) fn step_into(self, name: &str, log: &File) -> VerbStep {
        VerbStep::run(name, || self.run_into(log))
    }

    /// Runs it, its output to ours.
    pub(crate) fn run(self) -> StepOutcome {
        eprintln!("$ {}", self.shown());
        let ran = self.command().status();
        self.outcome(ran)
    }

    /// Runs it without input, all that it says behind what a file has.
    fn run_into(self, mut log: &File) -> StepOutcome {
        let ran = writeln!(log, "$ {}", self.shown()).and_then(|()| {
            let (output, errors) = (log.try_clone()?, log.try_clone()?);
            self.command().stdin(Stdio::null()).stdout(output).stderr(errors).status()
        });
        self.outcome(ran)
    }

    fn outcome(&self, ran: io::Result<ExitStatus>) -> StepOutcome {
        match ran {
            Ok(status) if status.success() => StepOutcome::Passed,
            // A process that a signal ended has no code.
            Ok(status) => StepOutcome::Failed(
                status.code().and_then(|code| code.try_into().ok()).unwrap_or(1),
            ),
            Err(error) => {
                eprintln!("cannot run {}: {error}", self.program);
                StepOutcome::Failed(1)
            }
        }
    }

    /// Runs it, and hands each line of its standard output to `read`.
    pub(crate) fn run_reading(self, mut read: impl FnMut(&str)) -> StepOutcome {
        eprintln!("$ {}", self.shown());
        let mut command = self.command();
        let ran = command.stdout(Stdio::piped()).spawn().and_then(|mut child| {
            let output =
                child.stdout.take().into_iter().flat_map(|pipe| BufReader::new(pipe).lines());
            output.map_while(Result::ok).for_each(|line| read(&line));
            child.wait()
        });
        self.outcome(ran)
    }

    /// Runs it silently. What it wrote to standard output, or to standard error if it failed.
    pub(crate) fn output(self) -> Result<String, String> {
        let output = self.command().output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    fn command(&self) -> Command {
        let mut command = match self.program.as_str() {
            "cargo" => Command::new(workspace::cargo()),
            program => Command::new(program),
        };
        command.args(&self.args).current_dir(workspace::root().join(self.folder));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The command line as one would type it.
    fn shown(&self) -> String {
        let variables = self.variables.iter().map(|(name, value)| format!("{name}='{value}' "));
        let mut text: String = variables.collect();
        text.push_str(&self.program);
        for arg in &self.args {
            let plain = !arg.is_empty() && !arg.contains([' ', '\'', '"', '$', '\\', '*']);
            let shown = if plain { arg.clone() } else { format!("{arg:?}") };
            text.push(' ');
            text.push_str(&shown);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_handed_over_and_the_exit_code_too() {
        let mut lines = Vec::new();
        let program = Program::new("sh", ["-c", "echo one; echo two; exit 3"]);
        assert_eq!(program.run_reading(|line| lines.push(line.to_owned())), StepOutcome::Failed(3));
        assert_eq!(lines, ["one", "two"]);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test makes a file of its own")]
    fn all_that_is_said_goes_into_a_file_behind_what_it_has() {
        let path = env::temp_dir().join(format!("kallisto-xtask-log-{}", std::process::id()));
        let log = File::create(&path).unwrap();
        let says = |text: &str| Program::new("sh", ["-c".to_owned(), format!("{text}; exit 3")]);
        assert_eq!(says("echo one; echo two >&2").run_into(&log), StepOutcome::Failed(3));
        assert_eq!(says("cat; echo three").run_into(&log), StepOutcome::Failed(3));
        let told = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            told.lines().filter(|line| !line.starts_with('$')).collect::<Vec<_>>(),
            ["one", "two", "three"]
        );
    }

    #[test]
    fn exit_codes_pass_through() {
        assert_eq!(Program::new("true", [""; 0]).run(), StepOutcome::Passed);
        assert_eq!(Program::new("sh", ["-c", "exit 42"]).run(), StepOutcome::Failed(42));
        assert_eq!(Program::new("sh", ["-c", "kill -9 $$"]).run(), StepOutcome::Failed(1));
        assert_eq!(Program::new("no-such-program-anywhere", [""; 0]).run(), StepOutcome::Failed(1));
    }

    #[test]
    fn the_shown_command_can_be_typed() {
        let process = Program::new("cargo", ["test", "--", "a name"]);
        assert_eq!(process.shown(), "cargo test -- \"a name\"");
    }
}
