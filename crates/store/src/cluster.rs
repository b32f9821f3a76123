//! What a store that replicates is asked besides committing: who leads, who the members are, and how messages travel.
//!
//! [`Replicated`] is the upper side, asked by `core`; [`Transport`] is the lower one, given by whoever owns sockets (the
//! server's cluster port, or a simulator's wires). Messages and snapshot chunks are opaque bytes to both: their layout is
//! the store's own (`docs/format.md`), bounded and decoded as hostile input.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{Commit, Error, Position};

/// The largest message to a peer, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 40 << 20;
/// The largest chunk of a snapshot, in bytes.
pub const CHUNK_BYTES_MAX: usize = 40 << 20;
/// The longest name or address of a peer, in bytes.
pub const PEER_TEXT_BYTES_MAX: usize = 512;

/// A server among its peers, as all of them know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its number; never 0, never given to two servers.
    pub id: u64,
    /// What operators call it.
    pub name: String,
    /// Where its peers reach it: host and port.
    pub cluster_address: String,
    /// URL at which clients reach it; empty if it does not say.
    pub api_address: String,
    /// What it is to be: a learner that is to vote is promoted once it caught up.
    pub wants: MemberRole,
}

/// What no two members share: operators name a member by the one, and reach it at the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerClash {
    /// The name.
    Name,
    /// The cluster address.
    ClusterAddress,
}

impl fmt::Display for PeerClash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "name",
            Self::ClusterAddress => "cluster address",
        })
    }
}

impl Peer {
    /// The first of the others that has this server's name or cluster address. What is empty is nobody's.
    pub fn clash<'p>(
        &self,
        peers: impl IntoIterator<Item = &'p Self>,
    ) -> Option<(PeerClash, &'p Self)> {
        let is_same = |own: &str, other: &str| !own.is_empty() && own.eq_ignore_ascii_case(other);
        peers.into_iter().filter(|other| other.id != self.id).find_map(|other| {
            if !self.name.is_empty() && self.name == other.name {
                return Some((PeerClash::Name, other));
            }
            let shares_address = is_same(&self.cluster_address, &other.cluster_address);
            shares_address.then_some((PeerClash::ClusterAddress, other))
        })
    }

    /// Whether others know this server as it says it is. What it is to be is not its own to say.
    pub fn is_as_known(&self, known: &Self) -> bool {
        self.name == known.name
            && self.cluster_address == known.cluster_address
            && self.api_address == known.api_address
    }
}

/// What is to be done with the name and addresses that a member says it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// Nothing: all know it, or this server does not lead, or who says it is no member.
    Known,
    /// It has changed, and was this before. A new cluster address is tried before it is made known ([`Replicated::meet`]).
    Changed {
        /// As the members know it.
        was: Peer,
    },
    /// It is not taken: another member has that name or that cluster address.
    Taken {
        /// Which of them.
        what: PeerClash,
        /// Whose it is.
        by: Peer,
    },
}

impl Announcement {
    /// What a leader of these members does with what one of them says.
    pub(crate) fn of(members: &[Member], said: &Peer) -> Self {
        let member = members.iter().find(|member| member.peer.id == said.id);
        let Some(known) = member.map(|member| &member.peer) else { return Self::Known };
        if said.is_as_known(known) {
            return Self::Known;
        }
        match said.clash(members.iter().map(|member| &member.peer)) {
            Some((what, by)) => Self::Taken { what, by: by.clone() },
            None => Self::Changed { was: known.clone() },
        }
    }
}

/// Whether a member counts towards majorities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberRole {
    /// It votes.
    #[default]
    Voter,
    /// It follows, and may be promoted.
    Learner,
}

/// A member as one server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Who it is.
    pub peer: Peer,
    /// Whether it votes.
    pub role: MemberRole,
    /// Up to where its log is known to agree with the leader's; known to the leader only.
    pub matched: u64,
    /// How long ago it was heard, in milliseconds; `None` if it never was, or of this server itself.
    pub silent_ms: Option<u64>,
}

/// Who leads, as one server sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// This server.
    pub node_id: u64,
    /// The leader; 0 while there is none.
    pub leader_id: u64,
    /// The term this holds for.
    pub term: u64,
}

impl Leadership {
    /// Whether this server leads.
    #[must_use]
    pub const fn is_mine(&self) -> bool {
        self.node_id == self.leader_id
    }
}

/// Up to when a state holds everything that was committed anywhere, by the clock of the store that says so. A later one is
/// greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AsOf(u64);

impl AsOf {
    /// Nothing is known.
    pub const NEVER: Self = Self(0);
    /// Now, whenever that is: there is no other member who could commit anything.
    pub const ALWAYS: Self = Self(u64::MAX);

