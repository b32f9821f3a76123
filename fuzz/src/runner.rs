//! Feeds targets: the corpus first, then input after input until the time is up or one fails.
//!
//! A failure is a panic, an input that takes longer than [`INPUT_SECS_MAX`], or one that does not
//! end at all: a second thread watches for that. Each is kept in `failures/` and told with the
//! command line that repeats it. What ends the whole process (an overflown stack) leaves the seed,
//! printed first, and the heartbeat's last number to start from.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kallisto_campaign::{CampaignPart, CampaignReach};

use crate::corpus::{self, Seed};
use crate::generate;
use crate::options::{FuzzOptions, FuzzTask};
use crate::targets::Target;

/// The seed of all inputs of a campaign: its parts differ in the numbers of their inputs.
const CAMPAIGN_SEED: u64 = 20_261_129;
/// Longest an input may take, in seconds.
const INPUT_SECS_MAX: u64 = 10;
/// How often the watcher looks, in seconds.
const WATCH_SECS: u64 = 5;

/// Does what the options say.
pub(crate) fn run(options: &FuzzOptions) -> Result<(), String> {
    let secs = match &options.task {
        FuzzTask::List => return Ok(()),
        FuzzTask::Replay(file) => return replay(options.targets[0], file),
        FuzzTask::Fuzz { secs } => *secs,
    };
    if let Some(CampaignPart { first, lasts }) = CampaignPart::of_environment()? {
        let reach = fuzz(options.targets[0], CAMPAIGN_SEED, first, lasts)?;
        let _ = writeln!(std::io::stdout(), "{reach}");
        return Ok(());
    }
    let seed = options.seed.unwrap_or_else(seed_of_now);
    let share = Duration::from_secs(secs) / options.targets.len() as u32;
    for target in &options.targets {
        fuzz(target, seed, options.from, share)?;
    }
    Ok(())
}

fn fuzz(
    target: &'static Target,
    seed: u64,
    from: u64,
    time: Duration,
) -> Result<CampaignReach, String> {
    say(&format!("{}: seed {seed}, from {from}, {:.1} s", target.name, time.as_secs_f64()));
    let seeds =
        corpus::load(target).map_err(|error| format!("{}: corpus: {error}", target.name))?;
    for Seed { name, bytes } in &seeds {
        attempt(target, bytes).map_err(|what| format!("{}: {name}: {what}", target.name))?;
    }
    let started = now();
    let number = AtomicU64::new(from);
    let failed = thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(target, seed, &number, &seeds));
        let failed = feed(target, seed, &number, &seeds, started + time);
        number.store(DONE, Ordering::Relaxed);
        watcher.thread().unpark();
        failed
    });
    let elapsed = started.elapsed().as_secs_f64();
    match failed {
        Ok(reach) => {
            let count = reach.next - from;
            let rate = count as f64 / elapsed;
            say(&format!(
                "{}: {} corpus inputs, {count} executions, {} bytes, {rate:.0}/s, no failure",
                target.name,
                seeds.len(),
                reach.count
            ));
            Ok(reach)
        }
        Err((what, bytes, at)) => Err(told(target, seed, at, &what, &bytes)),
    }
}

/// Says that the feeding is over.
const DONE: u64 = u64::MAX;

type Failed = (String, Vec<u8>, u64);

/// Runs inputs from `number` on until `end`; returns the number after the last one, and the bytes of all.
fn feed(
    target: &Target,
    seed: u64,
    number: &AtomicU64,
    seeds: &[Seed],
    end: Instant,
) -> Result<CampaignReach, Failed> {
    let mut at = number.load(Ordering::Relaxed);
    let mut count = 0;
    loop {
        let start = now();
        if start >= end {
            return Ok(CampaignReach { next: at, count });
        }
        let bytes = generate::input(seed, at, seeds, target.words);
        if let Err(what) = attempt(target, &bytes) {
            return Err((what, bytes, at));
        }
        if start.elapsed() > Duration::from_secs(INPUT_SECS_MAX) {
            return Err((format!("took longer than {INPUT_SECS_MAX} s"), bytes, at));
        }
        at += 1;
        count += bytes.len() as u64;
        number.store(at, Ordering::Relaxed);
    }
}

