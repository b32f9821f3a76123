//! What a configuration comes to: plain fields, checked, with defaults filled in.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use kallisto_command::json::Json;
use kallisto_core::{DeclaredDevice, MetricsSettings, RouteAccess};
use kallisto_listener::ProxyProtocol;
use kallisto_listener::http::ForwardedFor;
use kallisto_otlp::CollectorEndpoint;
use kallisto_store::Durability;
use kallisto_store_postgres::{MissingTables, PostgresUrl, Sharing};
use kallisto_traces::Sampling;
use secrecy::{SecretBox, SecretString};
use tracing_subscriber::filter::LevelFilter;

use super::address::HostPort;
use super::limits::ConfiguredLimits;

/// Everything a server is told when it starts.
#[derive(Debug)]
pub(crate) struct ServerConfig {
    /// Where to listen; at least one, unless it is of a dev server.
    pub(crate) listeners: Vec<ListenerConfig>,
    /// Where to speak the Redis protocol, if anywhere.
    pub(crate) resp_listeners: Vec<RespConfig>,
    /// Where to keep the data.
    pub(crate) storage: StorageConfig,
    /// Who keeps the unseal key.
    pub(crate) seal: SealSettings,
    /// What a server on empty storage asks of itself, in order.
    pub(crate) initialize: Vec<InitRequest>,
    /// The pod that is labelled with what this server is.
    pub(crate) pod: Option<PodConfig>,
    /// URL of the cluster's API server, where this is a pod.
    pub(crate) api_server: Option<String>,
    /// Where the token and the authority of a pod's service account are, if this is one.
    pub(crate) service_account_dir: PathBuf,
    /// What to tell about the server's work.
    pub(crate) telemetry: TelemetryConfig,
    /// Where spans of requests are sent, if anywhere.
    pub(crate) tracing: Option<TracingConfig>,
    /// What to log and how.
    pub(crate) log: LogConfig,
    /// The most that clients can make the server hold.
    pub(crate) limits: ConfiguredLimits,
    /// When a write is acknowledged.
    pub(crate) durability: Durability,
    /// Lease when nobody asks for one, and longest lease. None is the built-in default.
    pub(crate) lease_ttls: LeaseTtls,
    /// How far in the past the view of a server may be that answers from it. None is the built-in default.
    pub(crate) max_staleness: Option<Duration>,
    /// URL at which clients reach this server.
    pub(crate) api_addr: Option<String>,
    /// URL at which other servers reach this one.
    pub(crate) cluster_addr: Option<String>,
    /// Name of the cluster; drawn at initialisation when absent.
    pub(crate) cluster_name: Option<String>,
    /// Memory for secrets kept ready, in bytes. None is half of what there is.
    pub(crate) cache_size_bytes: Option<u64>,
    /// Whether to serve the web page; `None` where nothing is said, which a dev server takes for yes.
    pub(crate) ui: Option<bool>,
    /// Whether the server may run when the system does not let it lock the memory of its keys.
    pub(crate) disable_mlock: bool,
    /// Whether to serve `sys/raw`.
    pub(crate) raw_storage_endpoint: bool,
    /// Audit devices that are there whatever the API says.
    pub(crate) audit_devices: Vec<DeclaredDevice>,
    /// Where files may lie that are enabled through the API.
    /// None is the built-in list.
    pub(crate) audit_directories: Option<Vec<PathBuf>>,
    /// File to hold the process id while the server runs.
    pub(crate) pid_file: Option<PathBuf>,
}

/// The two bounds of leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseTtls {
    /// Lease when nobody asks for one.
    pub(crate) default: Option<Duration>,
    /// Longest lease.
    pub(crate) max: Option<Duration>,
}

