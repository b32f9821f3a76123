//! `kv delete`: delete a secret, or given versions of one (v2), or a whole folder.
//!
//! Folders and dry runs are Kallisto's alone; all of a folder goes or nothing does.

use clap::Args;

use super::counted;
use super::place::{KvEngineVersion, KvPath, MountFlag};
use super::versions::version_list;
use crate::operator::ask;
use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{self, OutputFormat};

/// Deletes a secret.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto kv delete -mount=secret app/db\n  kallisto kv delete -mount=secret -versions=1,2 app/db\n  kallisto kv delete -recursive -dry-run secret/app\n  kallisto kv delete -recursive -purge secret/app\n\n\
    Exit codes: 0 done, 1 a mistake in the call, 2 nothing was done: the server refused, or was not reached"
)]
pub(crate) struct Delete {
    /// Where it is
    path: String,
    /// Versions to delete (v2), e.g. 1,2; the newest without it
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    versions: Vec<String>,
    /// Delete every secret below the path
    #[arg(long)]
    recursive: bool,
    /// Check and print everything, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove all versions for good (with -recursive or -dry-run)
    #[arg(long)]
    purge: bool,
    #[command(flatten)]
    mount: MountFlag,
    #[command(flatten)]
    common: CommonFlags,
}

impl Delete {
    /// Deletes it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        self.refuse_mixed_flags()?;
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let place = KvPath::find(&client, &self.mount, &self.path)?;
        if self.recursive || self.dry_run {
            return self.send_whole(&client, &config, &place);
        }
        let path = place.path("data");
        let request = match place.engine {
            KvEngineVersion::V2 if !self.versions.is_empty() => {
                ClientRequest::put(&place.path("delete"), version_list(&self.versions))
            }
            KvEngineVersion::V1 | KvEngineVersion::V2 => ClientRequest::new(Method::Delete, &path),
        };
        let answer = client.send(&request.wrappable());
        match answer.map_err(Error::doing(format!("Error deleting {path}")))? {
            Some(secret) if secret.says_something() || secret.wrap_info.is_some() => {
                output::secret(&secret, &config, None)
            }
            _ => {
                let sentence = format!("Success! Data deleted (if it existed) at: {path}");
                Ok(output::done(&config, &sentence))
            }
        }
    }

    /// Refuses flags that do not go together, before anything is sent. A purge of one secret has a command whose name says
    /// it; where -recursive was left out or mistyped, nothing may be lost for good.
    fn refuse_mixed_flags(&self) -> Result<(), Error> {
        if !self.versions.is_empty() && (self.recursive || self.dry_run || self.purge) {
            return Err(Error::usage("-versions goes without -recursive, -dry-run and -purge"));
        }
        if self.purge && !self.recursive && !self.dry_run {
            return Err(Error::usage(
                "-purge goes with -recursive or -dry-run: kallisto kv metadata delete removes all versions of one secret",
            ));
        }
        Ok(())
    }

    /// Asks the route that takes folders.
    fn send_whole(
        &self,
        client: &Client<'_>,
        config: &Config,
        place: &KvPath,
    ) -> Result<Outcome, Error> {
        let path = if self.recursive { place.folder() } else { place.full() };
        let body = Map::from([
            ("path".to_owned(), Json::from(path.as_str())),
            ("purge".to_owned(), Json::from(self.purge)),
            ("dry_run".to_owned(), Json::from(self.dry_run)),
        ]);
        if self.recursive && !self.dry_run {
            let what =
                if self.purge { "with all versions, for good" } else { "the latest versions" };
            let question = format!("Delete every secret below {path}, {what}?");
            if !ask::confirms(&question, config)? {
                return Err(Error::usage("nothing was deleted"));
            }
        }
        let request = ClientRequest::put("sys/kallisto/kv/delete", body);
        let doing = Error::doing_at(format!("Error deleting {path}"), &path);
        let answer = client.send(&request).map_err(doing)?.unwrap_or_default();
        if config.format != OutputFormat::Table {
            return output::secret(&answer, config, None);
        }
        let Some(Json::Array(paths)) = answer.datum("paths") else {
            return Err(Error::no_value(&path));
        };
        let how = if self.purge { "with all versions" } else { "the latest version of each" };
        let count = counted(paths.len() as u64);
        let mut text = match self.dry_run {
            true => format!("Nothing was done. Would delete {count}, {how}:\n"),
            false => format!("Success! Deleted {count}, {how}:\n"),
        };
        for path in paths.iter().filter_map(Json::as_str) {
            text.push_str(&format!("  {path}\n"));
        }
        Ok(Outcome::print(text))
    }
}