    /// Up to this time.
    #[must_use]
    pub fn at(time: Duration) -> Self {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self(nanos.clamp(1, u64::MAX - 1))
    }

    /// How old the state may be at `now`; `None` if that is not known.
    #[must_use]
    pub fn age(self, now: Duration) -> Option<Duration> {
        match self {
            Self::NEVER => None,
            Self::ALWAYS => Some(Duration::ZERO),
            Self(nanos) => Some(now.saturating_sub(Duration::from_nanos(nanos))),
        }
    }

    /// As a number, to be kept in an atomic one.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// What [`AsOf::to_bits`] made.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// A change of the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// Takes a server in, or gives one that is in another role or other addresses.
    Put(Peer, MemberRole),
    /// Lets a server go for good.
    Remove(u64),
}

/// What a server is told when a cluster takes it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// Which store the cluster keeps.
    pub store_id: [u8; 16],
    /// The number that the cluster gave this server.
    pub node_id: u64,
    /// Who the members are, so that they can be reached.
    pub peers: Vec<Peer>,
}

/// Whether a server stands for leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidacy {
    /// It does.
    Willing,
    /// It votes and follows, and leads only where it is alone: a leader that could not serve is of no use to anybody.
    Reluctant,
}

/// The cluster side of a store that replicates.
pub trait Replicated: Send + Sync {
    /// Who leads. Cheap.
    fn leadership(&self) -> Leadership;

    /// Which store it is.
    fn store_id(&self) -> [u8; 16];

    /// The members, by number.
    fn members(&self) -> Vec<Member>;

    /// Whether there is no other member. Cheap.
    fn is_alone(&self) -> bool;

    /// Whether the members read one and the same database: whoever holds the keys takes its place by itself, and nobody is let in or
    /// removed. Cheap.
    fn shares_records(&self) -> bool {
        false
    }

    /// Changes the members, by joint consensus if there are several changes. Resolves when the change holds.
    ///
    /// [`Error::NotLeader`] if another server leads, [`Error::Busy`] while another change is under way.
    fn change(&self, changes: Vec<MemberChange>) -> Commit;

    /// Resolves when everything that was committed anywhere before the call is folded here; asks a majority whether the
    /// server that this one takes for the leader still leads. [`Error::NotLeader`] while it knows of none, or when the
    /// question was lost: ask again.
    fn read_index(&self) -> Commit;

    /// Up to when everything that was committed anywhere is folded here: the time at which the last read index that was
    /// answered had been asked for. The store asks again and again by itself. Cheap.
    fn as_of(&self) -> AsOf;

    /// The time now, by the clock that [`Replicated::as_of`] is of. Cheap.
    fn now(&self) -> Duration;

    /// Whether the cluster has let this server go, as far as it was told. Never the other way round, also after a restart. Cheap.
    fn is_removed(&self) -> bool;

    /// Hears from a member that the cluster has let this server go. Believed of one that was a member and that no leader with a
    /// majority told anything for a while: so nobody can talk a member out of a cluster that goes on with it.
    fn told_removed(&self);

    /// Hands leadership to `to`, or to the member that is furthest. Resolves when another server leads.
    fn transfer(&self, to: Option<u64>) -> Commit;

    /// Says whether this server stands for leadership; a leader that does not any more hands it over.
    fn stand(&self, candidacy: Candidacy);

    /// Calls `news` whenever another server leads, or none, from a thread of the store: it must not wait. Takes the place of
    /// what was to be called before.
    fn on_leadership(&self, news: Arc<dyn Fn() + Send + Sync>);

    /// Leaves the cluster of one that every new store is, and waits to be sent what `invitation`'s cluster holds.
    ///
    /// [`Error::Conflict`] if something has been committed here: that would be lost.
    fn join(&self, invitation: Invitation) -> Commit;

    /// Takes a message that `from` is known to have sent. One that makes no sense is dropped.
    fn receive(&self, from: u64, message: Bytes);

    /// What is to be done with what a member says of itself. Decides and does nothing.
    fn announced(&self, _said: &Peer) -> Announcement {
        Announcement::Known
    }

    /// Hears from a member who it is and where it can be reached, which was tried; the leader lets everybody know where that is
    /// [`Announcement::Changed`].
    fn meet(&self, peer: Peer);

    /// Everything that is applied now, as chunks to be sent to a peer or kept in a file.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it cannot be read.
    fn snapshot(&self) -> Result<Box<dyn Chunks>, Error>;

    /// What a member lacks of a snapshot that it was sent up to `place`, which its sink said; `None` if that is not held any
    /// more, and it has to begin anew.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it cannot be read.
    fn snapshot_behind(&self, place: &[u8]) -> Result<Option<Box<dyn Chunks>>, Error>;

