//! `cargo x loom`: the lock-free code in every interleaving that loom's bounds allow.
//!
//! Crates that take their atomics from loom under `--cfg loom` are listed in [`CRATES`]; tests that
//! use those without a model are compiled out then. The flag would throw every other build away, so these have a
//! target folder of their own.

use crate::process::Program;
use crate::steps::{UsageMistake, VerbStep};
use crate::workspace;

const CRATES: [&str; 2] = ["kallisto-cuckoo", "kallisto-lsm"];

/// Runs the models; `args` go to the tests.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    Ok(vec![step(args)])
}

/// One step over all crates.
pub(crate) fn step(args: &[String]) -> VerbStep {
    let folder = workspace::target_folder("loom");
    let fixed = ["test", "--release", "--lib", "--locked"].map(str::to_owned).into_iter();
    let target = ["--target-dir".to_owned(), folder.display().to_string()];
    let packages = CRATES.iter().flat_map(|name| ["--package".to_owned(), (*name).to_owned()]);
    Program::cargo(fixed.chain(target).chain(packages).chain(["--".to_owned()]))
        .args(args)
        .with_flags("RUSTFLAGS", "--cfg loom")
        .step("loom")
}
