//! `cargo x fuzz`: hostile bytes against the targets of the crate `kallisto-fuzz`, optimised but
//! with every assertion on.

use crate::process::Process;
use crate::steps::{Step, Usage};

/// Hands `args` to the runner.
pub(crate) fn run(args: &[String]) -> Result<Vec<Step>, Usage> {
    Ok(vec![step(args)])
}

/// All targets, `secs` together.
pub(crate) fn smoke(secs: u64) -> Step {
    step(&["all".to_owned(), secs.to_string()])
}

fn step(args: &[String]) -> Step {
    let run = ["run", "--quiet", "--locked", "--profile", "fuzz", "--package", "kallisto-fuzz"];
    Process::cargo(run.into_iter().chain(["--"])).args(args).step("fuzz")
}
