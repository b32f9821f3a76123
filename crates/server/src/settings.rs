//! What a server runs with, whether a file or the arguments of a dev server said so.

use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kallisto_audit::{AnchorFiles, Anchors};
use kallisto_command::error::Error;
use kallisto_command::json::Json;
use kallisto_core::admission::AdmissionLimits;
use kallisto_core::{
    AutoSeal, DeclaredDevice, JoinTarget, KvVersion, LeaseTimes, MetricsSettings, RouteAccess,
};
use kallisto_engine::far_end::FarEndTls;
use kallisto_listener::http::ForwardedFor;
use kallisto_listener::{ListenAddress, ProxyProtocol, Timeouts, TlsFiles};
use kallisto_store::Durability;
use secrecy::SecretString;
use tracing_subscriber::filter::LevelFilter;

use super::cluster::ClusterSettings;
use super::config::{InitRequest, LogFile, LogFormat, PodConfig, PostgresqlConfig, TracingConfig};
use super::exposed::PrivateFile;
use super::seals::TransitUpkeep;

/// What a server runs with.
pub(super) struct ServerSettings {
    /// At least one.
    pub(super) listeners: Vec<ListenerSettings>,
    pub(super) storage: StorageChoice,
    /// The seal that opens by itself, if there is one.
    pub(super) seal: Option<Arc<dyn AutoSeal>>,
    /// What that has done while the server runs.
    pub(super) seal_upkeep: Option<TransitUpkeep>,
    pub(super) cluster_name: Option<String>,
    /// The most that clients can make the server hold.
    pub(super) limits: AdmissionLimits,
    /// How long tokens and leases live.
    pub(super) leases: LeaseTimes,
    /// How far in the past the view of a server may be that answers from it.
    pub(super) max_staleness: Duration,
    /// URLs at which clients and other servers reach this one.
    pub(super) api_addr: Option<String>,
    pub(super) cluster_addr: Option<String>,
    /// Bytes of secrets kept in memory.
    pub(super) cache_bytes: usize,
    pub(super) unauthenticated_rekey: RouteAccess,
    /// Audit devices of the configuration, and where those of the API may write.
    pub(super) audit_devices: Vec<DeclaredDevice>,
    pub(super) audit_directories: Vec<PathBuf>,
    pub(super) metrics: MetricsSettings,
    pub(super) serves_prometheus: bool,
    /// Whether the web page is served.
    pub(super) serves_ui: bool,
    /// Where spans of requests are sent, if anywhere.
    pub(super) tracing: Option<TracingConfig>,
    pub(super) log: LogSettings,
    /// What is asked of the server once, on empty storage.
    pub(super) initialize: Vec<InitRequest>,
    /// The pod that is labelled with what this server is.
    pub(super) pod: Option<PodConfig>,
    /// URL of the API server of the cluster, in a pod.
    pub(super) api_server: Option<String>,
    /// Where the files of a pod's service account are.
    pub(super) service_account_dir: PathBuf,
    /// Threads of each listener.
    pub(super) workers: NonZeroUsize,
    pub(super) pid_file: Option<PathBuf>,
    /// Files with secrets in them, which others should not read.
    pub(super) private_files: Vec<PrivateFile>,
    /// What a dev server has besides.
    pub(super) dev: Option<DevSettings>,
    /// What the author of the configuration should know.
    pub(super) warnings: Vec<String>,
}

/// One address to listen on.
pub(super) struct ListenerSettings {
    pub(super) address: ListenAddress,
    pub(super) tls: Option<TlsFiles>,
    pub(super) timeouts: Timeouts,
    /// Which proxies speak the PROXY protocol.
    pub(super) proxies: ProxyProtocol,
    pub(super) spoken: Spoken,
}

impl ServerSettings {
    /// What `sys/config/state/sanitized` shows of them, besides what the core knows.
    pub(super) fn shown(&self) -> Vec<(&'static str, Json)> {
        let format = match self.log.format {
            LogFormat::Standard => "standard",
            LogFormat::Json => "json",
        };
        let listeners = self.listeners.iter().map(ListenerSettings::shown);
        vec![
            ("log_level", self.log.level.to_string().into()),
            ("log_format", format.into()),
            ("listeners", Json::Array(listeners.collect())),
        ]
    }
}

impl ListenerSettings {
    fn shown(&self) -> Json {
        let kind = match self.spoken {
            Spoken::Http { .. } => "tcp",
            Spoken::Resp { .. } => "resp",
        };
        let config = Json::object([
            ("address", self.address.to_string().into()),
            ("tls_disable", self.tls.is_none().into()),
        ]);
        Json::object([("type", kind.into()), ("config", config)])
    }
}

/// What is spoken at an address.
#[derive(Clone, Debug)]
pub(super) enum Spoken {
    /// HTTP.
    Http {
        /// Who may read the metrics here.
        metrics: RouteAccess,
        /// Whose word about a client's address counts.
        forwarded_for: ForwardedFor,
    },
    /// The Redis protocol, with the mounts behind its databases and the login method behind its users.
    Resp { mounts: Vec<String>, userpass: String },
}

