//! Which far end, and how it is reached.

use std::fmt;
use std::net::IpAddr;

use secrecy::SecretString;

use crate::destination::{AllowedAddresses, is_loopback, special_range};

/// A far end.
#[derive(Clone)]
pub struct FarEnd {
    /// The accessor of the mount that asks.
    pub mount: String,
    /// Its name in the mount: what is asked under the same name shares a queue and sessions.
    pub name: String,
    /// Rises whenever anything here changes: sessions of an older revision are closed.
    pub revision: u64,
    /// The hosts, each with its port, tried in this order. A host is a name or an address, without brackets.
    pub hosts: Vec<(String, u16)>,
    /// Where connections may go, besides what [`may_reach`] says.
    pub addresses: AllowedAddresses,
    /// How long a connection to one host may take, in seconds.
    pub connect_secs: u64,
    /// What is spoken there, and as whom.
    pub protocol: FarEndProtocol,
    /// How TLS is spoken.
    pub tls: FarEndTls,
    /// How many sessions there may be.
    pub pool: FarEndPool,
}

/// What is spoken with a far end.
#[derive(Clone)]
pub enum FarEndProtocol {
    /// PostgreSQL's, version 3.
    Postgres {
        /// As whom.
        login: FarEndLogin,
        /// The database.
        database: String,
        /// What a session begins with.
        start: PostgresStart,
    },
    /// That of MySQL and MariaDB.
    Mysql {
        /// As whom.
        login: FarEndLogin,
        /// The database; empty for none.
        database: String,
    },
    /// That of Redis and Valkey.
    Redis {
        /// As whom; an empty user is the default one.
        login: FarEndLogin,
    },
    /// LDAP, version 3.
    Ldap {
        /// As whom: the name of an entry, or what else the directory takes; nobody logs in without a name.
        login: FarEndLogin,
        /// Whether TLS begins on a connection that is open (StartTLS), not with it.
        starts_tls: bool,
    },
    /// HTTP, version 1.1.
    Http {
        /// As whom.
        login: HttpLogin,
    },
}

/// What a session with PostgreSQL begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostgresStart {
    /// Names of settings with their values.
    pub settings: Vec<(String, String)>,
    /// Whether a host that only reads, such as a standby, is passed over.
    pub needs_writable: bool,
}

impl FarEndProtocol {
    /// What people call it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Postgres { .. } => "postgresql",
            Self::Mysql { .. } => "mysql",
            Self::Redis { .. } => "redis",
            Self::Ldap { .. } => "ldap",
            Self::Http { .. } => "http",
        }
    }

    /// What it is logged in to with.
    pub const fn secret(&self) -> &SecretString {
        match self {
            Self::Postgres { login, .. }
            | Self::Mysql { login, .. }
            | Self::Redis { login }
            | Self::Ldap { login, .. }
            | Self::Http { login: HttpLogin::Basic(login) } => &login.password,
            Self::Http { login: HttpLogin::Bearer(token) } => token,
        }
    }
}

/// What shows a server of HTTP who asks, in the header `Authorization`.
#[derive(Clone)]
pub enum HttpLogin {
    /// A token (RFC 6750, section 2.1); empty for nobody.
    Bearer(SecretString),
    /// A name and a password (RFC 7617).
    Basic(FarEndLogin),
}

/// Who logs in.
#[derive(Clone)]
pub struct FarEndLogin {
    /// The name.
    pub user: String,
    /// The password; empty for none.
    pub password: SecretString,
}

/// Which of the two passwords holds that are kept of a login while its password is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootPassword {
    /// The new one, which was pending.
    Pending,
    /// The one from before.
    Current,
}

/// Whether TLS is spoken, and what is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsUse {
    /// It is not.
    #[default]
    Never,
    /// Where the far end does; no certificate is checked.
    WhereOffered,
    /// Always; no certificate is checked.
    Unverified,
    /// Always; the certificate is of a known authority, for whatever name.
    AuthorityVerified,
    /// Always; the certificate is of a known authority, and for the host that was named.
    Verified,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FarEndTlsVersion {
    /// 1.2 (RFC 5246).
    V12,
    /// 1.3 (RFC 8446).
    V13,
}

/// How TLS is spoken.
#[derive(Clone, Default)]
pub struct FarEndTls {
    /// Whether, and what is checked.
    pub usage: TlsUse,
    /// The lowest and the highest version that is spoken; `None` for those that there are.
    pub versions: Option<(FarEndTlsVersion, FarEndTlsVersion)>,
    /// The authorities to believe, as PEM; empty for those of the machine.
    pub authorities: String,
    /// The name that the certificate has to be for, where it is not the host's; empty for the host's.
    pub server_name: String,
    /// A certificate for us, with its chain, as PEM; empty for none.
    pub certificate: String,
    /// Its private key, as PEM.
    pub private_key: Option<SecretString>,
}

/// How many sessions a far end may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarEndPool {
    /// At once.
    pub open_max: usize,
    /// That wait for work.
    pub idle_max: usize,
    /// How long one is used, in seconds; 0 for as long as it lasts.
    pub lifetime_secs: u64,
}

impl Default for FarEndPool {
    fn default() -> Self {
        Self { open_max: 8, idle_max: 8, lifetime_secs: 0 }
    }
}

/// Whether a connection may go to an address. Whoever configures a far end must not ask what only this machine's cloud or link can reach
/// through us; databases on this machine itself are common.
pub fn may_reach(addresses: &AllowedAddresses, address: IpAddr) -> bool {
    let is_here = special_range(address).is_some_and(is_loopback);
    let is_listed = addresses.permitted.is_empty() && addresses.excluded.is_empty();
    (is_here && is_listed) || addresses.cover(address)
}

impl fmt::Debug for FarEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarEnd")
            .field("mount", &self.mount)
            .field("name", &self.name)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for FarEndProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for HttpLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpLogin")
    }
}

impl fmt::Debug for FarEndLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FarEndLogin")
    }
}

impl fmt::Debug for FarEndTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarEndTls").field("usage", &self.usage).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_and_others_are_reached_and_metadata_services_are_not() {
        let any = AllowedAddresses::default();
        for address in ["127.0.0.1", "::1", "10.0.0.1", "8.8.8.8"] {
            assert!(may_reach(&any, address.parse().unwrap()), "{address}");
        }
        for address in ["169.254.169.254", "fe80::1", "0.0.0.0", "64:ff9b::a9fe:a9fe"] {
            assert!(!may_reach(&any, address.parse().unwrap()), "{address}");
        }
    }
}
