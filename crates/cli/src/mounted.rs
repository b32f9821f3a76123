//! What `auth`, `secrets`, `audit` and `policy` have in common: things with a path, which are listed,
//! put in place and taken away.
//!
//! A command says where, what to send and what to tell; the order of it is here.

use kallisto_command::client::{Client, ClientRequest, Method, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{self, Document, OutputFormat, table};
use kallisto_command::secret::Secret;

/// Reads what is listed at a path.
pub(super) fn read_all(config: &Config, path: &str, doing: &str) -> Result<Map, Error> {
    let client = Client::new(config)?;
    let answer = client.send(&ClientRequest::get(path)).map_err(Error::doing(doing))?;
    let answer = answer.ok_or_else(|| Error::Absent(absent(doing)))?;
    Secret::data_of(Some(answer), doing)
}

/// What there is to say where a server answers that it has no such list. It has one in every namespace.
pub(super) fn absent(doing: &str) -> String {
    format!("{doing}: there is nothing: is the namespace right?")
}

/// Prints what is listed: for people a line for each, as `row` has it.
pub(super) fn print_all(
    config: &Config,
    listed: &Map,
    heads: &[&str],
    row: impl Fn(&str, &Map) -> Option<Vec<String>>,
) -> Result<Outcome, Error> {
    if config.format != OutputFormat::Table {
        return Ok(Outcome::print(Document::Object(listed).to_text(config.format)?));
    }
    let rows = listed.iter().filter_map(|(path, entry)| row(path, entry.as_object()?));
    Ok(Outcome::print(table::under(heads, rows)))
}

/// A member of an entry, as it is shown; empty when it is not there.
pub(super) fn cell(entry: &Map, name: &str) -> String {
    entry.get(name).map(table::show).unwrap_or_default()
}

/// The description of an entry, or that it has none.
pub(super) fn description(entry: &Map) -> String {
    match cell(entry, "description") {
        empty if empty.is_empty() => "n/a".to_owned(),
        text => text,
    }
}

/// The heads of [`mount_row`].
pub(super) const MOUNT_HEADS: [&str; 4] = ["Path", "Type", "Accessor", "Description"];

/// What is printed of a mount in any case.
pub(super) fn mount_row(path: &str, mount: &Map) -> Vec<String> {
    vec![path.to_owned(), cell(mount, "type"), cell(mount, "accessor"), description(mount)]
}

/// The usual and the longest lifetime among the settings of a mount.
pub(super) fn lifetimes(settings: &Map) -> [String; 2] {
    ["default_lease_ttl", "max_lease_ttl"].map(|name| lifetime(settings, name))
}

/// A lifetime among the settings of an entry; 0 is the server's own.
fn lifetime(settings: &Map, name: &str) -> String {
    match cell(settings, name) {
        zero if zero == "0" => "system".to_owned(),
        secs => secs,
    }
}

/// What was given of some optional settings. A negative lifetime of leases is the server's own, as for Vault's command line.
pub(super) fn given(settings: &[(&str, &Option<String>)]) -> Map {
    let set = settings.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
    set.map(|(name, value)| {
        let is_own = name.ends_with("_lease_ttl") && value.starts_with('-');
        (name.to_owned(), Json::from(if is_own { "system" } else { value }))
    })
    .collect()
}

/// Puts something in place, or changes it, and says so.
pub(super) fn put(
    config: &Config,
    path: &str,
    body: Map,
    doing: String,
    done: &str,
) -> Result<Outcome, Error> {
    let request =
        ClientRequest::new(Method::Post, &url::clean(path)?).with_body(&Json::Object(body));
    tell(config, &request, doing, done)
}

/// Takes something away, and says so.
pub(super) fn remove(
    config: &Config,
    path: &str,
    doing: &str,
    done: &str,
) -> Result<Outcome, Error> {
    tell(config, &ClientRequest::new(Method::Delete, &url::clean(path)?), doing.to_owned(), done)
}

fn tell(
    config: &Config,
    request: &ClientRequest,
    doing: String,
    done: &str,
) -> Result<Outcome, Error> {
    let client = Client::new(config)?;
    let answer = client.send(request).map_err(Error::doing(doing))?;
    let notice = answer.map(|answer| output::warnings(&answer)).unwrap_or_default();
    Ok(output::done(config, done).with_notice(&notice))
}
