//! `scan PATH`: the keys below a path, those in its folders too.

use clap::Args;

use super::client::{Client, Request, url};
use super::config::Config;
use super::error::Error;
use super::flags::CommonFlags;
use super::outcome::Outcome;
use super::output;

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
        match client.send(&Request::scan(&path)).map_err(Error::doing(doing))? {
            Some(secret) => output::list(&secret, &config, &path),
            None => output::no_list(&config, &path),
        }
    }
}
