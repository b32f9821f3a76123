//! `namespace`: worlds of their own on one server.
//!
//! Names are of namespaces directly below the one that `-namespace` chooses. `lock` and `unlock` take
//! a path from there, or none for that one itself.

use clap::{Args, Subcommand};

use super::pairs;
use kallisto_command::client::{Client, ClientRequest, Method, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{self, Document, OutputFormat};
use kallisto_command::secret::Secret;

const DOING: &str = "Error with namespaces";
const ROUTE: &str = "sys/namespaces";

/// What can be done with namespaces.
#[derive(Subcommand, Debug)]
pub(crate) enum Namespace {
    /// Make a namespace
    Create(Create),
    /// Print what a namespace is
    #[command(visible_alias = "read")]
    Lookup(NamedNamespace),
    /// Print the names of the namespaces below
    List(List),
    /// Print the paths of the namespaces below, at any depth
    Scan(List),
    /// Change the metadata of a namespace
    Patch(Patch),
    /// Delete a namespace and everything in it
    Delete(NamedNamespace),
    /// Let no request into a namespace
    Lock(Lock),
    /// Let requests in again
    Unlock(Unlock),
}

impl Namespace {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::Create(create) => create.run(),
            Self::Lookup(named) => named.look_up(),
            Self::List(list) => list.run(&ClientRequest::list(ROUTE)),
            Self::Scan(list) => list.run(&ClientRequest::get(ROUTE).with_query("scan", "true")),
            Self::Patch(patch) => patch.run(),
            Self::Delete(named) => named.delete(),
            Self::Lock(lock) => lock.run(),
            Self::Unlock(unlock) => unlock.run(),
        }
    }
}

/// Makes a namespace.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto namespace create team\n  \
    kallisto namespace create -namespace=team -custom-metadata=owner=ann app\n\n\
    Exit codes: 0 made, 1 a mistake in the call, 2 the server refused")]
pub(crate) struct Create {
    /// Its name
    name: String,
    /// Metadata to write on it, as NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    custom_metadata: Vec<String>,
    #[command(flatten)]
    field: FieldFlag,
    #[command(flatten)]
    common: CommonFlags,
}

impl Create {
    fn run(self) -> Result<Outcome, Error> {
        let custom = given(&self.custom_metadata)?;
        let body = Map::from([("custom_metadata".to_owned(), Json::Object(custom))]);
        let request = ClientRequest::put(&path(&self.name)?, body);
        print(request, &self.common, &self.field)
    }
}

/// A namespace by its name.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto namespace lookup team\n  \
    kallisto namespace delete -namespace=team app\n\n\
    Deleting is at once for whoever asks inside; what is stored is cleared after that.\n\n\
    Exit codes: 0 done, 1 a mistake in the call, 2 there is none, or the server refused")]
pub(crate) struct NamedNamespace {
    /// Its name
    name: String,
    #[command(flatten)]
    field: FieldFlag,
    #[command(flatten)]
    common: CommonFlags,
}

impl NamedNamespace {
    fn look_up(self) -> Result<Outcome, Error> {
        print(ClientRequest::get(&path(&self.name)?), &self.common, &self.field)
    }

    fn delete(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let request = ClientRequest::new(Method::Delete, &path(&self.name)?);
        let answer = client.send(&request).map_err(Error::doing(DOING))?;
        let notice = answer.map(|answer| output::warnings(&answer)).unwrap_or_default();
        let name = self.name.trim_matches('/');
        let done = output::done(&config, &format!("Success! Deleting namespace: {name}/"));
        Ok(if notice.is_empty() { done } else { Outcome::default().with_notice(&notice) })
    }
}

/// Lists namespaces.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto namespace list\n  \
    kallisto namespace scan -namespace=team -format=json\n\n\
    Exit codes: 0 listed, 1 a mistake in the call, 2 there are none, or the server refused")]
pub(crate) struct List {
    #[command(flatten)]
    common: CommonFlags,
}

impl List {
    fn run(self, request: &ClientRequest) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        match client.send(request).map_err(Error::doing(DOING))? {
            Some(secret) => output::list(&secret, &config, ROUTE),
            None => output::no_list(&config, ROUTE),
        }
    }
}

/// Changes metadata.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    kallisto namespace patch -custom-metadata=owner=bob -remove-custom-metadata=note team\n\n\
    Exit codes: 0 changed, 1 a mistake in the call, 2 there is none, or the server refused")]
