//! What `kallisto` can be asked to do: one variant of [`Command`] per verb.
//!
//! clap reads the arguments into [`Command`]; [`run`] gives each to its file. The client verbs are
//! in `kallisto-cli`. A verb with a process of its own (`server`) is one more variant and one more
//! arm, and knows nothing of the client.
//!
//! Mistakes in the call exit with 1, not with clap's 2, because 2 means that the server refused;
//! an unknown verb exits with 127, as an unknown program does.

use std::any::TypeId;
use std::ffi::OsString;
use std::io::IsTerminal;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};

use kallisto_cli::{completion, version};
use kallisto_command::config::{Environment, SETTINGS, colours_wanted};
use kallisto_command::error::{EXIT_USAGE, Error};
use kallisto_command::flags;
use kallisto_command::outcome::Outcome;
use kallisto_core::EngineSet;

use crate::args;

#[cfg(test)]
mod kinds;
#[cfg(test)]
mod reference;

/// Exit code of an unknown verb.
const EXIT_NO_COMMAND: u8 = 127;

/// A secrets manager that speaks Vault's API.
#[derive(Parser, Debug)]
#[command(
    name = "kallisto",
    bin_name = "kallisto",
    disable_version_flag = true,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = environment_help()
)]
struct Cli {
    /// Print the version
    #[arg(short = 'v', long)]
    version: bool,
    /// Complete commands in the shells of this user from now on
    #[arg(long)]
    autocomplete_install: bool,
    /// Complete them no more
    #[arg(long)]
    autocomplete_uninstall: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The verbs.
#[derive(Subcommand, Debug)]
enum Command {
    Server(kallisto_server::ServerArgs),
    Bench(kallisto_loadgen::BenchArgs),
    /// Drive the storage engine by itself
    #[command(subcommand, arg_required_else_help = true)]
    Engine(kallisto_offline::EngineCommand),
    Exec(kallisto_offline::ExecArgs),
    #[command(flatten)]
    Client(kallisto_cli::ClientCommand),
    /// Run a server: its keys, its seal, its storage
    #[command(subcommand, arg_required_else_help = true)]
    Operator(Operator),
    /// Print what a shell needs to complete commands
    Completion(kallisto_cli::completion::Completion),
    Man(kallisto_cli::man::Man),
    /// Print the version
    Version,
}

/// The verbs of `operator`.
#[derive(Subcommand, Debug)]
enum Operator {
    #[command(flatten)]
    Client(kallisto_cli::OperatorCommand),
    /// Work with the replicated storage
    #[command(subcommand, arg_required_else_help = true)]
    Raft(Raft),
    Diagnose(Box<kallisto_server::Diagnose>),
    ValidateConfig(kallisto_server::ValidateConfig),
    Migrate(Box<kallisto_server::Migrate>),
    MakeCertificate(kallisto_server::MakeCertificate),
}

impl Operator {
    fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::Client(command) => command.run(),
            Self::Raft(Raft::Client(command)) => command.run(),
            Self::Raft(Raft::Snapshot(snapshot)) => match snapshot {
                Snapshot::Client(command) => command.run(),
                Snapshot::Inspect(inspect) => inspect.run(),
                Snapshot::Verify(verify) => verify.run(),
            },
            Self::Diagnose(diagnose) => diagnose.run(),
            Self::ValidateConfig(validate) => validate.run(),
            Self::Migrate(migrate) => migrate.run(),
            Self::MakeCertificate(make) => make.run(),
        }
    }
}

/// The verbs of `operator raft`.
#[derive(Subcommand, Debug)]
enum Raft {
    #[command(flatten)]
    Client(kallisto_cli::RaftCommand),
    /// Save everything to a file, read one, or put one in the place of everything
    #[command(subcommand, arg_required_else_help = true)]
    Snapshot(Snapshot),
}

