//! `cargo x test`: the one command that tests everything. Its arguments are those of `cargo test`.
//!
//! Without arguments it builds every test first, and runs two kinds at the same time then: those of `tests/` folders, which
//! start servers and wait most of their time, and those within the crates, which compute.

use std::fs::{self, File};
use std::io;
use std::thread;

use crate::process::Program;
use crate::steps::{StepOutcome, UsageMistake, VerbStep};
use crate::workspace;

/// Tests that stand in the sources of the crates, except those in their documentation.
const WITHIN: [&str; 3] = ["--lib", "--bins", "--examples"];

/// Runs every test of the workspace, or what `args` select of them.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    if !args.is_empty() {
        return Ok(vec![Program::cargo(arguments(args)).step("test")]);
    }
    let built = everything(&["--no-run"]).step("build tests");
    if built.outcome != StepOutcome::Passed {
        return Ok(vec![built]);
    }
    let mut steps = vec![built];
    steps.extend(side_by_side());
    Ok(steps)
}

/// Tests of folders to our output, the others to a file that is shown after them.
#[expect(clippy::disallowed_methods, reason = "a developer command makes a file of the build")]
fn side_by_side() -> Vec<VerbStep> {
    let path = workspace::target_folder("tests-within-crates.log");
    let log = match File::create(&path) {
        Ok(log) => log,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            return vec![VerbStep::run("tests", || StepOutcome::Failed(1))];
        }
    };
    let (mut steps, of_folders) = thread::scope(|scope| {
        let within = scope.spawn(|| {
            let within = everything(&WITHIN).step_into("tests in crates", &log);
            vec![within, everything(&["--doc"]).step_into("tests in documents", &log)]
        });
        let of_folders = everything(&["--test", "*"]).step("tests in folders");
        let within = within
            .join()
            .unwrap_or_else(|_| vec![VerbStep::run("tests in crates", || StepOutcome::Failed(1))]);
        (within, of_folders)
    });
    let shown = File::open(&path).and_then(|mut log| io::copy(&mut log, &mut io::stdout().lock()));
    // A closed pipe has nobody left to tell.
    let _ = shown.and_then(|_| fs::remove_file(&path));
    steps.push(of_folders);
    steps
}

/// `cargo test` of every crate; what fails in one does not hide what fails in the next.
fn everything(args: &[&str]) -> Program {
    Program::cargo(
        ["test", "--workspace", "--locked", "--no-fail-fast"].iter().chain(args).copied(),
    )
}

/// Everything, unless packages are named before the `--` that ends cargo's own arguments.
fn arguments(args: &[String]) -> Vec<String> {
    let own = args.iter().take_while(|arg| *arg != "--");
    let names_package = |arg: &String| arg.starts_with("-p") || arg.starts_with("--package");
    // What fails in one crate does not hide what fails in the next.
    let mut all = ["test", "--locked", "--no-fail-fast"].map(str::to_owned).to_vec();
    if !own.clone().any(names_package) {
        all.insert(1, "--workspace".to_owned());
    }
    all.extend_from_slice(args);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(args: &[&str]) -> String {
        arguments(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>()).join(" ")
    }

    #[test]
    fn arguments_are_those_of_cargo_test() {
        assert_eq!(line(&["kv"]), "test --workspace --locked --no-fail-fast kv");
        assert_eq!(
            line(&["--", "-p", "name"]),
            "test --workspace --locked --no-fail-fast -- -p name"
        );
        assert_eq!(
            line(&["-p", "kallisto-core", "kv"]),
            "test --locked --no-fail-fast -p kallisto-core kv"
        );
    }
}
