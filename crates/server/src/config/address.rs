//! Addresses as a configuration writes them: where to listen.

use std::fmt;
use std::net::IpAddr;

/// Where to listen: a host, by name or number, and a port. Not resolved yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    /// A name, or an IP address without brackets.
    pub(crate) host: String,
    /// The port; 0 takes a free one.
    pub(crate) port: u16,
}

impl HostPort {
    /// Whether only this machine can reach it.
    pub(crate) fn is_loopback(&self) -> bool {
        let ip = self.host.parse::<IpAddr>();
        self.host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }

    /// Whether both cannot be listened on: a port that is taken on every interface is taken on each.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let ip = |host: &str| host.parse::<IpAddr>().ok();
        let takes = |all: Option<IpAddr>, one: Option<IpAddr>| match (all, one) {
            (Some(IpAddr::V4(all)), Some(IpAddr::V4(_))) => all.is_unspecified(),
            (Some(IpAddr::V6(all)), Some(_)) => all.is_unspecified(),
            _ => false,
        };
        let (one, two) = (ip(&self.host), ip(&other.host));
        let meet = self.host == other.host || takes(one, two) || takes(two, one);
        self.port == other.port && meet
    }

    /// Reads `host:port`, `host`, `:port`, `[::1]:port` or `::1`; the error says what is wrong.
    pub(super) fn parse(text: &str, port_default: u16) -> Result<Self, &'static str> {
        if text.contains("{{") {
            return Err("address templates are not supported");
        }
        let port = |text: &str| text.parse().map_err(|_| "the port is no number up to 65535");
        if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or("a bracket is not closed")?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| "brackets hold an IPv6 address")?;
            let port = match rest.strip_prefix(':') {
                Some(text) => port(text)?,
                None if rest.is_empty() => port_default,
                None => return Err("expected HOST:PORT"),
            };
            return Ok(Self { host: host.to_owned(), port });
        }
        if text.parse::<IpAddr>().is_ok() {
            return Ok(Self { host: text.to_owned(), port: port_default });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, text)) => (host, port(text)?),
            None => (text, port_default),
        };
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if !host.chars().all(named) {
            return Err("expected HOST:PORT");
        }
        // Every interface: what no host at all means to Vault.
        let host = if host.is_empty() { "0.0.0.0" } else { host };
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_read_as_people_write_them() {
        for (text, shown) in [
            ("127.0.0.1:8200", "127.0.0.1:8200"),
            ("127.0.0.1", "127.0.0.1:8200"),
            (":9200", "0.0.0.0:9200"),
            ("[::]:8200", "[::]:8200"),
            ("[::1]", "[::1]:8200"),
            ("::1", "[::1]:8200"),
            ("vault-0.vault_internal:1", "vault-0.vault_internal:1"),
        ] {
            assert_eq!(HostPort::parse(text, 8200).unwrap().to_string(), shown, "{text}");
        }
        for text in [
            "1:2:3",
            "host:",
            "host:65536",
            "host:-1",
            "[::1",
            "[::1]8200",
            "[host]:1",
            "a/b:1",
            "{{ GetPrivateIP }}:8200",
            "/run/socket",
        ] {
            assert!(HostPort::parse(text, 8200).is_err(), "{text}");
        }
    }
}
