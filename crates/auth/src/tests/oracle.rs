//! A million random (policies, path, capability) triples: the compiled set and the naive evaluator
//! must agree on every one, on the rule that speaks, and on what `sys/capabilities` says.
//!
//! The alphabet is small so that patterns collide, nest, differ only in case, and tie.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::naive::{self, Rule};
use super::{Ask, Dice, set_for};
use crate::acl::Reason;
use crate::{AclSet, Capability, Path, TemplateSubject, Variable};

const TRIPLES: u64 = 1_000_000;
const PATHS_PER_SET: usize = 16;
const SEED: u64 = 0x2026_1122;

const SEGMENTS: [&str; 10] = ["a", "b", "A", "ab", "aB", "é", "É", "+a", "a+", "s*t"];
const WILD: [&str; 4] = ["+", "+", "a", "b"];
const GRANTED: [Capability; 7] = [
    Capability::Create,
    Capability::Delete,
    Capability::List,
    Capability::Patch,
    Capability::Read,
    Capability::Scan,
    Capability::Update,
];
const NAME: &str = "{{identity.entity.name}}";

/// A caller whose entity has a name, or none.
struct Named(Option<&'static str>);

impl TemplateSubject for Named {
    fn value(&self, variable: &Variable) -> Option<Cow<'_, str>> {
        self.0.filter(|_| *variable == Variable::EntityName).map(Cow::Borrowed)
    }
}

fn pattern(dice: &mut Dice) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for _ in 0..=dice.below(4) {
        segments.push(match dice.below(8) {
            0..3 => dice.choose(&WILD),
            3 => NAME,
            _ => dice.choose(&SEGMENTS),
        });
    }
    let ends = ["", "", "", "*", "*", "/", "/*"];
    let start = ["", "", "", "", "", "", "", "/"];
    if dice.below(20) == 0 {
        segments.truncate(dice.below(2));
    }
    let pattern = format!("{}{}{}", dice.choose(&start), segments.join("/"), dice.choose(&ends));
    // `+*` is no pattern; a path never starts with two slashes.
    if pattern.contains("+*") { pattern.replace("+*", "+/*") } else { pattern }
}

fn capabilities(dice: &mut Dice) -> BTreeSet<&'static str> {
    if dice.below(5) == 0 {
        return ["deny"].into();
    }
    (0..=dice.below(4)).map(|_| dice.choose(&GRANTED).name()).collect()
}

fn path(dice: &mut Dice) -> String {
    if dice.below(20) == 0 {
        return String::new();
    }
    let mut segments: Vec<&str> = Vec::new();
    for _ in 0..=dice.below(5) {
        segments.push(dice.choose(&SEGMENTS));
    }
    let ends = ["", "", "", "/"];
    format!("{}{}", segments.join("/"), dice.choose(&ends))
}

/// The rules as texts for the compiled set and as rules for the naive one.
fn rules(dice: &mut Dice, name: Option<&str>) -> (Vec<String>, Vec<Rule>) {
    let (mut texts, mut naive) = (Vec::new(), Vec::new());
    for _ in 0..=dice.below(3) {
        let mut text = String::new();
        for _ in 0..dice.below(8) {
            let (written, capabilities) = (pattern(dice), capabilities(dice));
            let list: Vec<String> = capabilities.iter().map(|name| format!("\"{name}\"")).collect();
            text += &format!("path \"{written}\" {{ capabilities = [{}] }}\n", list.join(", "));
            let is_safe = name.is_some_and(|name| {
                !name.contains(['/', '*', '+']) || capabilities.contains("deny")
            });
            if is_safe || !written.contains(NAME) {
                let pattern = written.replace(NAME, name.unwrap_or_default());
                naive.push(Rule { pattern, capabilities });
            }
        }
        texts.push(text);
    }
    (texts, naive)
}

fn check(acl: &AclSet, rules: &[Rule], path: &str, capability: Capability, texts: &[String]) {
    let is_listing = matches!(capability, Capability::List | Capability::Scan);
    let expected = naive::speaker(rules, path, is_listing);
    let granted =
        expected.as_ref().is_some_and(|rule| rule.capabilities.contains(capability.name()));
    let ask = Ask::new(capability, path);
    let told = || format!("{capability:?} {path} by {expected:?}\n{}", texts.join("---\n"));
    assert_eq!(acl.decide(&ask).is_ok(), granted, "{}", told());
}

/// The explanation names the rule that speaks, and every rule that lost to it.
fn check_explanation(acl: &AclSet, rules: &[Rule], path: &str, capability: Capability) {
    let is_listing = matches!(capability, Capability::List | Capability::Scan);
    let ask = Ask::new(capability, path);
    let explanation = acl.explain(&ask);
    assert_eq!(explanation.is_granted(), acl.decide(&ask).is_ok());
    let speaker = naive::speaker(rules, path, is_listing).map(|rule| rule.pattern);
    let spoke = explanation.decided_by.as_ref().map(|rule| rule.pattern.clone());
    assert_eq!(spoke, speaker, "{path}");
    let mut expected = naive::explained(rules, path, is_listing);
    expected.retain(|pattern| Some(pattern) != speaker.as_ref());
    let lost: BTreeSet<_> = explanation.lost.iter().map(|lost| lost.rule.pattern.clone()).collect();
    if speaker.is_some() {
        assert_eq!(lost, expected, "{path}");
    }
    assert_eq!(explanation.reason == Reason::NoRule, speaker.is_none());
}

fn check_capabilities(acl: &AclSet, rules: &[Rule], path: &str) {
    let held = naive::speaker(rules, path, path.ends_with('/'));
    let mut expected: Vec<_> = held.into_iter().flat_map(|rule| rule.capabilities).collect();
    if expected.is_empty() {
        expected.push("deny");
    }
    assert_eq!(acl.capabilities(path).names(), expected, "{path}");
}

#[test]
fn a_million_decisions_are_those_of_the_naive_evaluator() {
    let mut dice = Dice(SEED);
    let names = [None, Some("a"), Some("A"), Some("a/b"), Some("b")];
    let (mut triples, mut granted, mut sets) = (0_u64, 0_u64, 0_u64);
    while triples < TRIPLES {
        let name = dice.choose(&names);
        let (texts, rules) = rules(&mut dice, name);
        let acl = set_for(&texts, &Named(name));
        sets += 1;
        for _ in 0..PATHS_PER_SET {
            let path = path(&mut dice);
            assert!(Path::decode(&path).is_ok());
            check_capabilities(&acl, &rules, &path);
            for capability in GRANTED {
                check(&acl, &rules, &path, capability, &texts);
                granted += u64::from(acl.decide(&Ask::new(capability, &path)).is_ok());
                triples += 1;
            }
            check_explanation(&acl, &rules, &path, dice.choose(&GRANTED));
        }
    }
    eprintln!("{triples} triples over {sets} policy sets, {granted} granted, no difference");
    // A generator that grants nothing, or everything, would prove nothing.
    assert!(granted > triples / 50 && granted < triples / 2, "{granted} of {triples}");
}
