//! What a server says of its cluster: who leads, who is a member, and when there is no majority. One line for each change,
//! on each server, whatever caused it: an operator reads the log of any of them.
//!
//! A thread looks at the store a few times a second and tells what is different; so a change that lasts shorter than that is
//! not told, and nothing is told twice. [`news`] decides, [`News::tell`] logs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use kallisto_command::error::Error;
use kallisto_store::{Leadership, Member, MemberRole, Replicated, Store};

/// How often the cluster is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Looks without a leader before that is told: an election is over sooner.
const LEADERLESS_LOOKS: u32 = 5;
/// Looks that are passed over while a name has not come: that of the leader, which a server that joins is sent, or that of a new member.
const NAMELESS_LOOKS_MAX: u32 = 10;
/// From how long on a member that says nothing to its leader is not reached.
const SILENT_MS: u64 = 1000;

/// The cluster, as this server knew it at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ClusterStanding {
    leadership: Leadership,
    members: BTreeMap<u64, KnownMember>,
    /// How many voters were heard from lately, this server among them.
    reached: usize,
    /// Looks in a row that found no leader.
    leaderless: u32,
    /// There is a leader, or a new member, and nobody has said yet what it is called.
    is_nameless: bool,
}

/// A member, as it was known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownMember {
    name: String,
    address: String,
    role: MemberRole,
}

impl ClusterStanding {
    /// How it is now, after a look that found it as `before`.
    fn after(before: &Self, cluster: &dyn Replicated) -> Self {
        let (leadership, members) = (cluster.leadership(), cluster.members());
        let is_reached = |member: &&Member| {
            member.role == MemberRole::Voter
                && (member.peer.id == leadership.node_id
                    || member.silent_ms.is_some_and(|silent| silent < SILENT_MS))
        };
        let reached = members.iter().filter(is_reached).count();
        let leaderless = match leadership.leader_id {
            0 => before.leaderless.saturating_add(1),
            _ => 0,
        };
        let is_nameless = is_nameless(before, leadership, &members);
        let named = members.into_iter().map(|Member { peer, role, .. }| {
            let name = if peer.name.is_empty() { format!("{:016x}", peer.id) } else { peer.name };
            (peer.id, KnownMember { name, address: peer.cluster_address, role })
        });
        Self { leadership, members: named.collect(), reached, leaderless, is_nameless }
    }

    fn name(&self, id: u64) -> String {
        self.members.get(&id).map_or_else(|| format!("{id:016x}"), |member| member.name.clone())
    }

    fn voters(&self) -> usize {
        self.members.values().filter(|member| member.role == MemberRole::Voter).count()
    }
}

/// Whether the leader, or a member that is new, has no name yet.
fn is_nameless(before: &ClusterStanding, leadership: Leadership, members: &[Member]) -> bool {
    let is_leader =
        |member: &Member| member.peer.id == leadership.leader_id && !member.peer.name.is_empty();
    let is_new = |member: &Member| {
        member.peer.name.is_empty() && !before.members.contains_key(&member.peer.id)
    };
    let has_new = !before.members.is_empty() && members.iter().any(is_new);
    has_new || leadership.leader_id != 0 && !members.iter().any(is_leader)
}

/// Something that an operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
enum News {
    Leads { term: u64 },
    LeadLost,
    LeaderKnown { leader: String, term: u64 },
    NoLeader { reached: usize, voters: usize },
    Added { server: String, role: MemberRole },
    Promoted { server: String },
    Demoted { server: String },
    Removed { server: String },
    Renamed { server: String, was: String },
    Moved { server: String, was: String, address: String },
}

/// What is different.
fn news(before: &ClusterStanding, now: &ClusterStanding) -> Vec<News> {
    let mut all = Vec::new();
    all.extend(leader_news(before, now));
    if before.leaderless < LEADERLESS_LOOKS && now.leaderless >= LEADERLESS_LOOKS {
        all.push(News::NoLeader { reached: now.reached, voters: now.voters() });
    }
    // At the first look, and once it has joined another's cluster, everybody is new to this server alone.
    if before.leadership.node_id == now.leadership.node_id && !before.members.is_empty() {
        all.extend(member_news(before, now));
    }
    all
}

fn leader_news(before: &ClusterStanding, now: &ClusterStanding) -> Vec<News> {
    let (old, new) = (before.leadership, now.leadership);
    // Whoever joins another's cluster gives up a cluster of one, which nobody misses; the number may be given anew.
    let joined = old.node_id != new.node_id;
    let led = !joined && old.leader_id != 0 && old.is_mine();
    let leads = new.leader_id != 0 && new.is_mine();
    let is_same = old.leader_id == new.leader_id && (old.term == new.term || new.leader_id == 0);
    if is_same && !joined {
        return Vec::new();
    }
    let mut all = Vec::new();
    if led && !leads {
        all.push(News::LeadLost);
    }
    all.extend(match new.leader_id {
        0 => None,
        _ if leads => Some(News::Leads { term: new.term }),
        id => Some(News::LeaderKnown { leader: now.name(id), term: new.term }),
    });
    all
}

