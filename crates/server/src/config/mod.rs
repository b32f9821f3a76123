//! The server's configuration: files, directories and the environment into one [`ServerConfig`].
//!
//! The `server` command calls [`load`] once; every room of the server then gets its own small part
//! by value. Keys and stanzas are those of Vault, in HCL or JSON, so that a file made for it starts
//! this server; what is ours alone is `durability`. [`sources`] finds and parses, [`section`] and
//! [`raw_value`] give values their types, the other files read one stanza each.
//!
//! Invariants:
//! - A key nobody knows is a warning; a known one with a wrong value is an error. Both name the
//!   file and the line. All of them are told at once, by place; what follows from another is not.
//! - What would change who may do or see what is never ignored: it is understood or refused.
//! - Several files are read in order: lists of listeners add up, of everything else the last one
//!   counts. The environment wins over all files where Vault has it so.
//! - No message and no `Debug` shows a value that may be secret.

mod address;
mod audit;
mod error;
mod general;
mod initialize;
mod limits;
mod listener;
mod model;
mod raw_value;
mod seal;
mod section;
mod service_registration;
mod sources;
mod storage;
mod tracing;

use std::path::PathBuf;

use kallisto_command::config::Environment;

pub(crate) use address::HostPort;
pub(crate) use audit::DIRECTORIES_DEFAULT;
pub(crate) use error::Problems;
pub(crate) use general::LEVELS;
pub(crate) use initialize::OPERATIONS;
pub(crate) use model::{
    ClientCertificates, EvaluatedForm, InitRequest, InitValue, JoinToken, LeaseTtls,
    ListenerConfig, LogConfig, LogFile, LogFormat, PodConfig, PostgresqlConfig, RequestName,
    RespConfig, RespPlace, RetryJoin, SealSettings, ServerConfig, StaticKeyConfig, StorageConfig,
    TlsConfig, TlsVersion, TracingConfig, TransitSeal, ValueSource,
};

pub(crate) use storage::TABLE_DEFAULT;

use error::Error;
use section::ConfigSection;

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
/// Everything that cannot be read or understood, and the warnings besides.
pub(crate) fn load(
    paths: &[PathBuf],
    environment: &Environment<'_>,
    of: Of,
) -> Result<Loaded, Problems> {
    let alone = |error: Error| Problems(vec![error.to_string()]);
    let sources = sources::read(paths, environment).map_err(alone)?;
    if sources.is_empty() && of == Of::Server {
        let text = "no configuration: name a file or a directory with -config".to_owned();
        return Err(alone(Error::Missing(text)));
    }
    let mut reading = ConfigReading::of(&sources);
    let config = read_all(&mut reading, environment, of);
    let ConfigReading { errors, warnings, .. } = reading;
    let warnings = Problems::sorted(warnings);
    match config {
        Some(config) if errors.is_empty() => Ok(Loaded { config, warnings }),
        Some(_) | None => {
            let errors = errors.iter().map(Error::to_string);
            Err(Problems(Problems::sorted(errors.chain(warnings).collect())))
        }
    }
}