/// One `listener "tcp"`.
#[derive(Debug)]
pub(crate) struct ListenerConfig {
    /// Where clients connect.
    pub(crate) address: HostPort,
    /// Where other servers connect, if this listener says where.
    pub(crate) cluster_address: HostPort,
    /// Whether the configuration says so, and not the address alone.
    pub(crate) names_cluster_address: bool,
    /// Certificate and key; None is plain HTTP.
    pub(crate) tls: Option<TlsConfig>,
    /// Largest request body, in bytes. None is the built-in limit.
    pub(crate) max_request_bytes: Option<u64>,
    /// Time for a request's header. None is the built-in limit.
    pub(crate) header_timeout: Option<Duration>,
    /// Time a connection may be idle between requests. None is the built-in limit.
    pub(crate) idle_timeout: Option<Duration>,
    /// Whether rekey and generate-root answer without a token.
    pub(crate) unauthenticated_rekey: RouteAccess,
    /// Whether `sys/metrics` answers without a token.
    pub(crate) unauthenticated_metrics: RouteAccess,
    /// Whose word about a client's address counts.
    pub(crate) forwarded_for: ForwardedFor,
    /// Which proxies speak the PROXY protocol.
    pub(crate) proxies: ProxyProtocol,
}

/// One `listener "resp"`.
#[derive(Debug)]
pub(crate) struct RespConfig {
    /// Where clients connect.
    pub(crate) place: RespPlace,
    /// Certificate and key; None is plain text.
    pub(crate) tls: Option<TlsConfig>,
    /// The mounts behind the databases, in their order.
    pub(crate) mounts: Vec<String>,
    /// The login method behind `AUTH user password`.
    pub(crate) userpass: String,
    /// Which proxies speak the PROXY protocol.
    pub(crate) proxies: ProxyProtocol,
}

/// Where the Redis protocol is spoken.
#[derive(Debug)]
pub(crate) enum RespPlace {
    /// On the network.
    Tcp(HostPort),
    /// On this machine.
    Unix {
        /// The socket's file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
}

/// How a listener proves who it is, and whether clients must.
#[derive(Clone, Debug)]
pub(crate) struct TlsConfig {
    /// PEM file of the certificate and what signed it.
    pub(crate) cert_file: PathBuf,
    /// PEM file of its private key.
    pub(crate) key_file: PathBuf,
    /// Oldest version spoken.
    pub(crate) min_version: TlsVersion,
    /// Newest version spoken.
    pub(crate) max_version: TlsVersion,
    /// What clients are asked for.
    pub(crate) client_certificates: ClientCertificates,
}

/// A version of TLS that is spoken at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TlsVersion {
    /// 1.2
    Tls12,
    /// 1.3
    Tls13,
}

/// What clients are asked for in a TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientCertificates {
    /// Nothing.
    NotAsked,
    /// A certificate, whoever signed it: login methods judge it. None at all is not refused.
    Any,
    /// A certificate that this PEM file signed.
    Required(PathBuf),
}

/// Where the data is kept.
#[derive(Debug)]
pub(crate) enum StorageConfig {
    /// `storage "raft"`: the durable engine, replicated.
    Raft {
        /// Directory of the data.
        path: PathBuf,
        /// Name among the servers; made and kept in the directory when absent.
        node_id: Option<String>,
        /// Servers to join at the first start.
        retry_join: Vec<RetryJoin>,
        /// Whether to join as a server that has no vote.
        join_as_non_voter: bool,
        /// Factor on the timeouts of elections, 1 to 10; slow networks want more.
        performance_multiplier: Option<u64>,
        /// Largest stored entry, in bytes. None is the built-in limit.
        max_entry_bytes: Option<u64>,
    },
    /// `storage "file"`: the same engine on this machine alone.
    File {
        /// Directory of the data.
        path: PathBuf,
    },
    /// `storage "postgresql"`: a database, for one server or many.
    Postgresql(Box<PostgresqlConfig>),
    /// `storage "inmem"`: nothing is kept when the server stops.
    Memory,
}

