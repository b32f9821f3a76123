//! What an operator wants saved by the clock: a record of each schedule, in Vault Enterprise's fields.

use kallisto_store::Seqno;
use secrecy::{ExposeSecret, SecretString};

use crate::api::Span;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{self, Json, Map};
use crate::platform::snapshot_storage::{S3Target, SnapshotTarget};
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;

/// Where the records are in the engine storage of `sys/`.
pub(super) const CONFIGS: &str = "snapshot-auto/config/";
/// The name of the schedule that was written last. Every write of one changes this record and depends on it, so that no two are checked
/// against the same others.
pub(super) const WRITTEN_LAST: &str = "snapshot-auto/written-last";
/// Least time between two snapshots, in seconds.
const INTERVAL_SECS_MIN: i64 = 10;
/// Snapshots that one schedule keeps at the most.
const RETAIN_MAX: i64 = 10_000;
/// Longest name, prefix or other text, in bytes.
const TEXT_BYTES_MAX: usize = 1_024;
/// What the names of files end in.
pub(super) const EXTENSION: &str = ".snap";
/// Schedules there may be.
pub(super) const SCHEDULES_MAX: usize = 64;

/// A schedule.
#[derive(Clone, Debug)]
pub(crate) struct BackupSchedule {
    pub(crate) interval: Span,
    pub(crate) retain: u64,
    /// What names of files begin with.
    pub(crate) file_prefix: String,
    /// As it was given: a directory, or what stands before the names of objects.
    path_prefix: String,
    /// Bytes that all files of this schedule may take together; 0 for no bound.
    pub(crate) space_max: u64,
    pub(crate) target: SnapshotTarget,
}

impl BackupSchedule {
    /// The schedule of this name, and when it was written.
    pub(super) fn read(
        context: &NamespaceContext,
        name: &str,
    ) -> Result<Option<(Self, Seqno)>, Error> {
        let record = EngineStorage::builtin(context, MountId::SYSTEM)?.get(&record(name))?;
        let Some(record) = record else { return Ok(None) };
        let map = json::parse_object(&record.value)
            .map_err(|_| Error::internal(&"a schedule of snapshots is damaged"))?;
        Ok(Some((Self::of(&map, None)?, record.seqno)))
    }

