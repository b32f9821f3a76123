//! `cargo x ci`: everything that can say no, and the build that ships.

use crate::process::Program;
use crate::steps::{UsageMistake, VerbStep};
use crate::{fuzz, lint, loom, miri, test};

/// Seconds of fuzzing, over all targets together.
const FUZZ_SECS: u64 = 20;

/// Runs every check; a failure does not hide the next.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    if !args.is_empty() {
        return Err(UsageMistake("takes no arguments".to_owned()));
    }
    let mut steps = lint::run(&[])?;
    steps.extend(test::run(&[])?);
    steps.push(fuzz::smoke(FUZZ_SECS));
    steps.push(loom::step(&[]));
    steps.push(miri::bounded());
    steps.push(Program::cargo(["build", "--release", "--locked"]).step("release build"));
    Ok(steps)
}
