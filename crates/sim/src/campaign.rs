//! Many seeds, one after the other, and what they did together.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::Figures;
use crate::sabotage::Sabotage;
pub use crate::server::{SimStorage, SimSubject};
use crate::world::{self, WorldPlan};

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The first seed.
    pub first: u64,
    /// How many.
    pub seeds: u64,
    /// For how long each lasts, in the simulation's time.
    pub lasts: Duration,
    /// What the runs are about.
    pub subject: SimSubject,
    /// What keeps the records.
    pub storage: SimStorage,
    /// What is broken on purpose.
    pub sabotage: Option<Sabotage>,
    /// Whether each event is told, on standard error.
    pub is_verbose: bool,
}

/// A seed that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFailure {
    /// Which.
    pub seed: u64,
    /// What did not hold.
    pub what: String,
}

/// Runs all seeds of a campaign, or up to the first that fails. `beat` is told of every seed's end.
///
/// # Errors
/// The first seed that failed.
pub fn run(
    campaign: &Campaign,
    mut beat: impl FnMut(u64, &Figures),
) -> Result<Figures, RunFailure> {
    let mut all = Figures::default();
    for seed in campaign.first..campaign.first.saturating_add(campaign.seeds) {
        let (figures, _) = run_one(campaign, seed).map_err(|what| RunFailure { seed, what })?;
        all.add(&figures);
        beat(seed, &all);
    }
    Ok(all)
}

/// Runs one seed; the number is the digest of all its events.
///
/// # Errors
/// What did not hold.
pub fn run_one(campaign: &Campaign, seed: u64) -> Result<(Figures, u64), String> {
    let Campaign { lasts, subject, storage, sabotage, is_verbose, .. } = *campaign;
    let plan = WorldPlan { seed, lasts, subject, storage, sabotage, is_verbose };
    // A panic of the code under test is a finding as well; its own message has been printed by then.
    match catch_unwind(AssertUnwindSafe(|| world::run(plan))) {
        Ok(ran) => ran.map_err(|violation| violation.to_string()),
        Err(_) => Err("it panicked".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(subject: SimSubject, first: u64, seeds: u64) -> Campaign {
        let (lasts, storage) = (Duration::from_secs(40), SimStorage::Raft);
        Campaign { first, seeds, lasts, subject, storage, sabotage: None, is_verbose: false }
    }

    fn on_database(subject: SimSubject, first: u64, seeds: u64) -> Campaign {
        Campaign { storage: SimStorage::Database, ..of(subject, first, seeds) }
    }

    #[test]
    fn a_seed_on_a_database_is_a_run() {
        for subject in [SimSubject::Store, SimSubject::Core] {
            let campaign = on_database(subject, 3, 1);
            let (first, second) = (run_one(&campaign, 3).unwrap(), run_one(&campaign, 3).unwrap());
            assert_eq!(first, second);
            assert!(first.0.acknowledged > 50 && first.0.linear_reads > 10, "{:?}", first.0);
        }
    }

    #[test]
    fn what_is_broken_on_a_database_is_seen() {
        for (sabotage, said) in [
            (Sabotage::UnfencedCommits, "replicas are equal"),
            (Sabotage::UnknownAsFailed, "there is one order"),
            (Sabotage::LaggingStandby, "what is confirmed is here"),
        ] {
            let usual = on_database(SimSubject::Store, 1, 1);
            let campaign = Campaign { sabotage: Some(sabotage), ..usual };
            let seen = (1..30).filter_map(|seed| run_one(&campaign, seed).err());
            assert!(seen.into_iter().any(|what| what.contains(said)), "{sabotage}");
        }
    }

    #[test]
    fn a_seed_is_a_run() {
        let campaign = of(SimSubject::Store, 7, 1);
        let (first, second) = (run_one(&campaign, 7).unwrap(), run_one(&campaign, 7).unwrap());
        assert_eq!(first, second);
        assert_ne!(first.1, run_one(&campaign, 8).unwrap().1);
    }

    #[test]
    fn a_seed_of_cores_is_a_run() {
        let campaign = of(SimSubject::Core, 3, 1);
        let (first, second) = (run_one(&campaign, 3).unwrap(), run_one(&campaign, 3).unwrap());
        assert_eq!(first, second);
        let figures = first.0;
        assert!(figures.tokens > 50 && figures.borne > 100, "{figures:?}");
        assert!(figures.turned_away > 10 && figures.single_uses > 10, "{figures:?}");
        assert!(figures.local_reads > 100 && figures.linear_reads > 10, "{figures:?}");
    }

    #[test]
    fn what_is_broken_under_cores_is_seen() {
        for (sabotage, said) in [
            (Sabotage::MixedTokens, "a cubbyhole is its token's own"),
            (Sabotage::EarlyAck, "there is one order"),
            (Sabotage::NoLease, "no answer is older than its bound"),
        ] {
            let campaign = Campaign { sabotage: Some(sabotage), ..of(SimSubject::Core, 1, 1) };
            let seen = (1..30).filter_map(|seed| run_one(&campaign, seed).err());
            assert!(seen.into_iter().any(|what| what.contains(said)), "{sabotage}");
        }
    }

    #[test]
    fn a_few_seeds_hold_and_do_something() {
        let figures = run(&of(SimSubject::Store, 100, 4), |_, _| {}).unwrap();
        assert_eq!(figures.seeds, 4);
        assert!(figures.acknowledged > 200 && figures.linear_reads > 20, "{figures:?}");
        assert!(figures.local_reads > 100 && figures.compared > 20, "{figures:?}");
        assert!(figures.leaders > 4 && figures.faults.len() > 5, "{figures:?}");
    }
}
