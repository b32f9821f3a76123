//! `token revoke`.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// Ends a token and those below it.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto token revoke hvs.CAESI\n  kallisto token revoke -self\n  kallisto token revoke -mode=orphan hvs.CAESI\n  kallisto token revoke -accessor Kl1JzyR5bTqXUhHDIHNLj8Dz"
)]
pub(crate) struct Revoke {
    /// The token, or with -accessor its accessor
    #[arg(value_name = "TOKEN | ACCESSOR")]
    token: Option<String>,
    /// The argument is an accessor
    #[arg(long)]
    accessor: bool,
    /// One's own token
    #[arg(long = "self")]
    own: bool,
    /// orphan: those below live on
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    #[command(flatten)]
    common: CommonFlags,
}

impl Revoke {
    pub(super) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let (path, field) = match (self.own, self.accessor, self.mode.as_deref()) {
            (true, false, None) if self.token.is_none() => ("auth/token/revoke-self", None),
            (false, true, None) => ("auth/token/revoke-accessor", Some("accessor")),
            (false, false, Some("orphan")) => ("auth/token/revoke-orphan", Some("token")),
            (false, false, None) => ("auth/token/revoke", Some("token")),
            _ => return Err(Error::usage("-self, -accessor and -mode=orphan exclude each other")),
        };
        let mut body = Map::new();
        if let Some(field) = field {
            let given = self.token.as_deref();
            let given =
                given.ok_or_else(|| Error::usage("Not enough arguments (expected 1, got 0)"))?;
            body.insert(field.into(), given.into());
        }
        let client = Client::new(&config)?;
        let request = ClientRequest::new(Method::Put, path).with_body(&Json::Object(body));
        let answer = client.send(&request).map_err(Error::doing("Error revoking token"))?;
        let notice = answer.map(|answer| output::warnings(&answer)).unwrap_or_default();
        let done = output::done(&config, "Success! Revoked token (if it existed)");
        Ok(done.with_notice(&notice))
    }
}
