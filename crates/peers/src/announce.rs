//! What becomes of the name and addresses that members say they have: each says them with every connection it makes.
//!
//! The leader makes a change known to all ([`Upper::meet`]), and only one by which the member is still found: the store decides
//! whether it may be taken ([`kallisto_store::Announcement`]), and a new cluster address is tried first. Whoever answers there must have
//! the member's certificate. What is not taken is logged, and the members go on with what they know.
//!
//! A server that its peers know otherwise than it says, says so again: its leader may have tried too early, or a copy of its directory
//! may have run elsewhere and taken its place.
//!
//! Invariants:
//! - nothing here keeps a connection waiting;
//! - one address of one member is tried at a time, and the same thing is logged at most every [`TOLD_PAUSE`].

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kallisto_store::{Announcement, Peer};
use tokio::time::{Instant, sleep};

use crate::inquiry;
use crate::limits::{ANNOUNCE_PASSES_TOLD, ANNOUNCE_PAUSE, REACH_PAUSE, REACH_TRIES, TOLD_PAUSE};
use crate::link;
use crate::port::{PortShared, Upper};

/// What the leader remembers of who said what.
#[derive(Default)]
pub(crate) struct Announcements(Mutex<BTreeMap<u64, MemberClaims>>);

#[derive(Default)]
struct MemberClaims {
    /// An address is being tried.
    is_tried: bool,
    /// What was logged last as not taken, and when.
    told: Option<(Peer, Instant)>,
}

impl Announcements {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, MemberClaims>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether to try the address of a member now; [`Announcements::tried`] has to follow.
    fn begin(&self, member: u64) -> bool {
        !std::mem::replace(&mut self.lock().entry(member).or_default().is_tried, true)
    }

    fn tried(&self, member: u64) {
        self.lock().entry(member).or_default().is_tried = false;
    }

    /// Whether it is time to log that this is not taken.
    fn is_news(&self, said: &Peer, now: Instant) -> bool {
        let mut all = self.lock();
        let told = &mut all.entry(said.id).or_default().told;
        let is_known = |(peer, at): &(Peer, Instant)| peer == said && now < *at + TOLD_PAUSE;
        if told.as_ref().is_some_and(is_known) {
            return false;
        }
        *told = Some((said.clone(), now));
        true
    }
}

/// Hears who a member says it is.
pub(crate) fn hear(shared: &Arc<PortShared>, upper: &Arc<dyn Upper>, said: Peer) {
    match upper.announced(&said) {
        Announcement::Known => {}
        Announcement::Taken { what, by } => {
            if shared.announcements.is_news(&said, Instant::now()) {
                tracing::warn!(
                    server = shared.name_of(said.id),
                    says_name = said.name,
                    says_address = said.cluster_address,
                    member = by.name,
                    "a member's new {what} is not taken: another member has it"
                );
            }
        }
        Announcement::Changed { was } if was.cluster_address == said.cluster_address => {
            upper.meet(said);
        }
        Announcement::Changed { was } => {
            if shared.announcements.begin(said.id) {
                let (shared_task, upper) = (Arc::clone(shared), Arc::clone(upper));
                shared.handle.spawn(async move {
                    try_address(&shared_task, &*upper, said.clone(), was).await;
                    shared_task.announcements.tried(said.id);
                });
            }
        }
    }
}

/// Has all know a new address if its member is reached there.
async fn try_address(shared: &PortShared, upper: &dyn Upper, said: Peer, was: Peer) {
    match reach(shared, &said).await {
        Ok(()) => upper.meet(said),
        Err(error) => {
            if shared.announcements.is_news(&said, Instant::now()) {
                tracing::warn!(
                    server = was.name,
                    address = said.cluster_address,
                    kept = was.cluster_address,
                    %error,
                    "a member is not reached at its new address: its old one is kept"
                );
            }
        }
    }
}

/// Finds out whether a member answers at the address that it says. It may have just started.
async fn reach(shared: &PortShared, said: &Peer) -> io::Result<()> {
    let mut tries = 1;
    loop {
        match link::connect_to(shared, said.id, &said.cluster_address).await {
            Ok(()) => return Ok(()),
            Err(error) if tries == REACH_TRIES => return Err(error),
            Err(_) => tries += 1,
        }
        sleep(REACH_PAUSE).await;
    }
}

/// Says again who this server is for as long as its peers know it otherwise; ends with the port.
pub(crate) async fn announce_again(shared: Arc<PortShared>) {
    let mut passes = 0_u32;
    loop {
        sleep(ANNOUNCE_PAUSE).await;
        let (Some((own, known)), Some(upper)) = (shared.known_otherwise(), shared.upper.get())
        else {
            if passes > 1 {
                tracing::info!("the members know this server as it is");
            }
            passes = 0;
            continue;
        };
        // Not at once: a server that just started is on the way to be known.
        if passes % ANNOUNCE_PASSES_TOLD == 1 {
            tracing::warn!(
                name = own.name,
                address = own.cluster_address,
                known_name = known.name,
                known_address = known.cluster_address,
                "the members know this server otherwise than it says: the log of the leader says why"
            );
        }
        passes = passes.saturating_add(1);
        // It may lead itself.
        hear(&shared, upper, own.clone());
        for peer in shared.others(own.id) {
            let shared_task = Arc::clone(&shared);
            shared.handle.spawn(async move {
                // Whoever is not reached is asked again with the next pass.
                let _ = inquiry::ask(&shared_task, peer).await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(id: u64, address: &str) -> Peer {
        Peer { id, cluster_address: address.to_owned(), ..Peer::default() }
    }

    #[test]
    fn what_is_not_taken_is_told_once_in_a_while_and_one_try_is_under_way() {
        let (all, now) = (Announcements::default(), Instant::now());
        assert!(all.is_news(&peer(1, "a"), now));
        assert!(!all.is_news(&peer(1, "a"), now));
        assert!(all.is_news(&peer(2, "a"), now), "another member");
        assert!(all.is_news(&peer(1, "b"), now), "another address");
        assert!(!all.is_news(&peer(1, "b"), now + TOLD_PAUSE / 2));
        assert!(all.is_news(&peer(1, "b"), now + TOLD_PAUSE));
        assert!(all.begin(1) && !all.begin(1) && all.begin(2));
        all.tried(1);
        assert!(all.begin(1));
    }
}
