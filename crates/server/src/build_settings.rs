//! From a configuration to what a server runs with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kallisto_core::limits::MAX_STALENESS_DEFAULT;
use kallisto_core::{AutoSeal, LeaseTimes, RouteAccess};
use kallisto_engine::far_end::FarEndTls;
use kallisto_listener::{ClientAuth, ListenAddress, Timeouts, TlsFiles, TlsVersions};
use kallisto_store::{Durability, MemberRole, Peer};
use kallisto_store_postgres::PostgresUrl;
use secrecy::ExposeSecret;
use ureq::http::Uri;

use super::arguments::ServerArgs;
use super::cluster::ClusterSettings;
use super::config::{
    self, ClientCertificates, HostPort, JoinToken, ListenerConfig, Loaded, Of, RespConfig,
    RespPlace, SealSettings, ServerConfig, StorageConfig, TlsConfig, TlsVersion, TransitSeal,
};
use super::exposed::PrivateFile;
use super::seals::{SealKey, StaticKeySeal, TransitSettings, TransitUnsealer, TransitUpkeep};
use super::settings::{
    DatabaseSettings, ListenerSettings, ServerSettings, Spoken, StorageChoice, resolve,
};
use super::{memory, retry_join};
use kallisto_command::config::{Audience, Config, Environment, TlsSettings};
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::flags::CommonFlags;

impl ServerArgs {
    /// Reads the configuration and turns it into settings.
    pub(super) fn build_settings(
        self,
        environment: &Environment<'_>,
    ) -> Result<ServerSettings, Error> {
        let loaded = config::load(&self.config, environment, Of::Server)
            .map_err(|error| Error::usage(error.to_string()))?;
        self.settings(loaded)
    }