/// A database that keeps everything.
#[derive(Clone, Debug)]
pub(crate) struct PostgresqlConfig {
    /// Where it is, and how it is spoken to.
    pub(crate) url: PostgresUrl,
    /// The table of the records; others begin with its name.
    pub(crate) table: String,
    /// The table of the servers.
    pub(crate) ha_table: String,
    /// Whether other servers use it.
    pub(crate) ha_enabled: bool,
    /// Whether tables that are missing are made.
    pub(crate) makes_tables: bool,
    /// How often a connection is tried at the start.
    pub(crate) connects_max: u32,
    /// Name among the servers. None is that of the machine.
    pub(crate) node_id: Option<String>,
}

impl PostgresqlConfig {
    /// Whether other servers use the database.
    pub(crate) const fn sharing(&self) -> Sharing {
        if self.ha_enabled { Sharing::Many } else { Sharing::Alone }
    }

    /// Whether this server makes tables.
    pub(crate) const fn missing_tables(&self) -> MissingTables {
        if self.makes_tables { MissingTables::Make } else { MissingTables::Refuse }
    }
}

/// One server to join.
#[derive(Debug)]
pub(crate) struct RetryJoin {
    /// URL of its API.
    pub(crate) leader_api_addr: String,
    /// PEM file of the authority to trust for it.
    pub(crate) ca_cert_file: Option<PathBuf>,
    /// PEM files of the certificate and key to show it.
    pub(crate) client_identity: Option<(PathBuf, PathBuf)>,
    /// Name its certificate must carry.
    pub(crate) tls_server_name: Option<String>,
    /// What to show a cluster that wants more than the unseal key.
    pub(crate) join_token: Option<JoinToken>,
}

/// Where a join token is. It is good once, so a member that starts again finds none, and needs none.
#[derive(Debug)]
pub(crate) enum JoinToken {
    /// In a file, if that is there.
    File(PathBuf),
    /// Here.
    Text(SecretString),
}

/// Who keeps the unseal key.
#[derive(Debug)]
pub(crate) enum SealSettings {
    /// People, in shares.
    Shamir,
    /// A key beside the configuration.
    Static(StaticSeal),
    /// The transit engine of another server.
    Transit(Box<TransitSeal>),
}

/// `seal "static"`.
#[derive(Debug)]
pub(crate) struct StaticSeal {
    /// The key that new things are wrapped with.
    pub(crate) current: StaticKeyConfig,
    /// The one before it, to open what it wrapped.
    pub(crate) previous: Option<StaticKeyConfig>,
}

/// A wrapping key and its name.
#[derive(Debug)]
pub(crate) struct StaticKeyConfig {
    /// The name, kept beside what the key wrapped.
    pub(crate) id: String,
    /// Where it was read from, if from a file.
    pub(crate) file: Option<PathBuf>,
    /// The key.
    pub(crate) key: SecretBox<[u8; 32]>,
}

/// `seal "transit"`.
#[derive(Debug)]
pub(crate) struct TransitSeal {
    /// URL of the other server, without a slash at its end.
    pub(crate) address: String,
    /// Token for it.
    pub(crate) token: SecretString,
    /// Name of the key there.
    pub(crate) key_name: String,
    /// Where its transit engine is mounted, without slashes around it.
    pub(crate) mount_path: String,
    /// Namespace as it goes on the wire, ending in `/`.
    pub(crate) namespace: Option<String>,
    /// Whether this server leaves the renewal of the token to somebody else.
    pub(crate) disable_renewal: bool,
    /// How to know the other server and be known to it.
    pub(crate) tls: TransitTls,
}

/// The TLS side of `seal "transit"`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TransitTls {
    /// PEM file of the authority to trust.
    pub(crate) ca_cert: Option<PathBuf>,
    /// PEM files of the certificate and key to show.
    pub(crate) client_identity: Option<(PathBuf, PathBuf)>,
    /// Name the certificate must carry.
    pub(crate) server_name: Option<String>,
    /// Whether the certificate is not checked.
    pub(crate) trusts_anyone: bool,
}

