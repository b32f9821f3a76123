//! `cargo x test`: the one command that tests everything. Its arguments are those of `cargo test`.

use crate::process::Program;
use crate::steps::{UsageMistake, VerbStep};

/// Runs every test of the workspace, or what `args` select of them.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    Ok(vec![Program::cargo(arguments(args)).step("test")])
}

/// Everything, unless packages are named before the `--` that ends cargo's own arguments.
fn arguments(args: &[String]) -> Vec<String> {
    let own = args.iter().take_while(|arg| *arg != "--");
    let names_package = |arg: &String| arg.starts_with("-p") || arg.starts_with("--package");
    // What fails in one crate does not hide what fails in the next.
    let mut all = ["test", "--locked", "--no-fail-fast"].map(str::to_owned).to_vec();
    if !own.clone().any(names_package) {
        all.insert(1, "--workspace".to_owned());
    }
    all.extend_from_slice(args);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(args: &[&str]) -> String {
        arguments(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>()).join(" ")
    }

    #[test]
    fn arguments_are_those_of_cargo_test() {
        assert_eq!(line(&[]), "test --workspace --locked --no-fail-fast");
        assert_eq!(
            line(&["--", "-p", "name"]),
            "test --workspace --locked --no-fail-fast -- -p name"
        );
        assert_eq!(
            line(&["-p", "kallisto-core", "kv"]),
            "test --locked --no-fail-fast -p kallisto-core kv"
        );
    }
}
