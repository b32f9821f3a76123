//! The arguments, and the command line that repeats a seed.

use std::time::Duration;

use kallisto_sim::Sabotage;
use kallisto_sim::campaign::{Campaign, SimStorage, SimSubject};

pub(crate) const USAGE: &str = "usage: kallisto-sim [--seed N] [--seeds COUNT] [--secs S] [--core] [--database] [--sabotage NAME] [--ledger FILE] [-v]\n       kallisto-sim check FILE";

/// Seeds of a run without arguments, and how long each lasts in its own time: ten hours and more together.
const SEEDS: u64 = 500;
/// See [`SEEDS`].
const SECS: u64 = 80;
/// Seeds of a run about cores without more arguments: each costs some times what one about stores does.
const CORE_SEEDS: u64 = 100;

/// What to do.
#[derive(Clone, Debug)]
pub(crate) enum SimTask {
    /// Judge the history in a file.
    Check(String),
    /// Run seeds.
    Simulate(Campaign),
}

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct SimArguments {
    pub(crate) task: SimTask,
    /// The file that a row of figures is appended to.
    pub(crate) ledger: Option<String>,
}

impl SimArguments {
    /// Reads the command line.
    pub(crate) fn parse(args: &[String]) -> Result<Self, String> {
        if let [check, file] = args
            && check == "check"
        {
            return Ok(Self { task: SimTask::Check(file.clone()), ledger: None });
        }
        let (mut seed, mut seeds, mut secs) = (None, None, SECS);
        let (mut sabotage, mut ledger, mut is_verbose) = (None, None, false);
        let (mut subject, mut storage) = (SimSubject::Store, SimStorage::Raft);
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
            match word.as_str() {
                "--seed" => seed = Some(number(word, value()?)?),
                "--seeds" => seeds = Some(number(word, value()?)?),
                "--secs" => secs = number(word, value()?)?,
                "--ledger" => ledger = Some(value()?.clone()),
                "--sabotage" => {
                    let name = value()?;
                    let names = Sabotage::ALL.map(Sabotage::name).join(", ");
                    let unknown = || format!("no sabotage is called {name:?}: {names}");
                    sabotage = Some(Sabotage::named(name).ok_or_else(unknown)?);
                }
                "--core" => subject = SimSubject::Core,
                "--database" => storage = SimStorage::Database,
                "-v" => is_verbose = true,
                other => return Err(format!("{other:?} is no argument")),
            }
        }
        let usual = if subject == SimSubject::Core { CORE_SEEDS } else { SEEDS };
        let campaign = Campaign {
            first: seed.unwrap_or(1),
            seeds: seeds.unwrap_or(if seed.is_some() { 1 } else { usual }),
            lasts: Duration::from_secs(secs),
            subject,
            storage,
            sabotage,
            is_verbose,
        };
        Ok(Self { task: SimTask::Simulate(campaign), ledger })
    }
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{name} wants a number, not {text:?}"))
}

/// The command line that runs one seed of a campaign again.
pub(crate) fn repeat(campaign: &Campaign, seed: u64) -> String {
    let mut line = format!("cargo x sim --seed {seed}");
    if campaign.lasts.as_secs() != SECS {
        line.push_str(&format!(" --secs {}", campaign.lasts.as_secs()));
    }
    if campaign.subject == SimSubject::Core {
        line.push_str(" --core");
    }
    if campaign.storage == SimStorage::Database {
        line.push_str(" --database");
    }
    if let Some(sabotage) = campaign.sabotage {
        line.push_str(&format!(" --sabotage {sabotage}"));
    }
    line + " -v"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Campaign, String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match SimArguments::parse(&args)?.task {
            SimTask::Simulate(campaign) => Ok(campaign),
            SimTask::Check(file) => Err(file),
        }
    }

    #[test]
    fn a_seed_alone_is_one_seed_and_is_repeated_as_it_was() {
        let campaign = parse("--seed 9 --secs 5 --sabotage vote-twice").unwrap();
        assert_eq!((campaign.first, campaign.seeds), (9, 1));
        let line = repeat(&campaign, 9);
        assert_eq!(line, "cargo x sim --seed 9 --secs 5 --sabotage vote-twice -v");
        assert_eq!(parse("").unwrap().seeds, SEEDS);
        assert_eq!(parse("check FILE").unwrap_err(), "FILE");
        for wrong in ["--seed", "--seed x", "--sabotage x", "-x", "check"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