/// The verbs of `operator raft snapshot`.
#[derive(Subcommand, Debug)]
enum Snapshot {
    #[command(flatten)]
    Client(kallisto_cli::SnapshotCommand),
    Inspect(kallisto_offline::Inspect),
    Verify(kallisto_offline::Verify),
}

/// The engines and login methods of this binary: the core and all below know them by their contract alone.
const ENGINES: EngineSet = EngineSet {
    engines: &[kallisto_engines::ENGINES, kallisto_auth_methods::METHODS],
    identity_oidc: &kallisto_engines::IDENTITY_OIDC,
};

/// Reads the arguments and does what they say.
pub(crate) fn run(arguments: Vec<OsString>) -> Outcome {
    kallisto_core::set_engines(ENGINES);
    let arguments = help_as_a_verb(args::normalise(arguments));
    let colour = colours_wanted(&arguments, &Environment::process());
    let verb = arguments.get(1).and_then(|word| word.to_str()).unwrap_or_default().to_owned();
    let mut outcome = match parse(arguments) {
        Ok(Cli { version: true, .. } | Cli { command: Some(Command::Version), .. }) => {
            version::run()
        }
        Ok(Cli { autocomplete_install: true, .. }) => {
            completion::install().unwrap_or_else(Outcome::from)
        }
        Ok(Cli { autocomplete_uninstall: true, .. }) => {
            completion::uninstall().unwrap_or_else(Outcome::from)
        }
        Ok(Cli { command: Some(command), .. }) => dispatch(command).unwrap_or_else(Outcome::from),
        Ok(Cli { command: None, .. }) => Outcome::default().with_code(EXIT_USAGE),
        Err(error) if error.kind() == ErrorKind::DisplayHelp => Outcome::print(match colour {
            // Bold headings, where a person looks at them.
            true if std::io::stdout().is_terminal() => whole(error.render().ansi().to_string()),
            _ => whole(error.render().to_string()),
        }),
        Err(error) => refusal(&error, &verb),
    };
    outcome.colour = colour;
    outcome
}

/// Reads the arguments as Vault's command line does: of a flag that is given twice the last one counts, and a switch may be
/// told its value.
fn parse(arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    let command = with_values_of_switches(Cli::command().args_override_self(true));
    let command = with_whole_examples(command);
    let mut matches = command.try_get_matches_from(arguments)?;
    Cli::from_arg_matches_mut(&mut matches)
}

/// The same commands, whose switches also take `=true` and `=false` and what else Go reads as these.
fn with_values_of_switches(command: clap::Command) -> clap::Command {
    command.mut_args(switch_with_value).mut_subcommands(with_values_of_switches)
}

fn switch_with_value(arg: Arg) -> Arg {
    let is_set = matches!(arg.get_action(), ArgAction::SetTrue);
    if !is_set && arg.get_value_parser().type_id() != TypeId::of::<bool>() {
        return arg;
    }
    let arg = arg.value_parser(flags::parse_switch);
    if !is_set {
        return arg;
    }
    arg.action(ArgAction::Set)
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .default_value("false")
        .hide_default_value(true)
        .value_name("BOOL")
}

/// Stands for a blank in a line of examples until the help is rendered: clap breaks lines at blanks, and half of a command
/// is another command when it is copied (a dry run without `-dry-run`). A terminal folds a long line without breaking it.
const HARD_BLANK: &str = "\u{a0}";

/// The same commands, in whose help the lines of examples stay whole however narrow the terminal is.
fn with_whole_examples(command: clap::Command) -> clap::Command {
    let text = command.get_after_help().map(ToString::to_string);
    let command = command.mut_subcommands(with_whole_examples);
    let Some(text) = text else { return command };
    let lines = text.split('\n').map(|line| match line.starts_with("  ") {
        true => line.replace(' ', HARD_BLANK),
        false => line.to_owned(),
    });
    command.after_help(lines.collect::<Vec<_>>().join("\n"))
}

