//! `token lookup`: what the server knows about a token.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// Looks a token up: one's own, another, or one by its accessor.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto token lookup\n  kallisto token lookup -field=ttl\n  kallisto token lookup -accessor Kl1JzyR5bTqXUhHDIHNLj8Dz"
)]
pub(crate) struct Lookup {
    /// The token, or with -accessor its accessor; without it, one's own token
    #[arg(value_name = "TOKEN | ACCESSOR")]
    token: Option<String>,
    /// The argument is an accessor; the answer will not show the token
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    accessor: Option<bool>,
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

impl Lookup {
    pub(super) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let request = self.request()?;
        let client = Client::new(&config)?;
        let doing = Error::doing("Error looking up token");
        let secret = client.send(&request.wrappable()).map_err(doing)?;
        let secret = secret.ok_or_else(|| Error::Absent("No token found".to_owned()))?;
        output::secret(&secret, &config, self.field.field.as_deref())
    }

    fn request(&self) -> Result<ClientRequest, Error> {
        let post = |path: &str, name: &str, value: &str| {
            let body = Map::from([(name.to_owned(), Json::from(value))]);
            ClientRequest::new(Method::Post, path).with_body(&Json::Object(body))
        };
        match (self.accessor.unwrap_or(false), &self.token) {
            (true, Some(accessor)) => Ok(post("auth/token/lookup-accessor", "accessor", accessor)),
            (true, None) => {
                Err(Error::usage("Not enough arguments with -accessor (expected 1, got 0)"))
            }
            (false, Some(token)) => Ok(post("auth/token/lookup", "token", token)),
            (false, None) => Ok(ClientRequest::get("auth/token/lookup-self")),
        }
    }
}
