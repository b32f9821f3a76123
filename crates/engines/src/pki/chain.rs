//! The chain of an issuer: its certificate, and those above it by which somebody may trust it.
//!
//! Whoever tells of an issuer, or of what it signed, asks for it. Who signed whom is checked once, when an issuer is taken in ([`PkiState::parents`]).
//!
//! The rule: an issuer, then for each other one that signed it the chain of that one, without what is there already. Roots come before others, and
//! of two alike the one that ends later. Where one way goes up, each certificate is signed by the one after it. A root that another root
//! signed as well goes on to that one: who trusts the older root alone finds the way to it, and who trusts the newer one has it first. What is
//! beside the way of a client is left alone by it (RFC 8446, 4.4.2).
//!
//! Invariants:
//! - A chain begins with the issuer itself, has each certificate once, and [`CHAIN_MAX`] of them at the most.
//! - A chain that was set by hand is told as it was set.

use std::cmp::Reverse;
use std::sync::Arc;

use super::ids::IssuerId;
use super::issuer::Issuer;
use super::memory::PkiState;

/// Longest chain.
const CHAIN_MAX: usize = 32;

impl PkiState {
    /// An issuer and those above it, itself first.
    pub(super) fn chain(&self, issuer: &Arc<Issuer>) -> Vec<Arc<Issuer>> {
        if let Some(manual) = &issuer.manual_chain {
            return manual.iter().filter_map(|id| self.issuers.get(id)).cloned().collect();
        }
        let mut chain = Vec::new();
        self.climb(issuer, &mut chain);
        chain
    }

    /// Adds an issuer and those above it, as far as they are not there. It goes no deeper than the chain is long.
    fn climb(&self, issuer: &Arc<Issuer>, chain: &mut Vec<Arc<Issuer>>) {
        if chain.len() >= CHAIN_MAX || chain.iter().any(|seen| seen.id == issuer.id) {
            return;
        }
        chain.push(Arc::clone(issuer));
        let mut above: Vec<_> =
            self.signers(issuer.id).filter_map(|id| self.issuers.get(&id)).collect();
        above.sort_by_key(|one| {
            let is_root = one.certificate.issuer == one.certificate.subject;
            Reverse((is_root, one.certificate.not_after, one.id))
        });
        for one in above {
            self.climb(one, chain);
        }
    }

    /// Those that are here who signed the certificate of an issuer; a root is among its own.
    pub(super) fn signers(&self, id: IssuerId) -> impl Iterator<Item = IssuerId> {
        self.parents.get(&id).into_iter().flatten().copied()
    }
}
