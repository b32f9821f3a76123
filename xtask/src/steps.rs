//! What a verb did: named steps with an outcome and a time, their summary and the exit code.
//!
//! Invariants: a step that could not run is [`StepOutcome::Skipped`] with a reason and is shouted when
//! it happens and again in the summary; the exit code is that of the first step that failed.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A mistake in the call of a verb.
pub(crate) struct UsageMistake(pub(crate) String);

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StepOutcome {
    Passed,
    /// Failed, with the exit code of what failed.
    Failed(u8),
    /// Did not run, and why.
    Skipped(String),
}

/// One step of a verb.
#[derive(Clone, Debug)]
pub(crate) struct VerbStep {
    pub(crate) name: String,
    pub(crate) outcome: StepOutcome,
    pub(crate) took: Duration,
}

impl VerbStep {
    /// Runs `work` as a step.
    pub(crate) fn run(name: &str, work: impl FnOnce() -> StepOutcome) -> Self {
        let start = now();
        let outcome = work();
        if let StepOutcome::Skipped(reason) = &outcome {
            eprintln!("\n*** SKIPPED: {name}: {reason}\n");
        }
        Self { name: name.to_owned(), outcome, took: start.elapsed() }
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a step takes is shown to a person")]
fn now() -> Instant {
    Instant::now()
}

/// Prints the summary of several steps; one alone has said all there is. Returns the exit code.
pub(crate) fn finish(steps: &[VerbStep]) -> ExitCode {
    if steps.len() > 1 {
        say(&summary(steps));
    }
    ExitCode::from(exit_code(steps))
}

/// A table with the seconds of each step and a closing line that counts them.
fn summary(steps: &[VerbStep]) -> String {
    let mut text = "\n".to_owned();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for VerbStep { name, outcome, took } in steps {
        let word = match outcome {
            StepOutcome::Passed => {
                passed += 1;
                "passed".to_owned()
            }
            StepOutcome::Failed(code) => {
                failed += 1;
                format!("FAILED with exit code {code}")
            }
            StepOutcome::Skipped(reason) => {
                skipped += 1;
                format!("SKIPPED: {reason}")
            }
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{name:<18} {:>7.1} s  {word}", took.as_secs_f64());
    }
    let _ = write!(text, "\n{passed} passed, {failed} failed, {skipped} skipped");
    text
}

fn exit_code(steps: &[VerbStep]) -> u8 {
    let failed = |step: &VerbStep| match step.outcome {
        StepOutcome::Failed(code) => Some(code),
        StepOutcome::Passed | StepOutcome::Skipped(_) => None,
    };
    steps.iter().find_map(failed).unwrap_or(0)
}

/// Prints a line to standard output. A closed pipe has nobody left to tell.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, outcome: StepOutcome) -> VerbStep {
        VerbStep { name: name.to_owned(), outcome, took: Duration::from_millis(1500) }
    }

    #[test]
    fn the_first_failure_is_the_exit_code_and_skips_do_not_fail() {
        let skipped = step("miri", StepOutcome::Skipped("absent".to_owned()));
        assert_eq!(exit_code(&[step("a", StepOutcome::Passed), skipped.clone()]), 0);
        let (first, second) =
            (step("b", StepOutcome::Failed(101)), step("c", StepOutcome::Failed(2)));
        assert_eq!(exit_code(&[step("a", StepOutcome::Passed), skipped, first, second]), 101);
    }

    #[test]
    fn the_summary_counts_and_closes_with_one_line() {
        let steps = [
            step("test", StepOutcome::Passed),
            step("lint", StepOutcome::Failed(1)),
            step("miri", StepOutcome::Skipped("absent".to_owned())),
        ];
        let text = summary(&steps);
        assert!(text.contains("SKIPPED: absent"), "{text}");
        assert_eq!(text.lines().last(), Some("1 passed, 1 failed, 1 skipped"));
    }
}
