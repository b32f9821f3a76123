//! `cargo x bench`: figures, never pass or fail.
//!
//! `kallisto` is the canonical workload, in the binary itself. Each crate in `bench/` compares one
//! of our structures with its peers in one run; it is a workspace of its own, so that neither the
//! product nor its tests compile the peers.

use crate::bench_lsm;
use crate::process::Program;
use crate::steps::{UsageMistake, VerbStep};
use crate::workspace;

const BINARY: &str = "kallisto";

/// Runs the benchmark `args` name, or all of them.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    let names = workspace::bench_names();
    let Some((name, rest)) = args.split_first() else {
        let all = names.iter().flat_map(|name| peers(name, &[]));
        return Ok(std::iter::once(binary(&[])).chain(all).collect());
    };
    if name == BINARY {
        return Ok(vec![binary(rest)]);
    }
    if !names.contains(name) {
        return Err(UsageMistake(format!(
            "no benchmark is called {name:?}; there are {BINARY}, {}",
            names.join(", ")
        )));
    }
    Ok(match rest.split_first() {
        Some((flag, rest)) if flag == "--criterion" => vec![criterion(name, rest)],
        _ => peers(name, rest),
    })
}

fn binary(args: &[String]) -> VerbStep {
    let run = ["run", "--release", "--locked", "--package", BINARY, "--", "bench"];
    Program::cargo(run).args(args).step(BINARY)
}

/// The comparison in one run, which the crate's own executable makes.
fn peers(name: &str, args: &[String]) -> Vec<VerbStep> {
    if name == "lsm" {
        return bench_lsm::run(args);
    }
    let manifest = format!("bench/{name}/Cargo.toml");
    let run = ["run", "--release", "--locked", "--manifest-path", &manifest, "--"];
    vec![Program::cargo(run).args(args).step(name)]
}

fn criterion(name: &str, args: &[String]) -> VerbStep {
    let manifest = format!("bench/{name}/Cargo.toml");
    let run = ["bench", "--locked", "--manifest-path", &manifest, "--"];
    Program::cargo(run).args(args).step(name)
}