/// Beats while inputs go by, and ends the process when one stands still for too long.
fn watch(target: &Target, seed: u64, number: &AtomicU64, seeds: &[Seed]) {
    let (mut last, mut still_secs) = (DONE, 0);
    loop {
        thread::park_timeout(Duration::from_secs(WATCH_SECS));
        let at = number.load(Ordering::Relaxed);
        if at == DONE {
            return;
        }
        still_secs = if at == last { still_secs + WATCH_SECS } else { 0 };
        last = at;
        say(&format!("{}: at input {at}", target.name));
        if still_secs > INPUT_SECS_MAX {
            let bytes = generate::input(seed, at, seeds, target.words);
            say(&told(target, seed, at, "does not end", &bytes));
            std::process::exit(1);
        }
    }
}

fn replay(target: &Target, file: &Path) -> Result<(), String> {
    let bytes = corpus::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    attempt(target, &bytes)?;
    say(&format!("{}: {} bytes, no failure", target.name, bytes.len()));
    Ok(())
}

/// Runs one input; the panic's own message has been printed by then.
pub(crate) fn attempt(target: &Target, bytes: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).map_err(|_| "it panicked".to_owned())
}

/// Keeps the input and says how to run it again.
fn told(target: &Target, seed: u64, at: u64, what: &str, bytes: &[u8]) -> String {
    let name = target.name;
    let kept = match corpus::keep_failure(target, bytes) {
        Ok(path) => format!("cargo x fuzz {name} --replay {}", path.display()),
        Err(error) => {
            format!("cargo x fuzz {name} --seed {seed} --from {at}   (cannot keep it: {error})")
        }
    };
    format!("{name}: FAILED at input {at} of seed {seed}: {what}\nrepeat it: {kept}")
}

fn say(line: &str) {
    eprintln!("{line}");
}

#[expect(clippy::disallowed_methods, reason = "a run lasts as long as the developer asks for")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a seed nobody asked for; it is printed")]
fn seed_of_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::TARGETS;

    /// The same inputs on every machine: what this finds, the next run finds again.
    const SEED: u64 = 20_261_121;

    /// Inputs of each target: about two seconds for all of them, unoptimised.
    fn smoke_inputs(target: &Target) -> u64 {
        match target.name {
            // Hundreds of operations with checks in between, these on a whole store.
            "lsm_ops" => 8,
            "cuckoo_ops" | "index_ops" => 60,
            _ => 3000,
        }
    }

    #[test]
    fn every_target_stands_its_corpus_and_a_seeded_smoke() {
        for target in &TARGETS {
            let seeds = corpus::load(target).unwrap();
            assert!(!seeds.is_empty(), "{} has no corpus", target.name);
            for Seed { name, bytes } in &seeds {
                assert_eq!(attempt(target, bytes), Ok(()), "{name}");
            }
            for number in 0..smoke_inputs(target) {
                let bytes = generate::input(SEED, number, &seeds, target.words);
                let again = format!("cargo x fuzz {} --seed {SEED} --from {number}", target.name);
                assert_eq!(attempt(target, &bytes), Ok(()), "{again}");
            }
        }
    }

    #[test]
    fn a_panic_is_a_failure_and_its_input_is_found() {
        fn no_seven(bytes: &[u8]) {
            assert!(!bytes.contains(&7), "a seven");
        }
        let target = Target { name: "no_seven", about: "", run: no_seven, words: &[b"\x07"] };
        let end = now() + Duration::from_secs(INPUT_SECS_MAX);
        let found = feed(&target, 1, &AtomicU64::new(0), &[], end);
        let Err((what, bytes, at)) = found else { panic!("nothing was found") };
        assert_eq!(what, "it panicked");
        assert_eq!(bytes, generate::input(1, at, &[], target.words));
        assert!(attempt(&target, &bytes).is_err());
    }
}
