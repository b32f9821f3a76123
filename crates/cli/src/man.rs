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
        let failed = |error| Error::unusable(format!("{}: {error}", folder.display()));
        // Pages of subcommands are named after all that stands before them.
        let mut commands = commands.disable_help_subcommand(true);
        commands.build();
        let mut pages = 0_usize;
        let mut left = vec![commands];
        while let Some(command) = left.pop() {
            left.extend(command.get_subcommands().filter(|next| !next.is_hide_set()).cloned());
            let man = clap_mangen::Man::new(command);
            let mut page = Vec::new();
            man.render(&mut page).map_err(failed)?;
            let page = with_whole_examples(&String::from_utf8_lossy(&page));
            #[expect(clippy::disallowed_methods, reason = "pages are no input")]
            std::fs::write(folder.join(man.get_filename()), page).map_err(failed)?;
            pages += 1;
        }
        Ok(Outcome::print(format!("{pages} pages in {}\n", folder.display())))
    }
}

/// A page whose indented lines are left alone: `man` fills lines, stretches blanks and hyphenates, and an example that is
/// copied would be another command.
fn with_whole_examples(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let mut is_whole = false;
    for line in page.lines() {
        let is_example = line.starts_with("  ");
        if is_example != is_whole {
            text.push_str(if is_example { ".nf\n" } else { ".fi\n" });
            is_whole = is_example;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_not_filled() {
        let page = ".SH EXTRA\nExamples:\n  kallisto a \\-b\n  kallisto c\n\nExit codes: 0\n";
        let wanted =
            ".SH EXTRA\nExamples:\n.nf\n  kallisto a \\-b\n  kallisto c\n.fi\n\nExit codes: 0\n";
        assert_eq!(with_whole_examples(page), wanted);
    }
}
