//! `cargo x fuzz`: hostile bytes against the targets of the crate `kallisto-fuzz`, optimised but
//! with every assertion on.

use crate::process::Program;
use crate::steps::{UsageMistake, VerbStep};

/// Hands `args` to the runner.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    Ok(vec![step(args)])
}

/// All targets, `secs` together.
pub(crate) fn smoke(secs: u64) -> VerbStep {
    step(&["all".to_owned(), secs.to_string()])
}

fn step(args: &[String]) -> VerbStep {
    let run = ["run", "--quiet", "--locked", "--profile", "fuzz", "--package", "kallisto-fuzz"];
    Program::cargo(run.into_iter().chain(["--"])).args(args).step("fuzz")
}
