//! `cargo x lint`: form, lints, documentation, the shape of the workspace, and what it depends on.

use crate::process::Process;
use crate::steps::{Outcome, Step, Usage};
use crate::{tidy, workspace};

/// Runs every check, the quick ones first; a failure does not hide the next.
pub(crate) fn run(args: &[String]) -> Result<Vec<Step>, Usage> {
    if !args.is_empty() {
        return Err(Usage("takes no arguments".to_owned()));
    }
    Ok(vec![Step::run("fmt", format), tidy::step(), clippy(), rustdoc(), deny(), advisories()])
}

/// The workspace, then each bench crate, which is none of its members.
fn format() -> Outcome {
    let workspace = Process::cargo(["fmt", "--all", "--check"]).run();
    workspace::bench_names().iter().fold(workspace, |outcome, name| {
        let manifest = format!("bench/{name}/Cargo.toml");
        let of_bench = Process::cargo(["fmt", "--manifest-path", &manifest, "--check"]).run();
        if outcome == Outcome::Passed { of_bench } else { outcome }
    })
}

fn clippy() -> Step {
    let args = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    Process::cargo(args).step("clippy")
}

fn rustdoc() -> Step {
    let args = ["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"];
    Process::cargo(args).with_flags("RUSTDOCFLAGS", "-D warnings").step("rustdoc")
}

/// Licences, bans and sources, from `deny.toml`. `tidy` holds bans and sources without the tool.
fn deny() -> Step {
    Step::run("deny", || match is_deny_installed() {
        Ok(()) => Process::cargo(["deny", "check", "bans", "licenses", "sources"]).run(),
        Err(reason) => reason,
    })
}

/// Published advisories. Their database has to be fetched, so this step needs a network.
fn advisories() -> Step {
    Step::run("advisories", || {
        if let Err(reason) = is_deny_installed() {
            return reason;
        }
        match Process::cargo(["deny", "fetch", "db"]).output() {
            Ok(_) => Process::cargo(["deny", "check", "advisories"]).run(),
            Err(_) => Outcome::Skipped("the advisory database could not be fetched".to_owned()),
        }
    })
}

fn is_deny_installed() -> Result<(), Outcome> {
    let installed = Process::cargo(["deny", "--version"]).output();
    installed.map(drop).map_err(|_| {
        let how = "cargo-deny is not installed; get it by `cargo install --locked cargo-deny`";
        Outcome::Skipped(how.to_owned())
    })
}
