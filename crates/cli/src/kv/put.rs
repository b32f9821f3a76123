//! `kv put`: store a secret, whole.

use clap::Args;

use super::place::{KvEngineVersion, KvPath, MountFlag};
use super::written::written;
use crate::pairs::{self, PairInputs};
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;

/// Stores a secret.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto kv put -mount=secret app/db user=ada password=@password.txt\n  pwgen 32 1 | kallisto kv put -mount=secret app/db password=-\n  kallisto kv put -mount=secret -cas=0 app/db @db.json"
)]
pub(crate) struct Put {
    /// Where to store it
    path: String,
    /// KEY=VALUE, KEY=@file, KEY=- (stdin); @file or - is a whole JSON object
    #[arg(value_name = "KEY=VALUE")]
    data: Vec<String>,
    /// Write only if this is the newest version; 0 if there must be none (v2)
    #[arg(long, value_name = "VERSION", allow_negative_numbers = true)]
    cas: Option<i64>,
    #[command(flatten)]
    mount: MountFlag,
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

impl Put {
    /// Stores it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        if self.data.is_empty() {
            return Err(Error::usage("Must supply data"));
        }
        let data = pairs::parse(&self.data, &mut PairInputs::process())?;
        let client = Client::new(&config)?;
        let place = KvPath::find(&client, &self.mount, &self.path)?;
        let path = place.path("data");
        let body = match place.engine {
            KvEngineVersion::V1 => data,
            KvEngineVersion::V2 => versioned(data, cas_options(self.cas)),
        };
        let result = client.send(&ClientRequest::put(&path, body).wrappable());
        let secret = result.map_err(Error::doing(format!("Error writing data to {path}")))?;
        written(secret.as_ref(), &path, &config, self.field.field.as_deref())
    }
}

/// The body of a v2 write.
pub(crate) fn versioned(data: Map, options: Map) -> Map {
    Map::from([
        ("data".to_owned(), Json::Object(data)),
        ("options".to_owned(), Json::Object(options)),
    ])
}

/// `{"cas": n}`; a negative number asks for no check, as in other clients.
pub(crate) fn cas_options(cas: Option<i64>) -> Map {
    cas.filter(|cas| *cas >= 0).map(|cas| ("cas".to_owned(), Json::from(cas))).into_iter().collect()
}