/// Rendered help with the blanks of its examples.
fn whole(help: String) -> String {
    help.replace(HARD_BLANK, " ")
}

/// `help kv get` is `kv get --help`, as in many other programs.
fn help_as_a_verb(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|word| word == "help") {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    arguments
}

fn dispatch(command: Command) -> Result<Outcome, Error> {
    match command {
        Command::Server(server) => server.run(),
        Command::Bench(bench) => bench.run(),
        Command::Engine(engine) => engine.run(),
        Command::Exec(exec) => exec.run(),
        Command::Client(command) => command.run(),
        Command::Operator(operator) => operator.run(),
        Command::Completion(completion) => Ok(completion.run(Cli::command())),
        Command::Man(man) => man.run(Cli::command()),
        Command::Version => Ok(version::run()),
    }
}

/// A call that makes no sense. Help that was asked for is none: it goes to stdout and is a success.
fn refusal(error: &clap::Error, verb: &str) -> Outcome {
    let text = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => whole(error.render().to_string()),
        _ => error.render().to_string(),
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand if Cli::command().find_subcommand(verb).is_none() => {
            Outcome::default().with_notice(&text).with_code(EXIT_NO_COMMAND)
        }
        _ => Outcome::default().with_notice(&text).with_code(EXIT_USAGE),
    }
}

