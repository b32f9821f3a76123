//! `delete PATH [K=V...]`: one DELETE; the pairs become the query.

use clap::Args;

use super::pairs::{self, PairInputs};
use kallisto_command::client::{Client, ClientRequest, Method, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// Deletes what is at a path.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto delete auth/userpass/users/ada\n  kallisto delete secret/data/app"
)]
pub(crate) struct Delete {
    /// What to delete
    path: String,
    /// Parts of the query, as KEY=VALUE
    #[arg(value_name = "KEY=VALUE")]
    query: Vec<String>,
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

impl Delete {
    /// Deletes it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let path = url::clean(&self.path)?;
        let query = pairs::parse_strings(&self.query, &mut PairInputs::process())?;
        let request = ClientRequest::new(Method::Delete, &path).with_queries(query).wrappable();
        let client = Client::new(&config)?;
        match client.send(&request).map_err(Error::doing(format!("Error deleting {path}")))? {
            Some(secret) if secret.says_something() || secret.wrap_info.is_some() => {
                output::secret(&secret, &config, self.field.field.as_deref())
            }
            _ => {
                let sentence = format!("Success! Data deleted (if it existed) at: {path}");
                Ok(output::done(&config, &sentence))
            }
        }
    }
}
