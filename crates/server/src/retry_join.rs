//! Whom to join: at the first start what `retry_join` of the configuration says, with its files read, and where a request
//! may lead that says so.
//!
//! A request needs no token, so it may only lead to what can be a member: a server of its own, by the protocol that this
//! one is reached by. What the configuration names is asked wherever it is.
//!
//! A join token is good once. So a file of one that is not there is no error: a member that starts again has used it up.

use std::net::IpAddr;
use std::path::Path;

use kallisto_core::JoinTarget;
use kallisto_store::{MemberRole, Peer};
use secrecy::SecretString;
use ureq::http::Uri;
use zeroize::Zeroizing;

use super::config::{JoinToken, RetryJoin};
use kallisto_command::client::reach::AddressReach;
use kallisto_command::error::Error;
use kallisto_command::files;

/// Whom to join, with the files read.
pub(super) fn target(join: &RetryJoin, wants: MemberRole) -> Result<JoinTarget, Error> {
    let read = |path: &Path| {
        let bytes = files::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        bytes.map_err(|error| Error::usage(format!("{}: {error}", path.display())))
    };
    let client_identity = match &join.client_identity {
        Some((certificate, key)) => Some((read(certificate)?, read(key)?)),
        None => None,
    };
    Ok(JoinTarget {
        is_requested: false,
        api_address: join.leader_api_addr.clone(),
        ca_cert: join.ca_cert_file.as_deref().map(read).transpose()?.unwrap_or_default(),
        client_identity,
        server_name: join.tls_server_name.clone(),
        token: join.join_token.as_ref().map(join_token).transpose()?.unwrap_or_default(),
        wants,
    })
}

/// The token to join with. Where its file is gone there is none: a cluster that wants one says so.
fn join_token(token: &JoinToken) -> Result<SecretString, Error> {
    let path = match token {
        JoinToken::Text(token) => return Ok(token.clone()),
        JoinToken::File(path) => path,
    };
    let unreadable = |what: &dyn std::fmt::Display| {
        Error::usage(format!("join_token_file {}: {what}", path.display()))
    };
    let bytes = match files::read(path) {
        Ok(bytes) => Zeroizing::new(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(SecretString::default());
        }
        Err(error) => return Err(unreadable(&error)),
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| unreadable(&"it holds no token"))?;
    Ok(SecretString::from(text.trim()))
}

/// Where the server that a request names may be; it is refused if its URL can be no member's. `own` is this server.
pub(super) fn reach(target: &JoinTarget, own: &Peer) -> Result<AddressReach, String> {
    let url: Uri = target.api_address.parse().map_err(|_| "the address is no URL".to_owned())?;
    match url.scheme_str() {
        Some("https") => {}
        // The cluster of a server that is reached without TLS may be as open.
        Some("http") if own.api_address.starts_with("http://") => {}
        _ => return Err("the address is not https".to_owned()),
    }
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let is_bare = matches!(url.path(), "" | "/") && url.query().is_none();
    if !is_bare || authority.is_empty() || authority.contains('@') {
        return Err("the address is not a scheme, a host and a port alone".to_owned());
    }
    let is_name = |name: &String| {
        name.chars().all(|char| char.is_ascii_alphanumeric() || ".-_:[]".contains(char))
    };
    if !target.server_name.iter().all(is_name) {
        return Err("the name to ask for is no host's".to_owned());
    }
    Ok(if is_here(&own.cluster_address) {
        AddressReach::ServersAndHere
    } else {
        AddressReach::Servers
    })
}

/// Whether a server whose peers find it here has them on the same machine.
fn is_here(cluster_address: &str) -> bool {
    let host = cluster_address.rsplit_once(':').map_or(cluster_address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn a_request_leads_to_what_can_be_a_member() {
        let own = |api: &str, cluster: &str| Peer {
            api_address: api.to_owned(),
            cluster_address: cluster.to_owned(),
            ..Peer::default()
        };
        let to = |url: &str| JoinTarget { api_address: url.to_owned(), ..JoinTarget::default() };
        let closed = own("https://two.example:8200", "two.example:8201");
        assert_eq!(reach(&to("https://one.example:8200"), &closed), Ok(AddressReach::Servers));
        for url in [
            "http://one.example:8200",
            "unix:///run/docker.sock",
            "ftp://one.example",
            "one.example:8200",
            "https://user@one.example:8200",
            "https://one.example:8200/admin",
            "https://one.example:8200/?a=",
            "https://",
            "",
        ] {
            assert!(reach(&to(url), &closed).is_err(), "{url}");
        }
        let named = JoinTarget {
            server_name: Some("one.example/latest?".to_owned()),
            ..to("https://one.example:8200")
        };
        assert!(reach(&named, &closed).is_err());
        let open = own("http://two.example:8200", "two.example:8201");
        assert_eq!(reach(&to("http://one.example:8200"), &open), Ok(AddressReach::Servers));
        for cluster in ["127.0.0.1:8201", "[::1]:8201", "localhost:8201"] {
            let here = own("http://127.0.0.1:8200", cluster);
            assert_eq!(
                reach(&to("http://127.0.0.1:9200"), &here),
                Ok(AddressReach::ServersAndHere)
            );
        }
    }

    #[test]
    fn a_token_comes_from_its_file_and_may_be_gone() {
        let path = std::env::temp_dir().join(format!("kallisto-join-{}", std::process::id()));
        let token = JoinToken::File(path.clone());
        assert_eq!(join_token(&token).unwrap().expose_secret(), "");
        files::write_private(&path, b"kjt.canary\n").unwrap();
        assert_eq!(join_token(&token).unwrap().expose_secret(), "kjt.canary");
        files::write_private(&path, b"\xffcan").unwrap();
        let refused = join_token(&token).unwrap_err().to_string();
        assert!(refused.ends_with("it holds no token"), "{refused}");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(join_token(&token).is_err());
        std::fs::remove_dir(&path).unwrap();
    }
}
