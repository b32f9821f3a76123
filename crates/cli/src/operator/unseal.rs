//! `operator unseal`: gives one share of the unseal key to a sealed server, and prints its state.

use clap::Args;
use secrecy::{ExposeSecret, SecretString};

use super::{ask, print};
use crate::status;
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;

/// Gives one share of the unseal key; enough of them, each once, unseal the server.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto operator unseal\n  kallisto operator unseal - < share.txt\n  kallisto operator unseal -reset\n\nWithout a share it is asked for on the terminal, unseen"
)]
pub(crate) struct Unseal {
    /// The share, in base64 or hexadecimal; - reads it from stdin
    #[arg(value_name = "KEY")]
    key: Option<SecretString>,
    /// Forget the shares given so far
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    reset: Option<bool>,
    #[command(flatten)]
    common: CommonFlags,
}

impl Unseal {
    /// Gives it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let body = if self.reset == Some(true) {
            Map::from([("reset".to_owned(), Json::from(true))])
        } else {
            let share = ask::share(self.key.as_ref(), "Unseal Key", &config)?;
            Map::from([
                ("key".to_owned(), Json::from(share.expose_secret())),
                ("reset".to_owned(), Json::from(false)),
                ("migrate".to_owned(), Json::from(false)),
            ])
        };
        let doing = "Error unsealing";
        let answer = client.send(&ClientRequest::put("sys/unseal", body));
        let state = print::object(answer.map_err(Error::doing(doing))?, doing)?;
        // A share that was taken is a success, whether or not it was the last one.
        status::of_seal(state, &client, &config, None).map(|outcome| outcome.with_code(0))
    }
}
