//! `path-help PATH`: what the server says a path is for.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, parse_object};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{Document, OutputFormat};

/// Asks for the help of a path.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto path-help sys/mounts\n  kallisto path-help secret/\n  kallisto path-help -format=json secret/data/app"
)]
pub(crate) struct PathHelp {
    /// The path, or the mount's own to list what is below it
    path: String,
    #[command(flatten)]
    common: CommonFlags,
}

impl PathHelp {
    /// Prints the text; with a format, the OpenAPI document that comes with it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load_raw(&self.common)?;
        let path = url::clean(&self.path)?;
        let request = ClientRequest::get(&path).with_query("help", "1");
        let client = Client::new(&config)?;
        let body = client.send_raw(&request).map_err(Error::doing("Error retrieving help"))?;
        if config.format == OutputFormat::Raw {
            return Ok(Outcome::print(body));
        }
        let parsed = parse_object(&body);
        let document = parsed.map_err(|why| Error::Unusable(format!("unreadable help: {why}")))?;
        if config.format == OutputFormat::Table {
            let text = document.get("help").and_then(Json::as_str).unwrap_or_default();
            return Ok(Outcome::line(text.trim_end()));
        }
        let openapi = document.get("openapi").cloned().unwrap_or(Json::Null);
        Ok(Outcome::print(Document::Own(openapi).to_text(config.format)?))
    }
}
