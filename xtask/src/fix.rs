//! `cargo x fix`: the only verb that changes the sources. What clippy can repair, then the form.

use crate::process::Program;
use crate::steps::{UsageMistake, VerbStep};

/// Repairs and formats.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    if !args.is_empty() {
        return Err(UsageMistake("takes no arguments".to_owned()));
    }
    let clippy = ["clippy", "--fix", "--allow-dirty", "--allow-staged"];
    let everything = ["--workspace", "--all-targets", "--locked"];
    let mut steps = vec![Program::cargo(clippy.into_iter().chain(everything)).step("clippy --fix")];
    steps.push(Program::cargo(["fmt", "--all"]).step("fmt"));
    steps.extend(crate::workspace::bench_names().iter().map(|name| {
        let manifest = format!("bench/{name}/Cargo.toml");
        Program::cargo(["fmt", "--manifest-path", &manifest]).step(&format!("fmt bench/{name}"))
    }));
    Ok(steps)
}
