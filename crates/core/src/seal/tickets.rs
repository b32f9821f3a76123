//! Keys of TLS session tickets, the same on every server of a cluster.
//!
//! A ticket is what a client brings back to resume a session without a signature (RFC 8446, section
//! 2.2). Its key is derived from a secret: of the cluster while the server is unsealed, so that any
//! server resumes what another began; of this process before. The secret never seals anything itself:
//! each ticket has a key of its own, derived from the secret, the epoch of its time, the context of the
//! listener and sixteen random bytes, so no nonce can repeat and a stolen derived key opens one ticket.
//!
//! ```text
//! secret u8 (1 process, 2 cluster) | epoch u32 BE | salt [16] | AES-256-GCM of the state, head as additional data
//! ```
//!
//! Invariants:
//! - A ticket opens in its epoch and the one after; keys rotate by that alone.
//! - A ticket of one context does not open in another: what a listener demanded of a client before it
//!   gave the ticket is part of the key.
//! - While sealed no ticket of the cluster's secret opens.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use kallisto_barrier::SecretKey;
use zeroize::Zeroizing;

use crate::random;
use crate::state::Core;
use crate::view::NamespaceContext;

/// What the cluster's secret is derived as.
pub(crate) const PURPOSE: &str = "tls-tickets";
/// Seconds of an epoch, which is how long a ticket is good at least.
const EPOCH_SECS: i64 = 6 * 3600;
/// Seconds a client may keep a ticket; it opens that long whenever it was given.
pub const TICKET_LIFETIME_SECS: u32 = 6 * 3600;
const SALT_BYTES: usize = 16;
const HEAD_BYTES: usize = 1 + 4 + SALT_BYTES;
/// Longest ticket that is looked at: a session holds the client's certificates.
const TICKET_BYTES_MAX: usize = 64 << 10;

const _: () = assert!(TICKET_LIFETIME_SECS as i64 <= EPOCH_SECS);

/// Whose secret a ticket's key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TicketOrigin {
    Process = 1,
    Cluster = 2,
}

/// Seals and opens tickets.
pub struct Tickets {
    process: SecretKey,
    root: Arc<ArcSwapOption<NamespaceContext>>,
}

impl std::fmt::Debug for Tickets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tickets")
    }
}

impl Tickets {
    /// Tickets of this process, and of its cluster while `root` holds something. `None` when the
    /// system has no randomness or memory.
    pub(crate) fn new(root: Arc<ArcSwapOption<NamespaceContext>>) -> Option<Self> {
        Some(Self { process: SecretKey::generate().ok()?, root })
    }

    /// Makes a ticket of a session's state; `None` when there is no randomness, and the client
    /// goes without.
    pub fn seal(&self, context: &[u8], now_secs: i64, state: &[u8]) -> Option<Vec<u8>> {
        let root = self.root.load();
        let (origin, secret) = match root.as_ref() {
            Some(root) => (TicketOrigin::Cluster, &*root.ticket_secret),
            None => (TicketOrigin::Process, &self.process),
        };
        let mut ticket = Vec::with_capacity(HEAD_BYTES + state.len() + AES_256_GCM.tag_len());
        ticket.push(origin as u8);
        ticket.extend_from_slice(&epoch(now_secs).to_be_bytes());
        let mut salt = [0; SALT_BYTES];
        random::fill(&mut salt).ok()?;
        ticket.extend_from_slice(&salt);
        let (key, head) = (derive(secret, context, &ticket)?, ticket.clone());
        let mut sealed = state.to_vec();
        key.seal_in_place_append_tag(nonce(), Aad::from(&head), &mut sealed).ok()?;
        ticket.extend_from_slice(&sealed);
        Some(ticket)
    }

    /// The state a ticket was made of; `None` for any that is too old, damaged, of another context or
    /// of a secret that is not there.
    pub fn open(&self, context: &[u8], now_secs: i64, ticket: &[u8]) -> Option<Vec<u8>> {
        if ticket.len() > TICKET_BYTES_MAX {
            return None;
        }
        let (head, sealed) = ticket.split_at_checked(HEAD_BYTES)?;
        let made = u32::from_be_bytes(*head[1..].first_chunk()?);
        // One ahead is the clock of another server.
        let age = i64::from(epoch(now_secs)) - i64::from(made);
        if !(-1..=1).contains(&age) {
            return None;
        }
        let root = self.root.load();
        let secret = match head[0] {
            origin if origin == TicketOrigin::Process as u8 => &self.process,
            origin if origin == TicketOrigin::Cluster as u8 => &*root.as_ref()?.ticket_secret,
            _ => return None,
        };
        let key = derive(secret, context, head)?;
        let mut state = sealed.to_vec();
        let length = key.open_in_place(nonce(), Aad::from(head), &mut state).ok()?.len();
        state.truncate(length);
        Some(state)
    }
}

