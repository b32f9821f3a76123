//! Where the load goes: an address, and how to know the server there.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use kallisto_command::config::without_secrets;
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_tls_client::{CertificateAuthorities, ServerTrust};

/// Longest wait for one of several addresses of a host.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);

/// What is spoken there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadProtocol {
    Http,
    Resp,
}

impl LoadProtocol {
    /// The schemes of its addresses, as errors name them.
    const fn schemes(self) -> &'static str {
        match self {
            Self::Http => "http:// or https://",
            Self::Resp => "redis:// or rediss://",
        }
    }
}

/// Whether a client that comes back resumes its TLS session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sessions {
    Resumed,
    Fresh,
}

/// A server.
#[derive(Clone)]
pub(super) struct LoadTarget {
    /// Host and port as given, for the `Host` header.
    pub(super) authority: String,
    pub(super) protocol: LoadProtocol,
    pub(super) address: SocketAddr,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl LoadTarget {
    /// Parses `http://`, `https://`, `redis://` or `rediss://` and a host and port.
    pub(super) fn parse(
        url: &str,
        ca_cert: Option<&Path>,
        sessions: Sessions,
    ) -> Result<Self, Error> {
        let shown = without_secrets(url);
        let wrong = || {
            Error::usage(format!("-address {shown}: want http(s):// or redis(s):// and host:port"))
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        let (protocol, is_tls, port) = match scheme {
            "http" => (LoadProtocol::Http, false, 8200),
            "https" => (LoadProtocol::Http, true, 8200),
            "redis" => (LoadProtocol::Resp, false, 6379),
            "rediss" => (LoadProtocol::Resp, true, 6379),
            _ => return Err(wrong()),
        };
        let authority = rest.trim_end_matches('/').to_owned();
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, digits)) if !digits.ends_with(']') => {
                (host, digits.parse().map_err(|_| wrong())?)
            }
            _ => (authority.as_str(), port),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let found: Vec<_> = (host, port).to_socket_addrs().into_iter().flatten().collect();
        let lets_in =
            |address: &SocketAddr| TcpStream::connect_timeout(address, CONNECT_PATIENCE).is_ok();
        let address = choose_address(&found, lets_in)
            .ok_or_else(|| Error::unusable(format!("-address {shown}: host not found")))?;
        let tls = if is_tls {
            let name = ServerName::try_from(host.to_owned()).map_err(|_| wrong())?;
            Some((Arc::new(tls_config(ca_cert, sessions)?), name))
        } else {
            None
        };
        Ok(Self { authority, protocol, address, tls })
    }

    /// Refuses a server that is not spoken to in this way: `bench http` would send HTTP to Redis.
    pub(super) fn speaking(self, protocol: LoadProtocol) -> Result<Self, Error> {
        if self.protocol == protocol {
            return Ok(self);
        }
        let (wanted, given) = (protocol.schemes(), self.protocol.schemes());
        Err(Error::usage(format!("-address must be {wanted} for this load, and it is {given}")))
    }

    /// A TLS session for one connection, if the server is spoken to by TLS.
    pub(super) fn start_tls(&self) -> io::Result<Option<ClientConnection>> {
        let Some((config, name)) = &self.tls else { return Ok(None) };
        let session = ClientConnection::new(Arc::clone(config), name.clone());
        session.map(Some).map_err(io::Error::other)
    }
}

/// The first address of a host that lets a connection in: a name has those of IPv6 too, where a server may not listen. If none
/// does, the first, whose refusal is told.
fn choose_address(
    found: &[SocketAddr],
    lets_in: impl Fn(&SocketAddr) -> bool,
) -> Option<SocketAddr> {
    match found {
        [] | [_] => found.first().copied(),
        [first, ..] => found.iter().find(|address| lets_in(address)).or(Some(first)).copied(),
    }
}

fn tls_config(ca_cert: Option<&Path>, sessions: Sessions) -> Result<ClientConfig, Error> {
    let authorities = match ca_cert {
        Some(path) => {
            let broken = |why: &dyn std::fmt::Display| {
                Error::unusable(format!("-ca-cert {}: {why}", path.display()))
            };
            let pem = files::read(path).map_err(|error| broken(&error))?;
            let found = CertificateAuthorities::from_pem(&pem);
            found.ok_or_else(|| broken(&"no certificate in PEM form"))?
        }
        None => CertificateAuthorities::of_machine(),
    };
    let config = ServerTrust::Authorities(authorities).client_config(None);
    let mut config = config.map_err(|error| Error::unusable(error.to_string()))?;
    if sessions == Sessions::Fresh {
        config.resumption = Resumption::disabled();
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_what_is_spoken_and_where() {
        let parse = |url: &str| LoadTarget::parse(url, None, Sessions::Fresh);
        let plain = parse("http://127.0.0.1:8300/").unwrap();
        assert_eq!((plain.protocol, plain.address.port()), (LoadProtocol::Http, 8300));
        assert_eq!(plain.authority, "127.0.0.1:8300");
        assert!(plain.start_tls().unwrap().is_none());
        let resp = parse("redis://[::1]").unwrap();
        assert_eq!((resp.protocol, resp.address.port()), (LoadProtocol::Resp, 6379));
        for wrong in ["127.0.0.1:8200", "ftp://a", "http://127.0.0.1:port"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse("http://127.0.0.1").unwrap().speaking(LoadProtocol::Http).is_ok());
        for (url, protocol) in
            [("http://127.0.0.1", LoadProtocol::Resp), ("redis://[::1]", LoadProtocol::Http)]
        {
            let refusal = parse(url).unwrap().speaking(protocol).map(|_| ()).unwrap_err();
            assert_eq!(refusal.exit_code(), 1, "{refusal}");
            assert!(refusal.to_string().contains(protocol.schemes()), "{refusal}");
        }
        let refusal = parse("http://ann:s3cr3t@host:port").map(|_| ()).unwrap_err();
        assert!(!refusal.to_string().contains("s3cr3t"), "{refusal}");
    }

    #[test]
    fn of_several_addresses_one_is_taken_that_lets_in() {
        let all: [SocketAddr; 2] =
            ["[::1]:8200".parse().unwrap(), "127.0.0.1:8200".parse().unwrap()];
        assert_eq!(choose_address(&all, SocketAddr::is_ipv4), Some(all[1]));
        assert_eq!(choose_address(&all, |_| true), Some(all[0]));
        assert_eq!(choose_address(&all, |_| false), Some(all[0]));
        assert_eq!(choose_address(&all[1..], |_| panic!("there is no choice")), Some(all[1]));
        assert_eq!(choose_address(&[], |_| true), None);
    }
}