    /// What a configuration comes to, with these arguments.
    pub(super) fn settings(&self, loaded: Loaded) -> Result<ServerSettings, Error> {
        let (config, mut warnings) = (loaded.config, loaded.warnings);
        warnings.extend(without_effect(&config));
        let log = self.log(&config.log);
        warnings.extend(log.hidden());
        let rekey_open =
            config.listeners.iter().all(|one| one.unauthenticated_rekey == RouteAccess::Open);
        let private_files = private_files(&config);
        let listeners = listeners(&config)?;
        let storage = storage(&config)?;
        let (seal, seal_upkeep) = seal(config.seal)?;
        let memory_bytes = memory::all();
        Ok(ServerSettings {
            listeners,
            storage,
            audit_devices: config.audit_devices,
            audit_directories: config
                .audit_directories
                .unwrap_or_else(|| config::DIRECTORIES_DEFAULT.map(PathBuf::from).to_vec()),
            seal,
            seal_upkeep,
            cluster_name: config.cluster_name,
            limits: config.limits.within_memory(memory_bytes),
            leases: leases(config.lease_ttls),
            max_staleness: config.max_staleness.unwrap_or(MAX_STALENESS_DEFAULT),
            api_addr: config.api_addr,
            cluster_addr: config.cluster_addr,
            cache_bytes: match config.cache_size_bytes {
                Some(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
                None => memory_bytes / 2,
            },
            unauthenticated_rekey: if rekey_open { RouteAccess::Open } else { RouteAccess::Token },
            serves_ui: config.ui.unwrap_or(false),
            serves_prometheus: !config.telemetry.prometheus_retention.is_zero(),
            metrics: config.telemetry.metrics,
            tracing: config.tracing,
            log,
            initialize: config.initialize,
            pod: config.pod,
            api_server: config.api_server,
            service_account_dir: config.service_account_dir,
            workers: self.workers(),
            pid_file: config.pid_file,
            private_files,
            dev: None,
            warnings,
        })
    }
}

/// Sentences about what was asked for and this server does not do.
pub(super) fn without_effect(config: &ServerConfig) -> Vec<String> {
    let limits = config.listeners.iter().any(|one| one.max_request_bytes.is_some());
    let entries = matches!(&config.storage, StorageConfig::Raft { max_entry_bytes: Some(_), .. });
    [
        (
            config.disable_mlock,
            "disable_mlock",
            "keys are locked in memory wherever the system allows it, and they are a few pages",
        ),
        (entries, "max_entry_size", "a stored entry has at most 1 MiB"),
        (limits, "max_request_size", "the built-in limit holds"),
        (config.raw_storage_endpoint, "raw_storage_endpoint", "sys/raw is not served"),
    ]
    .into_iter()
    .filter(|(asked, ..)| *asked)
    .map(|(_, key, why)| format!("{key} has no effect: {why}"))
    .collect()
}

/// The files that keys and tokens are read from.
fn private_files(config: &ServerConfig) -> Vec<PrivateFile> {
    let file = |what, path: &Path| PrivateFile { what, path: path.to_owned() };
    let http = config.listeners.iter().map(|one| &one.tls);
    let tls = http.chain(config.resp_listeners.iter().map(|one| &one.tls)).flatten();
    let mut files: Vec<_> =
        tls.map(|tls| file("the key of a listener's certificate", &tls.key_file)).collect();
    let client_key = "the key of a client certificate";
    match &config.seal {
        SealSettings::Shamir => {}
        SealSettings::Static(seal) => {
            let keys = [Some(&seal.current), seal.previous.as_ref()].into_iter().flatten();
            files.extend(keys.flat_map(|key| &key.file).map(|path| file("a seal's key", path)));
        }
        SealSettings::Transit(seal) => {
            files.extend(seal.tls.client_identity.iter().map(|(_, key)| file(client_key, key)));
        }
    }
    match &config.storage {
        StorageConfig::Raft { retry_join, .. } => {
            for join in retry_join {
                files.extend(join.client_identity.iter().map(|(_, key)| file(client_key, key)));
                if let Some(JoinToken::File(path)) = &join.join_token {
                    files.push(file("a join token", path));
                }
            }
        }
        StorageConfig::Postgresql(database) => {
            files.extend(database.url.private_key.iter().map(|key| file(client_key, key)));
        }
        StorageConfig::File { .. } | StorageConfig::Memory => {}
    }
    if let Some(tracing) = &config.tracing {
        files.extend(tracing.client_identity.iter().map(|(_, key)| file(client_key, key)));
    }
    files
}

/// HTTP first: what the server says of itself points there.
fn listeners(config: &ServerConfig) -> Result<Vec<ListenerSettings>, Error> {
    let http = config.listeners.iter().map(listener);
    http.chain(config.resp_listeners.iter().map(resp_listener)).collect()
}

fn resp_listener(config: &RespConfig) -> Result<ListenerSettings, Error> {
    Ok(ListenerSettings {
        address: match &config.place {
            RespPlace::Tcp(address) => resolve(&address.to_string())?.into(),
            RespPlace::Unix { path, mode } => {
                ListenAddress::Unix { path: path.clone(), mode: *mode }
            }
        },
        tls: config.tls.as_ref().map(tls),
        timeouts: Timeouts::default(),
        proxies: config.proxies.clone(),
        spoken: Spoken::Resp { mounts: config.mounts.clone(), userpass: config.userpass.clone() },
    })
}

fn listener(config: &ListenerConfig) -> Result<ListenerSettings, Error> {
    let defaults = Timeouts::default();
    Ok(ListenerSettings {
        address: resolve(&config.address.to_string())?.into(),
        tls: config.tls.as_ref().map(tls),
        timeouts: Timeouts {
            head: config.header_timeout.unwrap_or(defaults.head),
            idle: config.idle_timeout.unwrap_or(defaults.idle),
            ..defaults
        },
        proxies: config.proxies.clone(),
        spoken: Spoken::Http {
            metrics: config.unauthenticated_metrics,
            forwarded_for: config.forwarded_for.clone(),
        },
    })
}

fn tls(config: &TlsConfig) -> TlsFiles {
    TlsFiles {
        certificate: config.cert_file.clone(),
        key: config.key_file.clone(),
        client_auth: match &config.client_certificates {
            ClientCertificates::NotAsked => ClientAuth::None,
            ClientCertificates::Any => ClientAuth::Any,
            ClientCertificates::Required(path) => ClientAuth::Required(path.clone()),
        },
        versions: match (config.min_version, config.max_version) {
            (TlsVersion::Tls13, _) => TlsVersions::Only13,
            (TlsVersion::Tls12, TlsVersion::Tls12) => TlsVersions::Only12,
            (TlsVersion::Tls12, TlsVersion::Tls13) => TlsVersions::From12,
        },
    }
}

/// What the configuration bounds, within itself: a default above the maximum is the maximum.
fn leases(ttls: config::LeaseTtls) -> LeaseTimes {
    let built_in = LeaseTimes::default();
    let max_secs = ttls.max.map_or(built_in.max_secs, |ttl| ttl.as_secs().max(1));
    let default_secs = ttls.default.map_or(built_in.default_secs, |ttl| ttl.as_secs().max(1));
    LeaseTimes { default_secs: default_secs.min(max_secs), max_secs }
}

fn storage(config: &ServerConfig) -> Result<StorageChoice, Error> {
    let durability = config.durability;
    Ok(match &config.storage {
        StorageConfig::Memory => StorageChoice::Memory,
        StorageConfig::Postgresql(database) => {
            if durability != Durability::Strict {
                return Err(Error::usage(
                    "durability = \"batch\" is of storage on a disk: what storage \"postgresql\" acknowledges is committed",
                ));
            }
            let cluster = match database.ha_enabled {
                true => Some(cluster(config)?),
                false => None,
            };
            let config = database.as_ref().clone();
            let tls = database_tls(&config.url)?;
            StorageChoice::Database(Box::new(DatabaseSettings { config, tls, cluster }))
        }
        StorageConfig::File { path } => {
            StorageChoice::Durable { directory: path.clone(), durability, cluster: None }
        }
        StorageConfig::Raft { path, .. } => {
            let cluster = Some(cluster(config)?);
            StorageChoice::Durable { directory: path.clone(), durability, cluster }
        }
    })
}

/// How this server is one of several.
pub(super) fn cluster(config: &ServerConfig) -> Result<ClusterSettings, Error> {
    let (node_id, retry_join, wants, multiplier) = match &config.storage {
        StorageConfig::Raft {
            node_id,
            retry_join,
            join_as_non_voter,
            performance_multiplier,
            ..
        } => {
            let wants = if *join_as_non_voter { MemberRole::Learner } else { MemberRole::Voter };
            (node_id.clone(), &retry_join[..], wants, *performance_multiplier)
        }
        // Such a server has no disk to keep a name on.
        StorageConfig::Postgresql(database) => {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let name = database.node_id.clone().unwrap_or(host);
            (Some(name), &[][..], MemberRole::Voter, None)
        }
        StorageConfig::File { .. } | StorageConfig::Memory => {
            return Err(Error::usage(
                "only storage \"raft\" and \"postgresql\" have several servers",
            ));
        }
    };
    let first = config.listeners.first();
    let first = first.ok_or_else(|| Error::usage("no listener is configured"))?;
    let bound = &cluster_listener(&config.listeners).unwrap_or(first).cluster_address;
    refuse_shared_port(config, bound)?;
    let address = resolve(&bound.to_string())?;
    let scheme = if first.tls.is_some() { "https" } else { "http" };
    let api_address = match &config.api_addr {
        Some(url) => url.clone(),
        None if first.address.port == 0 => String::new(),
        None => format!("{scheme}://{}", first.address),
    };
    let cluster_address = match (&config.cluster_addr, &config.api_addr) {
        (Some(url), _) => authority(url, bound.port),
        // The one that is bound, port and all.
        (None, _) if address.port() == 0 => String::new(),
        // Nobody reaches every interface: the host is that by which clients reach this one.
        (None, Some(url)) if address.ip().is_unspecified() => {
            let host = host(url).unwrap_or_else(|| bound.host.clone());
            HostPort { host, port: bound.port }.to_string()
        }
        (None, _) => bound.to_string(),
    };
    let own = Peer {
        id: 0,
        name: node_id.unwrap_or_else(|| cluster_address.clone()),
        cluster_address,
        api_address,
        wants: MemberRole::Voter,
    };
    let retry_join =
        retry_join.iter().map(|join| retry_join::target(join, wants)).collect::<Result<_, _>>()?;
    let patience = multiplier.and_then(|times| u32::try_from(times).ok()).unwrap_or(1);
    Ok(ClusterSettings { address, own, retry_join, patience })
}

/// What the files of a connection URL hold.
pub(super) fn database_tls(url: &PostgresUrl) -> Result<FarEndTls, Error> {
    let read = |path: &Option<PathBuf>| match path {
        None => Ok(String::new()),
        Some(path) => files::read(path)
            .map_err(|error| error.to_string())
            .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "is no PEM file".to_owned()))
            .map_err(|why| {
                Error::usage(format!(
                    "connection_url of storage \"postgresql\": {}: {why}",
                    path.display()
                ))
            }),
    };
    let private_key = Some(read(&url.private_key)?).filter(|key| !key.is_empty());
    let tls = FarEndTls {
        usage: url.usage,
        versions: None,
        authorities: read(&url.authorities)?,
        server_name: String::new(),
        certificate: read(&url.certificate)?,
        private_key: private_key.map(Into::into),
    };
    Ok(tls)
}

