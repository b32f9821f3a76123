//! `patch PATH [K=V...]`: one PATCH, merged into what is there.

use clap::Args;

use super::client::{Client, Method, Request, url};
use super::config::Config;
use super::error::Error;
use super::flags::{CommonFlags, FieldFlag};
use super::json::Json;
use super::outcome::Outcome;
use super::output;
use super::pairs::{self, Inputs};

/// Changes some fields of what is at a path.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto patch secret/metadata/app max_versions=3\n  echo '{\"data\": {\"user\": \"ada\"}}' | kallisto patch secret/data/app -"
)]
pub(crate) struct Patch {
    /// Where to change something
    path: String,
    /// KEY=VALUE, KEY=@file, KEY=- (stdin); @file or - is a whole JSON object
    #[arg(value_name = "KEY=VALUE", required = true)]
    data: Vec<String>,
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

impl Patch {
    /// Changes it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let path = url::clean(&self.path)?;
        let body = Json::Object(pairs::parse(&self.data, &mut Inputs::process())?);
        let request = Request::new(Method::Patch, &path).with_body(&body);
        let client = Client::new(&config)?;
        let doing = format!("Error patching data at {path}");
        match client.send(&request).map_err(Error::doing(doing))? {
            None => Ok(output::done(&config, &format!("Success! Data patched at: {path}"))),
            Some(secret) => output::secret(&secret, &config, self.field.field.as_deref()),
        }
    }
}
