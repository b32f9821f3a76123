//! From the arguments of a dev server, and perhaps a configuration, to what it runs with.
//!
//! Without a configuration: in memory, unsealed, KV version 2 at `secret/`, one listener on this machine. A configuration
//! adds to that: its listeners come besides, and what it says of storage, seal, log, leases and the rest holds.

use std::net::SocketAddr;
use std::path::PathBuf;

use kallisto_core::{KvVersion, RouteAccess};
use kallisto_listener::ProxyProtocol;
use kallisto_listener::http::ForwardedFor;
use secrecy::{ExposeSecret, SecretString};

use super::arguments::ServerArgs;
use super::config::{
    self, DIRECTORIES_DEFAULT, HostPort, ListenerConfig, Loaded, Of, RespConfig, RespPlace,
    ServerConfig, StorageConfig, TlsConfig,
};
use super::dev_tls;
use super::settings::{DevSettings, ServerSettings, resolve};
use kallisto_command::config::{Environment, token_file};
use kallisto_command::error::Error;

/// Where a dev server lets audit files lie.
const DEV_AUDIT_DIRECTORIES: [&str; 2] = [DIRECTORIES_DEFAULT[0], "/tmp"];
const DEV_ADDRESS: &str = "127.0.0.1:8200";

impl ServerArgs {
    /// Reads the configuration, if there is one, and adds what makes a dev server.
    pub(super) fn into_dev(self, environment: &Environment<'_>) -> Result<ServerSettings, Error> {
        let loaded = config::load(&self.config, environment, Of::DevServer);
        let mut loaded = loaded.map_err(|error| Error::usage(error.to_string()))?;
        let address = self
            .dev_listen_address
            .clone()
            .or_else(|| environment.value("DEV_LISTEN_ADDRESS"))
            .unwrap_or_else(|| DEV_ADDRESS.to_owned());
        let address = resolve(&address)?;
        refuse_taken(&loaded.config, address)?;
        let made = self.tls(address)?;
        let (tls, ca) = made.map_or((None, None), |made| (Some(made.tls), Some(made.ca)));
        if let Some(resp) = self.resp(tls.as_ref())? {
            loaded.config.resp_listeners.insert(0, resp);
        }
        let (api_addr, cluster_addr) = dev_addresses(address, tls.is_some());
        loaded.config.listeners.insert(0, listener(address, tls));
        let directories = || DEV_AUDIT_DIRECTORIES.map(PathBuf::from).to_vec();
        loaded.config.audit_directories.get_or_insert_with(directories);
        loaded.config.ui.get_or_insert(true);
        warn_of_joins(&mut loaded);
        if !loaded.config.initialize.is_empty() {
            let text = "initialize has no effect: a dev server is initialised by itself";
            loaded.warnings.push(text.to_owned());
        }
        let settings = self.settings(loaded)?;
        Ok(ServerSettings {
            api_addr: settings.api_addr.or(api_addr),
            cluster_addr: settings.cluster_addr.or(cluster_addr),
            dev: Some(self.dev_settings(environment, ca)),
            ..settings
        })
    }

    fn dev_settings(&self, environment: &Environment<'_>, ca: Option<PathBuf>) -> DevSettings {
        let token = self
            .dev_root_token_id
            .clone()
            .or_else(|| environment.value("DEV_ROOT_TOKEN_ID").map(SecretString::from));
        DevSettings {
            root_token: token.filter(|text| !text.expose_secret().is_empty()),
            token_file: token_file(environment).filter(|_| !self.dev_no_store_token),
            ca,
            kv: if self.dev_kv_v1 { KvVersion::V1 } else { KvVersion::V2 },
        }
    }

    /// A certificate made now, where `-dev-tls` asks for one.
    fn tls(&self, address: SocketAddr) -> Result<Option<dev_tls::DevTls>, Error> {
        if !self.dev_tls {
            return Ok(None);
        }
        let directory = match &self.dev_tls_cert_dir {
            Some(directory) => directory.clone(),
            None => fresh_directory()?,
        };
        dev_tls::generate(&directory, address.ip()).map(Some).map_err(Error::usage)
    }

