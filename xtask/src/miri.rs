//! `cargo x miri`: the crate with unsafe code under Miri, which finds undefined behaviour that
//! tests only walk over. It needs a nightly toolchain with the component `miri`; without one the
//! step is skipped, loudly.

use crate::process::Program;
use crate::steps::{StepOutcome, UsageMistake, VerbStep};

const CRATE: &str = "kallisto-cuckoo";
/// Longest run within `cargo x ci`, in seconds; by hand there is no limit.
pub(crate) const CI_SECS_MAX: u32 = 600;
/// What `timeout` exits with when the time was up.
const TIMED_OUT: u8 = 124;

/// Runs the crate's tests; `args` go to `cargo miri test`.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    let with = |toolchain: &str| {
        Program::new("rustup", ["run", toolchain, "cargo", "miri", "test", "--package", CRATE])
            .args(args)
            .run()
    };
    Ok(vec![VerbStep::run("miri", || find_toolchain().map_or_else(absent, |name| with(&name)))])
}

/// The same, ended after [`CI_SECS_MAX`].
pub(crate) fn bounded() -> VerbStep {
    let with = |toolchain: &str| {
        let limit = CI_SECS_MAX.to_string();
        let run = ["rustup", "run", toolchain, "cargo", "miri", "test", "--package", CRATE];
        match Program::new("timeout", [limit.as_str()].into_iter().chain(run)).run() {
            StepOutcome::Failed(TIMED_OUT) => StepOutcome::Skipped(format!(
                "ended after {CI_SECS_MAX} s with no failure until then; `cargo x miri` runs it all"
            )),
            outcome => outcome,
        }
    };
    VerbStep::run("miri", || find_toolchain().map_or_else(absent, |name| with(&name)))
}

fn absent() -> StepOutcome {
    let how = "no nightly toolchain has Miri; get it by `rustup toolchain install nightly \
               --component miri --component rust-src`";
    StepOutcome::Skipped(how.to_owned())
}

/// An installed nightly that answers to `cargo miri`.
fn find_toolchain() -> Option<String> {
    let listed = Program::new("rustup", ["toolchain", "list"]).output().ok()?;
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    let has_miri = |name: &&str| {
        Program::new("rustup", ["run", name, "cargo", "miri", "--version"]).output().is_ok()
    };
    names.filter(|name| name.starts_with("nightly")).find(has_miri).map(str::to_owned)
}
