//! The mount that is looked at: what checks may ask of it, each thing once.
//!
//! What the token may not see, and what the server has not, ends no check: it is a finding.

use std::cell::OnceCell;

use super::{HealthFinding, Severity};
use kallisto_command::client::error::ClientError;
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};
use kallisto_command::secret::Secret;

/// Names of one page of a list.
pub(super) const PAGE: u64 = 10_000;

/// What became of a question.
pub(super) enum FetchResult<T> {
    /// It was answered.
    Answered(T),
    /// Nothing is there.
    Nothing,
    /// It cannot be answered; why is a finding.
    Refused(HealthFinding),
}

/// A PKI mount.
pub(super) struct PkiMount<'a> {
    client: &'a Client<'a>,
    /// Its path, without a slash at its end.
    pub(super) path: &'a str,
    /// The time, in seconds since 1970.
    pub(super) now: i64,
    tune: OnceCell<Map>,
}

impl<'a> PkiMount<'a> {
    /// Finds a mount, and that it is one of PKI.
    pub(super) fn open(client: &'a Client<'a>, path: &'a str, now: i64) -> Result<Self, Error> {
        let at = format!("sys/internal/ui/mounts/{path}");
        let doing = Error::doing(format!("Unable to look at the mount {path}"));
        let answer = client.send(&ClientRequest::get(&at)).map_err(doing)?;
        let kind = answer.as_ref().and_then(|answer| answer.datum("type")).and_then(Json::as_str);
        if kind != Some("pki") {
            return Err(Error::usage(format!("{path} is no PKI mount")));
        }
        Ok(Self { client, path, now, tune: OnceCell::new() })
    }

    /// A path inside it, as it is below `/v1/`.
    pub(super) fn at(&self, inside: &str) -> String {
        format!("{}/{inside}", self.path)
    }

    /// Reads what is at a path below `/v1/`.
    pub(super) fn read(&self, path: &str) -> Result<FetchResult<Map>, Error> {
        self.ask(path, &ClientRequest::get(path))
    }

    /// One page of the names below a path inside it, after a name.
    pub(super) fn page(
        &self,
        inside: &str,
        after: &str,
    ) -> Result<FetchResult<Vec<String>>, Error> {
        let path = self.at(inside);
        let request = ClientRequest::list(&path)
            .with_query("after", after)
            .with_query("limit", PAGE.to_string());
        Ok(match self.ask(&path, &request)? {
            FetchResult::Answered(data) => {
                FetchResult::Answered(super::super::fetch::strings(&data, "keys"))
            }
            FetchResult::Nothing => FetchResult::Answered(Vec::new()),
            FetchResult::Refused(finding) => FetchResult::Refused(finding),
        })
    }

    /// Reads the bytes at a path inside it.
    pub(super) fn bytes(&self, inside: &str) -> Result<FetchResult<Vec<u8>>, Error> {
        let path = self.at(inside);
        match self.client.send_raw(&ClientRequest::get(&path)) {
            // An issuer without its key, such as the root above, has no list.
            Ok(bytes) if bytes.is_empty() => Ok(FetchResult::Nothing),
            Ok(bytes) => Ok(FetchResult::Answered(bytes)),
            Err(why) => refused(&path, why),
        }
    }

    /// How it is tuned.
    pub(super) fn tune(&self) -> Result<FetchResult<&Map>, Error> {
        if let Some(known) = self.tune.get() {
            return Ok(FetchResult::Answered(known));
        }
        Ok(match self.read(&self.tune_path())? {
            FetchResult::Answered(data) => FetchResult::Answered(self.tune.get_or_init(|| data)),
            FetchResult::Nothing => FetchResult::Nothing,
            FetchResult::Refused(finding) => FetchResult::Refused(finding),
        })
    }

    /// Where it says how it is tuned.
    pub(super) fn tune_path(&self) -> String {
        format!("sys/mounts/{}/tune", self.path)
    }

    fn ask(&self, path: &str, request: &ClientRequest) -> Result<FetchResult<Map>, Error> {
        match self.client.send(request) {
            Ok(Some(answer)) => {
                let doing = format!("Unable to read {path}");
                Ok(FetchResult::Answered(Secret::data_of(Some(answer), &doing)?))
            }
            Ok(None) => Ok(FetchResult::Nothing),
            Err(why) => refused(path, why),
        }
    }
}

/// Refusals that say something of the mount; what says something of the way there is an error.
fn refused<T>(path: &str, why: ClientError) -> Result<FetchResult<T>, Error> {
    let status = match &why {
        ClientError::Api(said) => said.status,
        _ => 0,
    };
    let finding = match status {
        403 => HealthFinding::new(
            Severity::InsufficientPermissions,
            path,
            "The token may not see this, so it was not checked.",
        ),
        404 | 405 => HealthFinding::new(
            Severity::InvalidVersion,
            path,
            "The server does not have this, so it was not checked.",
        ),
        _ => return Err(Error::doing(format!("Unable to read {path}"))(why)),
    };
    Ok(FetchResult::Refused(finding))
}
