//! The mount that is looked at: what checks may ask of it, each thing once.
//!
//! What the token may not see, and what the server has not, ends no check: it is a finding.

use std::cell::OnceCell;

use super::{Finding, Severity};
use kallisto_command::client::error::ClientError;
use kallisto_command::client::{Client, Request};
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};

/// Names of one page of a list.
pub(super) const PAGE: u64 = 10_000;

/// What became of a question.
pub(super) enum Asked<T> {
    /// It was answered.
    Answered(T),
    /// Nothing is there.
    Nothing,
    /// It cannot be answered; why is a finding.
    Refused(Finding),
}

/// A PKI mount.
pub(super) struct Mount<'a> {
    client: &'a Client<'a>,
    /// Its path, without a slash at its end.
    pub(super) path: &'a str,
    /// The time, in seconds since 1970.
    pub(super) now: i64,
    tune: OnceCell<Map>,
}

impl<'a> Mount<'a> {
    /// Finds a mount, and that it is one of PKI.
    pub(super) fn open(client: &'a Client<'a>, path: &'a str, now: i64) -> Result<Self, Error> {
        let at = format!("sys/internal/ui/mounts/{path}");
        let doing = Error::doing(format!("Unable to look at the mount {path}"));
        let answer = client.send(&Request::get(&at)).map_err(doing)?;
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
    pub(super) fn read(&self, path: &str) -> Result<Asked<Map>, Error> {
        self.ask(path, &Request::get(path))
    }

    /// One page of the names below a path inside it, after a name.
    pub(super) fn page(&self, inside: &str, after: &str) -> Result<Asked<Vec<String>>, Error> {
        let path = self.at(inside);
        let request =
            Request::list(&path).with_query("after", after).with_query("limit", PAGE.to_string());
        Ok(match self.ask(&path, &request)? {
            Asked::Answered(data) => Asked::Answered(super::super::fetch::strings(&data, "keys")),
            Asked::Nothing => Asked::Answered(Vec::new()),
            Asked::Refused(finding) => Asked::Refused(finding),
        })
    }

    /// Reads the bytes at a path inside it.
    pub(super) fn bytes(&self, inside: &str) -> Result<Asked<Vec<u8>>, Error> {
        let path = self.at(inside);
        match self.client.send_raw(&Request::get(&path)) {
            // An issuer without its key, such as the root above, has no list.
            Ok(bytes) if bytes.is_empty() => Ok(Asked::Nothing),
            Ok(bytes) => Ok(Asked::Answered(bytes)),
            Err(why) => refused(&path, why),
        }
    }

    /// How it is tuned.
    pub(super) fn tune(&self) -> Result<Asked<&Map>, Error> {
        if let Some(known) = self.tune.get() {
            return Ok(Asked::Answered(known));
        }
        Ok(match self.read(&self.tune_path())? {
            Asked::Answered(data) => Asked::Answered(self.tune.get_or_init(|| data)),
            Asked::Nothing => Asked::Nothing,
            Asked::Refused(finding) => Asked::Refused(finding),
        })
    }

    /// Where it says how it is tuned.
    pub(super) fn tune_path(&self) -> String {
        format!("sys/mounts/{}/tune", self.path)
    }

    fn ask(&self, path: &str, request: &Request) -> Result<Asked<Map>, Error> {
        match self.client.send(request) {
            Ok(Some(answer)) => Ok(Asked::Answered(answer.data.unwrap_or_default())),
            Ok(None) => Ok(Asked::Nothing),
            Err(why) => refused(path, why),
        }
    }
}

/// Refusals that say something of the mount; what says something of the way there is an error.
fn refused<T>(path: &str, why: ClientError) -> Result<Asked<T>, Error> {
    let status = match &why {
        ClientError::Api(said) => said.status,
        _ => 0,
    };
    let finding = match status {
        403 => Finding::new(
            Severity::InsufficientPermissions,
            path,
            "The token may not see this, so it was not checked.",
        ),
        404 | 405 => Finding::new(
            Severity::InvalidVersion,
            path,
            "The server does not have this, so it was not checked.",
        ),
        _ => return Err(Error::doing(format!("Unable to read {path}"))(why)),
    };
    Ok(Asked::Refused(finding))
}