/// A request that a server on empty storage makes to itself.
pub(crate) struct InitRequest {
    /// What it is called.
    pub(crate) name: RequestName,
    /// Where it stands.
    pub(crate) place: String,
    /// One of [`super::OPERATIONS`].
    pub(crate) operation: InitValue,
    /// Where to.
    pub(crate) path: InitValue,
    /// Who asks; the root token without.
    pub(crate) token: Option<InitValue>,
    /// What with.
    pub(crate) data: Option<InitValue>,
    /// Whether what follows does not depend on it.
    pub(crate) allow_failure: Option<InitValue>,
}

impl std::fmt::Debug for InitRequest {
    /// Without values, which may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InitRequest").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a request of `initialize` is called: its stanza, and itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestName {
    pub(crate) block: String,
    pub(crate) request: String,
}

/// A value of `initialize`.
pub(crate) enum InitValue {
    /// What it is.
    Literal(Json),
    /// Several, of which each may come from somewhere.
    List(Vec<Self>),
    /// The same, with names.
    Map(Vec<(String, Self)>),
    /// Where it comes from, and what it has to be.
    Evaluated { form: EvaluatedForm, source: ValueSource },
}

/// What a value has to be that comes from somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvaluatedForm {
    Text,
    Whole,
    Number,
    Truth,
    Texts,
    Map,
    Any,
}

/// Where a value comes from.
pub(crate) enum ValueSource {
    /// A variable; an error where it is needed and not there.
    Environment { name: String, is_required: bool },
    /// A file.
    File(PathBuf),
    /// A field of an earlier request.
    Request(RequestName, Vec<String>),
    /// A field of the answer to one.
    Response(RequestName, Vec<String>),
}

/// `service_registration "kubernetes"`: the pod that this server runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodConfig {
    /// URL of the API server, without a slash at its end.
    pub(crate) api_server: String,
    /// The namespace of the pod.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) pod: String,
}

/// `telemetry`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TelemetryConfig {
    /// How long Prometheus may see a value that does not change; zero serves no metrics.
    pub(crate) prometheus_retention: Duration,
    /// Which metrics are told, and how.
    pub(crate) metrics: MetricsSettings,
}

/// `tracing "otlp"`.
#[derive(Debug)]
pub(crate) struct TracingConfig {
    /// Where the collector is, and how it is spoken to.
    pub(crate) endpoint: CollectorEndpoint,
    /// Headers of every request to it.
    pub(crate) headers: Vec<(String, SecretString)>,
    /// What is told of this server.
    pub(crate) resource: Vec<(String, String)>,
    /// Which traces are recorded.
    pub(crate) sampling: Sampling,
    /// PEM file of the authority to trust for it.
    pub(crate) ca_cert: Option<PathBuf>,
    /// PEM files of the certificate and key to show it.
    pub(crate) client_identity: Option<(PathBuf, PathBuf)>,
}

/// What is logged, and how. None leaves it to the flags of `server`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogConfig {
    /// Least urgent events to log.
    pub(crate) level: Option<LevelFilter>,
    /// At which level completed requests are logged.
    pub(crate) requests: Option<LevelFilter>,
    /// How a line looks.
    pub(crate) format: Option<LogFormat>,
    /// File to log to, besides standard error.
    pub(crate) file: Option<LogFile>,
}

/// A file of the log, and when the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogFile {
    /// The file.
    pub(crate) path: PathBuf,
    /// Most bytes of it, if there is such a limit.
    pub(crate) bytes_max: Option<u64>,
    /// How long it is written.
    pub(crate) period: Duration,
    /// How many older ones are kept; `None` for all.
    pub(crate) kept: Option<usize>,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Standard,
    /// One JSON object a line.
    Json,
}
