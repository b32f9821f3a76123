//! `token renew [TOKEN]`.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, FieldFlag, parse_duration};
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// Gives a token more time; one's own without an argument.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto token renew\n  kallisto token renew -increment=1h hvs.CAESI"
)]
pub(crate) struct Renew {
    /// The token, or with -accessor its accessor; without it, one's own token
    #[arg(value_name = "TOKEN | ACCESSOR")]
    token: Option<String>,
    /// The argument is an accessor
    #[arg(long)]
    accessor: bool,
    /// How much more, e.g. 1h
    #[arg(long, short = 'i', value_name = "DURATION", value_parser = parse_duration)]
    increment: Option<String>,
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

impl Renew {
    pub(super) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let mut body = Map::new();
        if let Some(increment) = &self.increment {
            body.insert("increment".into(), increment.as_str().into());
        }
        let path = match (&self.token, self.accessor) {
            (Some(accessor), true) => {
                body.insert("accessor".into(), accessor.as_str().into());
                "auth/token/renew-accessor"
            }
            (Some(token), false) => {
                body.insert("token".into(), token.as_str().into());
                "auth/token/renew"
            }
            (None, false) => "auth/token/renew-self",
            (None, true) => {
                return Err(Error::usage(
                    "Not enough arguments with -accessor (expected 1, got 0)",
                ));
            }
        };
        let client = Client::new(&config)?;
        let request = ClientRequest::new(Method::Put, path).with_body(&Json::Object(body));
        let answer =
            client.send(&request.wrappable()).map_err(Error::doing("Error renewing token"))?;
        let answer = answer.ok_or_else(|| Error::Absent("No token found".to_owned()))?;
        output::secret(&answer, &config, self.field.field.as_deref())
    }
}
