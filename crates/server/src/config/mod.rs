//! The server's configuration: files, directories and the environment into one [`ServerConfig`].
//!
//! The `server` command calls [`load`] once; every room of the server then gets its own small part
//! by value. Keys and stanzas are those of Vault, in HCL or JSON, so that a file made for it starts
//! this server; what is ours alone is `durability`. [`sources`] finds and parses, [`section`] and
//! [`given`] give values their types, the other files read one stanza each.
//!
//! Invariants:
//! - A key nobody knows is a warning; a known one with a wrong value is an error. Both name the
//!   file and the line.
//! - What would change who may do or see what is never ignored: it is understood or refused.
//! - Several files are read in order: lists of listeners add up, of everything else the last one
//!   counts. The environment wins over all files where Vault has it so.
//! - No message and no `Debug` shows a value that may be secret.

mod address;
mod audit;
mod error;
mod general;
mod given;
mod limits;
mod listener;
mod model;
mod seal;
mod section;
mod sources;
mod storage;

use std::path::PathBuf;

use kallisto_command::config::Environment;

pub(crate) use address::HostPort;
pub(crate) use audit::DIRECTORIES_DEFAULT;
pub(crate) use error::Error;
pub(crate) use model::{
    ClientCertificates, JoinToken, LeaseTtls, ListenerConfig, LogConfig, LogFormat, RespConfig,
    RespPlace, RetryJoin, SealConfig, ServerConfig, StaticKey, StorageConfig, TlsConfig,
    TlsVersion, TransitSeal,
};

use section::Section;

/// A configuration, and what its author should know about it.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// What the server runs with.
    pub(crate) config: ServerConfig,
    /// Sentences about keys that have no effect, each with its place.
    pub(crate) warnings: Vec<String>,
}

/// Whose configuration it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// A server that is what its configuration says: it needs a listener and a storage.
    Server,
    /// A dev server, which has both by itself, and needs no configuration at all.
    DevServer,
}

/// Reads the files and directories of `-config`, in order, and the environment.
///
/// # Errors
/// [`Error`] for the first thing that cannot be read or understood.
pub(crate) fn load(
    paths: &[PathBuf],
    environment: &Environment<'_>,
    of: Of,
) -> Result<Loaded, Error> {
    let sources = sources::read(paths, environment)?;
    if sources.is_empty() && of == Of::Server {
        let text = "no configuration: name a file or a directory with -config".to_owned();
        return Err(Error::Missing(text));
    }
    let mut warnings = Vec::new();
    let mut top = Section::whole(&sources);
    let (listeners, resp_listeners) = listener::read(&mut top, of, &mut warnings)?;
    let config = ServerConfig {
        listeners,
        resp_listeners,
        storage: storage::read(&mut top, environment, of, &mut warnings)?,
        seal: seal::read(&mut top, environment, &mut warnings)?,
        telemetry: general::telemetry(&mut top, &mut warnings)?,
        log: general::log(&mut top, environment)?,
        limits: limits::read(&mut top, &mut warnings)?,
        durability: general::durability(&mut top, &mut warnings)?,
        lease_ttls: general::lease_ttls(&mut top)?,
        max_staleness: general::max_staleness(&mut top)?,
        api_addr: general::url(&mut top, environment, "api_addr", "API_ADDR")?,
        cluster_addr: general::url(&mut top, environment, "cluster_addr", "CLUSTER_ADDR")?,
        cluster_name: top.given("cluster_name")?.map(|given| given.text()).transpose()?,
        cache_size_bytes: general::cache_size(&mut top)?,
        ui: general::switch(&mut top, environment, "ui", "UI")?,
        disable_mlock: general::switch(&mut top, environment, "disable_mlock", "DISABLE_MLOCK")?,
        raw_storage_endpoint: top.switch("raw_storage_endpoint")?.unwrap_or(false),
        audit_devices: audit::read(&mut top, &mut warnings)?,
        audit_directories: audit::directories(&mut top)?,
        pid_file: top.given("pid_file")?.map(|given| given.path()).transpose()?,
    };
    general::finish(top, &mut warnings)?;
    Ok(Loaded { config, warnings })
}

#[cfg(test)]
mod tests;
