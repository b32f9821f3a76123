//! `man FOLDER`: the manual pages of every command.
//!
//! They are made from the tree of commands by `clap_mangen`, so they say what `-h` says.

use std::path::PathBuf;

use clap::Args;
use kallisto_command::error::Error;
use kallisto_command::outcome::Outcome;

/// Write the manual pages of all commands into a folder
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto man /usr/local/share/man/man1\n  mkdir man && kallisto man man && man man/kallisto-kv-get.1"
)]
pub struct Man {
    /// The folder, which is there already
    folder: PathBuf,
}

impl Man {
    /// Writes a page for each command.
    ///
    /// # Errors
    /// What could not be written, and where.
    pub fn run(self, commands: clap::Command) -> Result<Outcome, Error> {
        let folder = self.folder;
        // Pages of subcommands are named after all that stands before them.
        let commands = commands.disable_help_subcommand(true);
        clap_mangen::generate_to(commands, &folder)
            .map_err(|error| Error::usage(format!("{}: {error}", folder.display())))?;
        let pages = std::fs::read_dir(&folder).map_or(0, |entries| {
            let is_page = |name: &str| name.starts_with("kallisto") && name.ends_with(".1");
            let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
            names.filter(|name| is_page(name)).count()
        });
        Ok(Outcome::print(format!("{pages} pages in {}\n", folder.display())))
    }
}
