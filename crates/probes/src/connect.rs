//! From a name to addresses, and from addresses to a connection: the only place of this crate that resolves or connects.
//!
//! Called by `http` and `tls` for each connection anew, so that a redirect is judged as the first request was.
//!
//! Invariants:
//! - Names are asked for as they stand, with a dot at their end: no search domain is added, and no file of hosts is read.
//! - What a name resolved to is used for this connection and then forgotten: nothing is kept that could be poisoned, and no second answer is
//!   asked for between the check and the connection.
//! - If one address of a name is not covered, there is no connection to any: half a rebinding is one too.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::{Resolver, TokioResolver, system_conf};
use kallisto_engine::probe::PROBE_TEXTS_MAX;
use kallisto_engine::{Probe, ProbeFailure, ProbeHost};
use tokio::net::TcpStream;

/// Most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;
/// Longest that one address is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest that one question to a resolver takes, and how often it is asked.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(2);
const QUESTIONS_MAX: usize = 2;
/// Most resolvers of the machine that are asked.
const RESOLVERS_MAX: usize = 3;

/// Connects to a host at a port.
pub(super) async fn open(
    probe: &Probe,
    host: &ProbeHost,
    port: u16,
) -> Result<TcpStream, ProbeFailure> {
    let addresses = match host {
        ProbeHost::Address(address) => vec![*address],
        ProbeHost::Name(name) => addresses(probe.resolver, name).await?,
    };
    if addresses.is_empty() {
        return Err(ProbeFailure::NoName);
    }
    if !addresses.iter().all(|address| probe.destinations.cover(*address)) {
        return Err(ProbeFailure::Refused);
    }
    for address in addresses.into_iter().take(ADDRESSES_MAX) {
        let connecting = TcpStream::connect(SocketAddr::new(address, port));
        if let Ok(Ok(stream)) = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            return Ok(stream);
        }
    }
    Err(ProbeFailure::NoConnection)
}

async fn addresses(server: Option<SocketAddr>, name: &str) -> Result<Vec<IpAddr>, ProbeFailure> {
    let (resolver, name) = (resolver(server)?, absolute(name)?);
    let found = resolver.lookup_ip(name).await.map_err(|_| ProbeFailure::NoName)?;
    Ok(found.iter().collect())
}

/// The texts of a name, each whole.
pub(super) async fn texts(
    server: Option<SocketAddr>,
    name: &str,
) -> Result<Vec<Vec<u8>>, ProbeFailure> {
    let (resolver, name) = (resolver(server)?, absolute(name)?);
    let found = resolver.lookup(name, RecordType::TXT).await.map_err(|_| ProbeFailure::NoName)?;
    let texts = found.answers().iter().filter_map(|record| match &record.data {
        RData::TXT(text) => Some(text.txt_data.concat()),
        _ => None,
    });
    Ok(texts.take(PROBE_TEXTS_MAX).collect())
}

fn absolute(name: &str) -> Result<Name, ProbeFailure> {
    let mut name = Name::from_ascii(name).map_err(|_| ProbeFailure::NoName)?;
    name.set_fqdn(true);
    Ok(name)
}

/// A resolver that asks `server`, or those of the machine.
fn resolver(server: Option<SocketAddr>) -> Result<TokioResolver, ProbeFailure> {
    let servers = match server {
        Some(server) => {
            let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            let connections = connections.into_iter().map(|mut connection| {
                connection.port = server.port();
                connection
            });
            vec![NameServerConfig::new(server.ip(), true, connections.collect())]
        }
        None => {
            let (config, _) = system_conf::read_system_conf().map_err(|_| ProbeFailure::NoName)?;
            config.name_servers().iter().take(RESOLVERS_MAX).cloned().collect()
        }
    };
    let config = ResolverConfig::from_name_servers(servers);
    let mut builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
    let options = builder.options_mut();
    options.ndots = 0;
    options.cache_size = 0;
    options.use_hosts_file = ResolveHosts::Never;
    options.timeout = QUESTION_TIMEOUT;
    options.attempts = QUESTIONS_MAX;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    builder.build().map_err(|_| ProbeFailure::NoName)
}