fn member_news(before: &ClusterStanding, now: &ClusterStanding) -> Vec<News> {
    let changed = now.members.iter().flat_map(|(id, member)| match before.members.get(id) {
        None => vec![News::Added { server: member.name.clone(), role: member.role }],
        Some(was) => changes_of(was, member),
    });
    let gone = before.members.iter().filter(|(id, _)| !now.members.contains_key(id));
    changed.chain(gone.map(|(_, was)| News::Removed { server: was.name.clone() })).collect()
}

/// What is different about one member.
fn changes_of(was: &KnownMember, now: &KnownMember) -> Vec<News> {
    let server = || now.name.clone();
    let mut all = Vec::new();
    // Before a server knows where another is, it knows no name of it either.
    let was_known = !was.address.is_empty();
    if was_known && was.name != now.name {
        all.push(News::Renamed { server: server(), was: was.name.clone() });
    }
    if was_known && was.address != now.address {
        let (was, address) = (was.address.clone(), now.address.clone());
        all.push(News::Moved { server: server(), was, address });
    }
    match (was.role, now.role) {
        (MemberRole::Learner, MemberRole::Voter) => all.push(News::Promoted { server: server() }),
        (MemberRole::Voter, MemberRole::Learner) => all.push(News::Demoted { server: server() }),
        (MemberRole::Voter, MemberRole::Voter) | (MemberRole::Learner, MemberRole::Learner) => {}
    }
    all
}

impl News {
    fn tell(&self) {
        match self {
            Self::Leads { term } => tracing::info!(term, "this server leads"),
            Self::LeadLost => tracing::info!("this server does not lead any more"),
            Self::LeaderKnown { leader, term } => {
                tracing::info!(leader, term, "another server leads");
            }
            Self::NoLeader { reached, voters } => tracing::warn!(
                reached,
                voters,
                "no quorum: no leader is known, and nothing is written"
            ),
            Self::Added { server, role } => {
                tracing::info!(server, votes = *role == MemberRole::Voter, "a member was added");
            }
            Self::Promoted { server } => tracing::info!(server, "a member votes now"),
            Self::Demoted { server } => tracing::info!(server, "a member votes no more"),
            Self::Removed { server } => tracing::info!(server, "a member was removed"),
            Self::Renamed { server, was } => {
                tracing::info!(server, was, "a member has another name");
            }
            Self::Moved { server, was, address } => {
                tracing::info!(server, was, address, "a member has another address");
            }
        }
    }
}

