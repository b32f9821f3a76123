//! Which campaigns there are, and what each runs.

use crate::fuzz;
use crate::process::Program;

/// A campaign.
#[derive(Clone, Debug)]
pub(super) struct CampaignKind {
    pub(super) name: String,
    /// What is counted.
    pub(super) unit: &'static str,
    /// How many it is to reach.
    pub(super) aim: u64,
    searcher: Searcher,
}

/// What tries seeds.
#[derive(Clone, Debug)]
enum Searcher {
    /// A test that is ignored otherwise: its crate, where it is, and the test.
    Test { package: &'static str, target: &'static [&'static str], test: &'static str },
    /// The simulator, with arguments.
    Simulator(&'static [&'static str]),
    /// A target of the fuzzer.
    Fuzzer(String),
}

/// Ten thousand hours, in seconds.
const SIMULATED_SECS: u64 = 10_000 * 3600;
/// Bytes that each target of the fuzzer is to be fed with.
const HOSTILE_BYTES: u64 = 1_000_000_000;

/// Every campaign.
pub(super) fn all() -> Vec<CampaignKind> {
    let test = |name: &str, unit, aim, package, target, test| CampaignKind {
        name: name.to_owned(),
        unit,
        aim,
        searcher: Searcher::Test { package, target, test },
    };
    let simulator = |name: &str, args| CampaignKind {
        name: name.to_owned(),
        unit: "simulated seconds",
        aim: SIMULATED_SECS,
        searcher: Searcher::Simulator(args),
    };
    let fuzzer = |target: String| CampaignKind {
        name: format!("bytes-{target}"),
        unit: "hostile bytes",
        aim: HOSTILE_BYTES,
        searcher: Searcher::Fuzzer(target),
    };
    let mut all = vec![
        test(
            "power-cuts-lsm",
            "crash images",
            10_000_000,
            "kallisto-lsm",
            &["--test", "crash"],
            "a_cut_in_a_run_of_any_seed_loses_nothing",
        ),
        test(
            "power-cuts-store",
            "crash images",
            10_000_000,
            "kallisto-store",
            &["--test", "crash"],
            "a_cut_in_a_run_of_any_seed_loses_no_more_than_the_mode_says",
        ),
        test(
            "flips",
            "flipped bits",
            10_000_000,
            "kallisto-lsm",
            &["--test", "flips"],
            "every_flipped_byte_of_a_store_of_any_seed_is_detected_or_harmless",
        ),
        test(
            "policies",
            "decisions",
            1_000_000_000,
            "kallisto-auth",
            &["--lib"],
            "tests::oracle::decisions_of_any_seed_are_those_of_the_naive_evaluator",
        ),
        test(
            "kills",
            "cycles of kill -9",
            10_000,
            "kallisto",
            &["--test", "server"],
            "kill::nothing_acknowledged_is_lost_at_any_seed",
        ),
        test(
            "chaos",
            "histories of keys",
            1_000,
            "kallisto",
            &["--test", "chaos"],
            "scenes::a_cluster_under_faults_of_any_seed_is_linearizable",
        ),
        simulator("sim", &[]),
        simulator("sim-core", &["--core"]),
        simulator("sim-database", &["--database"]),
        simulator("sim-core-database", &["--core", "--database"]),
    ];
    all.extend(fuzz::targets().into_iter().map(fuzzer));
    all
}

impl CampaignKind {
    /// What runs a part, optimised, with every assertion on but for servers, which are released without them.
    pub(super) fn program(&self) -> Program {
        match &self.searcher {
            Searcher::Test { package, target, test } => {
                let profile = if *package == "kallisto" { "release" } else { "fuzz" };
                let build =
                    ["test", "--quiet", "--locked", "--profile", profile, "--package", package];
                let run = ["--", "--ignored", "--exact", "--nocapture", test];
                Program::cargo(build.iter().chain(*target).chain(&run).copied())
            }
            Searcher::Simulator(args) => Self::run("kallisto-sim", args),
            Searcher::Fuzzer(target) => Self::run("kallisto-fuzz", &[target]),
        }
    }

    fn run(package: &str, args: &[&str]) -> Program {
        let run = ["run", "--quiet", "--locked", "--profile", "fuzz", "--package", package, "--"];
        Program::cargo(run.iter().chain(args).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::BTreeSet;

    #[test]
    fn no_campaign_is_there_twice() {
        let all = all();
        let names: BTreeSet<_> = all.iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        assert!(names.contains("bytes-json"), "each target of the fuzzer is one");
    }

    /// A test that was renamed would run no test, and succeed.
    #[test]
    fn the_tests_of_campaigns_are_in_the_sources() {
        for kind in all() {
            let Searcher::Test { package, test, .. } = kind.searcher else { continue };
            let name = test.rsplit("::").next().unwrap();
            let folder = package.strip_prefix("kallisto-").unwrap_or(package);
            let crates = crate::workspace::root().join("crates").join(folder);
            let found = Program::new(
                "grep",
                ["-r", "-l", &format!("fn {name}()"), &crates.display().to_string()],
            )
            .output();
            assert!(found.is_ok_and(|files| files.lines().count() == 1), "{test}");
        }
    }
}
