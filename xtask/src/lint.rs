//! `cargo x lint`: form, lints, documentation, the shape of the workspace, and what it depends on.

use crate::process::Program;
use crate::steps::{StepOutcome, UsageMistake, VerbStep};
use crate::{tidy, workspace};

/// Runs every check, the quick ones first; a failure does not hide the next.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    if !args.is_empty() {
        return Err(UsageMistake("takes no arguments".to_owned()));
    }
    Ok(vec![VerbStep::run("fmt", format), tidy::step(), clippy(), rustdoc(), deny(), advisories()])
}

/// The workspace, then each bench crate, which is none of its members.
fn format() -> StepOutcome {
    let workspace = Program::cargo(["fmt", "--all", "--check"]).run();
    workspace::bench_names().iter().fold(workspace, |outcome, name| {
        let manifest = format!("bench/{name}/Cargo.toml");
        let of_bench = Program::cargo(["fmt", "--manifest-path", &manifest, "--check"]).run();
        if outcome == StepOutcome::Passed { of_bench } else { outcome }
    })
}

fn clippy() -> VerbStep {
    let args = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    Program::cargo(args).step("clippy")
}

fn rustdoc() -> VerbStep {
    let args = ["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"];
    Program::cargo(args).with_flags("RUSTDOCFLAGS", "-D warnings").step("rustdoc")
}

/// Licences, bans and sources, from `deny.toml`. `tidy` holds bans and sources without the tool.
fn deny() -> VerbStep {
    VerbStep::run("deny", || match is_deny_installed() {
        Ok(()) => Program::cargo(["deny", "check", "bans", "licenses", "sources"]).run(),
        Err(reason) => reason,
    })
}

/// Published advisories. Their database has to be fetched, so this step needs a network.
fn advisories() -> VerbStep {
    VerbStep::run("advisories", || {
        if let Err(reason) = is_deny_installed() {
            return reason;
        }
        match Program::cargo(["deny", "fetch", "db"]).output() {
            Ok(_) => Program::cargo(["deny", "check", "advisories"]).run(),
            Err(_) => StepOutcome::Skipped("the advisory database could not be fetched".to_owned()),
        }
    })
}

fn is_deny_installed() -> Result<(), StepOutcome> {
    let installed = Program::cargo(["deny", "--version"]).output();
    installed.map(drop).map_err(|_| {
        let how = "cargo-deny is not installed; get it by `cargo install --locked cargo-deny`";
        StepOutcome::Skipped(how.to_owned())
    })
}
