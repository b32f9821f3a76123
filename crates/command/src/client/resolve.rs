//! Which address a name stands for: within the configuration's reach, and `-tls-server-name`, which asks for one name at the
//! address of another.
//!
//! The HTTP client takes the name to ask for from the URL. So when another name is wanted, the URL
//! gets that name, a resolver of ours still answers with the configured host's address, and the
//! `Host` header keeps the configured one. Without the setting all three are what they are.

use kallisto_tls_client::HttpsConnector;
use ureq::Agent;
use ureq::config::Config as AgentConfig;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use super::reach::Bounded;
use crate::config::Config;

/// An agent that resolves as `config` wants.
pub(crate) fn agent(
    agent_config: AgentConfig,
    connector: HttpsConnector,
    config: &Config,
) -> Agent {
    let Some(name) = &config.tls.server_name else {
        return Agent::with_parts(agent_config, connector, Bounded::of_system(config.reach));
    };
    let address = config.address.clone();
    let resolver = FixedHost { name: name.clone(), address, inner: DefaultResolver::default() };
    Agent::with_parts(agent_config, connector, Bounded::new(config.reach, resolver))
}

/// The URL to hand to the HTTP client.
pub(crate) fn wire_url(url: &str, config: &Config) -> String {
    match (authority_of(url, config), &config.tls.server_name) {
        (Some((start, end, port)), Some(name)) => {
            format!("{}{name}{port}{}", &url[..start], &url[end..])
        }
        _ => url.to_owned(),
    }
}

/// The `Host` header, where it is not what the URL says.
pub(crate) fn host_header(url: &str, config: &Config) -> Option<String> {
    config.tls.server_name.as_ref()?;
    authority_of(url, config).map(|(start, end, _)| url[start..end].to_owned())
}

/// Where the configured authority stands in `url`, and its port; `None` after a redirect elsewhere.
fn authority_of(url: &str, config: &Config) -> Option<(usize, usize, String)> {
    let authority = config.address.authority()?;
    let start = url.find("://")? + 3;
    let end = start + authority.as_str().len();
    let same = url.starts_with("https://") && url.get(start..end) == Some(authority.as_str());
    let port = authority.port().map_or_else(String::new, |port| format!(":{port}"));
    same.then_some((start, end, port))
}

/// Answers for one name with the address of another host, and for any other name as always.
#[derive(Debug)]
struct FixedHost {
    name: String,
    address: Uri,
    inner: DefaultResolver,
}

impl Resolver for FixedHost {
    fn resolve(
        &self,
        uri: &Uri,
        config: &AgentConfig,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let ours =
            uri.host() == Some(self.name.as_str()) && uri.port_u16() == self.address.port_u16();
        self.inner.resolve(if ours { &self.address } else { uri }, config, timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Audience, Environment};
    use crate::flags::{CommonFlags, ConnectionFlags};

    fn config(address: &str, name: Option<&str>) -> Config {
        let connection = ConnectionFlags {
            address: Some(address.to_owned()),
            tls_server_name: name.map(str::to_owned),
            ..ConnectionFlags::default()
        };
        let flags = CommonFlags { connection, ..CommonFlags::default() };
        Config::resolve(&flags, &Environment::of(|_| None), Audience::Program).unwrap()
    }

    #[test]
    fn the_name_replaces_the_host_and_nothing_else() {
        let named = config("https://10.0.0.1:8200", Some("vault.corp"));
        let url = "https://10.0.0.1:8200/v1/kv/a?x=10.0.0.1:8200";
        assert_eq!(wire_url(url, &named), "https://vault.corp:8200/v1/kv/a?x=10.0.0.1:8200");
        assert_eq!(host_header(url, &named).as_deref(), Some("10.0.0.1:8200"));
    }

    #[test]
    fn other_servers_and_plain_settings_are_left_alone() {
        let named = config("https://10.0.0.1:8200", Some("vault.corp"));
        let elsewhere = "https://10.0.0.2:8200/v1/kv/a";
        assert_eq!(wire_url(elsewhere, &named), elsewhere);
        assert_eq!(host_header(elsewhere, &named), None);
        let plain = config("https://10.0.0.1:8200", None);
        let url = "https://10.0.0.1:8200/v1/kv/a";
        assert_eq!((wire_url(url, &plain).as_str(), host_header(url, &plain)), (url, None));
    }
}
