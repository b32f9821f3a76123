//! `cargo x sim`: the simulated cluster of the crate `kallisto-sim`, optimised but with every assertion on.

use crate::process::Program;
use crate::steps::{UsageMistake, VerbStep};

/// Seeds of stores and of cores on a database, where nobody says how many.
const ON_DATABASE: [&[&str]; 2] =
    [&["--database", "--seeds", "300"], &["--core", "--database", "--seeds", "60"]];

/// Hands `args` to the simulator. Without any it runs four times: servers' stores, then cores over such stores, each on disks and on a
/// database that they share.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    let run = ["run", "--quiet", "--locked", "--profile", "fuzz", "--package", "kallisto-sim"];
    let process = || Program::cargo(run.into_iter().chain(["--"]));
    let mut steps = vec![process().args(args).step("sim")];
    if args.is_empty() {
        steps.push(process().args(&["--core".to_owned()]).step("sim --core"));
        for words in ON_DATABASE {
            let args: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            steps.push(process().args(&args).step(&format!("sim {}", words.join(" "))));
        }
    }
    Ok(steps)
}
