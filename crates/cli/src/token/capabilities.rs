//! `token capabilities [TOKEN] PATH`.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{Document, OutputFormat};
use kallisto_command::secret::Secret;

/// Prints what a token may do at a path.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto token capabilities secret/data/app\n  kallisto token capabilities hvs.CAESI secret/data/app"
)]
pub(crate) struct Capabilities {
    /// The token, if not one's own, and the path
    #[arg(required = true, num_args = 1..=2, value_names = ["TOKEN", "PATH"])]
    arguments: Vec<String>,
    #[command(flatten)]
    common: CommonFlags,
}

impl Capabilities {
    pub(super) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let (route, token, path) = match self.arguments.as_slice() {
            [token, path] => ("sys/capabilities", Some(token), path),
            [path] => ("sys/capabilities-self", None, path),
            _ => return Err(Error::usage("one path, with or without a token before it")),
        };
        let mut body = Map::from([("paths".to_owned(), Json::Array(vec![path.as_str().into()]))]);
        if let Some(token) = token {
            body.insert("token".into(), token.as_str().into());
        }
        let client = Client::new(&config)?;
        let request = ClientRequest::new(Method::Post, route).with_body(&Json::Object(body));
        let doing = "Error listing capabilities";
        let data = Secret::data_of(client.send(&request).map_err(Error::doing(doing))?, doing)?;
        let Some(held @ Json::Array(names)) = data.get("capabilities") else {
            return Err(Error::empty_answer(doing));
        };
        if config.format != OutputFormat::Table {
            return Ok(Outcome::print(Document::Value(held).to_text(config.format)?));
        }
        let names: Vec<&str> = names.iter().filter_map(Json::as_str).collect();
        Ok(Outcome::line(names.join(", ")))
    }
}