/// The listener that says where other servers connect, if one of them does.
fn cluster_listener(listeners: &[ListenerConfig]) -> Option<&ListenerConfig> {
    listeners.iter().find(|listener| listener.names_cluster_address)
}

/// Other servers connect where a listener says; without a word, at the port after the first one's own, whatever `cluster_addr` names.
pub(super) fn refuse_shared_port(config: &ServerConfig, taken: &HostPort) -> Result<(), Error> {
    let is_shared = |other: &&ListenerConfig| taken.port != 0 && other.address.overlaps(taken);
    let Some(listener) = config.listeners.iter().find(is_shared) else { return Ok(()) };
    let shared = &listener.address;
    Err(Error::usage(format!(
        "a listener has the address {shared}, where other servers connect: set cluster_address in a listener, or another address there"
    )))
}

/// Host and port of a URL, the latter as given unless it has one.
fn authority(url: &str, port: u16) -> String {
    let text = url.split_once("://").map_or(url, |(_, rest)| rest);
    let has_port = url.parse::<Uri>().is_ok_and(|url| url.port_u16().is_some());
    match has_port || port == 0 {
        true => text.to_owned(),
        false => format!("{text}:{port}"),
    }
}

/// The host of a URL, an IPv6 address without brackets.
fn host(url: &str) -> Option<String> {
    let host = url.parse::<Uri>().ok()?.host()?.to_owned();
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    Some(inner.map(str::to_owned).unwrap_or(host))
}

