//! `token revoke`.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest, Method, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// Ends a token and those below it.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto token revoke hvs.CAESI\n  kallisto token revoke -self\n  kallisto token revoke -mode=orphan hvs.CAESI\n  kallisto token revoke -mode=path auth/userpass\n  kallisto token revoke -accessor Kl1JzyR5bTqXUhHDIHNLj8Dz"
)]
pub(crate) struct Revoke {
    /// The token, with -accessor its accessor, or with -mode=path the path
    #[arg(value_name = "TOKEN | ACCESSOR | PATH")]
    token: Option<String>,
    /// The argument is an accessor
    #[arg(long)]
    accessor: bool,
    /// One's own token
    #[arg(long = "self")]
    own: bool,
    /// orphan: those below live on; path: all that the login method at this path made, such as auth/userpass
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    #[command(flatten)]
    common: CommonFlags,
}

impl Revoke {
    pub(super) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let given = self.token.as_deref().map(str::trim);
        let given = given.ok_or_else(|| Error::usage("Not enough arguments (expected 1, got 0)"));
        let of = |path: &str, field: &str, value: &str| {
            let body = Map::from([(field.to_owned(), Json::from(value))]);
            ClientRequest::new(Method::Put, path).with_body(&Json::Object(body))
        };
        let request = match (self.own, self.accessor, self.mode.as_deref()) {
            (true, false, None) if self.token.is_none() => {
                let nothing = Json::Object(Map::new());
                ClientRequest::new(Method::Put, "auth/token/revoke-self").with_body(&nothing)
            }
            (false, true, None) => of("auth/token/revoke-accessor", "accessor", given?),
            (false, false, Some("orphan")) => of("auth/token/revoke-orphan", "token", given?),
            (false, false, Some("path")) => {
                let path = url::clean(&format!("sys/leases/revoke-prefix/{}", given?))?;
                ClientRequest::new(Method::Put, &path)
            }
            (false, false, None) => of("auth/token/revoke", "token", given?),
            (false, false, Some(mode)) => {
                return Err(Error::usage(format!("Invalid mode: {mode} (orphan, path)")));
            }
            _ => return Err(Error::usage("-self, -accessor and -mode exclude each other")),
        };
        let client = Client::new(&config)?;
        let answer = client.send(&request).map_err(Error::doing("Error revoking token"))?;
        let notice = answer.map(|answer| output::warnings(&answer)).unwrap_or_default();
        let done = output::done(&config, "Success! Revoked token (if it existed)");
        Ok(done.with_notice(&notice))
    }
}