/// The table of settings, from the one that is read.
fn environment_help() -> String {
    let mut text = String::from(
        "Examples:\n  kallisto status\n  kallisto login -method=userpass username=ada\n  \
         kallisto kv put -mount=secret app/db password=@password.txt\n  \
         kallisto kv get -mount=secret -field=password app/db\n\n\
         Environment (KALLISTO_<NAME> wins over BAO_<NAME>, that over VAULT_<NAME>, a flag over all):\n",
    );
    for (name, meaning) in SETTINGS {
        text.push_str(&format!("  VAULT_{name:<18} {meaning}\n"));
    }
    text.push_str(
        "\nExit codes: 0 done, 1 a mistake in the call, 2 the server refused or was not reached\n\
         (status: 0 unsealed, 2 sealed, 1 error)",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_line(line: &str) -> Outcome {
        let words = std::iter::once("kallisto").chain(line.split_whitespace());
        run(words.map(OsString::from).collect())
    }

    #[test]
    fn the_tree_of_commands_is_sound() {
        Cli::command().debug_assert();
        with_values_of_switches(Cli::command().args_override_self(true)).debug_assert();
    }

    #[test]
    fn flags_are_written_as_for_vaults_command_line() {
        for (line, wanted) in [
            ("token create -orphan=true", "auth/token/create-orphan\""),
            ("token create -orphan=1", "auth/token/create-orphan\""),
            ("token create -orphan=F", "auth/token/create\""),
            ("token create --orphan", "auth/token/create-orphan\""),
            ("token create -renewable=0", "\"renewable\":false"),
            ("token renew -i=1h", "\"increment\":\"1h\""),
            ("token renew -i 1h", "\"increment\":\"1h\""),
            ("token renew --i=1h", "\"increment\":\"1h\""),
            ("write -f=true sys/rotate", "/v1/sys/rotate"),
            ("lease revoke -prefix=true -f=true a/b", "sys/leases/revoke-force/a/b"),
            ("secrets tune -default-lease-ttl=-1 kv", "\"default_lease_ttl\":\"system\""),
            ("secrets tune -max-lease-ttl -1 kv", "\"max_lease_ttl\":\"system\""),
            ("token revoke -mode=path auth/corp/", "/v1/sys/leases/revoke-prefix/auth/corp\""),
            ("operator rekey -init -n=1 -t=1", "\"secret_shares\":1"),
            ("auth tune -user-lockout-disable corp/", "mounts/auth/corp/tune"),
            ("list -limit=1 -limit=2 a", "limit=2"),
            ("token create -ttl=1h -ttl=2h", "\"ttl\":\"2h\""),
            ("token create -policy=a -policy=b", "[\"a\",\"b\"]"),
            ("read -output-curl-string=true a", "/v1/a"),
        ] {
            let outcome = run_line(&format!("{line} -output-curl-string -address=http://h:1"));
            let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
            assert!(text.contains(wanted), "{line}: {text}");
            assert_eq!(outcome.code, 0, "{line}");
        }
        for line in [
            "token create -orphan=maybe",
            "token create -orphan=",
            "token revoke -mode=x a",
            "kv get -n=1 a",
        ] {
            assert_eq!(run_line(line).code, 1, "{line}");
        }
    }

    #[test]
    fn every_command_explains_itself() {
        fn visit(command: &clap::Command) {
            let name = command.get_name().to_owned();
            assert!(command.get_about().is_some(), "{name} says nothing about itself");
            for argument in command.get_arguments() {
                let id = argument.get_id();
                assert!(argument.get_help().is_some() || id == "help", "{name} {id} has no help");
            }
            let leaf = !command.has_subcommands() && name != "version";
            assert!(!leaf || command.get_after_help().is_some(), "{name} has no example");
            command.get_subcommands().for_each(visit);
        }
        visit(&Cli::command());
    }

    #[test]
    fn mistakes_exit_with_one_and_unknown_verbs_with_127() {
        for (line, code) in [
            ("-h", 0),
            ("kv get -h", 0),
            ("help", 0),
            ("help kv", 0),
            ("help kv get", 0),
            ("help bogus", 127),
            ("kv put -h", 0),
            ("-version", 0),
            ("--version", 0),
            ("-v", 0),
            ("version", 0),
            ("kv", 1),
            ("kv bogus", 1),
            ("kv metadata", 1),
            ("kv get", 1),
            ("kv get -field=x a b", 1),
            ("kv move a", 1),
            ("kv delete -recursive -versions=1", 1),
            ("kv get -bogus a", 1),
            ("kv put -cas=x a b=c", 1),
            ("status extra", 1),
            ("print", 1),
            ("bogus", 127),
        ] {
            assert_eq!(run_line(line).code, code, "{line}");
        }
    }

    #[test]
    fn typos_get_a_suggestion() {
        let text = |line: &str| String::from_utf8_lossy(&run_line(line).stderr).into_owned();
        assert!(text("kv gett x").contains("get"), "{}", text("kv gett x"));
        assert!(text("staus").contains("status"), "{}", text("staus"));
        assert!(text("kv get -feild=x a").contains("--field"), "{}", text("kv get -feild=x a"));
    }

    #[test]
    fn examples_are_shown_whole_however_narrow_the_terminal_is() {
        fn visit(command: &clap::Command, path: &str, width: usize) {
            let wanted = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let shown = command.clone().disable_help_subcommand(true).term_width(width);
            let mut shown = with_whole_examples(shown);
            let shown = whole(shown.render_help().to_string());
            for line in wanted.lines().filter(|line| line.starts_with("  ")) {
                let whole = shown.lines().any(|shown| shown.trim_end() == line.trim_end());
                assert!(whole, "{path}, {width} columns: {line}\n{shown}");
            }
            for next in command.get_subcommands() {
                visit(next, &format!("{path} {}", next.get_name()), width);
            }
        }
        visit(&Cli::command(), "kallisto", 80);
        visit(&Cli::command(), "kallisto", 20);
        let text = |line: &str| {
            let outcome = run_line(line);
            String::from_utf8([&*outcome.stdout, &*outcome.stderr].concat()).unwrap()
        };
        for line in ["migrate -h", "engine", "-h"] {
            assert!(!text(line).contains(HARD_BLANK), "{line}");
        }
    }

    #[test]
    fn help_goes_to_stdout() {
        let outcome = run_line("kv -h");
        assert!(outcome.stderr.is_empty());
        assert!(String::from_utf8_lossy(&outcome.stdout).contains("rollback"));
    }
}
