//! Where this server may connect to at another's word.
//!
//! A server that connects somewhere because a request says so must not become a way to what only it can reach: its loopback, the metadata
//! service of its cloud, what is on its own link. Names are no help in that, since whoever owns one decides what it resolves to, anew each
//! time. So the rule is about addresses, and is asked of the very address that a connection goes to.
//!
//! Called by whatever connects: probes of ACME, and the calls of login methods.
//!
//! Invariants:
//! - An IPv4 address is judged as what it is in every spelling: mapped, compatible, translated (NAT64, RFC 6052 and 8215), 6to4.
//! - A special address is refused unless a permitted range lies within its special range: `0.0.0.0/0` permits no loopback, `127.0.0.1` does.
//! - What is excluded is refused, whatever is permitted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use crate::address::AddressRange;

/// Addresses that no other machine's service has, and metadata services (Amazon's by IPv6, and that of its credentials for pods; Google's and
/// Scaleway's by IPv6; Azure's WireServer; Alibaba's; Oracle's first).
const SPECIAL: [&str; 17] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "224.0.0.0/4",
    "255.255.255.255",
    "100.100.100.200",
    "192.0.0.192",
    "::",
    "::1",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fd00:42::42",
    "168.63.129.16",
];

static SPECIAL_RANGES: LazyLock<Vec<AddressRange>> =
    LazyLock::new(|| SPECIAL.iter().filter_map(|text| AddressRange::parse(text)).collect());

/// The special range that an address is of, in any spelling; `None` for one that a service of another machine can have.
pub fn special_range(address: IpAddr) -> Option<AddressRange> {
    spellings(address)
        .find_map(|spelling| SPECIAL_RANGES.iter().copied().find(|range| range.contains(spelling)))
}

/// Whether a special range is this machine's own.
pub fn is_loopback(range: AddressRange) -> bool {
    range.contains(Ipv4Addr::LOCALHOST.into()) || range.contains(Ipv6Addr::LOCALHOST.into())
}

/// An address, and the IPv4 address that a packet to it would be translated to.
fn spellings(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    let address = address.to_canonical();
    let embedded = match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => embedded(v6).map(IpAddr::V4),
    };
    [Some(address), embedded].into_iter().flatten()
}

fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 1, _, _, _, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x2002, high, low, ..] => Some(v4(high, low)),
        // `::1` is loopback, and no address of this kind.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(v4(high, low)),
        _ => None,
    }
}

/// Where connections may go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedAddresses {
    /// The only ranges, if there are any.
    pub permitted: Vec<AddressRange>,
    /// Never these.
    pub excluded: Vec<AddressRange>,
}

impl AllowedAddresses {
    /// Whether a connection may go to `address`.
    pub fn cover(&self, address: IpAddr) -> bool {
        let is_excluded =
            spellings(address).any(|one| self.excluded.iter().any(|range| range.contains(one)));
        if is_excluded {
            return false;
        }
        let holding = |ranges: &[AddressRange], one: IpAddr| -> Vec<AddressRange> {
            ranges.iter().copied().filter(|range| range.contains(one)).collect()
        };
        let permitting: Vec<AddressRange> =
            spellings(address).flat_map(|one| holding(&self.permitted, one)).collect();
        match special_range(address) {
            Some(special) => permitting.into_iter().any(|range| special.covers(range)),
            None => self.permitted.is_empty() || !permitting.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(texts: &[&str]) -> Vec<AddressRange> {
        texts.iter().map(|text| AddressRange::parse(text).unwrap()).collect()
    }

    fn covers(permitted: &[&str], excluded: &[&str], address: &str) -> bool {
        let destinations =
            AllowedAddresses { permitted: ranges(permitted), excluded: ranges(excluded) };
        destinations.cover(address.parse().unwrap())
    }

    #[test]
    fn every_special_range_is_read() {
        assert_eq!(SPECIAL_RANGES.len(), SPECIAL.len());
    }

    #[test]
    fn no_spelling_of_a_special_address_is_covered_by_itself() {
        for text in [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::7f00:1",
            "64:ff9b:1:2:3:4:7f00:1",
            "::ffff:0:127.0.0.1",
            "2002:7f00:1::",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "fe80::1",
            "febf::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:42::42",
            "168.63.129.16",
            "::ffff:168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "255.255.255.255",
            "224.0.0.1",
            "ff02::1",
        ] {
            assert!(!covers(&[], &[], text), "{text}");
            assert!(!covers(&["0.0.0.0/0", "::/0"], &[], text), "{text} by a range of everything");
        }
    }

    #[test]
    fn private_and_public_addresses_are_covered() {
        for text in ["10.0.0.1", "192.168.1.9", "172.16.0.1", "8.8.8.8", "fd12::1", "2001:db8::1"] {
            assert!(covers(&[], &[], text), "{text}");
        }
        // Both halves of what a packet is translated to count.
        for spelled in ["64:ff9b::808:404", "2002:808:404::1", "::8.8.4.4", "::ffff:0:8.8.4.4"] {
            assert!(covers(&[], &[], spelled), "{spelled}");
            assert!(covers(&["8.8.4.4"], &[], spelled), "{spelled}");
            assert!(!covers(&[], &["8.8.4.4"], spelled), "{spelled}");
            assert!(covers(&[], &["8.8.4.5", "4.4.8.8"], spelled), "{spelled}");
        }
    }

    #[test]
    fn loopback_is_covered_where_a_range_of_loopback_says_so() {
        assert!(covers(&["127.0.0.0/8"], &[], "127.0.0.1"));
        assert!(covers(&["127.0.0.1"], &[], "127.0.0.1"));
        assert!(covers(&["127.0.0.1"], &[], "::ffff:127.0.0.1"));
        assert!(!covers(&["127.0.0.1"], &[], "127.0.0.2"));
        assert!(!covers(&["127.0.0.0/8"], &[], "10.0.0.1"), "only what is permitted");
        assert!(!covers(&["127.0.0.0/7"], &[], "127.0.0.1"), "wider than loopback");
    }

    #[test]
    fn what_is_excluded_is_not_covered_whatever_is_permitted() {
        assert!(!covers(&["10.0.0.0/8"], &["10.1.0.0/16"], "10.1.2.3"));
        assert!(covers(&["10.0.0.0/8"], &["10.1.0.0/16"], "10.2.2.3"));
        assert!(!covers(&[], &["10.0.0.0/8"], "64:ff9b::a00:1"));
        assert!(!covers(&["127.0.0.1"], &["127.0.0.0/8"], "127.0.0.1"));
    }
}
