//! `cargo x sim`: the simulated cluster of the crate `kallisto-sim`, optimised but with every assertion on.

use crate::process::Process;
use crate::steps::{Step, Usage};

/// Hands `args` to the simulator.
pub(crate) fn run(args: &[String]) -> Result<Vec<Step>, Usage> {
    let run = ["run", "--quiet", "--locked", "--profile", "fuzz", "--package", "kallisto-sim"];
    Ok(vec![Process::cargo(run.into_iter().chain(["--"])).args(args).step("sim")])
}
