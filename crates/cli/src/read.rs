//! `read PATH [K=V...]`: one GET; the pairs become the query.

use clap::Args;

use super::pairs::{self, PairInputs};
use kallisto_command::client::{Client, ClientRequest, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{self, OutputFormat};

/// Reads what is at a path.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto read secret/data/app\n  kallisto read -format=json sys/mounts\n  kallisto read secret/data/app version=3"
)]
pub(crate) struct Read {
    /// Where to read, e.g. secret/data/app
    path: String,
    /// Parts of the query, as KEY=VALUE
    #[arg(value_name = "KEY=VALUE")]
    query: Vec<String>,
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

impl Read {
    /// Reads it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load_raw(&self.common)?;
        let path = url::clean(&self.path)?;
        let query = pairs::parse_strings(&self.query, &mut PairInputs::process())?;
        let request = ClientRequest::get(&path).with_queries(query).wrappable();
        let client = Client::new(&config)?;
        if config.format == OutputFormat::Raw {
            let doing = format!("Error reading: {path}");
            let mut body = client.send_raw(&request).map_err(Error::doing(doing))?;
            body.push(b'\n');
            return Ok(Outcome::print(body));
        }
        let doing = format!("Error reading {path}");
        let secret = client.send(&request).map_err(Error::reading(doing, &path))?;
        let secret = secret.ok_or_else(|| Error::no_value(&path))?;
        output::secret(&secret, &config, self.field.field.as_deref())
    }
}
