//! What the command line and the page say about engines and login methods, held against the lists of them, which neither knows.

use std::collections::BTreeSet;

use clap::CommandFactory;

use super::Cli;

/// Another name of an engine, which Vault had before: served, and not offered.
const FORMER_NAMES: [&str; 1] = ["openldap"];

/// The names in the help of an argument of `VERB...`.
fn offered(verbs: &[&str], argument: &str) -> Vec<String> {
    let root = Cli::command();
    let command = verbs.iter().try_fold(&root, |command, verb| command.find_subcommand(verb));
    let argument = command.unwrap().get_arguments().find(|arg| arg.get_id() == argument);
    let help = argument.and_then(|argument| argument.get_help()).unwrap().to_string();
    help.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_owned).collect()
}

fn assert_offers(verbs: &[&str], argument: &str, names: impl Iterator<Item = &'static str>) {
    let offered = offered(verbs, argument);
    for name in names.filter(|name| !FORMER_NAMES.contains(name)) {
        let is_offered = offered.iter().any(|one| one == name);
        assert!(is_offered, "the help of {} does not name {name}", verbs.join(" "));
    }
}

#[test]
fn the_help_of_enable_names_every_engine_and_login_method() {
    // What the server itself mounts is not enabled by anybody.
    let engines = kallisto_engines::ENGINES.iter().filter(|spec| spec.builtin.is_none());
    assert_offers(&["secrets", "enable"], "kind", engines.map(|spec| spec.name));
    let methods = kallisto_auth_methods::METHODS.iter();
    assert_offers(&["auth", "enable"], "kind", methods.map(|spec| spec.name));
}

/// Those of the help are all that `cli` knows: a test there compares them.
#[test]
fn the_help_of_login_names_every_login_method() {
    let methods = kallisto_auth_methods::METHODS.iter();
    assert_offers(&["login"], "method", methods.map(|spec| spec.name));
}

/// The names in the table `KINDS` of a file of the page.
fn kinds_of_page(source: &str) -> BTreeSet<&str> {
    let rows = source.split_once("const KINDS = [\n").unwrap().1.split_once("\n]").unwrap().0;
    rows.lines().filter_map(|row| row.trim().strip_prefix("['")?.split('\'').next()).collect()
}

#[test]
fn the_page_knows_every_login_method_and_no_others() {
    let mut known = kinds_of_page(include_str!("../../../../ui/src/lib/logins.ts"));
    assert!(known.remove("token"), "it is no method");
    let methods = kallisto_auth_methods::METHODS.iter();
    assert_eq!(known, methods.map(|spec| spec.name).collect());
}

#[test]
fn the_page_offers_every_engine_that_can_be_mounted_and_no_others() {
    let offered = kinds_of_page(include_str!("../../../../ui/src/screens/settings/mounts.tsx"));
    // The server's own engine of secrets is in no list of engines.
    let mut engines = BTreeSet::from(["kv"]);
    engines.extend(
        kallisto_engines::ENGINES
            .iter()
            .filter(|spec| spec.builtin.is_none())
            .map(|spec| spec.name),
    );
    engines.retain(|name| !FORMER_NAMES.contains(name));
    assert_eq!(offered, engines);
}

#[test]
fn the_api_is_described_of_every_engine_that_can_be_mounted() {
    let pages = include_str!("../../../../docs/api/engines.md");
    let engines = kallisto_engines::ENGINES.iter().filter(|spec| spec.builtin.is_none());
    for name in engines.map(|spec| spec.name).filter(|name| !FORMER_NAMES.contains(name)) {
        let mounted = format!(r#"{{"type":"{name}"}}"#);
        assert!(pages.contains(&mounted), "docs/api/engines.md does not say how {name} is mounted");
    }
}
