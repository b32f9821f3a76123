//! `plugin`: the engines that a server has. All are built in, so there is nothing to register.

use clap::{Args, Subcommand};

use kallisto_command::client::{Client, ClientRequest, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{Document, OutputFormat, field, table};
use kallisto_command::secret::Secret;

/// The types of engines.
const TYPES: [&str; 3] = ["auth", "database", "secret"];

/// What is shown of an engine, whatever else a server tells.
const SHOWN: [&str; 7] =
    ["args", "builtin", "command", "deprecation_status", "name", "sha256", "version"];

/// What can be asked about engines.
#[derive(Subcommand, Debug)]
pub(crate) enum Plugin {
    /// Print the engines there are
    List(List),
    /// Print what the server knows about an engine
    Info(Info),
}

impl Plugin {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::List(list) => list.run(),
            Self::Info(info) => info.run(),
        }
    }
}

fn check_type(kind: &str) -> Result<(), Error> {
    if TYPES.contains(&kind) {
        return Ok(());
    }
    Err(Error::usage(format!("Error parsing type: \"{kind}\" is not a supported plugin type")))
}

/// Prints the engines there are.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto plugin list\n  kallisto plugin list auth\n  kallisto plugin list -detailed"
)]
pub(crate) struct List {
    /// Those of one type only: auth, database or secret
    #[arg(value_name = "TYPE")]
    kind: Option<String>,
    /// Print whether they will stay
    #[arg(long)]
    detailed: bool,
    #[command(flatten)]
    common: CommonFlags,
}

impl List {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        self.kind.as_deref().map(check_type).transpose()?;
        let client = Client::new(&config)?;
        let doing = "Error listing available plugins";
        let answer = client.send(&ClientRequest::get("sys/plugins/catalog"));
        let data = Secret::data_of(answer.map_err(Error::doing(doing))?, doing)?;
        if config.format != OutputFormat::Table {
            let kept = self.kept(data);
            return Ok(Outcome::print(Document::Object(&kept).to_text(config.format)?));
        }
        let Some(Json::Array(engines)) = data.get("detailed") else {
            return Err(Error::Absent("No plugins found".to_owned()));
        };
        let mut heads = vec!["Name"];
        if self.kind.is_none() {
            heads.push("Type");
        }
        heads.push("Version");
        if self.detailed {
            heads.push("Deprecation Status");
        }
        let engines = engines.iter().filter_map(Json::as_object);
        let rows = engines.filter_map(|engine| self.row(engine, &heads));
        Ok(Outcome::print(table::under(&heads, rows)))
    }

    /// What programs get: the names by type, and what there is to say of each under the name that Vault's command line gives it.
    fn kept(&self, mut data: Map) -> Map {
        let details = match data.remove("detailed") {
            Some(Json::Array(engines)) => engines,
            _ => Vec::new(),
        };
        let is_wanted = |engine: &Json| {
            let kind = engine.as_object().and_then(|engine| engine.get("type")?.as_str());
            self.wants(kind.unwrap_or_default())
        };
        let details = details.into_iter().filter(is_wanted).collect();
        let mut kept: Map = data.into_iter().filter(|(name, _)| self.wants(name)).collect();
        kept.insert("details".to_owned(), Json::Array(details));
        kept
    }

    fn wants(&self, kind: &str) -> bool {
        self.kind.as_deref().is_none_or(|wanted| wanted == kind)
    }

    fn row(&self, engine: &Map, heads: &[&str]) -> Option<Vec<String>> {
        let cell = |head: &str| {
            let name = head.to_ascii_lowercase().replace(' ', "_");
            engine.get(&name).map(table::show).unwrap_or_default()
        };
        self.wants(&cell("type")).then(|| heads.iter().map(|head| cell(head)).collect())
    }
}

/// Prints what the server knows about an engine.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto plugin info auth approle")]
pub(crate) struct Info {
    /// Its type: auth, database or secret
    #[arg(value_name = "TYPE")]
    kind: String,
    /// Its name
    name: String,
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

impl Info {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        check_type(&self.kind)?;
        let path = url::clean(&format!("sys/plugins/catalog/{}/{}", self.kind, self.name))?;
        let client = Client::new(&config)?;
        let doing = format!("Error reading plugin named {}", self.name);
        let answer =
            client.send(&ClientRequest::get(&path)).map_err(Error::doing(doing.clone()))?;
        let answer = answer.ok_or_else(|| {
            Error::Absent(format!("No {} engine is called {}", self.kind, self.name))
        })?;
        let mut plugin = Secret::data_of(Some(answer), &doing)?;
        plugin.retain(|name, _| SHOWN.contains(&name.as_str()));
        match (self.field.field.as_deref(), config.format) {
            (Some(field), _) => field::of_map(&plugin, field, &config),
            (None, OutputFormat::Table) => Ok(Outcome::print(table::object(&plugin))),
            (None, format) => Ok(Outcome::print(Document::Object(&plugin).to_text(format)?)),
        }
    }
}
