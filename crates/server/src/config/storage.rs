//! `storage`, or by its older name `backend`: where the data is kept.
//!
//! Of several stanzas over several files the last one counts; two in one file are a mistake.

use std::path::PathBuf;

use super::Of;
use super::error::{Error, ValueOrigin};
use super::general::{checked_url, environment_first};
use super::model::{JoinToken, PostgresqlConfig, RetryJoin, StorageConfig};
use super::raw_value::RawValue;
use super::section::ConfigSection;
use super::section::Unused::{self, Ignored, Silent};
use kallisto_command::config::Environment;
use kallisto_store_postgres::{PostgresUrl, is_table_name};
use secrecy::ExposeSecret;

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

/// The kinds of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StorageKind {
    Raft,
    Postgresql,
    File,
    Memory,
}

pub(super) const KINDS: [(&str, StorageKind); 4] = [
    ("raft", StorageKind::Raft),
    ("postgresql", StorageKind::Postgresql),
    ("file", StorageKind::File),
    ("inmem", StorageKind::Memory),
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
    let kind = KINDS.iter().find(|(name, _)| *name == kind.to_ascii_lowercase());
    let Some((_, kind)) = kind else {
        return Err(stanza.refuse("the kinds of storage are raft, postgresql, file and inmem"));
    };
    match kind {
        StorageKind::Raft => raft(stanza, environment, warnings),
        StorageKind::File => file(stanza, warnings),
        StorageKind::Postgresql => postgresql(stanza, environment, warnings),
        StorageKind::Memory => {
            stanza.finish(&[], warnings)?;
            Ok(StorageConfig::Memory)
        }
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
    let node_id = node_id(&mut stanza, environment)?;
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
    let join_as_non_voter = join_as_non_voter(&mut stanza, environment)?;
    if let (Some(raw), true) = (&join_as_non_voter, retry_join.is_empty()) {
        warnings.push(format!("{} has no effect: there is no retry_join", raw.origin));
    }
    stanza.finish(&UNUSED_RAFT, warnings)?;
    Ok(StorageConfig::Raft {
        path,
        node_id,
        retry_join,
        join_as_non_voter: join_as_non_voter.is_some(),
        performance_multiplier,
        max_entry_bytes,
    })
}

/// Who wants this server to join without a vote, if anybody does. In Vault any value of the variable says so; one that says no is none here.
fn join_as_non_voter(
    stanza: &mut ConfigSection<'_>,
    environment: &Environment<'_>,
) -> Result<Option<RawValue>, Error> {
    if let Some(raw) = RawValue::of_environment(environment, "RAFT_RETRY_JOIN_AS_NON_VOTER") {
        return Ok(Some(raw).filter(|raw| raw.switch().unwrap_or(true)));
    }
    let Some(raw) = stanza.raw_value("retry_join_as_non_voter")? else { return Ok(None) };
    Ok(raw.switch()?.then_some(raw))
}

/// The name of this server.
fn node_id(
    stanza: &mut ConfigSection<'_>,
    environment: &Environment<'_>,
) -> Result<Option<String>, Error> {
    let raw = environment_first(environment, "RAFT_NODE_ID", stanza.name("node_id")?);
    let Some(raw) = raw else { return Ok(None) };
    let id = raw.line()?;
    if id.len() > NODE_ID_BYTES_MAX {
        return Err(raw.refuse(format!("is longer than {NODE_ID_BYTES_MAX} bytes")));
    }
    match id.is_empty() || id.contains('/') || id.trim() != id {
        true => Err(raw.refuse("is no name of a server: no / and no blanks around it")),
        false => Ok(Some(id)),
    }
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
    let names = ("leader_client_cert_file", "leader_client_key_file");
    let identity = (stanza.raw_value(names.0)?, stanza.raw_value(names.1)?);
    let client_identity = pair(Some(&stanza), identity, names)?;
    stanza.finish(&[("auto_join_*", Ignored)], warnings)?;
    Ok(RetryJoin { leader_api_addr, ca_cert_file, client_identity, tls_server_name, join_token })
}

/// The files of a client certificate and its key, which come together or not at all, from wherever each is; `names` are what they are called.
pub(super) fn pair(
    stanza: Option<&ConfigSection<'_>>,
    identity: (Option<RawValue>, Option<RawValue>),
    names: (&str, &str),
) -> Result<Option<(PathBuf, PathBuf)>, Error> {
    let alone = match identity {
        (Some(cert), Some(key)) => return Ok(Some((cert.path()?, key.path()?))),
        (None, None) => return Ok(None),
        (Some(alone), None) | (None, Some(alone)) => alone,
    };
    let (cert, key) = names;
    let why = format!("a client certificate ({cert}) and its key ({key}) must be given together");
    Err(match (stanza, &alone.origin) {
        // It knows whether the other one is there, mistyped.
        (Some(stanza), ValueOrigin::File(..)) => stanza.refuse(&why),
        _ => alone.refuse(why),
    })
}

fn file(mut stanza: ConfigSection<'_>, warnings: &mut Vec<String>) -> Result<StorageConfig, Error> {
    let path =
        stanza.raw_value("path")?.ok_or_else(|| stanza.refuse("a path is missing"))?.path()?;
    stanza.finish(&[], warnings)?;
    Ok(StorageConfig::File { path })
}

/// Most bytes of a connection URL.
const URL_BYTES_MAX: usize = 8 << 10;
/// Connections that a server holds: one reads and writes, one keeps its place.
const CONNECTIONS: u64 = 2;
/// Most tries to connect at the start.
const CONNECTS_MAX: u64 = 1_000_000;
/// Names of the tables, as OpenBao has them for its own.
pub(crate) const TABLE_DEFAULT: &str = "kallisto_store";
const HA_TABLE_DEFAULT: &str = "kallisto_servers";

fn postgresql(
    mut stanza: ConfigSection<'_>,
    environment: &Environment<'_>,
    warnings: &mut Vec<String>,
) -> Result<StorageConfig, Error> {
    let raw = stanza.raw_value("connection_url")?;
    let raw = environment_first(environment, "PG_CONNECTION_URL", raw);
    let raw = raw.ok_or_else(|| {
        stanza.refuse("a connection_url is missing, here and in BAO_PG_CONNECTION_URL")
    })?;
    let text = raw.secret()?;
    if text.expose_secret().len() > URL_BYTES_MAX {
        return Err(raw.refuse(format!("is longer than {URL_BYTES_MAX} bytes")));
    }
    let url = PostgresUrl::parse(text.expose_secret()).map_err(|why| raw.refuse(why))?;
    let mut table = |key, default: &str| {
        match stanza.raw_value(key)? {
        None => Ok(default.to_owned()),
        Some(raw) => match raw.text()? {
            name if is_table_name(&name) => Ok(name),
            _ => Err(raw.refuse("is no name of a table: letters, digits and _, with a schema and a dot before it or not")),
        },
    }
    };
    let (table_name, ha_table) =
        (table("table", TABLE_DEFAULT)?, table("ha_table", HA_TABLE_DEFAULT)?);
    if [
        &table_name[..],
        &format!("{table_name}_changes"),
        &format!("{table_name}_meta"),
        &format!("{table_name}_staged"),
    ]
    .contains(&&ha_table[..])
    {
        return Err(stanza.refuse("ha_table is another table than those of table"));
    }
    let ha_enabled = stanza.switch("ha_enabled")?.unwrap_or(true);
    let makes_tables = !stanza.switch("skip_create_table")?.unwrap_or(false);
    let whole = |raw: Option<RawValue>, range| raw.map(|raw| raw.whole(range)).transpose();
    whole(stanza.raw_value("max_parallel")?, CONNECTIONS..=u64::MAX)?;
    let connects_max = whole(stanza.raw_value("max_connect_retries")?, 0..=CONNECTS_MAX)?;
    let node_id = node_id(&mut stanza, environment)?;
    stanza.finish(&[("max_idle_connections", Silent)], warnings)?;
    Ok(StorageConfig::Postgresql(Box::new(PostgresqlConfig {
        url,
        table: table_name,
        ha_table,
        ha_enabled,
        makes_tables,
        connects_max: u32::try_from(connects_max.unwrap_or(1).max(1)).unwrap_or(u32::MAX),
        node_id,
    })))
}