/// The seal, and what is done for it while the server runs.
type BuiltSeal = (Option<Arc<dyn AutoSeal>>, Option<TransitUpkeep>);

fn seal(config: SealSettings) -> Result<BuiltSeal, Error> {
    Ok(match config {
        SealSettings::Shamir => (None, None),
        SealSettings::Static(keys) => {
            let named =
                |key: &config::StaticKeyConfig| SealKey::new(&key.id, key.key.expose_secret());
            let current = named(&keys.current);
            let previous = keys.previous.as_ref().map(named).transpose();
            let seal = current.and_then(|key| Ok(StaticKeySeal::new(key, previous?)));
            let seal = seal.map_err(|why| Error::usage(format!("seal \"static\": {why}")))?;
            (Some(Arc::new(seal)), None)
        }
        SealSettings::Transit(transit) => {
            let renews_token = !transit.disable_renewal;
            let settings = Arc::new(settings_of(*transit)?);
            let seal = TransitUnsealer::new(Arc::clone(&settings));
            (Some(Arc::new(seal)), Some(TransitUpkeep { settings, renews_token }))
        }
    })
}

/// The other server as the client of the command line knows one.
fn settings_of(transit: TransitSeal) -> Result<TransitSettings, Error> {
    let address = transit.address.clone();
    let nothing = Environment::of(move |name| (name == "VAULT_ADDR").then(|| address.clone()));
    let client = Config::resolve(&CommonFlags::default(), &nothing, Audience::Program)?;
    let client = Config {
        token: Some(transit.token),
        namespace: transit.namespace,
        tls: TlsSettings {
            ca_cert: transit.tls.ca_cert,
            ca_cert_text: None,
            ca_path: None,
            client_identity: transit.tls.client_identity,
            server_name: transit.tls.server_name,
            trusts_anyone: transit.tls.trusts_anyone,
        },
        ..client
    };
    Ok(TransitSettings { client, mount: transit.mount_path, key: transit.key_name })
}
