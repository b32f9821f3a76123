//! Which voters are reached, for the message of a write that fails without a majority.
//!
//! Who learns what: without a token that this server knows, that no server leads; with one, how many voters of how many are
//! reached; with one that may read [`MEMBERS`](leading::MEMBERS), which are not. Names are those that operators gave, never addresses.
//!
//! A server gets messages of all others while there is no leader, since each asks for votes; while there is one a follower gets those of the leader
//! alone. So nothing is said of who is reached while a leader is known.

use std::time::Duration;

use kallisto_auth::{Operation, Path};
use kallisto_store::{Member, MemberRole, Peer, Replicated};

use super::leading;
use crate::api::error::Error;
use crate::api::request::Request;
use crate::authz::judge::{self, Admitted, JudgePurpose};
use crate::state::Core;

/// How long a member may be silent before it is called not reached: candidates ask for votes about once a second.
pub(crate) const SILENT: Duration = Duration::from_secs(2);
/// Most names in one text.
const NAMES_MAX: usize = 16;

/// What operators call a member.
pub(crate) fn member_name(peer: &Peer) -> String {
    if peer.name.is_empty() { member_number(peer) } else { peer.name.clone() }
}

/// A member's number as text: another way to name it, which nobody else has.
pub(crate) fn member_number(peer: &Peer) -> String {
    format!("{:016x}", peer.id)
}

/// The voters, as this server hears them.
pub(crate) struct Reached {
    voters: usize,
    /// Those that were heard lately, this server among them if it votes.
    reached: usize,
    /// What operators call the others.
    missing: Vec<String>,
}

impl Reached {
    /// Who was heard `within` so long.
    pub(crate) fn of(cluster: &dyn Replicated, within: Duration) -> Self {
        let own = cluster.leadership().node_id;
        let is_heard = |member: &Member| {
            let silent = member.silent_ms.map(Duration::from_millis);
            member.peer.id == own || silent.is_some_and(|silent| silent <= within)
        };
        let mut this = Self { voters: 0, reached: 0, missing: Vec::new() };
        for member in cluster.members().iter().filter(|member| member.role == MemberRole::Voter) {
            this.voters += 1;
            match is_heard(member) {
                true => this.reached += 1,
                false => this.missing.push(member_name(&member.peer)),
            }
        }
        this
    }

    /// Whether they are a majority.
    pub(crate) const fn is_quorum(&self) -> bool {
        self.reached > self.voters / 2
    }

    fn count(&self) -> String {
        format!("{} of {} voters are reached", self.reached, self.voters)
    }

    fn names(&self) -> String {
        let mut names: Vec<&str> = self.missing.iter().map(String::as_str).collect();
        names.truncate(NAMES_MAX);
        match self.missing.len().checked_sub(NAMES_MAX) {
            Some(more) if more > 0 => format!("{} and {more} more", names.join(", ")),
            _ => names.join(", "),
        }
    }
}

/// Which voters are reached, as far as whoever sent `request` may know it; `None` while somebody leads.
pub(crate) fn voters_reached(core: &Core, request: &Request<'_>) -> Option<String> {
    let cluster = core.store.replicated().filter(|cluster| cluster.leadership().leader_id == 0)?;
    let token = request.token?;
    if !core.knows(token) {
        return None;
    }
    let reached = Reached::of(cluster, SILENT);
    let count = reached.count();
    match !reached.missing.is_empty() && may_read_members(core, request) {
        true => Some(format!("{count}, not reached: {}", reached.names())),
        false => Some(count),
    }
}

/// Whether the token of a request may ask who the members are. A token with a limit of uses pays for none here, and so may not.
fn may_read_members(core: &Core, request: &Request<'_>) -> bool {
    let context = core.context.load();
    let (Some(context), Ok(path)) = (context.as_ref(), Path::literal(leading::MEMBERS)) else {
        return false;
    };
    let asked = Request {
        operation: Operation::Read,
        namespace: "",
        path,
        query: Vec::new(),
        body: b"",
        wrap_ttl_secs: 0,
        ..request.clone()
    };
    matches!(judge::judge(context, &asked, JudgePurpose::Answer, None), Ok(Admitted::Call(_)))
}

impl Core {
    /// Whether fewer voters than a majority were heard `within` so long. Of use while nobody leads.
    pub fn lacks_quorum(&self, within: Duration) -> bool {
        self.store.replicated().is_some_and(|cluster| !Reached::of(cluster, within).is_quorum())
    }

    /// What a client hears whose request waited for a leader in vain; nothing came of the request.
    pub fn leaderless(&self, request: &Request<'_>) -> Error {
        match voters_reached(self, request) {
            Some(reached) => {
                Error::Unavailable(format!("no server leads: {reached}. Send the request again"))
            }
            None => Error::NotLeader,
        }
    }
}
