//! `patch PATH [K=V...]`: one PATCH, merged into what is there.

use clap::Args;

use super::pairs::{self, PairInputs};
use kallisto_command::client::{Client, ClientRequest, Method, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::json::Json;
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

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
        let body = Json::Object(pairs::parse(&self.data, &mut PairInputs::process())?);
        let request = ClientRequest::new(Method::Patch, &path).with_body(&body);
        let client = Client::new(&config)?;
        let doing = format!("Error patching data at {path}");
        match client.send(&request.wrappable()).map_err(Error::doing(doing))? {
            None => Ok(output::done(&config, &format!("Success! Data patched at: {path}"))),
            Some(secret) => output::secret(&secret, &config, self.field.field.as_deref()),
        }
    }
}
