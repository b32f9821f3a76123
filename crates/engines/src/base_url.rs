//! Where a server of HTTP is, as a configuration says it.

use kallisto_engine::far_end::{FarEndPool, FarEndProtocol, FarEndTls, HttpLogin, TlsUse};
use kallisto_engine::{AllowedAddresses, EngineContext, FarEnd};

/// Longest that a connection may take, in seconds.
const CONNECT_SECS: u64 = 5;
/// Longest host with its path, in bytes.
const HOST_BYTES_MAX: usize = 2048;

/// Where a server of HTTP is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BaseUrl {
    /// As it was given.
    pub(crate) text: String,
    pub(crate) is_tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What stands before every path; without an ending slash.
    pub(crate) base: String,
}

impl BaseUrl {
    /// The far end there: what it is called in its mount, the version of its record, who logs in, and the authorities to believe.
    pub(crate) fn far_end(
        &self,
        context: &EngineContext<'_>,
        name: &str,
        revision: u64,
        login: HttpLogin,
        authorities: &str,
    ) -> FarEnd {
        FarEnd {
            mount: context.mount.accessor.to_owned(),
            name: name.to_owned(),
            revision,
            hosts: vec![(self.host.clone(), self.port)],
            addresses: AllowedAddresses::default(),
            connect_secs: CONNECT_SECS,
            protocol: FarEndProtocol::Http { login },
            tls: FarEndTls {
                usage: if self.is_tls { TlsUse::Verified } else { TlsUse::Never },
                authorities: authorities.to_owned(),
                ..FarEndTls::default()
            },
            pool: FarEndPool::default(),
        }
    }

    /// Reads a URL; `None` for what is none, or has a name, a password, a query or a fragment.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim_end_matches('/');
        let (is_tls, rest) = match text.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("http://")?),
        };
        let (authority, base) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (host, port) = match authority.strip_prefix('[') {
            Some(address) => {
                let (host, port) = address.split_once(']')?;
                host.parse::<std::net::Ipv6Addr>().ok()?;
                (host, port)
            }
            None => authority.find(':').map_or((authority, ""), |at| authority.split_at(at)),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().ok().filter(|port| *port > 0)?,
            None if !port.is_empty() => return None,
            None if is_tls => 443,
            None => 80,
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
        let is_path = |c: char| c.is_ascii_alphanumeric() || "-._~/:".contains(c);
        let fits = !host.is_empty()
            && host.chars().all(is_host)
            && base.chars().all(is_path)
            && !base.split('/').any(|part| matches!(part, "." | ".."))
            && text.len() <= HOST_BYTES_MAX;
        let (host, base) = (host.to_owned(), base.to_owned());
        fits.then(|| Self { text: text.to_owned(), is_tls, host, port, base })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_whole_or_not_at_all() {
        let read =
            |text: &str| BaseUrl::parse(text).map(|url| (url.is_tls, url.host, url.port, url.base));
        for (text, host, port, base) in [
            ("https://k8s.example", "k8s.example", 443, ""),
            ("https://10.0.0.1:6443/", "10.0.0.1", 6443, ""),
            ("https://[fd00::1]:6443", "fd00::1", 6443, ""),
            ("https://rancher/k8s/clusters/c-1", "rancher", 443, "/k8s/clusters/c-1"),
        ] {
            let expected = (true, host.to_owned(), port, base.to_owned());
            assert_eq!(read(text), Some(expected), "{text}");
        }
        assert_eq!(read("http://h:8080").map(|(is_tls, ..)| is_tls), Some(false));
        for bad in [
            "",
            "h:1",
            "ftp://h",
            "https://",
            "https://u:p@h",
            "https://h?x",
            "https://h#x",
            "https://h:0",
            "https://h:x",
            "https://h/a b",
            "https://h/../x",
            "https://[::1",
            "https://[x]:1",
            "https://h\r\nX: y",
            "https://h:1:2",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
