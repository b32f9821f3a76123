//! `NO_PROXY`: which servers are reached without a proxy, as Go's clients read it.
//!
//! Entries are apart by commas: a domain and all below it, an address, a range of addresses such as `10.0.0.0/8`, each but the range
//! with a port if only that is meant, or `*` for all.

use std::net::IpAddr;

use kallisto_engine::AddressRange;

/// Whether `list` names this server.
pub(super) fn names(list: &str, host: &str, port: u16) -> bool {
    list.split(',').map(str::trim).any(|entry| is_named(entry, host, port))
}

fn is_named(entry: &str, host: &str, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    let address: Option<IpAddr> = host.parse().ok();
    if entry.contains('/') {
        let range = AddressRange::parse(entry);
        return address.is_some_and(|address| range.is_some_and(|range| range.contains(address)));
    }
    let (name, wanted_port) = parts(entry);
    if wanted_port.is_some_and(|wanted| wanted != port.to_string()) {
        return false;
    }
    match (address, name.parse::<IpAddr>()) {
        (Some(address), Ok(named)) => address == named,
        (None, Err(_)) => is_below(&host.to_ascii_lowercase(), &name.to_ascii_lowercase()),
        (Some(_), Err(_)) | (None, Ok(_)) => false,
    }
}

/// The name and the port of `host`, `host:port`, `[address]:port` or an address of version 6.
fn parts(entry: &str) -> (&str, Option<&str>) {
    if let Some((name, rest)) = entry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (name, rest.strip_prefix(':'));
    }
    match entry.split_once(':') {
        Some((name, port)) if !port.contains(':') => (name, Some(port)),
        _ => (entry, None),
    }
}

fn is_below(host: &str, domain: &str) -> bool {
    let domain = domain.trim_start_matches("*.").trim_start_matches('.');
    let head = host.strip_suffix(domain).filter(|_| !domain.is_empty());
    head.is_some_and(|head| head.is_empty() || head.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn domains_addresses_ranges_and_ports() {
        for (list, host, wanted) in [
            ("*", "vault.corp", true),
            ("x, .corp", "vault.corp", true),
            ("*.corp", "vault.corp", true),
            ("CORP", "Vault.corp", true),
            ("vault.corp", "vault.corp", true),
            ("vault.corp:8200", "vault.corp", true),
            ("vault.corp:443", "vault.corp", false),
            ("orp", "vault.corp", false),
            ("", "vault.corp", false),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8,corp", "11.1.2.3", false),
            ("10.0.0.0/99", "10.1.2.3", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3:8200", "10.1.2.3", true),
            ("1.2.3", "10.1.2.3", false),
            ("fd00::/8", "fd00::1", true),
            ("fd00::1", "fd00::1", true),
            ("[fd00::1]:8200", "fd00::1", true),
            ("[fd00::1]:1", "fd00::1", false),
        ] {
            assert_eq!(names(list, host, 8200), wanted, "{list} {host}");
        }
    }
}