/// The directory of anchors, inside that of the storage.
const ANCHORS: &str = "audit-anchors";

/// Where records live.
pub(super) enum StorageChoice {
    /// In memory, until the server stops.
    Memory,
    /// In a directory.
    Durable { directory: PathBuf, durability: Durability, cluster: Option<ClusterSettings> },
    /// In a database.
    Database(Box<DatabaseSettings>),
}

/// A database that keeps the records.
pub(super) struct DatabaseSettings {
    pub(super) config: PostgresqlConfig,
    /// How TLS is spoken with it.
    pub(super) tls: FarEndTls,
    /// How this server is one of several.
    pub(super) cluster: Option<ClusterSettings>,
}

impl StorageChoice {
    /// What the API calls it; one directory is a Raft log of its own.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Memory => "inmem",
            Self::Durable { .. } => "raft",
            Self::Database(_) => "postgresql",
        }
    }

    /// Where it is, if it is anywhere; without credentials.
    pub(super) fn place(&self) -> Option<String> {
        match self {
            Self::Memory => None,
            Self::Durable { directory, .. } => Some(directory.display().to_string()),
            Self::Database(database) => Some(database.config.url.shown()),
        }
    }

    /// The directory, if it has one.
    pub(super) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Durable { directory, .. } => Some(directory),
            Self::Memory | Self::Database(_) => None,
        }
    }

    /// How this server is one of several, if it is.
    pub(super) fn cluster(&self) -> Option<&ClusterSettings> {
        match self {
            Self::Memory => None,
            Self::Durable { cluster, .. } => cluster.as_ref(),
            Self::Database(database) => database.cluster.as_ref(),
        }
    }

    /// What this server is called; empty where it is alone.
    pub(super) fn node_name(&self) -> String {
        self.cluster().map(|cluster| cluster.own.name.clone()).unwrap_or_default()
    }

    /// Clusters to join at the first start.
    pub(super) fn join_targets(&self) -> Vec<JoinTarget> {
        self.cluster().map(|cluster| cluster.retry_join.clone()).unwrap_or_default()
    }

    /// Where the anchors of audit devices are kept.
    pub(super) fn audit_anchors(&self) -> Option<Arc<dyn Anchors>> {
        let directory = self.directory()?;
        Some(Arc::new(AnchorFiles(directory.join(ANCHORS))))
    }
}

/// How events are logged.
pub(super) struct LogSettings {
    pub(super) level: LevelFilter,
    /// At which level completed requests are logged.
    pub(super) requests: LevelFilter,
    pub(super) format: LogFormat,
    pub(super) colour: bool,
    /// A file that is logged to besides standard error.
    pub(super) file: Option<LogFile>,
}

/// What a dev server has besides.
pub(super) struct DevSettings {
    pub(super) root_token: Option<SecretString>,
    /// Where to leave the root token for the client commands.
    pub(super) token_file: Option<PathBuf>,
    /// The authority's certificate, if TLS is served.
    pub(super) ca: Option<PathBuf>,
    /// What is mounted at `secret/`.
    pub(super) kv: KvVersion,
}

/// Finds the address to listen on.
///
/// # Errors
/// [`Error::Usage`](Error) naming what does not resolve.
pub(super) fn resolve(address: &str) -> Result<SocketAddr, Error> {
    let refuse = |why: String| Error::usage(format!("bad listen address {address}: {why}"));
    let found = address.to_socket_addrs().map_err(|error| refuse(error.to_string()))?;
    favourite(found).ok_or_else(|| refuse("it has no address".to_owned()))
}

/// Where to listen of the addresses that a name has. Many machines have `::1` before `127.0.0.1` for `localhost`, and clients are
/// given the latter: the first of IPv4, as in OpenBao and Vault.
fn favourite(found: impl Iterator<Item = SocketAddr>) -> Option<SocketAddr> {
    // The least, and of equals the first.
    found.min_by_key(SocketAddr::is_ipv6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_addresses_of_both_kinds_is_the_first_of_ipv4() {
        for (found, expected) in [
            (&["[::1]:8200", "127.0.0.1:8200", "127.0.0.2:8200"][..], Some("127.0.0.1:8200")),
            (&["127.0.0.1:8200", "[::1]:8200"], Some("127.0.0.1:8200")),
            (&["[::1]:8200", "[::2]:8200"], Some("[::1]:8200")),
            (&[], None),
        ] {
            let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
            assert_eq!(favourite(found.iter().map(|text| parse(text))), expected.map(parse));
        }
        assert_eq!(resolve("[::1]:8200").unwrap(), "[::1]:8200".parse().unwrap());
    }

    #[test]
    fn addresses_resolve_or_are_refused_by_name() {
        assert!(resolve("127.0.0.1:8200").is_ok());
        for bad in ["127.0.0.1", "127.0.0.1:99999", ""] {
            let Err(error) = resolve(bad) else { panic!("{bad} was taken") };
            assert!(error.to_string().contains("bad listen address"), "{error}");
        }
    }
}