/// A thread that tells.
pub(super) struct Telling {
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Telling {
    /// Starts to tell of the cluster that `store` is part of; a store that is not replicated has none.
    ///
    /// # Errors
    /// That there is no thread for it.
    pub(super) fn start(store: &Arc<dyn Store>) -> Result<Self, Error> {
        let store = Arc::clone(store);
        let (stop, stopped) = sync_channel(1);
        let run = move || {
            let Some(cluster) = store.replicated() else { return };
            let (mut before, mut nameless) = (ClusterStanding::default(), 0);
            // The first look is before anybody can join.
            loop {
                let now = ClusterStanding::after(&before, cluster);
                nameless = if now.is_nameless { nameless + 1 } else { 0 };
                if !(1..=NAMELESS_LOOKS_MAX).contains(&nameless) {
                    news(&before, &now).iter().for_each(News::tell);
                    before = now;
                }
                if stopped.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("standing".into()).spawn(run);
        let no_thread =
            |error| Error::usage(format!("no thread to tell of the cluster's changes: {error}"));
        Ok(Self { stop, thread: thread.map_err(no_thread)? })
    }

    /// Ends the thread.
    pub(super) fn stop(self) {
        // The thread may have ended by itself; then there is nobody to tell.
        let _ = self.stop.try_send(());
        if self.thread.join().is_err() {
            tracing::error!("the thread that tells of the cluster panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use kallisto_store::Peer;

    use super::*;

    const OWN: u64 = 1;

    fn known(name: &str) -> KnownMember {
        let (name, address) = (name.to_owned(), format!("{name}:8201"));
        KnownMember { name, address, role: MemberRole::Voter }
    }

    /// Three voters, and who leads in which term.
    fn standing(leader_id: u64, term: u64) -> ClusterStanding {
        let members = [(OWN, "one"), (2, "two"), (3, "three")];
        ClusterStanding {
            leadership: Leadership { node_id: OWN, leader_id, term },
            members: members.map(|(id, name)| (id, known(name))).into(),
            reached: 1,
            leaderless: 0,
            is_nameless: false,
        }
    }

    #[test]
    fn who_leads_is_told_at_each_change() {
        let known = |term| News::LeaderKnown { leader: "two".to_owned(), term };
        for (before, now, told) in [
            (standing(0, 1), standing(OWN, 2), vec![News::Leads { term: 2 }]),
            (standing(OWN, 2), standing(OWN, 2), vec![]),
            (standing(OWN, 2), standing(2, 3), vec![News::LeadLost, known(3)]),
            (standing(OWN, 2), standing(0, 2), vec![News::LeadLost]),
            (standing(2, 3), standing(0, 3), vec![]),
            (standing(0, 2), standing(0, 9), vec![]),
            (standing(0, 3), standing(2, 4), vec![known(4)]),
            (standing(2, 4), standing(2, 6), vec![known(6)]),
        ] {
            assert_eq!(news(&before, &now), told, "{before:?} {now:?}");
        }
    }

    #[test]
    fn who_leads_and_who_is_new_is_told_once_it_has_a_name() {
        let members = |names: &[(u64, &str)]| {
            let peer =
                |&(id, name): &(u64, &str)| Peer { id, name: name.into(), ..Peer::default() };
            let member =
                |peer| Member { peer, role: MemberRole::Voter, matched: 0, silent_ms: None };
            names.iter().map(peer).map(member).collect::<Vec<_>>()
        };
        let all = standing(2, 3);
        let lacks = |before: &ClusterStanding, names: &[(u64, &str)]| {
            is_nameless(before, all.leadership, &members(names))
        };
        let nobody = ClusterStanding::default();
        assert!(!lacks(&all, &[(2, "two"), (4, "four")]));
        assert!(lacks(&all, &[(2, "two"), (4, "")]), "a new one");
        assert!(!lacks(&all, &[(2, "two"), (3, "")]), "one that was told already");
        assert!(!lacks(&nobody, &[(2, "two"), (4, "")]), "all are new to this server alone");
        assert!(lacks(&nobody, &[(2, ""), (4, "four")]), "the leader");
    }

    #[test]
    fn an_election_is_not_told_and_a_lost_quorum_is_once() {
        let looked = |leaderless| ClusterStanding { leaderless, ..standing(0, 3) };
        for looks in 1..2 * LEADERLESS_LOOKS {
            let told = news(&looked(looks - 1), &looked(looks));
            let lost = News::NoLeader { reached: 1, voters: 3 };
            let wanted = if looks == LEADERLESS_LOOKS { vec![lost] } else { vec![] };
            assert_eq!(told, wanted, "{looks}");
        }
    }

    #[test]
    fn members_are_told_as_they_come_change_and_go() {
        let all = standing(2, 3);
        let mut fewer = all.clone();
        fewer.members.remove(&3);
        let mut learns = all.clone();
        learns.members.insert(3, KnownMember { role: MemberRole::Learner, ..known("three") });
        let server = || "three".to_owned();
        assert_eq!(
            news(&fewer, &learns),
            [News::Added { server: server(), role: MemberRole::Learner }]
        );
        assert_eq!(news(&learns, &all), [News::Promoted { server: server() }]);
        assert_eq!(news(&all, &learns), [News::Demoted { server: server() }]);
        assert_eq!(news(&all, &fewer), [News::Removed { server: server() }]);
        let mut other = all.clone();
        let moved = KnownMember { address: "four:8201".to_owned(), ..known("four") };
        other.members.insert(3, moved);
        let (server, was) = ("four".to_owned(), "three".to_owned());
        let renamed = News::Renamed { server: server.clone(), was };
        let (was, address) = ("three:8201".to_owned(), "four:8201".to_owned());
        assert_eq!(news(&all, &other), [renamed, News::Moved { server, was, address }]);
        let mut unknown = all.clone();
        let nameless = KnownMember { address: String::new(), ..known("0000000000000003") };
        unknown.members.insert(3, nameless);
        assert_eq!(news(&unknown, &other), [], "it had none");
        // Before it joined, this server was a cluster of its own.
        let mut alone = all.clone();
        alone.leadership.node_id = 9;
        alone.members = [(9, known("three"))].into();
        alone.leadership.leader_id = 9;
        let known = News::LeaderKnown { leader: "two".to_owned(), term: 3 };
        assert_eq!(news(&alone, &all), [known]);
    }
}