fn epoch(now_secs: i64) -> u32 {
    u32::try_from(now_secs.div_euclid(EPOCH_SECS)).unwrap_or_default()
}

/// Every key is used once, so its nonce may be the same.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// The key of the one ticket with this head.
fn derive(secret: &SecretKey, context: &[u8], head: &[u8]) -> Option<LessSafeKey> {
    let mut hashing = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret.expose()));
    hashing.update(PURPOSE.as_bytes());
    // The length in front makes the split between context and head part of what is hashed.
    hashing.update(&(context.len() as u64).to_le_bytes());
    hashing.update(context);
    hashing.update(head);
    let key = Zeroizing::new(*hashing.sign().as_ref().first_chunk::<32>()?);
    UnboundKey::new(&AES_256_GCM, &key[..]).ok().map(LessSafeKey::new)
}

impl Core {
    /// What listeners seal tickets of TLS sessions with, of this process and of its cluster; `None` when
    /// the system gives no randomness or memory for it.
    pub fn tickets(&self) -> Option<Arc<Tickets>> {
        Tickets::new(Arc::clone(&self.context)).map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kallisto_store::MemoryStore;

    use super::*;
    use crate::platform::server_info::ServerInfo;
    use crate::state::Core;

    const NOW: i64 = 1_795_290_463;

    fn core() -> Core {
        Core::new(Arc::new(MemoryStore::new()), ServerInfo::default())
    }

    #[test]
    fn a_ticket_opens_in_its_time_and_context_alone() {
        let tickets = core().tickets().unwrap();
        let ticket = tickets.seal(b"a", NOW, b"state").unwrap();
        assert_eq!(tickets.open(b"a", NOW, &ticket).unwrap(), b"state");
        let last = NOW + i64::from(TICKET_LIFETIME_SECS);
        assert_eq!(tickets.open(b"a", last, &ticket).unwrap(), b"state");
        assert_eq!(tickets.open(b"a", NOW + 2 * EPOCH_SECS, &ticket), None);
        assert_eq!(tickets.open(b"b", NOW, &ticket), None);
        assert_ne!(tickets.seal(b"a", NOW, b"state").unwrap(), ticket);
    }

    #[test]
    fn what_is_damaged_or_no_ticket_does_not_open() {
        let tickets = core().tickets().unwrap();
        let ticket = tickets.seal(b"", NOW, b"state").unwrap();
        for at in 0..ticket.len() {
            let mut damaged = ticket.clone();
            damaged[at] ^= 1;
            assert_eq!(tickets.open(b"", NOW, &damaged), None, "{at}");
            assert_eq!(tickets.open(b"", NOW, &ticket[..at]), None, "{at}");
        }
        assert_eq!(tickets.open(b"", NOW, &vec![1; TICKET_BYTES_MAX + 1]), None);
    }

    #[test]
    fn servers_of_a_cluster_open_each_others_tickets_while_unsealed() {
        let now = Timestamp::from_second(NOW).unwrap();
        let (one, other) = (core(), core());
        pollster::block_on(one.initialize_dev(None, now)).unwrap();
        let of_cluster = one.tickets().unwrap();
        let ticket = of_cluster.seal(b"", NOW, b"state").unwrap();
        // Another server over the same keys: its view of what is unsealed is the same.
        let twin = Tickets::new(Arc::clone(&one.context)).unwrap();
        assert_eq!(twin.open(b"", NOW, &ticket).unwrap(), b"state");
        // A stranger, sealed or not, opens nothing.
        assert_eq!(other.tickets().unwrap().open(b"", NOW, &ticket), None);
        pollster::block_on(other.initialize_dev(None, now)).unwrap();
        assert_eq!(other.tickets().unwrap().open(b"", NOW, &ticket), None);
        one.context.store(None);
        assert_eq!(of_cluster.open(b"", NOW, &ticket), None);
    }
}
