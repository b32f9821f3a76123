//! `list PATH`: the keys below a path.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// Lists what is below a path.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto list secret/metadata/app\n  kallisto list -format=json sys/policies/acl\n  kallisto list -after=m -limit=100 secret/metadata"
)]
pub(crate) struct List {
    /// Where to list
    path: String,
    /// Begin after this key, where the endpoint can
    #[arg(long, value_name = "KEY")]
    after: Option<String>,
    /// Most keys, where the endpoint can
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    limit: Option<i64>,
    #[command(flatten)]
    common: CommonFlags,
}

impl List {
    /// Lists it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let path = url::clean(&self.path)?;
        let mut request = ClientRequest::list(&path);
        if self.after.is_some() || self.limit.is_some() {
            // Sent in pairs, as other clients do: an endpoint that knows one knows both.
            request = request
                .with_query("after", self.after.unwrap_or_default())
                .with_query("limit", self.limit.unwrap_or(-1).to_string());
        }
        let client = Client::new(&config)?;
        let doing = format!("Error listing {path}");
        output::listed(client.send(&request.wrappable()), &doing, &config, &path)
    }
}