/// Reads every key that is known, whatever is wrong with others.
fn read_all(
    reading: &mut ConfigReading<'_>,
    environment: &Environment<'_>,
    of: Of,
) -> Option<ServerConfig> {
    let listeners = reading.part(|top, warnings| listener::read(top, of, warnings));
    let storage = reading.part(|top, warnings| storage::read(top, environment, of, warnings));
    let told = reading.errors.len();
    let seal = reading.part(|top, warnings| seal::read(top, environment, warnings));
    // What is refused elsewhere is no hindrance: a seal that was is read as if there were none.
    let is_refused = reading.errors.len() > told;
    let hindrance = match (&seal, &storage) {
        (Some(SealSettings::Shamir), _) if !is_refused => Some(initialize::Hindrance::Shares),
        (_, Some(StorageConfig::Raft { retry_join, .. })) if !retry_join.is_empty() => {
            Some(initialize::Hindrance::Joins)
        }
        _ => None,
    };
    let initialize = reading.part(|top, warnings| initialize::read(top, hindrance, warnings));
    let pod = reading.part(|top, warnings| service_registration::read(top, environment, warnings));
    let telemetry = reading.part(general::telemetry);
    let tracing = reading.part(|top, warnings| tracing::read(top, environment, warnings));
    let log = reading.part(|top, _| general::log(top, environment));
    let limits = reading.part(limits::read);
    let durability = reading.part(general::durability);
    let lease_ttls = reading.part(|top, _| general::lease_ttls(top));
    let max_staleness = reading.part(|top, _| general::max_staleness(top));
    let api_addr = reading.part(|top, _| general::url(top, environment, "api_addr", "API_ADDR"));
    let cluster_addr = reading.part(|top, _| general::cluster_url(top, environment));
    let cluster_name =
        reading.part(|top, _| top.raw_value("cluster_name")?.map(|raw| raw.line()).transpose());
    let cache_size_bytes = reading.part(|top, _| general::cache_size(top));
    let mut switch = |key, variable: &str| {
        reading.part(|top, _| general::switch(top, environment, key, variable))
    };
    let (ui, disable_mlock) = (switch("ui", "UI"), switch("disable_mlock", "DISABLE_MLOCK"));
    let raw_storage_endpoint =
        reading.part(|top, _| Ok(top.switch("raw_storage_endpoint")?.unwrap_or(false)));
    let audit_devices = reading.part(audit::read);
    let audit_directories = reading.part(|top, _| audit::directories(top));
    let pid_file =
        reading.part(|top, _| top.raw_value("pid_file")?.map(|raw| raw.path()).transpose());
    if !reading.is_cut {
        reading.part(|top, warnings| general::finish(top.clone(), warnings));
    }
    let (listeners, resp_listeners) = listeners?;
    Some(ServerConfig {
        listeners,
        resp_listeners,
        storage: storage?,
        seal: seal?,
        initialize: initialize?,
        pod: pod?,
        service_account_dir: service_registration::service_account_dir(environment),
        api_server: service_registration::api_server(environment),
        telemetry: telemetry?,
        tracing: tracing?,
        log: log?,
        limits: limits?,
        durability: durability?,
        lease_ttls: lease_ttls?,
        max_staleness: max_staleness?,
        api_addr: api_addr?,
        cluster_addr: cluster_addr?,
        cluster_name: cluster_name?,
        cache_size_bytes: cache_size_bytes?,
        ui: ui?,
        disable_mlock: disable_mlock?.unwrap_or(false),
        raw_storage_endpoint: raw_storage_endpoint?,
        audit_devices: audit_devices?,
        audit_directories: audit_directories?,
        pid_file: pid_file?,
    })
}

/// Most errors that are told at once.
const ERRORS_MAX: usize = 64;

/// All files as they are read, and what was found wrong with them so far.
struct ConfigReading<'a> {
    top: ConfigSection<'a>,
    errors: Vec<Error>,
    warnings: Vec<String>,
    /// Something ended before it asked for all that it knows, so nobody can say what is unknown.
    is_cut: bool,
}

impl<'a> ConfigReading<'a> {
    fn of(sources: &'a [sources::ConfigFile]) -> Self {
        Self {
            top: ConfigSection::whole(sources),
            errors: Vec::new(),
            warnings: Vec::new(),
            is_cut: false,
        }
    }

    /// Reads a part. What is refused is set aside and the part read again without it, so that all that is wrong is found.
    fn part<T>(
        &mut self,
        read: impl Fn(&mut ConfigSection<'a>, &mut Vec<String>) -> Result<T, Error>,
    ) -> Option<T> {
        let mut is_whole = true;
        loop {
            let mut warnings = Vec::new();
            let error = match read(&mut self.top, &mut warnings) {
                Ok(value) => {
                    self.warnings.extend(warnings);
                    return Some(value);
                }
                Err(error) => error,
            };
            let goes_on = self.top.set_aside(&error) && self.errors.len() < ERRORS_MAX;
            // What is missing may be what was set aside.
            match error {
                Error::Follows(_, mistyped) => self.warnings.extend(mistyped),
                Error::Missing(_) if !is_whole => {}
                Error::Missing(_) => self.errors.push(error),
                other => {
                    self.is_cut |= !goes_on;
                    self.errors.push(other);
                }
            }
            is_whole = false;
            if !goes_on {
                self.warnings.extend(warnings);
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests;
