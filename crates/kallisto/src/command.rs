//! What `kallisto` can be asked to do: one variant of [`Command`] per verb.
//!
//! clap reads the arguments into [`Command`]; [`run`] gives each to its file. The client verbs are
//! in [`crate::cli`]. A verb with a process of its own (`server`) is one more variant and one more
//! arm, and knows nothing of the client.
//!
//! Mistakes in the call exit with 1, not with clap's 2, because 2 means that the server refused;
//! an unknown verb exits with 127, as an unknown program does.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use crate::cli::config::{Environment, SETTINGS, colours_wanted};
use crate::cli::error::{EXIT_USAGE, Error};
use crate::cli::outcome::Outcome;
use crate::cli::{self, args};

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
    Server(crate::server::ServerArgs),
    Bench(crate::bench::BenchArgs),
    /// Drive the storage engine by itself
    #[command(subcommand, arg_required_else_help = true)]
    Engine(crate::engine::EngineCommand),
    Exec(crate::exec::ExecArgs),
    /// Store, read and version secrets
    #[command(subcommand, arg_required_else_help = true)]
    Kv(cli::kv::Kv),
    /// Read data and secrets at a path
    Read(cli::read::Read),
    /// Write data, configuration and secrets at a path
    Write(cli::write::Write),
    /// Delete what is at a path
    Delete(cli::delete::Delete),
    /// List what is below a path
    List(cli::list::List),
    /// List everything below a path
    Scan(cli::scan::Scan),
    /// Change some fields of what is at a path
    Patch(cli::patch::Patch),
    /// Print what a path is for
    PathHelp(cli::path_help::PathHelp),
    /// Print whether the server is sealed, and who leads
    Status(cli::status::Status),
    /// Run a server: its keys, its seal, its storage
    #[command(subcommand, arg_required_else_help = true)]
    Operator(cli::operator::Operator),
    /// Log in and keep the token for later commands
    Login(cli::login::Login),
    /// Enable audit devices, and check what they wrote
    #[command(subcommand, arg_required_else_help = true)]
    Audit(cli::audit::Audit),
    /// Mount and unmount login methods
    #[command(subcommand, arg_required_else_help = true)]
    Auth(cli::auth::Auth),
    /// Make and delete namespaces
    #[command(subcommand, arg_required_else_help = true)]
    Namespace(cli::namespace::Namespace),
    /// Write, read and list policies
    #[command(subcommand, arg_required_else_help = true)]
    Policy(cli::policy::Policy),
    /// Mount and unmount secrets engines
    #[command(subcommand, arg_required_else_help = true)]
    Secrets(cli::secrets::Secrets),
    /// Make tokens, ask about them, and end them
    #[command(subcommand, arg_required_else_help = true)]
    Token(cli::token::Token),
    /// Take a wrapped answer out of its single-use token
    Unwrap(cli::unwrap::Unwrap),
    /// Ask about leases, renew them, and end them
    #[command(subcommand, arg_required_else_help = true)]
    Lease(cli::lease::Lease),
    /// Print the engines that a server has
    #[command(subcommand, arg_required_else_help = true)]
    Plugin(cli::plugin::Plugin),
    /// Follow the log of a server
    Monitor(cli::monitor::Monitor),
    /// Print the versions that served the server's storage
    VersionHistory(cli::version_history::VersionHistory),
    /// Print what a shell needs to complete commands
    Completion(cli::completion::Completion),
    /// Print what commands will use
    #[command(subcommand, arg_required_else_help = true)]
    Print(cli::print::Print),
    /// Print the version
    Version,
}

/// Reads the arguments and does what they say.
pub(crate) fn run(arguments: Vec<OsString>) -> Outcome {
    let arguments = args::normalise(arguments);
    let colour = colours_wanted(&arguments, &Environment::process());
    let verb = arguments.get(1).and_then(|word| word.to_str()).unwrap_or_default().to_owned();
    let mut outcome = match Cli::try_parse_from(arguments) {
        Ok(Cli { version: true, .. } | Cli { command: Some(Command::Version), .. }) => {
            cli::version::run()
        }
        Ok(Cli { autocomplete_install: true, .. }) => {
            cli::completion::install().unwrap_or_else(Outcome::from)
        }
        Ok(Cli { autocomplete_uninstall: true, .. }) => {
            cli::completion::uninstall().unwrap_or_else(Outcome::from)
        }
        Ok(Cli { command: Some(command), .. }) => dispatch(command).unwrap_or_else(Outcome::from),
        Ok(Cli { command: None, .. }) => Outcome::default().with_code(EXIT_USAGE),
        Err(error) => refusal(&error, &verb),
    };
    outcome.colour = colour;
    outcome
}

fn dispatch(command: Command) -> Result<Outcome, Error> {
    match command {
        Command::Server(server) => server.run(),
        Command::Bench(bench) => bench.run(),
        Command::Engine(engine) => engine.run(),
        Command::Exec(exec) => exec.run(),
        Command::Kv(kv) => kv.run(),
        Command::Read(read) => read.run(),
        Command::Write(write) => write.run(),
        Command::Delete(delete) => delete.run(),
        Command::List(list) => list.run(),
        Command::Scan(scan) => scan.run(),
        Command::Patch(patch) => patch.run(),
        Command::PathHelp(path_help) => path_help.run(),
        Command::Status(status) => status.run(),
        Command::Operator(operator) => operator.run(),
        Command::Login(login) => login.run(),
        Command::Audit(audit) => audit.run(),
        Command::Auth(auth) => auth.run(),
        Command::Namespace(namespace) => namespace.run(),
        Command::Policy(policy) => policy.run(),
        Command::Secrets(secrets) => secrets.run(),
        Command::Token(token) => token.run(),
        Command::Unwrap(unwrap) => unwrap.run(),
        Command::Lease(lease) => lease.run(),
        Command::Plugin(plugin) => plugin.run(),
        Command::Monitor(monitor) => monitor.run(),
        Command::VersionHistory(history) => history.run(),
        Command::Completion(completion) => Ok(completion.run(Cli::command())),
        Command::Print(print) => print.run(),
        Command::Version => Ok(cli::version::run()),
    }
}

/// Help that was asked for goes to stdout and is a success; everything else is a mistake.
fn refusal(error: &clap::Error, verb: &str) -> Outcome {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp => Outcome::print(text),
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
    fn help_goes_to_stdout() {
        let outcome = run_line("kv -h");
        assert!(outcome.stderr.is_empty());
        assert!(String::from_utf8_lossy(&outcome.stdout).contains("rollback"));
    }
}
