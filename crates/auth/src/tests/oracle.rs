//! A million random (policies, path, capability) triples: the compiled set and the naive evaluator
//! must agree on every one, on the rule that speaks, and on what `sys/capabilities` says. Each path is asked
//! by one of its spellings; some requests need `sudo`, and some have parameters.
//!
//! The alphabet is small so that patterns collide, nest, differ only in case, and tie.
//! `cargo x campaign policies` goes on with other seeds.

use std::borrow::Cow;
use std::collections::BTreeSet;

use kallisto_campaign::CampaignPart;

use super::naive::{self, Parameters, Rule, Spoken};
use super::{Ask, Dice, set_for};
use crate::acl::Reason;
use crate::{AclSet, Capability, Literal, Path, TemplateSubject, Variable};

const TRIPLES: u64 = 1_000_000;
const PATHS_PER_SET: usize = 32;
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
/// Requests of each path that need `sudo` or have parameters.
const SPECIAL_ASKS: usize = 13;
/// Names and values of parameters in rules, and in requests.
const RULED_NAMES: [&str; 4] = ["a", "B", "c", "*"];
const RULED_VALUES: [&str; 6] = ["x", "xy", "x*", "*y", "*x*", "*"];
const GIVEN_NAMES: [&str; 5] = ["a", "A", "b", "c", "d"];
const GIVEN_VALUES: [&str; 5] = ["x", "xy", "yx", "y", ""];
/// One byte in so many is escaped.
const ESCAPE_STRIDE: usize = 12;
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
    let mut held: BTreeSet<_> = (0..=dice.below(4)).map(|_| dice.choose(&GRANTED).name()).collect();
    if dice.below(3) == 0 {
        held.insert(Capability::Sudo.name());
    }
    held
}

/// What a rule says of parameters: mostly nothing.
fn parameters(dice: &mut Dice) -> Parameters {
    let listed = |dice: &mut Dice| -> Vec<_> {
        let values =
            |dice: &mut Dice| (0..dice.below(3)).map(|_| dice.choose(&RULED_VALUES)).collect();
        let mut listed: Vec<_> =
            (0..=dice.below(2)).map(|_| (dice.choose(&RULED_NAMES), values(dice))).collect();
        listed.sort_unstable();
        // Twice the same name is a mistake in a policy.
        listed.dedup_by_key(|(name, _)| *name);
        listed
    };
    let mut parameters = Parameters::default();
    if dice.below(5) == 0 {
        parameters.allowed = listed(dice);
    }
    if dice.below(8) == 0 {
        parameters.denied = listed(dice);
    }
    if dice.below(8) == 0 {
        parameters.required = vec![dice.choose(&["a", "b"])];
    }
    parameters
}

/// The lines of a policy that say it.
fn fine_print(parameters: &Parameters) -> String {
    let quoted = |texts: &[&str]| {
        let texts: Vec<_> = texts.iter().map(|text| format!("\"{text}\"")).collect();
        format!("[{}]", texts.join(", "))
    };
    let map = |name: &str, listed: &[(&str, Vec<&str>)]| {
        let listed: Vec<_> = listed
            .iter()
            .map(|(name, values)| format!("\"{name}\" = {}", quoted(values)))
            .collect();
        format!(" {name} = {{ {} }}", listed.join(", "))
    };
    let mut text = String::new();
    if !parameters.allowed.is_empty() {
        text += &map("allowed_parameters", &parameters.allowed);
    }
    if !parameters.denied.is_empty() {
        text += &map("denied_parameters", &parameters.denied);
    }
    if !parameters.required.is_empty() {
        text += &format!(" required_parameters = {}", quoted(&parameters.required));
    }
    text
}

/// One of the spellings of a path: some of its bytes are escaped.
fn spelled(path: &str, dice: &mut Dice) -> String {
    let mut spelled = String::with_capacity(path.len() + 8);
    for byte in path.bytes() {
        match dice.below(ESCAPE_STRIDE) {
            0 => spelled += &format!("%{byte:02x}"),
            1 => spelled += &format!("%{byte:02X}"),
            _ if byte == b'%' || !byte.is_ascii() => spelled += &format!("%{byte:02X}"),
            _ => spelled.push(char::from(byte)),
        }
    }
    spelled
}

/// A spelling that may not be taken for the path, nor for any other.
fn foul(path: &str, dice: &mut Dice) -> String {
    let ends = [
        "//", "/.", "/..", "%2f%2f", "/%2e", "/.%2e/", "%00", "\\", "%5c", "%c2%85", "%ff", "%",
        "%2",
    ];
    let body = path.strip_suffix('/').unwrap_or(path);
    match dice.below(4) {
        0 => format!("/{path}"),
        1 => format!("./{path}"),
        _ => format!("{body}{}", dice.choose(&ends)),
    }
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
            let parameters = parameters(dice);
            let list: Vec<String> = capabilities.iter().map(|name| format!("\"{name}\"")).collect();
            text += &format!(
                "path \"{written}\" {{ capabilities = [{}]{} }}\n",
                list.join(", "),
                fine_print(&parameters)
            );
            let is_safe = name.is_some_and(|name| {
                !name.contains(['/', '*', '+']) || capabilities.contains("deny")
            });
            if is_safe || !written.contains(NAME) {
                let pattern = written.replace(NAME, name.unwrap_or_default());
                naive.push(Rule { pattern, capabilities, parameters });
            }
        }
        texts.push(text);
    }
    (texts, naive)
}