    /// The schedule that fields say; secrets that they leave out are those of `before`.
    pub(super) fn of(map: &Map, before: Option<&Self>) -> Result<Self, Error> {
        let fields = Fields::new(map);
        let text = |name: &str| match fields.string(name)?.unwrap_or_default() {
            text if text.len() > TEXT_BYTES_MAX => {
                Err(Error::invalid(format!("{name} is longer than {TEXT_BYTES_MAX} bytes")))
            }
            text => Ok(text),
        };
        let interval =
            fields.span("interval")?.ok_or_else(|| Error::invalid("missing interval"))?;
        if interval.secs() < INTERVAL_SECS_MIN {
            return Err(Error::invalid(format!("interval is less than {INTERVAL_SECS_MIN}s")));
        }
        let retain = fields.int("retain")?.unwrap_or(1);
        if !(1..=RETAIN_MAX).contains(&retain) {
            return Err(Error::invalid(format!("retain is not between 1 and {RETAIN_MAX}")));
        }
        let file_prefix = match text("file_prefix")? {
            prefix if prefix.is_empty() => "kallisto-snapshot".to_owned(),
            prefix => prefix,
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !file_prefix.bytes().all(plain) || file_prefix.starts_with('.') {
            return Err(Error::invalid("file_prefix has other than letters, digits and ._-"));
        }
        let path_prefix = text("path_prefix")?;
        let space = fields.int("local_max_space")?.unwrap_or(0);
        let space_max = u64::try_from(space)
            .map_err(|_| Error::invalid("local_max_space must not be negative"))?;
        let target = match text("storage_type")?.as_str() {
            "local" => local(&path_prefix, space_max)?,
            "aws-s3" => {
                let known = before.and_then(|before| match &before.target {
                    SnapshotTarget::S3(target) => Some(&**target),
                    SnapshotTarget::Local { .. } => None,
                });
                s3(&path_prefix, &text, fields, known)?
            }
            "" => return Err(Error::invalid("missing storage_type")),
            other @ ("azure-blob" | "google-gcs") => {
                return Err(Error::invalid(format!(
                    "storage_type {other} is not supported; use local or aws-s3"
                )));
            }
            _ => return Err(Error::invalid("storage_type is neither local nor aws-s3")),
        };
        let retain = retain.unsigned_abs();
        Ok(Self { interval, retain, file_prefix, path_prefix, space_max, target })
    }

    /// What is kept of it; it holds secrets.
    pub(super) fn to_record(&self) -> Vec<u8> {
        let mut map = self.to_map();
        if let SnapshotTarget::S3(target) = &self.target {
            for (name, secret) in [
                ("aws_secret_access_key", &target.secret_access_key),
                ("aws_session_token", &target.session_token),
            ] {
                map.insert(name.to_owned(), secret.expose_secret().into());
            }
        }
        Json::Object(map).to_text()
    }

    /// What is shown of it.
    pub(super) fn to_map(&self) -> Map {
        let mut map: Map = Map::new();
        let mut put = |name: &str, value: Json| map.insert(name.to_owned(), value);
        put("interval", self.interval.secs().unsigned_abs().into());
        put("retain", self.retain.into());
        put("file_prefix", self.file_prefix.clone().into());
        put("path_prefix", self.path_prefix.clone().into());
        match &self.target {
            SnapshotTarget::Local { .. } => {
                put("storage_type", "local".into());
                put("local_max_space", self.space_max.into());
            }
            SnapshotTarget::S3(target) => {
                put("storage_type", "aws-s3".into());
                put("aws_s3_bucket", target.bucket.clone().into());
                put("aws_s3_region", target.region.clone().into());
                put("aws_s3_endpoint", target.endpoint.clone().into());
                put("aws_s3_force_path_style", target.path_style.into());
                put("aws_access_key_id", target.access_key_id.clone().into());
            }
        }
        map
    }

    /// What the names of its files begin with.
    pub(super) fn prefix(&self) -> String {
        format!("{}-", self.file_prefix)
    }

    /// Whether a file of this name is one that it writes, and none of a schedule with a longer prefix.
    pub(super) fn writes(&self, file: &str) -> bool {
        let rest = file.strip_prefix(self.prefix().as_str());
        let rest = rest.and_then(|rest| rest.strip_suffix(EXTENSION));
        let Some((time, index)) = rest.and_then(|rest| rest.split_once('-')) else { return false };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let time = time.strip_suffix('Z').and_then(|time| time.split_once('T'));
        is_number(index) && time.is_some_and(|(day, hour)| is_number(day) && is_number(hour))
    }

    /// Where a file of this name ends up, for people.
    pub(super) fn url(&self, file: &str) -> String {
        match &self.target {
            SnapshotTarget::Local { directory } => {
                format!("file://{}/{file}", directory.trim_end_matches('/'))
            }
            SnapshotTarget::S3(target) => {
                format!("s3://{}/{}{file}", target.bucket, target.prefix)
            }
        }
    }
}

pub(super) fn record(name: &str) -> String {
    format!("{CONFIGS}{name}")
}

fn local(path_prefix: &str, space_max: u64) -> Result<SnapshotTarget, Error> {
    let steps_up = path_prefix.split('/').any(|part| part == "..");
    if !path_prefix.starts_with('/') || steps_up || path_prefix.contains('\0') {
        return Err(Error::invalid("path_prefix is no absolute path of a directory"));
    }
    if space_max == 0 {
        return Err(Error::invalid("missing local_max_space: bytes that the files may take"));
    }
    Ok(SnapshotTarget::Local { directory: path_prefix.to_owned() })
}

fn s3(
    path_prefix: &str,
    text: &dyn Fn(&str) -> Result<String, Error>,
    fields: Fields<'_>,
    before: Option<&S3Target>,
) -> Result<SnapshotTarget, Error> {
    for unsupported in ["aws_s3_kms_key", "aws_s3_enable_kms", "aws_s3_server_side_encryption"] {
        if !matches!(text(unsupported)?.as_str(), "" | "false") {
            return Err(Error::invalid(format!(
                "{unsupported} is not supported: a snapshot is encrypted as it is"
            )));
        }
    }
    let needed = |name: &str| match text(name)? {
        empty if empty.is_empty() => Err(Error::invalid(format!("missing {name}"))),
        given => Ok(given),
    };
    // No credential of S3 has blanks, and a file that it was read from has a line end.
    let credential = |name: &str| text(name).map(|given| given.trim().to_owned());
    let secret = |name: &str, kept: Option<&SecretString>| match credential(name)? {
        empty if empty.is_empty() => Ok(kept.cloned().unwrap_or_default()),
        given => Ok::<SecretString, Error>(given.into()),
    };
    let access_key_id = match (credential("aws_access_key_id")?, before) {
        (empty, Some(before)) if empty.is_empty() => before.access_key_id.clone(),
        (given, _) => given,
    };
    let secret_access_key =
        secret("aws_secret_access_key", before.map(|before| &before.secret_access_key))?;
    if access_key_id.is_empty() || secret_access_key.expose_secret().is_empty() {
        return Err(Error::invalid("missing aws_access_key_id or aws_secret_access_key"));
    }
    let bucket = needed("aws_s3_bucket")?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    if !bucket.bytes().all(plain) {
        return Err(Error::invalid("aws_s3_bucket is no name of a bucket"));
    }
    let region = needed("aws_s3_region")?;
    if !region.bytes().all(plain) {
        return Err(Error::invalid("aws_s3_region is no name of a region"));
    }
    let is_plain_path = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    if !path_prefix.bytes().all(is_plain_path) || path_prefix.starts_with('/') {
        return Err(Error::invalid(
            "path_prefix has other than letters, digits and ._-/, or begins with a slash",
        ));
    }
    let prefix = match path_prefix.trim_end_matches('/') {
        "" => String::new(),
        some => format!("{some}/"),
    };
    let without_tls = fields.boolean("aws_s3_disable_tls")?.unwrap_or(false);
    let endpoint = match text("aws_s3_endpoint")? {
        empty if empty.is_empty() => String::new(),
        full if full.starts_with("https://") || full.starts_with("http://") => full,
        host if without_tls => format!("http://{host}"),
        host => format!("https://{host}"),
    };
    Ok(SnapshotTarget::S3(Box::new(S3Target {
        endpoint: endpoint.trim_end_matches('/').to_owned(),
        region,
        bucket,
        prefix,
        access_key_id,
        secret_access_key,
        session_token: secret("aws_session_token", before.map(|before| &before.session_token))?,
        path_style: fields.boolean("aws_s3_force_path_style")?.unwrap_or(false),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_that_were_read_from_files_have_no_line_ends() {
        let given = [
            ("interval", "1h"),
            ("storage_type", "aws-s3"),
            ("aws_s3_bucket", "backups"),
            ("aws_s3_region", "eu-central-1"),
            ("aws_access_key_id", "AKIA\n"),
            ("aws_secret_access_key", "wJalr/K7\r\n"),
            ("aws_session_token", " token\n"),
        ];
        let map: Map =
            given.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let schedule = BackupSchedule::of(&map, None).unwrap();
        let SnapshotTarget::S3(target) = &schedule.target else { panic!("not in a bucket") };
        assert_eq!(target.access_key_id, "AKIA");
        assert_eq!(target.secret_access_key.expose_secret(), "wJalr/K7");
        assert_eq!(target.session_token.expose_secret(), "token");
    }
}
