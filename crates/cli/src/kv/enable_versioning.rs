//! `kv enable-versioning`: turn a v1 mount into a v2 mount. There is no way back.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest, Method, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::Json;
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// Turns a v1 mount into a v2 mount.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto kv enable-versioning secret")]
pub(crate) struct EnableVersioning {
    /// The mount
    mount: String,
    #[command(flatten)]
    common: CommonFlags,
}

impl EnableVersioning {
    /// Turns it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let mount = url::clean(&self.mount)?;
        let body = Json::object([("options", Json::object([("version", Json::from("2"))]))]);
        let path = format!("sys/mounts/{mount}/tune");
        let request = ClientRequest::new(Method::Post, &path).with_body(&body);
        let client = Client::new(&config)?;
        let doing = format!("Error tuning secrets engine {mount}/");
        client.send(&request).map_err(Error::doing(doing))?;
        Ok(output::done(&config, &format!("Success! Tuned the secrets engine at: {mount}/")))
    }
}
