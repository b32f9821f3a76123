//! Who is counted as one client.
//!
//! A client is an address, and within it a token that this server knows. A token is never taken on
//! its word: whoever makes one up for each request is one client, the address. The numbers are keyed
//! hashes, so nobody outside can aim at another's.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::OnceLock;

/// One client, for sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The number of the address.
    pub address: u64,
    /// The number of the token; 0 without one.
    pub token: u64,
}

impl Flow {
    /// The server itself.
    pub const OWN: Self = Self { address: 0, token: 0 };

    /// Everybody at an address.
    pub fn of_address(address: IpAddr) -> Self {
        Self { address: number(&network(address)), token: 0 }
    }

    /// The bearer of a token at the same address; the caller knows the token to be live.
    #[must_use]
    pub fn with_token(self, text: &str) -> Self {
        Self { token: number(&text).max(1), ..self }
    }

    /// One number for both.
    pub const fn key(self) -> u64 {
        // Both are hashes already; the odd factor keeps equal ones from cancelling out.
        self.address ^ self.token.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

fn number(what: &impl std::hash::Hash) -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    KEY.get_or_init(RandomState::new).hash_one(what)
}

/// What is counted as one address: of IPv6 a network of 64 bits, since a client has as many of its
/// addresses as it likes.
pub fn network(remote: IpAddr) -> IpAddr {
    match remote.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_one_client_and_each_of_its_tokens_another() {
        let of = |address: &str| Flow::of_address(address.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("10.0.0.1"), of("::ffff:10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        let (a, b) = (of("10.0.0.1").with_token("a"), of("10.0.0.1").with_token("b"));
        assert_eq!(a.address, b.address);
        assert_ne!(a.key(), b.key());
        assert_ne!(a.key(), of("10.0.0.1").key());
        assert_eq!(a, of("10.0.0.1").with_token("a"));
    }
}