/// The rules that speak for a path: for an entry, and for a listing.
struct Speakers([Option<Spoken>; 2]);

impl Speakers {
    fn of(rules: &[Rule], path: &str) -> Self {
        Self([false, true].map(|is_listing| naive::speaker(rules, path, is_listing)))
    }

    fn for_a(&self, capability: Capability) -> Option<&Spoken> {
        self.0[usize::from(is_listing(capability))].as_ref()
    }

    /// Whether the compiled set grants, which has to be what the naive evaluator says.
    fn check(&self, acl: &AclSet, ask: &Ask, given: &[(&str, &str)], texts: &[String]) -> bool {
        let capability = ask.capability;
        let speaks = self.for_a(capability);
        let has_parameters = !is_listing(capability) && capability != Capability::Delete;
        let granted = speaks.is_some_and(|rule| {
            rule.capabilities.contains(capability.name())
                && (!ask.needs_sudo || rule.capabilities.contains(Capability::Sudo.name()))
                && (!has_parameters || rule.takes(given))
        });
        let told = || format!("{ask:?} by {speaks:?}\n{}", texts.join("---\n"));
        assert_eq!(acl.decide(ask).is_ok(), granted, "{}", told());
        granted
    }
}

fn is_listing(capability: Capability) -> bool {
    matches!(capability, Capability::List | Capability::Scan)
}

/// A request for `path` in one of its spellings.
fn ask(path: &str, dice: &mut Dice) -> Ask {
    let asked = Path::decode(&spelled(path, dice)).map(Path::into_owned);
    assert_eq!(asked.as_ref().map(Path::as_str), Ok(path));
    Ask { path: asked.unwrap(), parameters: Some(Vec::new()), ..Ask::new(Capability::Read, path) }
}

fn literals(given: &[(&str, &str)]) -> Vec<(String, Literal)> {
    let literal =
        |(name, value): &(&str, &str)| ((*name).to_owned(), Literal::Text((*value).to_owned()));
    given.iter().map(literal).collect()
}

/// Some parameters of a request, each name once.
fn given(dice: &mut Dice) -> Vec<(&'static str, &'static str)> {
    let mut given: Vec<_> = (0..dice.below(4))
        .map(|_| (dice.choose(&GIVEN_NAMES), dice.choose(&GIVEN_VALUES)))
        .collect();
    given.sort_unstable();
    given.dedup_by_key(|(name, _)| *name);
    given
}

/// The explanation names the rule that speaks, and every rule that lost to it.
fn check_explanation(acl: &AclSet, rules: &[Rule], speakers: &Speakers, ask: &Ask) {
    let path = ask.path.as_str();
    let explanation = acl.explain(ask);
    assert_eq!(explanation.is_granted(), acl.decide(ask).is_ok());
    let speaker = speakers.for_a(ask.capability).map(|rule| rule.pattern.clone());
    let spoke = explanation.decided_by.as_ref().map(|rule| rule.pattern.clone());
    assert_eq!(spoke, speaker, "{path}");
    let mut expected = naive::explained(rules, path, is_listing(ask.capability));
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

/// What was compared.
#[derive(Debug, Default)]
struct Compared {
    triples: u64,
    granted: u64,
    sets: u64,
}

/// Compares this many decisions, drawn from a seed, and a few more.
fn compare(seed: u64, triples: u64) -> Compared {
    let mut dice = Dice(seed);
    let names = [None, Some("a"), Some("A"), Some("a/b"), Some("b")];
    let mut compared = Compared::default();
    while compared.triples < triples {
        let name = dice.choose(&names);
        let (texts, rules) = rules(&mut dice, name);
        let acl = set_for(&texts, &Named(name));
        compared.sets += 1;
        for _ in 0..PATHS_PER_SET {
            let path = path(&mut dice);
            let foul = foul(&path, &mut dice);
            assert!(Path::decode(&foul).is_err(), "{foul}");
            check_capabilities(&acl, &rules, &path);
            let speakers = Speakers::of(&rules, &path);
            let mut ask = ask(&path, &mut dice);
            for capability in GRANTED {
                ask.capability = capability;
                compared.granted += u64::from(speakers.check(&acl, &ask, &[], &texts));
            }
            for _ in 0..SPECIAL_ASKS {
                let given = given(&mut dice);
                ask.capability = dice.choose(&GRANTED);
                ask.needs_sudo = dice.below(2) == 0;
                ask.parameters = Some(literals(&given));
                compared.granted += u64::from(speakers.check(&acl, &ask, &given, &texts));
            }
            compared.triples += (GRANTED.len() + SPECIAL_ASKS) as u64;
            check_explanation(&acl, &rules, &speakers, &ask);
        }
    }
    compared
}

#[test]
fn a_million_decisions_are_those_of_the_naive_evaluator() {
    let compared = compare(SEED, TRIPLES);
    eprintln!("{compared:?}, no difference");
    let Compared { triples, granted, .. } = compared;
    // A generator that grants nothing, or everything, would prove nothing.
    assert!(granted > triples / 50 && granted < triples / 2, "{granted} of {triples}");
}

#[test]
#[ignore = "`cargo x campaign policies` runs it"]
#[expect(clippy::print_stdout, reason = "how far it got is read by whoever started it")]
fn decisions_of_any_seed_are_those_of_the_naive_evaluator() {
    let part = CampaignPart::of_environment().unwrap().expect("a part of a campaign");
    println!("{}", part.run(|seed| compare(seed, TRIPLES / 10).triples));
}
