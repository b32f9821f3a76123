//! `unwrap [TOKEN]`: the answer inside a wrapping token; the token is used up by it.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;
use kallisto_command::secret::Secret;

const PATH: &str = "sys/wrapping/unwrap";

/// Takes an answer out of its wrapping token.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto unwrap hvs.CAES...\n  VAULT_TOKEN=hvs.CAES... kallisto unwrap -field=password"
)]
pub(crate) struct Unwrap {
    /// The wrapping token; without it, the token that commands use
    token: Option<String>,
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

impl Unwrap {
    /// Unwraps it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let token = self.token.as_deref().map(str::trim);
        // A caller without a token of its own is let in by the wrapping token itself.
        let secret = match (token, config.expose_token()) {
            (Some(token), Some(_)) => {
                let body = Map::from([("token".to_owned(), Json::from(token))]);
                client.send(&ClientRequest::put(PATH, body).wrappable())
            }
            (Some(token), None) => client.with_token(token).send(&bare().wrappable()),
            (None, _) => client.send(&bare().wrappable()),
        };
        let secret = secret.map_err(Error::doing("Error unwrapping"))?;
        let Some(secret) = secret else {
            let sentence = "Successfully unwrapped. There was no data in the wrapped secret.";
            return Ok(output::done(&config, sentence));
        };
        match (&self.field.field, secret.datum("keys")) {
            (None, Some(Json::Array(_))) => output::list(&secret, &config, PATH),
            _ => output::secret(&secret, &config, self.field.field.as_deref()),
        }
    }
}

/// What is inside `token`, for a login that came wrapped.
pub(crate) fn unwrap_with(client: Client<'_>, token: &str) -> Result<Option<Secret>, Error> {
    let result = client.with_token(token).send(&bare().unwrapped());
    result.map_err(Error::doing("Error unwrapping"))
}

fn bare() -> ClientRequest {
    ClientRequest::new(Method::Put, PATH).with_body(&Json::Null)
}
