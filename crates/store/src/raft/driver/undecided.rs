//! Proposals without an outcome: their leader lost leadership and no other was elected, or it leads and no majority
//! keeps what it sends, as with disks that are full but for the little that a heartbeat needs.
//!
//! Whoever waits gets an error after [`UNDECIDED_MAX`] that says that the outcome is unknown: the entries are in the log, and may
//! be committed yet. From then on a leader takes no more of them until one is decided, so that whoever comes later hears
//! at once, and rightly, that nothing happened.

use std::time::Duration;

use super::Driver;
use crate::Error;
use crate::raft::limits::UNDECIDED_MAX;

/// How long nothing was decided.
#[derive(Debug, Default)]
pub(super) struct Undecided {
    /// Up to where everything was committed, and since when no more is although somebody waits for it.
    since: Option<(u64, Duration)>,
    /// The term, and up to where everything was committed, when those who waited were told.
    gave_up_at: Option<(u64, u64)>,
}

/// What a leader says whom no majority follows.
pub(super) fn refusal() -> Error {
    Error::Unavailable("most servers keep nothing of what the leader sends them".into())
}

impl Driver {
    /// Whether this server leads, those who waited were told, and nothing was decided since.
    pub(super) fn is_unheard(&self) -> bool {
        let standing = self.node.standing();
        let now = (standing.term, standing.commit_index);
        self.node.leads() && self.undecided.gave_up_at == Some(now)
    }

    /// Tells those who wait for a word on what they proposed that there is none.
    pub(super) fn give_up_undecided(&mut self) {
        let standing = self.node.standing();
        let committed = standing.commit_index;
        if self.proposed.is_empty() {
            self.undecided.since = None;
            return;
        }
        let now = self.shared.clock.now();
        let (index, since) = *self.undecided.since.get_or_insert((committed, now));
        if index != committed {
            self.undecided.since = Some((committed, now));
        } else if since + UNDECIDED_MAX <= now {
            self.undecided =
                Undecided { since: None, gave_up_at: Some((standing.term, committed)) };
            let what = match self.node.leads() {
                true => "most servers keep nothing of what the leader sends them",
                false => "this server led and no longer does",
            };
            self.abandon(&Error::Unknown(what.into()));
        }
    }
}
