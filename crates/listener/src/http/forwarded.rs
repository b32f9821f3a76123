//! Whose word counts about where a request comes from: `X-Forwarded-For`, as Vault and OpenBao have it.
//!
//! Behind a proxy every request comes from the proxy. Where a listener names its proxies, the address they give is the
//! client's for everything that is decided or written down of a request: bounds of tokens and roles, rate limits,
//! lockout, fairness, the audit record, and what is relayed to the leader. The connection stays the proxy's.
//!
//! Both readers of HTTP/1.1, and HTTP/2, ask here before anything else looks at a request. The Redis protocol has no
//! such header: there the peer is the client.
//!
//! Invariants:
//! - The header counts from an authorised address alone; from others it is refused, or taken out of the request.
//! - It is read from its end: what a client wrote into it itself stands before what the proxies appended.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{HeaderMap, HeaderName};
use kallisto_core::{AddressRange, Error};

static FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Whose `X-Forwarded-For` is believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardedFor {
    /// Proxies that may say for whom they speak; empty: nobody is asked.
    pub authorized: Vec<AddressRange>,
    /// Entries to skip from the end of the header: proxies in front of the proxy.
    pub hop_skips: u32,
    /// Whether a request without the header is refused.
    pub reject_not_present: bool,
    /// Whether one with the header is refused that comes from elsewhere.
    pub reject_not_authorized: bool,
}

impl ForwardedFor {
    /// Whether a request without the header is its peer's.
    pub(super) const fn takes_peers(&self) -> bool {
        self.authorized.is_empty() || !self.reject_not_present
    }

    /// The address of the client that `peer` speaks for; the port stays the peer's.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying why nobody is believed.
    pub(super) fn client(
        &self,
        peer: SocketAddr,
        headers: &mut HeaderMap,
    ) -> Result<SocketAddr, Error> {
        if self.authorized.is_empty() {
            return Ok(peer);
        }
        if !headers.contains_key(&FORWARDED_FOR) {
            let text = "missing x-forwarded-for header and configured to reject when not present";
            return if self.reject_not_present { Err(Error::invalid(text)) } else { Ok(peer) };
        }
        if !self.authorized.iter().any(|range| range.contains(peer.ip())) {
            if self.reject_not_authorized {
                return Err(Error::invalid(
                    "client address not authorized for x-forwarded-for and configured to reject connection",
                ));
            }
            // Nobody behind this is to take it for true.
            headers.remove(&FORWARDED_FOR);
            return Ok(peer);
        }
        let ip = self.entry(headers)?;
        Ok(SocketAddr::new(ip.to_canonical(), peer.port()))
    }

    /// The entry that counts, of all headers of the name, joined.
    fn entry(&self, headers: &HeaderMap) -> Result<IpAddr, Error> {
        let values = headers.get_all(&FORWARDED_FOR).iter();
        let entries: Vec<&[u8]> =
            values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).collect();
        let skips = usize::try_from(self.hop_skips).unwrap_or(usize::MAX);
        let Some(at) = entries.len().checked_sub(1).and_then(|last| last.checked_sub(skips)) else {
            return Err(Error::invalid(format!(
                "malformed x-forwarded-for configuration or request, hops to skip ({skips}) would skip \
                 before earliest chain link (chain length {})",
                entries.len()
            )));
        };
        address(entries[at]).ok_or_else(|| {
            Error::invalid("malformed x-forwarded-for: the entry that counts is no address")
        })
    }
}

/// An address as proxies write it: some add the port.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let alone = || bare.unwrap_or(text).parse().ok();
    alone().or_else(|| text.parse().ok().map(|with_port: SocketAddr| with_port.ip()))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn rules(hop_skips: u32, rejects: bool) -> ForwardedFor {
        ForwardedFor {
            authorized: vec![AddressRange::parse("10.0.0.0/8").unwrap()],
            hop_skips,
            reject_not_present: rejects,
            reject_not_authorized: rejects,
        }
    }

    /// Who asks, according to these rules: an address, or how the refusal begins.
    fn asks(rules: &ForwardedFor, peer: &str, given: &[&'static str]) -> String {
        let mut headers = HeaderMap::new();
        for value in given {
            headers.append(&FORWARDED_FOR, HeaderValue::from_static(value));
        }
        match rules.client(format!("{peer}:7").parse().unwrap(), &mut headers) {
            Ok(client) => {
                assert_eq!(client.port(), 7);
                client.ip().to_string()
            }
            Err(error) => error.to_string().split(' ').take(2).collect::<Vec<_>>().join(" "),
        }
    }

    #[test]
    fn the_entry_that_the_proxy_wrote_counts() {
        for (skips, given, expected) in [
            (0, &["1.1.1.1"][..], "1.1.1.1"),
            (0, &["1.1.1.1, 2.2.2.2"], "2.2.2.2"),
            (1, &["1.1.1.1,2.2.2.2"], "1.1.1.1"),
            (0, &["1.1.1.1", "2.2.2.2,3.3.3.3"], "3.3.3.3"),
            (2, &["1.1.1.1", "2.2.2.2,3.3.3.3"], "1.1.1.1"),
            (1, &["spoofed, 2.2.2.2, 3.3.3.3"], "2.2.2.2"),
            (0, &["2001:db8::1"], "2001:db8::1"),
            (0, &["[2001:db8::1]:443"], "2001:db8::1"),
            (0, &["[2001:db8::1]"], "2001:db8::1"),
            (0, &["::ffff:1.1.1.1"], "1.1.1.1"),
            (0, &["1.1.1.1:99"], "1.1.1.1"),
            (1, &["1.1.1.1"], "malformed x-forwarded-for"),
            (3, &["1.1.1.1", "2.2.2.2,3.3.3.3"], "malformed x-forwarded-for"),
            (0, &["1.1.1.1, unknown"], "malformed x-forwarded-for:"),
            (0, &[""], "malformed x-forwarded-for:"),
            (0, &["1.1.1.1,"], "malformed x-forwarded-for:"),
            (0, &["1.1.1.256"], "malformed x-forwarded-for:"),
        ] {
            for rejects in [true, false] {
                let found = asks(&rules(skips, rejects), "10.0.0.1", given);
                assert_eq!(found, expected, "{skips} {given:?}");
            }
        }
    }

    #[test]
    fn who_is_not_authorised_is_refused_or_not_believed() {
        let given = &["1.1.1.1"][..];
        assert_eq!(asks(&rules(0, true), "11.0.0.1", given), "client address");
        assert_eq!(asks(&rules(0, false), "11.0.0.1", given), "11.0.0.1");
        assert_eq!(asks(&rules(0, true), "10.0.0.1", &[]), "missing x-forwarded-for");
        assert_eq!(asks(&rules(0, true), "11.0.0.1", &[]), "missing x-forwarded-for");
        assert_eq!(asks(&rules(0, false), "10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(asks(&ForwardedFor::default(), "11.0.0.1", given), "11.0.0.1");
        let mut headers = HeaderMap::new();
        headers.append(&FORWARDED_FOR, HeaderValue::from_static("1.1.1.1"));
        rules(0, false).client("11.0.0.1:7".parse().unwrap(), &mut headers).unwrap();
        assert!(headers.is_empty(), "nobody reads it later");
    }
}