    /// Everything that is applied now, as chunks for a file, and where in the order of all batches it is. What a member
    /// would need besides the records is left out. [`crate::BackupReader`] reads it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it cannot be read.
    fn backup(&self) -> Result<(Position, Box<dyn Chunks>), Error>;

    /// Begins to restore a backup: resolves with the generation that its records are to be staged for. A restore that is
    /// under way comes to nothing.
    fn begin_restore(&self) -> Commit;

    /// Stages records, which nobody sees. [`Error::Conflict`] if another restore began since.
    fn stage(&self, generation: Position, records: Vec<(Bytes, Bytes)>) -> Commit;

    /// Has the staged records, so many, take the place of all others on every member. [`Error::Conflict`] if another restore
    /// began since or some are missing; nothing is changed then.
    fn finish_restore(&self, generation: Position, records: u64) -> Commit;

    /// Gives staged records up.
    fn abandon_restore(&self, generation: Position) -> Commit;
}

/// A snapshot, chunk by chunk.
pub trait Chunks: Send {
    /// The next chunk; `None` behind the last.
    ///
    /// # Errors
    /// What made it unreadable: the snapshot is worth nothing then.
    fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, Error>;
}

/// Takes the chunks of a snapshot in. Dropped before [`ChunkSink::finish`], it leaves everything as it was; what came
/// is kept for a while, and the next fetch from the same peer goes on there.
pub trait ChunkSink: Send {
    /// Where an earlier fetch broke off: the chunks behind it are wanted, and [`Replicated::snapshot_behind`] of the sender has them.
    /// `None` of one from the start.
    fn place(&self) -> Option<Vec<u8>>;

    /// Takes the next chunk.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is not the next chunk of a snapshot of this store; what the disk says.
    fn take(&mut self, chunk: Bytes) -> Result<(), Error>;

    /// The sender does not hold that snapshot any more: the next fetch is from the start.
    fn gone(self: Box<Self>);

    /// All chunks came: verifies the whole, and has it take the place of what the store holds.
    ///
    /// # Errors
    /// [`Error::Damaged`] if something is missing; what the disk says.
    fn finish(self: Box<Self>) -> Result<(), Error>;
}

/// How a store reaches its peers. Nothing here may block: messages may be lost, late, doubled and out of order.
pub trait Transport: Send + Sync {
    /// Says who the peers are from now on, this server included.
    fn know(&self, peers: &[Peer]);

    /// Sends a message.
    fn send(&self, to: u64, message: Vec<u8>);

    /// Has `from` asked for a snapshot, whose chunks go to `sink`, from any thread.
    fn fetch_snapshot(&self, from: u64, sink: Box<dyn ChunkSink>);
}

/// The transport of a server that has no peers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPeers;

impl Transport for NoPeers {
    fn know(&self, _peers: &[Peer]) {}

    fn send(&self, _to: u64, _message: Vec<u8>) {}

    fn fetch_snapshot(&self, _from: u64, _sink: Box<dyn ChunkSink>) {}
}

impl fmt::Debug for dyn Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transport")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_members_have_one_name_or_one_address() {
        let peer = |id: u64, name: &str, address: &str| Peer {
            id,
            name: name.to_owned(),
            cluster_address: address.to_owned(),
            ..Peer::default()
        };
        let member =
            |peer: Peer| Member { peer, role: MemberRole::Voter, matched: 0, silent_ms: None };
        let all = [peer(1, "a", "one:1"), peer(2, "b", "two:1"), peer(3, "", "")];
        let members = all.clone().map(member);
        let taken = |what, by: usize| Announcement::Taken { what, by: all[by].clone() };
        let changed = |was: usize| Announcement::Changed { was: all[was].clone() };
        for (said, wanted) in [
            (peer(2, "b", "two:1"), Announcement::Known),
            (peer(4, "a", "one:1"), Announcement::Known),
            (peer(2, "a", "two:1"), taken(PeerClash::Name, 0)),
            (peer(2, "b", "ONE:1"), taken(PeerClash::ClusterAddress, 0)),
            (peer(1, "a", "one:2"), changed(0)),
            (peer(1, "c", "one:1"), changed(0)),
            (peer(1, "", ""), changed(0)),
        ] {
            assert_eq!(Announcement::of(&members, &said), wanted, "{said:?}");
        }
        let wants = Peer { wants: MemberRole::Learner, ..all[0].clone() };
        assert_eq!(Announcement::of(&members, &wants), Announcement::Known);
    }

    #[test]
    fn no_time_is_the_same_as_never_or_as_always() {
        for time in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            let as_of = AsOf::at(time);
            assert!(AsOf::NEVER < as_of && as_of < AsOf::ALWAYS, "{time:?}");
        }
        assert!(AsOf::at(Duration::from_nanos(1)) < AsOf::at(Duration::from_nanos(2)));
    }
}
