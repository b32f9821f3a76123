//! `storage`, or by its older name `backend`: where the data is kept.
//!
//! Of several stanzas over several files the last one counts; two in one file are a mistake.

use super::Of;
use super::error::Error;
use super::general::{checked_url, environment_first};
use super::model::{JoinToken, RetryJoin, StorageConfig};
use super::raw_value::RawValue;
use super::section::ConfigSection;
use super::section::Unused::{self, Ignored, Silent};
use kallisto_command::config::Environment;

/// Largest factor on the timeouts of elections, as Vault has it; 0 stands for the default.
const PERFORMANCE_MULTIPLIER_MAX: u64 = 10;
/// Least and most that `max_entry_size` may say, in bytes.
const ENTRY_BYTES: std::ops::RangeInclusive<u64> = 1 << 10..=32 << 20;
/// Longest name of a server, in bytes.
const NODE_ID_BYTES_MAX: usize = 255;

const UNUSED_RAFT: [(&str, Unused); 8] = [
    ("trailing_logs", Ignored),
    ("snapshot_threshold", Ignored),
    ("snapshot_interval", Ignored),
    ("autopilot_*", Ignored),
    ("raft_wal", Silent),
    ("raft_log_*", Silent),
    ("max_mount_and_namespace_table_entry_size", Ignored),
    ("max_batch_*", Ignored),
];

/// The storage that counts.
pub(super) fn read(
    top: &mut ConfigSection<'_>,
    environment: &Environment<'_>,
    of: Of,
    warnings: &mut Vec<String>,
) -> Result<StorageConfig, Error> {
    let mut found = top.labelled("storage")?;
    found.extend(top.labelled("backend")?);
    let Some((kind, stanza)) = last(found)? else {
        if of == Of::DevServer {
            return Ok(StorageConfig::Memory);
        }
        let text = "no storage is configured: add storage \"raft\" { path = \"..\" }";
        return Err(Error::Missing(text.to_owned()));
    };
    match kind.to_ascii_lowercase().as_str() {
        "raft" => raft(stanza, environment, warnings),
        "file" => file(stanza, warnings),
        "inmem" => {
            stanza.finish(&[], warnings)?;
            Ok(StorageConfig::Memory)
        }
        _ => Err(stanza.refuse("the kinds of storage are raft, file and inmem")),
    }
}

/// The last stanza, unless another one stands in the same file.
pub(super) fn last<'a>(
    mut found: Vec<(&'a str, ConfigSection<'a>)>,
) -> Result<Option<(&'a str, ConfigSection<'a>)>, Error> {
    let Some((kind, stanza)) = found.pop() else { return Ok(None) };
    match found.iter().any(|(_, other)| other.place().file == stanza.place().file) {
        true => Err(stanza.refuse("there can be only one in a file")),
        false => Ok(Some((kind, stanza))),
    }
}

fn raft(
    mut stanza: ConfigSection<'_>,
    environment: &Environment<'_>,
    warnings: &mut Vec<String>,
) -> Result<StorageConfig, Error> {
    let path = environment_first(environment, "RAFT_PATH", stanza.raw_value("path")?);
    let path = path.ok_or_else(|| stanza.refuse("a path is missing"))?.path()?;
    let node_id = environment_first(environment, "RAFT_NODE_ID", stanza.raw_value("node_id")?);
    let node_id = node_id
        .map(|raw| match raw.text()? {
            id if id.len() > NODE_ID_BYTES_MAX => {
                Err(raw.refuse(format!("is longer than {NODE_ID_BYTES_MAX} bytes")))
            }
            id => Ok(id),
        })
        .transpose()?;
    let mut retry_join = Vec::new();
    for join in stanza.stanzas("retry_join")? {
        retry_join.push(self::retry_join(join, environment, warnings)?);
    }
    let performance_multiplier = stanza
        .raw_value("performance_multiplier")?
        .map(|raw| raw.whole(0..=PERFORMANCE_MULTIPLIER_MAX))
        .transpose()?
        .filter(|multiplier| *multiplier != 0);
    let max_entry_bytes =
        stanza.raw_value("max_entry_size")?.map(|raw| raw.bytes(ENTRY_BYTES)).transpose()?;
    let join_as_non_voter = stanza.switch("retry_join_as_non_voter")?.unwrap_or(false);
    stanza.finish(&UNUSED_RAFT, warnings)?;
    Ok(StorageConfig::Raft {
        path,
        node_id,
        retry_join,
        join_as_non_voter,
        performance_multiplier,
        max_entry_bytes,
    })
}

fn retry_join(
    mut stanza: ConfigSection<'_>,
    environment: &Environment<'_>,
    warnings: &mut Vec<String>,
) -> Result<RetryJoin, Error> {
    if stanza.raw_value("auto_join")?.is_some() {
        return Err(stanza.refuse("auto_join is not supported: name a leader_api_addr"));
    }
    let address = stanza.raw_value("leader_api_addr")?;
    let address = address.ok_or_else(|| stanza.refuse("a leader_api_addr is missing"))?;
    let leader_api_addr = checked_url(&address)?;
    let mut path = |key| stanza.raw_value(key)?.map(|raw| raw.path()).transpose();
    let ca_cert_file = path("leader_ca_cert_file")?;
    let cert = path("leader_client_cert_file")?;
    let key = path("leader_client_key_file")?;
    let join_token = match path("join_token_file")? {
        Some(path) => Some(JoinToken::File(path)),
        None => RawValue::of_environment(environment, "JOIN_TOKEN")
            .map(|raw| raw.secret().map(JoinToken::Text))
            .transpose()?,
    };
    let tls_server_name =
        stanza.raw_value("leader_tls_servername")?.map(|raw| raw.text()).transpose()?;
    for inline in ["leader_ca_cert", "leader_client_cert", "leader_client_key"] {
        if stanza.raw_value(inline)?.is_some() {
            let text = "certificates and keys are read from files: use the leader_.._file keys";
            return Err(stanza.refuse(text));
        }
    }
    if stanza.raw_value("join_token")?.is_some() {
        let text = "a join token is read from a file or the environment: use join_token_file";
        return Err(stanza.refuse(text));
    }
    let client_identity = pair(&stanza, cert, key)?;
    stanza.finish(&[("auto_join_*", Ignored)], warnings)?;
    Ok(RetryJoin { leader_api_addr, ca_cert_file, client_identity, tls_server_name, join_token })
}

/// Certificate and key come together or not at all.
pub(super) fn pair<T>(
    stanza: &ConfigSection<'_>,
    cert: Option<T>,
    key: Option<T>,
) -> Result<Option<(T, T)>, Error> {
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some((cert, key))),
        (None, None) => Ok(None),
        _ => Err(stanza.refuse("a client certificate and its key must be given together")),
    }
}

fn file(mut stanza: ConfigSection<'_>, warnings: &mut Vec<String>) -> Result<StorageConfig, Error> {
    let path =
        stanza.raw_value("path")?.ok_or_else(|| stanza.refuse("a path is missing"))?.path()?;
    stanza.finish(&[], warnings)?;
    Ok(StorageConfig::File { path })
}
