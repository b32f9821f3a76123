//! `scan PATH`: the keys below a path, those in its folders too.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// Lists everything below a path.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto scan secret/metadata/app\n  kallisto scan -format=json secret/metadata"
)]
pub(crate) struct Scan {
    /// Where to list
    path: String,
    #[command(flatten)]
    common: CommonFlags,
}

impl Scan {
    /// Lists it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let path = url::clean(&self.path)?;
        let client = Client::new(&config)?;
        let doing = format!("Error scanning {path}");
        let request = ClientRequest::scan(&path).wrappable();
        output::listed(client.send(&request), &doing, &config, &path)
    }
}
