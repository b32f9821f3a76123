//! `cargo x sim`: the simulated cluster of the crate `kallisto-sim`, optimised but with every assertion on.

use crate::process::Process;
use crate::steps::{Step, Usage};

/// Hands `args` to the simulator. Without any it runs twice: servers' stores, then cores over such stores.
pub(crate) fn run(args: &[String]) -> Result<Vec<Step>, Usage> {
    let run = ["run", "--quiet", "--locked", "--profile", "fuzz", "--package", "kallisto-sim"];
    let process = || Process::cargo(run.into_iter().chain(["--"]));
    let mut steps = vec![process().args(args).step("sim")];
    if args.is_empty() {
        steps.push(process().args(&["--core".to_owned()]).step("sim --core"));
    }
    Ok(steps)
}