    fn resp(&self, tls: Option<&TlsConfig>) -> Result<Option<RespConfig>, Error> {
        let Some(address) = &self.dev_resp_listen_address else { return Ok(None) };
        let address = resolve(address)?;
        if tls.is_none() && !address.ip().is_loopback() {
            return Err(Error::usage(
                "-dev-resp-listen-address has to be a loopback address without -dev-tls",
            ));
        }
        Ok(Some(RespConfig {
            place: RespPlace::Tcp(host_port(address)),
            tls: tls.cloned(),
            mounts: vec!["secret".to_owned()],
            userpass: "userpass".to_owned(),
            proxies: ProxyProtocol::default(),
        }))
    }
}

/// Where a dev server listens besides what its configuration says.
fn listener(address: SocketAddr, tls: Option<TlsConfig>) -> ListenerConfig {
    let place = host_port(address);
    let next = if address.port() == 0 { 0 } else { address.port().checked_add(1).unwrap_or(0) };
    ListenerConfig {
        cluster_address: HostPort { host: place.host.clone(), port: next },
        names_cluster_address: false,
        address: place,
        tls,
        max_request_bytes: None,
        header_timeout: None,
        idle_timeout: None,
        unauthenticated_rekey: RouteAccess::Open,
        unauthenticated_metrics: RouteAccess::Open,
        forwarded_for: ForwardedFor::default(),
        proxies: ProxyProtocol::default(),
    }
}

fn host_port(address: SocketAddr) -> HostPort {
    HostPort { host: address.ip().to_string(), port: address.port() }
}

/// Says it better than the operating system: the address in the file is taken by this very server.
fn refuse_taken(config: &ServerConfig, own: SocketAddr) -> Result<(), Error> {
    let is_own = |listener: &ListenerConfig| {
        own.port() != 0 && resolve(&listener.address.to_string()).is_ok_and(|other| other == own)
    };
    match config.listeners.iter().any(is_own) {
        true => Err(Error::usage(format!(
            "the configuration listens on {own} and so does the dev server by itself: move it with -dev-listen-address"
        ))),
        false => Ok(()),
    }
}

/// A dev server starts a cluster of its own.
fn warn_of_joins(loaded: &mut Loaded) {
    if let StorageConfig::Raft { retry_join, .. } = &mut loaded.config.storage
        && !retry_join.is_empty()
    {
        retry_join.clear();
        let text = "retry_join has no effect: a dev server is a cluster of its own";
        loaded.warnings.push(text.to_owned());
    }
}

/// What a dev server says of itself: where its API is, and where a cluster's port would be. Neither is
/// known of a port that the system chooses.
fn dev_addresses(address: SocketAddr, is_tls: bool) -> (Option<String>, Option<String>) {
    if address.port() == 0 {
        return (None, None);
    }
    let scheme = if is_tls { "https" } else { "http" };
    let next = address.port().checked_add(1).map(|port| SocketAddr::new(address.ip(), port));
    (Some(format!("{scheme}://{address}")), next.map(|next| format!("https://{next}")))
}

/// A new directory for this run's certificates.
fn fresh_directory() -> Result<PathBuf, Error> {
    let name = format!("kallisto-tls-{}", fastrand::u64(..));
    let directory = std::env::temp_dir().join(name);
    kallisto_command::files::create_private_directory(&directory)
        .map_err(|error| Error::usage(format!("{}: {error}", directory.display())))?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dev_server_says_where_it_is_unless_its_port_is_drawn() {
        let of = |text: &str, is_tls| dev_addresses(text.parse().unwrap(), is_tls);
        let (api, cluster) = of("127.0.0.1:8200", false);
        assert_eq!(api.as_deref(), Some("http://127.0.0.1:8200"));
        assert_eq!(cluster.as_deref(), Some("https://127.0.0.1:8201"));
        assert_eq!(of("[::1]:8200", true).0.as_deref(), Some("https://[::1]:8200"));
        assert_eq!(of("127.0.0.1:65535", false).1, None);
        assert_eq!(of("127.0.0.1:0", false), (None, None));
    }
}