pub(crate) struct Patch {
    /// Its name
    name: String,
    /// Metadata to write on it, as NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    custom_metadata: Vec<String>,
    /// Metadata to take away, by name; may be repeated
    #[arg(long, value_name = "NAME")]
    remove_custom_metadata: Vec<String>,
    #[command(flatten)]
    field: FieldFlag,
    #[command(flatten)]
    common: CommonFlags,
}

impl Patch {
    fn run(self) -> Result<Outcome, Error> {
        let mut changes = given(&self.custom_metadata)?;
        changes.extend(self.remove_custom_metadata.iter().map(|name| (name.clone(), Json::Null)));
        let body = Json::object([("custom_metadata", Json::Object(changes))]);
        let request = ClientRequest::new(Method::Patch, &path(&self.name)?).with_body(&body);
        print(request, &self.common, &self.field)
    }
}

/// Locks a namespace.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto namespace lock team\n  \
    kallisto namespace lock -namespace=team\n\n\
    Prints the key that unlocks it, which is told once.\n\n\
    Exit codes: 0 locked, 1 a mistake in the call, 2 the server refused")]
pub(crate) struct Lock {
    /// Its path; the namespace worked in without one
    path: Option<String>,
    #[command(flatten)]
    field: FieldFlag,
    #[command(flatten)]
    common: CommonFlags,
}

impl Lock {
    fn run(self) -> Result<Outcome, Error> {
        let request = ClientRequest::put(&lock_path("lock", self.path.as_deref())?, Map::new());
        print(request, &self.common, &self.field)
    }
}

/// Unlocks a namespace.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto namespace unlock -unlock-key=KEY -namespace=team\n  \
    kallisto namespace unlock team\n\n\
    Without the key it takes the sudo capability.\n\n\
    Exit codes: 0 unlocked, 1 a mistake in the call, 2 the server refused"
)]
pub(crate) struct Unlock {
    /// Its path; the namespace worked in without one
    path: Option<String>,
    /// The key that locking it printed
    #[arg(long, value_name = "KEY")]
    unlock_key: Option<String>,
    #[command(flatten)]
    common: CommonFlags,
}

impl Unlock {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let mut body = Map::new();
        if let Some(key) = self.unlock_key {
            body.insert("unlock_key".into(), key.into());
        }
        let client = Client::new(&config)?;
        let request = ClientRequest::put(&lock_path("unlock", self.path.as_deref())?, body);
        let answer = client.send(&request).map_err(Error::doing(DOING))?;
        let notice = answer.map(|answer| output::warnings(&answer)).unwrap_or_default();
        Ok(output::done(&config, "Success! Unlocked the namespace").with_notice(&notice))
    }
}

/// Sends a request and prints the data of its answer, or the token that this is wrapped in.
fn print(
    request: ClientRequest,
    common: &CommonFlags,
    field: &FieldFlag,
) -> Result<Outcome, Error> {
    let config = Config::load(common)?;
    let client = Client::new(&config)?;
    let answer = client.send(&request.wrappable()).map_err(Error::doing(DOING))?;
    let answer = answer.ok_or_else(|| Error::Absent("Namespace not found".to_owned()))?;
    if answer.wrap_info.is_some() {
        return output::secret(&answer, &config, field.field.as_deref());
    }
    let answer = Secret::with_data(Some(answer), DOING)?;
    match (field.field.as_deref(), config.format) {
        (None, OutputFormat::Json | OutputFormat::Yaml) => {
            let data = Secret::data_of(Some(answer), DOING)?;
            Ok(Outcome::print(Document::Object(&data).to_text(config.format)?))
        }
        (field, _) => output::secret(&answer, &config, field),
    }
}

/// Metadata from the command line.
fn given(pairs: &[String]) -> Result<Map, Error> {
    pairs::texts("-custom-metadata", pairs)
}

fn path(name: &str) -> Result<String, Error> {
    url::clean(&format!("{ROUTE}/{}", name.trim_matches('/')))
}

fn lock_path(verb: &str, path: Option<&str>) -> Result<String, Error> {
    let path = path.map(|path| path.trim_matches('/')).filter(|path| !path.is_empty());
    let below = path.map(|path| format!("/{path}")).unwrap_or_default();
    url::clean(&format!("{ROUTE}/api-lock/{verb}{below}"))
}
