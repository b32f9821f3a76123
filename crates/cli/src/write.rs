//! `write PATH [K=V...]`: one PUT of a JSON object.

use clap::Args;

use super::pairs::{self, PairInputs};
use kallisto_command::client::{Client, ClientRequest, Method, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::json::Json;
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// Writes data to a path.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto write auth/userpass/users/ada password=@password.txt policies=dev\n  echo '{\"max_versions\": 5}' | kallisto write secret/config -\n  kallisto write -f sys/rotate"
)]
pub(crate) struct Write {
    /// Where to write
    path: String,
    /// KEY=VALUE, KEY=@file, KEY=- (stdin); @file or - is a whole JSON object
    #[arg(value_name = "KEY=VALUE", allow_hyphen_values = false)]
    data: Vec<String>,
    /// Write even without data
    #[arg(short = 'f', long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    force: Option<bool>,
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

impl Write {
    /// Writes it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let path = url::clean(&self.path)?;
        let forced = self.force.unwrap_or(false);
        if self.data.is_empty() && !forced {
            return Err(Error::usage("Must supply data or use -force"));
        }
        let request = if self.data.is_empty() {
            ClientRequest::new(Method::Put, &path).with_body(&Json::Null)
        } else {
            ClientRequest::put(&path, pairs::parse(&self.data, &mut PairInputs::process())?)
        };
        let client = Client::new(&config)?;
        let doing = format!("Error writing data to {path}");
        match client.send(&request.wrappable()).map_err(Error::doing(doing))? {
            None => Ok(output::done(&config, &format!("Success! Data written to: {path}"))),
            Some(secret) => output::secret(&secret, &config, self.field.field.as_deref()),
        }
    }
}
