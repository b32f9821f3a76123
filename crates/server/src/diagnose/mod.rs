//! `operator diagnose` and `operator validate-config`: what a server would meet if it were started.
//!
//! Nothing is started: the configuration is read as `server` reads it, and then each thing that a
//! start needs is tried by itself and let go of again, so that all that is wrong is told at once and
//! not one thing at a time. [`mod@checks`] tries, [`report`] holds what came of it and prints it.
//!
//! With `-address`, `diagnose` asks a server that runs instead ([`running`]).
//!
//! Exit codes, as OpenBao's: 0 all is well, 1 something would keep the server from starting or
//! serving, 2 something is doubtful, 3 neither a configuration nor an address is named, 4 the configuration cannot be read.

mod certificate;

pub(crate) use certificate::ends;

mod checks;
mod report;
mod running;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kallisto_listener::{SystemClock, WallClock};

use super::arguments::ServerArgs;
use super::build_settings::without_effect;
use super::config;
use checks::SkippedCheck;
use kallisto_command::config::Environment;
use kallisto_command::error::Error;
use kallisto_command::flags::ConnectionFlags;
use kallisto_command::outcome::Outcome;
use report::{DiagnoseCheck, ReportForm};

/// Exit code when no configuration is named.
const EXIT_NO_CONFIG: u8 = 3;
/// Exit code when it cannot be read, and nothing else was tried.
const EXIT_BAD_CONFIG: u8 = 4;

/// Which configuration, and how to tell of it.
#[derive(Args, Debug)]
struct DiagnoseArgs {
    /// Configuration file, or directory of .hcl and .json files; may be repeated
    #[arg(long, value_name = "PATH")]
    config: Vec<PathBuf>,
    /// How to print what was found
    #[arg(long, value_name = "FORM", value_enum, default_value_t = ReportForm::Table)]
    format: ReportForm,
}

/// Find out what would keep a server from starting, or what is wrong with one that runs
///
/// With -config: reads the configuration as `server` does, and tries files, sockets, certificates,
/// storage and seal one by one. Run it as the user and with the environment of the server.
///
/// With -address: asks the server there for its health, seal, leader, members, autopilot and jobs.
/// What the token may not read is left out.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    kallisto operator diagnose -config=/etc/kallisto/server.hcl\n  \
    kallisto operator diagnose -config=/etc/kallisto/server.hcl -skip=listener -skip=storage\n  \
    kallisto operator diagnose -address=https://127.0.0.1:8200\n\n\
    While the server runs its addresses and its storage are taken: skip them.\n\n\
    Exit codes: 0 all is well, 1 it would not start or does not serve, 2 something is doubtful, \
    3 neither a configuration nor an address is named, 4 the configuration cannot be read")]
pub struct Diagnose {
    #[command(flatten)]
    asked: DiagnoseArgs,
    /// What not to try of a configuration; may be repeated
    #[arg(long, value_name = "CHECK", value_enum, conflicts_with = "address")]
    skip: Vec<Skip>,
    #[command(flatten)]
    connection: ConnectionFlags,
}

/// What can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Skip {
    Listener,
    Storage,
    Autounseal,
}

/// Read a configuration and say what is wrong with it
///
/// Touches nothing but the files of the configuration itself, so that it may be asked on another
/// machine than the server's.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    kallisto operator validate-config -config=/etc/kallisto/server.hcl\n\n\
    Exit codes: 0 it is good, 1 a server would not take it, 2 some of it has no effect, \
    3 no configuration is named")]
pub struct ValidateConfig {
    #[command(flatten)]
    asked: DiagnoseArgs,
}

impl Diagnose {
    /// Tries everything, and prints what came of it.
    ///
    /// # Errors
    /// What was wrong with the call.
    pub fn run(self) -> Result<Outcome, Error> {
        let DiagnoseArgs { config, format } = self.asked;
        let now = SystemClock.now();
        match (self.connection.address.is_some(), config.is_empty()) {
            (true, true) => {
                let all = running::diagnose(self.connection, now)?;
                return Ok(format.print(&all, now).with_code(all.status().exit_code()));
            }
            (true, false) => return Err(Error::usage("say -config or -address, not both")),
            (false, true) => return Ok(no_config("-config, or a server using -address")),
            (false, false) => {}
        }
        let parse = "Parse Configuration";
        let settings = ServerArgs::of_config(config).build_settings(&Environment::process());
        let settings = match settings {
            Ok(settings) => settings,
            Err(error) => {
                let all = DiagnoseCheck::of(
                    "Kallisto Diagnose",
                    vec![DiagnoseCheck::failed(parse, &error.to_string())],
                );
                return Ok(format.print(&all, now).with_code(EXIT_BAD_CONFIG));
            }
        };
        let skips =
            |what| if self.skip.contains(&what) { SkippedCheck::Yes } else { SkippedCheck::No };
        let all = DiagnoseCheck::of(
            "Kallisto Diagnose",
            vec![
                checks::operating_system(&settings),
                DiagnoseCheck::warned(parse, settings.warnings.clone()),
                checks::exposed_files(&settings),
                checks::storage(&settings, skips(Skip::Storage)),
                checks::seal(&settings, skips(Skip::Autounseal)),
                checks::listeners(&settings, now, skips(Skip::Listener)),
                checks::files(&settings),
                checks::tracing(&settings, now),
                checks::audit(&settings),
            ],
        );
        Ok(format.print(&all, now).with_code(all.status().exit_code()))
    }
}

impl ValidateConfig {
    /// Reads it, and prints what is wrong.
    ///
    /// # Errors
    /// What was wrong with the call.
    pub fn run(self) -> Result<Outcome, Error> {
        let DiagnoseArgs { config, format } = self.asked;
        if config.is_empty() {
            return Ok(no_config("-config"));
        }
        let name = "Validate Config";
        let check = match config::load(&config, &Environment::process(), config::Of::Server) {
            Ok(loaded) => {
                let mut warnings = loaded.warnings;
                warnings.extend(without_effect(&loaded.config));
                DiagnoseCheck::warned(name, warnings)
            }
            Err(problems) => DiagnoseCheck::failed(name, &problems.to_string()),
        };
        Ok(format.print(&check, SystemClock.now()).with_code(check.status().exit_code()))
    }
}

fn no_config(using: &str) -> Outcome {
    let text = format!("Must specify a configuration file using {using}.\n");
    Outcome::default().with_notice(&text).with_code(EXIT_NO_CONFIG)
}
