//! `kv patch`: change some members of a secret and keep the others (v2 only).
//!
//! `-method=patch` sends the change and the server merges. `-method=rw` reads, merges here and
//! writes back on condition that nobody wrote in between; it needs no `patch` capability. Without
//! the flag the first is tried, and the second when the server or the policy does not allow it.
//!
//! Two differences from Vault's command line, which loses data here: with `rw`, `-cas` is heeded
//! rather than replaced by the version just read, and `-remove-data` removes the member rather
//! than storing null under its name.

use clap::{Args, ValueEnum};

use super::place::{KvPath, MountFlag};
use super::put::{cas_options, versioned};
use super::written::written;
use crate::pairs::{self, PairInputs};
use kallisto_command::client::error::ClientError;
use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::secret::{Secret, as_u64};

/// Changes some members of a secret.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto kv patch -mount=secret app/db password=@password.txt\n  kallisto kv patch -mount=secret -cas=4 app/db user=grace\n  kallisto kv patch -mount=secret -remove-data=user app/db"
)]
pub(crate) struct Patch {
    /// Where it is
    path: String,
    /// KEY=VALUE, KEY=@file, KEY=- (stdin); @file or - is a whole JSON object
    #[arg(value_name = "KEY=VALUE")]
    data: Vec<String>,
    /// Change only if this is the newest version; 0 for any
    #[arg(long, value_name = "VERSION", allow_negative_numbers = true)]
    cas: Option<i64>,
    /// patch: the server merges; rw: read, merge here, write
    #[arg(long, value_enum)]
    method: Option<PatchMethod>,
    /// Remove this member; may be repeated
    #[arg(long, value_name = "KEY")]
    remove_data: Vec<String>,
    #[command(flatten)]
    mount: MountFlag,
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

/// Who merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PatchMethod {
    /// The server.
    Patch,
    /// We do.
    Rw,
}

impl Patch {
    /// Changes it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        if self.data.is_empty() && self.remove_data.is_empty() {
            return Err(Error::usage("Must supply data"));
        }
        let data = pairs::parse(&self.data, &mut PairInputs::process())?;
        let client = Client::new(&config)?;
        let place = KvPath::find(&client, &self.mount, &self.path)?;
        place.require_v2(|| {
            Error::Unusable("K/V engine mount must be version 2 for patch support".to_owned())
        })?;
        let path = place.path("data");
        let (result, notice) = self.change(&client, &path, data)?;
        let doing = format!("Error writing data to {path}");
        let secret = result.map_err(Error::doing(doing))?;
        let outcome = written(secret.as_ref(), &path, &config, self.field.field.as_deref())?;
        Ok(outcome.with_notice(&notice))
    }

    /// Sends the change by the method asked for; also returns what to tell the user about it.
    fn change(
        &self,
        client: &Client<'_>,
        path: &str,
        data: Map,
    ) -> Result<(Result<Option<Secret>, ClientError>, String), Error> {
        if self.method == Some(PatchMethod::Rw) {
            return Ok((self.read_and_write(client, path, data)?, String::new()));
        }
        let result = client.send(&self.merge_request(path, data.clone()));
        let status = result.as_ref().err().and_then(ClientError::api).map(|api| api.status);
        let fall_back = self.method.is_none() && matches!(status, Some(403 | 405));
        if !fall_back {
            return Ok((result, String::new()));
        }
        let again = self.read_and_write(client, path, data)?;
        let notice = match (status, &again) {
            (Some(403), Ok(_)) => {
                "Data was written without HTTP PATCH, which this token's policies do not allow; \
                 the \"patch\" capability saves a read.\n"
            }
            _ => "",
        };
        Ok((again, notice.to_owned()))
    }

    /// The version that the change is for. There is nothing to change where there is none, so 0 says nothing, unlike with `put`.
    fn version_wanted(&self) -> Option<i64> {
        self.cas.filter(|cas| *cas > 0)
    }

    /// The change as a merge patch: null removes a member.
    fn merge_request(&self, path: &str, mut data: Map) -> ClientRequest {
        data.extend(self.remove_data.iter().map(|key| (key.clone(), Json::Null)));
        let body = Json::Object(versioned(data, cas_options(self.version_wanted())));
        ClientRequest::new(Method::Patch, path).with_body(&body).wrappable()
    }

    /// Reads, merges and writes back on condition that the version is still the one read.
    fn read_and_write(
        &self,
        client: &Client<'_>,
        path: &str,
        change: Map,
    ) -> Result<Result<Option<Secret>, ClientError>, Error> {
        let doing = format!("Error doing pre-read at {path}");
        let request = ClientRequest::get(path).unwrapped();
        let current = client.send_really(&request).map_err(Error::reading(doing, path))?;
        let current = current.ok_or_else(|| Error::no_value(path))?;
        let Some(data) = current.datum_map("data") else {
            return Err(Error::Absent(format!(
                "No data found at {path}; patch only works on existing data"
            )));
        };
        let version = current.datum_map("metadata").and_then(|metadata| metadata.get("version"));
        let version = version.and_then(as_u64).and_then(|version| i64::try_from(version).ok());
        let Some(version) = version else {
            return Err(Error::Absent(format!("No version found at {path}")));
        };
        let mut merged = data.clone();
        merged.extend(change);
        for key in &self.remove_data {
            merged.remove(key);
        }
        let cas = self.version_wanted().unwrap_or(version);
        let body = versioned(merged, cas_options(Some(cas)));
        Ok(client.send(&ClientRequest::put(path, body).wrappable()))
    }
}
