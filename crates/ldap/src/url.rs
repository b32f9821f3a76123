//! Where directories are: `ldap://HOST:PORT` and `ldaps://HOST:PORT`, several with commas between.

/// Most directories of a setting.
const URLS_MAX: usize = 16;

/// Where directories are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LdapPlaces {
    /// The hosts and their ports, in the order in which they are tried.
    pub(crate) hosts: Vec<(String, u16)>,
    /// Whether TLS begins with the connection.
    pub(crate) has_tls: bool,
}

/// Reads URLs.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn parse(text: &str) -> Result<LdapPlaces, String> {
    let mut hosts = Vec::new();
    let mut schemes = Vec::new();
    for url in text.split(',').map(str::trim) {
        // What stands before an @ may be a password.
        if url.contains('@') {
            return Err("a URL has a host and a port, and no name or password".to_owned());
        }
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| format!("{url:?} is no URL of the form ldap://HOST or ldaps://HOST"))?;
        let has_tls = match scheme.to_ascii_lowercase().as_str() {
            "ldap" => false,
            "ldaps" => true,
            _ => return Err(format!("{url:?}: the scheme is ldap or ldaps")),
        };
        let place = rest.strip_suffix('/').unwrap_or(rest);
        if place.contains(['/', '?', '#']) {
            return Err(format!("{url:?} has more than a host and a port"));
        }
        let bad = || format!("{url:?} has no host, or a port that is none");
        let (host, port) = match place.strip_prefix('[') {
            Some(v6) => {
                let (host, port) = v6.split_once(']').ok_or_else(bad)?;
                (host, if port.is_empty() { "" } else { port.strip_prefix(':').ok_or_else(bad)? })
            }
            None => place.split_once(':').unwrap_or((place, "")),
        };
        let usual = if has_tls { 636 } else { 389 };
        let port = match port {
            "" => usual,
            given => given.parse().ok().filter(|port| *port > 0).ok_or_else(bad)?,
        };
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(bad());
        }
        hosts.push((host.to_owned(), port));
        schemes.push(has_tls);
    }
    if hosts.len() > URLS_MAX {
        return Err(format!("more than {URLS_MAX} URLs"));
    }
    // A directory that is tried next must not be one without TLS.
    schemes.dedup();
    match schemes.as_slice() {
        [has_tls] => Ok(LdapPlaces { hosts, has_tls: *has_tls }),
        _ => Err("all URLs are ldap, or all are ldaps".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_where() {
        let places = parse("ldap://127.0.0.1, LDAP://[::1]:1389/").unwrap();
        assert_eq!(places.hosts, [("127.0.0.1".into(), 389), ("::1".into(), 1389)]);
        assert!(!places.has_tls);
        assert_eq!(parse("ldaps://d.example").unwrap().hosts, [("d.example".into(), 636)]);
        for bad in [
            "",
            "nonsense",
            "bogus://x",
            "ldap://",
            "ldap://h:0",
            "ldap://h:x",
            "ldap://h:99999",
            "ldap://u@h",
            "ldap://h/dc=x",
            "ldap://[::1",
            "ldap://a,ldaps://b",
            "ldap://a,",
            "ldap://a b",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        for secret in [
            "ldap://u:canary@h",
            "u:canary@h",
            "bogus://u:canary@h/x",
            "ldap://a,ldap://:canary@h?",
        ] {
            assert!(!parse(secret).unwrap_err().contains("canary"), "{secret}");
        }
    }
}
