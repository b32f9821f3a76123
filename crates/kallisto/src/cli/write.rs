//! `write PATH [K=V...]`: one PUT of a JSON object.
//!
//! [`sent`] is what the other writing commands share: what to print when a write was answered, and
//! when an error came with an answer inside.

use clap::Args;

use super::client::error::ClientError;
use super::client::{Client, Method, Request, url};
use super::config::Config;
use super::error::Error;
use super::flags::{CommonFlags, FieldFlag};
use super::json::Json;
use super::outcome::Outcome;
use super::output;
use super::pairs::{self, Inputs};
use super::secret::Secret;

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
        output::refuse_raw(&config)?;
        let path = url::clean(&self.path)?;
        let forced = self.force.unwrap_or(false);
        if self.data.is_empty() && !forced {
            return Err(Error::usage("Must supply data or use -force"));
        }
        let request = if self.data.is_empty() {
            Request::new(Method::Put, &path).with_body(&Json::Null)
        } else {
            Request::put(&path, pairs::parse(&self.data, &mut Inputs::process())?)
        };
        let client = Client::new(&config)?;
        let doing = format!("Error writing data to {path}");
        match sent(client.send(&request), &config, doing)? {
            Sent::Refused(outcome) => Ok(outcome),
            Sent::Done(None) => {
                Ok(output::done(&config, &format!("Success! Data written to: {path}")))
            }
            Sent::Done(Some(secret)) => {
                output::secret(&secret, &config, self.field.field.as_deref())
            }
        }
    }
}

/// What came of a write.
pub(crate) enum Sent {
    /// It was done; perhaps there is something to show.
    Done(Option<Secret>),
    /// It was refused, and the refusal itself carries something to show.
    Refused(Outcome),
}

/// Sorts the result of a write. A refusal may carry warnings or data; those are shown below it.
pub(crate) fn sent(
    result: Result<Option<Secret>, ClientError>,
    config: &Config,
    doing: String,
) -> Result<Sent, Error> {
    let error = match result {
        Ok(secret) => return Ok(Sent::Done(secret)),
        Err(error) => Error::doing(doing)(error),
    };
    let Some(secret) = error.api().and_then(|api| api.secret.as_ref()) else { return Err(error) };
    let shown = output::secret(secret, config, None)?;
    let mut outcome = Outcome::from(error);
    outcome.stdout = shown.stdout.clone();
    outcome.stderr.extend_from_slice(&shown.stderr);
    Ok(Sent::Refused(outcome))
}
