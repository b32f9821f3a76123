//! What this server remembers of the last hour: a sample of its figures, and what changed in the cluster since the one before.
//!
//! The job `history` comes here every five seconds, on every server, sealed or not. What comes and goes between two passes is not seen; an
//! election leaves its term, so that is told even so.

use jiff::Timestamp;
use kallisto_store::{MemberRole, Replicated};

use super::quorum::{SILENT, member_name};
use crate::metrics::history::{ClusterEvent, EventKind, SeenCluster, SeenMember};
use crate::state::Core;
use crate::state::metrics;

/// Takes a sample, and tells what changed.
pub(crate) fn observe(core: &Core, now: Timestamp) {
    core.metrics.history.record(now, &metrics::recent(core, now));
    let Some(cluster) = core.store.replicated() else { return };
    let seen = look(core, cluster);
    let history = &core.metrics.history;
    let Some(before) = history.replace_seen(seen.clone()) else { return };
    for (kind, text) in changes(&before, &seen) {
        history.note(ClusterEvent { time: now, kind, text });
    }
}

fn look(core: &Core, cluster: &dyn Replicated) -> SeenCluster {
    let leadership = cluster.leadership();
    let members = cluster.members();
    let leader = members.iter().find(|member| member.peer.id == leadership.leader_id);
    let hears_all = leadership.is_mine() || leadership.leader_id == 0;
    let silent_ms = u64::try_from(SILENT.as_millis()).unwrap_or(u64::MAX);
    let seen = |member: &kallisto_store::Member| SeenMember {
        votes: member.role == MemberRole::Voter,
        is_silent: hears_all
            && member.peer.id != leadership.node_id
            && member.silent_ms.is_none_or(|silent| silent > silent_ms),
    };
    SeenCluster {
        is_sealed: core.is_sealed(),
        term: leadership.term,
        leader: leader.map(|member| member_name(&member.peer)).unwrap_or_default(),
        members: members.iter().map(|one| (member_name(&one.peer), seen(one))).collect(),
    }
}

/// What is to be told of the way from one to the other.
fn changes(before: &SeenCluster, seen: &SeenCluster) -> Vec<(EventKind, String)> {
    use EventKind::{Change, Warning};
    let mut told = Vec::new();
    if before.is_sealed != seen.is_sealed {
        told.push(match seen.is_sealed {
            true => (Warning, "this server was sealed".to_owned()),
            false => (Change, "this server was unsealed".to_owned()),
        });
    }
    if before.leader != seen.leader || before.term != seen.term {
        told.push(match seen.leader.as_str() {
            "" => (Warning, format!("no server leads (term {})", seen.term)),
            leader => (Change, format!("{leader} leads (term {})", seen.term)),
        });
    }
    for (name, now) in &seen.members {
        match before.members.get(name) {
            None if now.votes => told.push((Change, format!("{name} joined as a voter"))),
            None => told.push((Change, format!("{name} joined as a learner"))),
            Some(then) => {
                if then.votes != now.votes {
                    let what = if now.votes { "votes" } else { "votes no more" };
                    told.push((Change, format!("{name} {what}")));
                }
                if !then.is_silent && now.is_silent {
                    told.push((Warning, format!("{name} is not heard any more")));
                }
                if then.is_silent && !now.is_silent && before.leader == seen.leader {
                    told.push((Change, format!("{name} is heard again")));
                }
            }
        }
    }
    let gone = before.members.keys().filter(|name| !seen.members.contains_key(*name));
    told.extend(gone.map(|name| (Change, format!("{name} was removed"))));
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(leader: &str, term: u64, members: &[(&str, bool, bool)]) -> SeenCluster {
        let member = |&(name, votes, is_silent): &(&str, bool, bool)| {
            (name.to_owned(), SeenMember { votes, is_silent })
        };
        let members = members.iter().map(member).collect();
        SeenCluster { is_sealed: false, term, leader: leader.to_owned(), members }
    }

    #[test]
    fn elections_members_and_silences_are_told_once() {
        let start = observed("a", 2, &[("a", true, false), ("b", true, false)]);
        assert_eq!(changes(&start, &start), []);
        let next = observed("b", 3, &[("a", true, true), ("b", true, false), ("c", false, false)]);
        let told: Vec<String> = changes(&start, &next)
            .into_iter()
            .map(|(kind, text)| format!("{kind:?} {text}"))
            .collect();
        assert_eq!(
            told,
            [
                "Change b leads (term 3)",
                "Warning a is not heard any more",
                "Change c joined as a learner"
            ]
        );
        let last = SeenCluster { is_sealed: true, ..observed("", 4, &[("c", true, false)]) };
        let told: Vec<String> = changes(&next, &last).into_iter().map(|(_, text)| text).collect();
        assert_eq!(
            told,
            [
                "this server was sealed",
                "no server leads (term 4)",
                "c votes",
                "a was removed",
                "b was removed"
            ]
        );
    }

    #[test]
    fn a_term_that_passed_between_two_looks_is_told() {
        let members = [("a", true, false)];
        let told = changes(&observed("a", 2, &members), &observed("a", 4, &members));
        assert_eq!(told, [(EventKind::Change, "a leads (term 4)".to_owned())]);
    }
}
