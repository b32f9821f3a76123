//! What one decision costs, by kind of policy set: ours, a loop over every rule, and `globset`, which
//! finds every matching pattern at once and so leaves only the choice among them.
//!
//! One thread, paths in turn, the best of several rounds. Run it on a quiet machine:
//! `cargo run --release`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use globset::{Glob, GlobSet, GlobSetBuilder};
use kallisto_auth::{
    AclSet, NoIdentity, Operation, Path, Policy, PolicyName, Subject, Timestamp, policy,
};

const ROUNDS: usize = 7;
const PASSES: usize = 300;
const PATHS: [&str; 5] = [
    "secret/data/app/db/password",
    "secret/data/shared/config",
    "secret/data/app/x",
    "secret/data/web/team/key",
    "secret/data/tenant-0500/key",
];

const APP: &[&str] = &[
    "secret/data/app/*",
    "secret/metadata/app/*",
    "secret/data/shared/config",
    "transit/encrypt/app",
    "database/creds/app-ro",
];
const PLUS: &[&str] = &["secret/data/+/team/*", "secret/data/+/prod", "secret/+/web/+/key"];
const DENIALS: &[&str] = &["secret/data/app/private/*"];

struct Ask(Path<'static>);

impl Subject for Ask {
    fn operation(&self) -> Operation {
        Operation::Read
    }

    fn path(&self) -> &Path<'_> {
        &self.0
    }
}

fn main() {
    let many: Vec<String> = (0..1000)
        .flat_map(|n| [format!("secret/data/tenant-{n:04}/*"), format!("kv/{n:04}/x")])
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    println!(
        "{:<28}{:>7}{:>12}{:>10}{:>10}{:>10}",
        "policies", "rules", "compile us", "ours ns", "loop ns", "globs ns"
    );
    row("default and app", &[APP], &[]);
    row("with + patterns", &[APP, PLUS], &[]);
    row("with a denial", &[APP], DENIALS);
    row("with 2000 rules", &[APP, &many], &[]);
    row("with all of it", &[APP, PLUS, &many], DENIALS);
}

fn row(name: &str, reading: &[&[&str]], denied: &[&str]) {
    let rule =
        |pattern: &str, word: &str| format!("path \"{pattern}\" {{ policy = \"{word}\" }}\n");
    let mut text: String =
        reading.iter().flat_map(|set| set.iter()).map(|p| rule(p, "read")).collect();
    text.extend(denied.iter().map(|pattern| rule(pattern, "deny")));
    let policies = [read("default", policy::DEFAULT_TEXT), read("app", &text)];
    let start = Instant::now();
    let acl = AclSet::compile(&policies, &NoIdentity, Timestamp::UNIX_EPOCH);
    let compile = start.elapsed();
    let patterns: Vec<String> = acl.rules().map(|rule| rule.pattern).collect();
    let globs = globs(&patterns);
    let asks: Vec<Ask> = PATHS
        .iter()
        .flat_map(|path| (0..20).map(move |n| format!("{path}{n}")))
        .map(|path| Ask(Path::decode(&path).expect("a plain path").into_owned()))
        .collect();
    let ours = time(&asks, |ask| acl.decide(ask).is_ok());
    let looped = time(&asks, |ask| patterns.iter().rev().any(|p| matches(p, ask.0.as_str())));
    let globbed = time(&asks, |ask| globs.is_match(ask.0.as_str()));
    let (rules, compile) = (patterns.len(), compile.as_secs_f64() * 1e6);
    println!("{name:<28}{rules:>7}{compile:>12.0}{ours:>10.1}{looped:>10.1}{globbed:>10.1}");
}

fn read(name: &str, text: &str) -> Arc<Policy> {
    let name = PolicyName::parse(name).expect("a plain name");
    Arc::new(Policy::parse(name, text).expect("a policy"))
}

/// Nanoseconds a call, the best round.
fn time(asks: &[Ask], mut decide: impl FnMut(&Ask) -> bool) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..PASSES {
            for ask in asks {
                black_box(decide(black_box(ask)));
            }
        }
        best = best.min(start.elapsed().as_nanos() as f64 / (PASSES * asks.len()) as f64);
    }
    best
}

/// The plain way to match, for rules that are tried from the most specific down.
fn matches(pattern: &str, path: &str) -> bool {
    let (stem, is_prefix) = match pattern.strip_suffix('*') {
        Some(stem) => (stem, true),
        None => (pattern, false),
    };
    if !stem.contains('+') {
        return if is_prefix { path.starts_with(stem) } else { path == stem };
    }
    let mut parts = path.split('/');
    let mut wanted = stem.split('/').peekable();
    while let Some(segment) = wanted.next() {
        let is_last = wanted.peek().is_none();
        match parts.next() {
            Some(part) if is_prefix && is_last => return part.starts_with(segment),
            Some(part) if segment == "+" || segment == part => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

fn globs(patterns: &[String]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = pattern.replace('*', "**").replace('+', "*");
        let glob = if glob.ends_with("/**") { glob } else { glob.replace("**", "*") };
        set.add(Glob::new(&glob).expect("a glob"));
    }
    set.build().expect("a set of globs")
}
