//! `cargo x sim`: the simulated cluster of the crate `kallisto-sim`, optimised but with every assertion on.

use crate::process::Program;
use crate::steps::{UsageMistake, VerbStep};

/// Hands `args` to the simulator. Without any it runs twice: servers' stores, then cores over such stores.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    let run = ["run", "--quiet", "--locked", "--profile", "fuzz", "--package", "kallisto-sim"];
    let process = || Program::cargo(run.into_iter().chain(["--"]));
    let mut steps = vec![process().args(args).step("sim")];
    if args.is_empty() {
        steps.push(process().args(&["--core".to_owned()]).step("sim --core"));
    }
    Ok(steps)
}
