//! `operator rotate`: a new data key; what the old ones encrypted stays readable.

use std::time::Duration;

use clap::Args;

use super::{key_status, print};
use crate::progress::Progress;
use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::error::{EXIT_SERVER, Error};
use kallisto_command::flags::CommonFlags;
use kallisto_command::outcome::Outcome;
use kallisto_command::output::OutputFormat;
use kallisto_command::secret::{Secret, as_u64};

/// Between two questions how far it is.
const PAUSE: Duration = Duration::from_millis(200);

/// Encrypts from now on with a new key; old records are re-encrypted in the background.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto operator rotate\n  kallisto operator rotate -wait\n  kallisto operator rotate -format=json"
)]
pub(crate) struct Rotate {
    #[command(flatten)]
    common: CommonFlags,
    /// Wait until old records are re-encrypted too, and show how far that is; it goes on without you
    #[arg(long)]
    wait: bool,
}

impl Rotate {
    /// Rotates it and prints the new key's status.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let request = ClientRequest::new(Method::Put, "sys/rotate");
        client.send(&request).map_err(Error::doing("Error rotating key"))?;
        let damaged = if self.wait { wait(&client)? } else { 0 };
        let mut outcome = key_status::show(&key_status::read(&client)?, &config)?;
        if config.format == OutputFormat::Table {
            outcome.stdout.splice(0..0, *b"Success! Rotated key\n\n");
        }
        if damaged == 0 {
            return Ok(outcome);
        }
        let records = if damaged == 1 { "record is" } else { "records are" };
        let notice = format!(
            "{damaged} {records} damaged and cannot be re-encrypted. The log of the server that leads names them.\n"
        );
        Ok(outcome.with_notice(&notice).with_code(EXIT_SERVER))
    }
}

/// Asks how far the re-encryption is until nothing is left but records that are damaged, and says how many those are. Whoever leads does it, so another
/// leader goes on where the last one was.
fn wait(client: &Client<'_>) -> Result<u64, Error> {
    let doing = "Error reading the progress of the re-encryption";
    let progress = Progress::start();
    let mut total = 0;
    loop {
        let answer = client.send(&ClientRequest::get("sys/rotate/progress"));
        let state = print::object(answer.map_err(Error::doing(doing))?, doing)?;
        let count =
            |name| state.get(name).and_then(as_u64).ok_or_else(|| Error::empty_answer(doing));
        let (left, damaged) = (count("left")?, count("damaged")?);
        if !Secret::flag_of(&state, "running", doing)? && left <= damaged {
            return Ok(damaged);
        }
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        if left > total {
            total = left;
            progress.begin("records under older keys", total);
        }
        progress.reach(total - left);
        std::thread::sleep(PAUSE);
    }
}
