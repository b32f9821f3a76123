//! Which addresses a connection may go to, judged on what a name resolved to, at the moment it is used.
//!
//! A command goes where its user says. A server that connects somewhere at another's word must not become a way to what only
//! it can reach: the metadata service of its cloud, or what listens on its loopback. A name is no help in that, since whoever
//! owns it decides what it resolves to, and may decide anew each time; so the rule stands behind the resolver.

use std::io;
use std::net::IpAddr;

use kallisto_engine::destination::{is_loopback, special_range};
use ureq::config::Config as AgentConfig;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Which addresses a connection may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressReach {
    /// Any.
    Anywhere,
    /// Those that a server can have, this machine's loopback included.
    ServersAndHere,
    /// Those that another machine's server can have.
    Servers,
}

impl AddressReach {
    /// Whether a connection may go to `address`.
    pub fn covers(self, address: IpAddr) -> bool {
        if self == Self::Anywhere {
            return true;
        }
        match special_range(address) {
            None => true,
            Some(range) => self == Self::ServersAndHere && is_loopback(range),
        }
    }
}

/// A resolver that gives only what a reach covers.
#[derive(Debug)]
pub struct Bounded<R> {
    reach: AddressReach,
    inner: R,
}

impl<R: Resolver> Bounded<R> {
    /// What `inner` gives, as far as `reach` goes.
    pub const fn new(reach: AddressReach, inner: R) -> Self {
        Self { reach, inner }
    }
}

impl Bounded<DefaultResolver> {
    /// The system's names, as far as `reach` goes.
    pub fn of_system(reach: AddressReach) -> Self {
        Self::new(reach, DefaultResolver::default())
    }
}

impl<R: Resolver> Resolver for Bounded<R> {
    fn resolve(
        &self,
        uri: &Uri,
        config: &AgentConfig,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let all = self.inner.resolve(uri, config, timeout)?;
        let mut covered = self.empty();
        for address in all.iter().filter(|address| self.reach.covers(address.ip())) {
            covered.push(*address);
        }
        if covered.is_empty() {
            let why = "this is no address of a server: link-local, loopback or the like";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why).into());
        }
        Ok(covered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_of_an_address_that_is_no_servers_is_covered() {
        for text in [
            "169.254.169.254",
            "169.254.0.1",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "fe80::1",
            "febf::1",
            "fd00:ec2::254",
            "100.100.100.200",
            "192.0.0.192",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "255.255.255.255",
            "224.0.0.1",
            "ff02::1",
        ] {
            let address: IpAddr = text.parse().unwrap();
            assert!(!AddressReach::Servers.covers(address), "{text}");
            assert!(!AddressReach::ServersAndHere.covers(address), "{text}");
            assert!(AddressReach::Anywhere.covers(address), "{text}");
        }
    }

    #[test]
    fn loopback_is_covered_where_it_is_said() {
        for text in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "::127.0.0.1"] {
            let address: IpAddr = text.parse().unwrap();
            assert!(!AddressReach::Servers.covers(address), "{text}");
            assert!(AddressReach::ServersAndHere.covers(address), "{text}");
        }
    }

    #[test]
    fn servers_are_covered_wherever_they_are() {
        for text in [
            "10.0.0.1",
            "192.168.1.9",
            "172.16.0.1",
            "100.64.0.1",
            "8.8.8.8",
            "fd12::1",
            "2001:db8::1",
        ] {
            assert!(AddressReach::Servers.covers(text.parse().unwrap()), "{text}");
        }
    }
}
