//! Places of connections that have not shown yet who they are.
//!
//! Anyone may connect to the cluster port, and say nothing. So these have places of their own, apart from those of servers that are
//! known, and no address takes all of them: each may hold at most [`ALPHA`] times what is still free (dynamic thresholds, as connections of
//! clients are shared, decision 0098). One that is over its part is closed at once, and keeps no other waiting.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::OPENINGS_MAX;

/// How many times what is free an address may hold: four fifths of everything when it is alone.
const ALPHA: usize = 4;

/// The places.
#[derive(Default)]
pub(crate) struct Openings(Mutex<HeldPlaces>);

#[derive(Default)]
struct HeldPlaces {
    all: usize,
    of_network: HashMap<IpAddr, usize>,
}

/// One of them, until it is dropped.
pub(crate) struct OpeningPlace {
    openings: Arc<Openings>,
    network: IpAddr,
}

impl Openings {
    /// A place for a connection from `address`; `None` when that holds its part.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<OpeningPlace> {
        let network = network(address);
        let mut held = self.held();
        let free = OPENINGS_MAX.checked_sub(held.all + 1)?;
        let own = held.of_network.get(&network).map_or(1, |own| own + 1);
        if own > ALPHA * free {
            return None;
        }
        held.all += 1;
        held.of_network.insert(network, own);
        Some(OpeningPlace { openings: Arc::clone(self), network })
    }

    fn held(&self) -> MutexGuard<'_, HeldPlaces> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpeningPlace {
    fn drop(&mut self) {
        let mut held = self.openings.held();
        held.all -= 1;
        match held.of_network.get_mut(&self.network) {
            Some(own) if *own > 1 => *own -= 1,
            _ => {
                held.of_network.remove(&self.network);
            }
        }
    }
}

/// What counts as one address: of IPv6 a network of 64 bits, since one machine has as many as it likes.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap_or_else(|_| panic!("{text}"))
    }

    /// Takes places until none is given.
    fn fill(openings: &Arc<Openings>, address: &str) -> Vec<OpeningPlace> {
        std::iter::from_fn(|| openings.enter(ip(address))).collect()
    }

    #[test]
    fn no_address_holds_every_place() {
        let openings = Arc::default();
        let greedy = fill(&openings, "10.0.0.1");
        assert_eq!(greedy.len(), OPENINGS_MAX / 5 * 4);
        let other = fill(&openings, "10.0.0.2");
        assert!(!other.is_empty() && openings.enter(ip("10.0.0.3")).is_some());
        drop((greedy, other));
        assert!(openings.held().of_network.is_empty() && openings.held().all == 0);
    }

    #[test]
    fn a_network_of_ipv6_and_an_address_of_ipv4_in_any_spelling_are_one() {
        let openings = Arc::default();
        let _held = (fill(&openings, "2001:db8::1"), fill(&openings, "10.0.0.1"));
        for same in ["2001:db8::ffff:1", "::ffff:10.0.0.1"] {
            assert!(openings.enter(ip(same)).is_none(), "{same}");
        }
        assert!(openings.enter(ip("2001:db8:0:1::1")).is_some());
    }
}
