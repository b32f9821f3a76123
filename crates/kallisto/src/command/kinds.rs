//! What the command line says about engines and login methods, held against the lists of them: `cli` does not know them.

use clap::CommandFactory;

use super::Cli;

/// Another name of an engine, which Vault had before: served, and not offered.
const FORMER_NAMES: [&str; 1] = ["openldap"];

/// The names in the help of `VERB enable`.
fn offered(verb: &str) -> Vec<String> {
    let root = Cli::command();
    let enable = root.find_subcommand(verb).and_then(|verb| verb.find_subcommand("enable"));
    let kind = enable.unwrap().get_arguments().find(|arg| arg.get_id() == "kind");
    let help = kind.and_then(|kind| kind.get_help()).unwrap().to_string();
    help.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_owned).collect()
}

fn assert_offers(verb: &str, names: impl Iterator<Item = &'static str>) {
    let offered = offered(verb);
    for name in names.filter(|name| !FORMER_NAMES.contains(name)) {
        let is_offered = offered.iter().any(|one| one == name);
        assert!(is_offered, "the help of {verb} enable does not name {name}");
    }
}

#[test]
fn the_help_of_enable_names_every_engine_and_login_method() {
    // What the server itself mounts is not enabled by anybody.
    let engines = kallisto_engines::ENGINES.iter().filter(|spec| spec.builtin.is_none());
    assert_offers("secrets", engines.map(|spec| spec.name));
    assert_offers("auth", kallisto_auth_methods::METHODS.iter().map(|spec| spec.name));
}
