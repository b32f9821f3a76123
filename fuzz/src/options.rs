//! The arguments: `TARGET|all [SECS] [--seed N] [--from N]`, `TARGET --replay FILE`, or none.

use std::path::PathBuf;

use crate::targets::{self, Target};

pub(crate) const USAGE: &str =
    "usage: cargo x fuzz [TARGET|all [SECS] [--seed N] [--from N] | TARGET --replay FILE]";
/// Seconds when none are given.
const SECS_DEFAULT: u64 = 60;
/// Longest run, in seconds: a week.
const SECS_MAX: u64 = 7 * 24 * 3600;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FuzzTask {
    /// Name the targets.
    List,
    /// Corpus, then generated inputs, for this many seconds over all targets.
    Fuzz { secs: u64 },
    /// One input from a file.
    Replay(PathBuf),
}

/// The arguments, checked.
#[derive(Debug)]
pub(crate) struct FuzzOptions {
    pub(crate) task: FuzzTask,
    pub(crate) targets: Vec<&'static Target>,
    /// Chosen by the clock when absent.
    pub(crate) seed: Option<u64>,
    /// Number of the first input.
    pub(crate) from: u64,
}

impl FuzzOptions {
    /// Reads the arguments.
    pub(crate) fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self { task: FuzzTask::List, targets: Vec::new(), seed: None, from: 0 };
        let mut args = args.iter();
        let Some(name) = args.next() else { return Ok(options) };
        options.targets = choose(name)?;
        options.task = FuzzTask::Fuzz { secs: SECS_DEFAULT };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} wants a value"));
            match arg.as_str() {
                "--seed" => options.seed = Some(number(value()?)?),
                "--from" => options.from = number(value()?)?,
                "--replay" => options.task = FuzzTask::Replay(PathBuf::from(value()?)),
                secs => options.task = FuzzTask::Fuzz { secs: seconds(secs)? },
            }
        }
        if matches!(options.task, FuzzTask::Replay(_)) && options.targets.len() != 1 {
            return Err("--replay wants one target".to_owned());
        }
        Ok(options)
    }
}

fn choose(name: &str) -> Result<Vec<&'static Target>, String> {
    if name == "all" {
        return Ok(targets::TARGETS.iter().collect());
    }
    let target = targets::TARGETS.iter().find(|target| target.name == name);
    target
        .map(|target| vec![target])
        .ok_or_else(|| format!("no target is called {name:?}; there are:\n{}", targets::list()))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

fn seconds(text: &str) -> Result<u64, String> {
    match number(text)? {
        secs @ 1..=SECS_MAX => Ok(secs),
        _ => Err(format!("seconds go from 1 to {SECS_MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<FuzzOptions, String> {
        FuzzOptions::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_read_or_refused() {
        assert_eq!(parse("").unwrap().task, FuzzTask::List);
        let options = parse("json 5 --seed 7 --from 9").unwrap();
        assert_eq!(options.task, FuzzTask::Fuzz { secs: 5 });
        assert_eq!((options.seed, options.from, options.targets.len()), (Some(7), 9, 1));
        assert_eq!(parse("all").unwrap().targets.len(), targets::TARGETS.len());
        assert_eq!(parse("json --replay x").unwrap().task, FuzzTask::Replay(PathBuf::from("x")));
        for bad in
            ["nothing", "json 0", "json x", "json --seed", "json --from -1", "all --replay x"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
