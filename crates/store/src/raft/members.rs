//! Who the members are: changes of them as log entries, and the directory of names and addresses.
//!
//! ```text
//! change    := the library's ConfChangeV2: (08 transition)? | (12 len (08 type)? (10 id)?)* | (1a len directory)?
//! directory := count u8 | (id u64 | wants u8 | name | cluster address | api address)*        each text: length varint | bytes
//! ```
//!
//! The library reads a change where it is proposed, and those bytes are our own. Everywhere else the bytes came from a
//! peer or the disk, and [`read_change`] reads exactly the subset above: the library's parser never sees them.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use bytes::Bytes;
use kallisto_codec::{ByteReader, put_bytes};
use raft::eraftpb::{ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2};

use super::limits::MEMBERS_MAX;
use crate::cluster::{MemberChange, MemberRole, PEER_TEXT_BYTES_MAX, Peer};
use crate::codec::SharedReader;

/// A change that is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    /// Members that came, or whose description changed.
    pub(crate) put: Vec<Peer>,
    /// Members that went.
    pub(crate) removed: Vec<u64>,
}

/// The proposal of some changes.
pub(crate) fn propose(changes: &[MemberChange]) -> ConfChangeV2 {
    let mut proposal = ConfChangeV2::default();
    let mut put = Vec::new();
    for change in changes {
        let (node_id, change_type) = match change {
            MemberChange::Put(peer, role) => {
                put.push(peer.clone());
                let role = match role {
                    MemberRole::Voter => ConfChangeType::AddNode,
                    MemberRole::Learner => ConfChangeType::AddLearnerNode,
                };
                (peer.id, role)
            }
            MemberChange::Remove(id) => (*id, ConfChangeType::RemoveNode),
        };
        let single = ConfChangeSingle { change_type, node_id, ..ConfChangeSingle::default() };
        proposal.mut_changes().push(single);
    }
    // Auto: one change at a time is simple, several are joint and leave the joint state by themselves.
    proposal.set_transition(ConfChangeTransition::Auto);
    let mut context = Vec::new();
    put_directory(&mut context, &put);
    proposal.set_context(context.into());
    proposal
}

/// Reads a change; `None` if it is none of ours.
pub(crate) fn read_change(bytes: &Bytes) -> Option<(ConfChangeV2, Changed)> {
    const TRANSITION: u8 = 0x08;
    const SINGLE: u8 = 0x12;
    const CONTEXT: u8 = 0x1a;
    let mut change = ConfChangeV2::default();
    let mut changed = Changed { put: Vec::new(), removed: Vec::new() };
    let mut reader = SharedReader::new(bytes);
    while !reader.is_empty() {
        match reader.u8()? {
            TRANSITION => change.set_transition(match reader.varint()? {
                0 => ConfChangeTransition::Auto,
                1 => ConfChangeTransition::Implicit,
                2 => ConfChangeTransition::Explicit,
                _ => return None,
            }),
            SINGLE if change.get_changes().len() < MEMBERS_MAX => {
                let len = reader.varint_len()?;
                let single = read_single(reader.take(len)?)?;
                if single.change_type == ConfChangeType::RemoveNode {
                    changed.removed.push(single.node_id);
                }
                change.mut_changes().push(single);
            }
            CONTEXT => {
                let len = reader.varint_len()?;
                let context = reader.take_shared(len)?;
                changed.put = read_directory(&mut ByteReader::new(&context))?;
                change.set_context(context);
            }
            _ => return None,
        }
    }
    Some((change, changed))
}

fn read_single(bytes: &[u8]) -> Option<ConfChangeSingle> {
    const TYPE: u8 = 0x08;
    const ID: u8 = 0x10;
    let mut single = ConfChangeSingle::default();
    let mut reader = ByteReader::new(bytes);
    while !reader.is_empty() {
        match reader.u8()? {
            TYPE => {
                single.change_type = match reader.varint()? {
                    0 => ConfChangeType::AddNode,
                    1 => ConfChangeType::RemoveNode,
                    2 => ConfChangeType::AddLearnerNode,
                    _ => return None,
                }
            }
            ID => single.node_id = reader.varint()?,
            _ => return None,
        }
    }
    (single.node_id != 0).then_some(single)
}

/// Appends a directory.
pub(crate) fn put_directory(out: &mut Vec<u8>, peers: &[Peer]) {
    assert!(peers.len() <= MEMBERS_MAX, "membership changes respect the limit");
    out.push(peers.len().to_le_bytes()[0]);
    for peer in peers {
        out.extend_from_slice(&peer.id.to_le_bytes());
        out.push(match peer.wants {
            MemberRole::Voter => 0,
            MemberRole::Learner => 1,
        });
        for text in [&peer.name, &peer.cluster_address, &peer.api_address] {
            let text = text.get(..PEER_TEXT_BYTES_MAX).unwrap_or(text);
            put_bytes(out, text.as_bytes());
        }
    }
}

/// Reads a directory; `None` if there is none.
pub(crate) fn read_directory(reader: &mut ByteReader<'_>) -> Option<Vec<Peer>> {
    let count = usize::from(reader.u8()?);
    if count > MEMBERS_MAX {
        return None;
    }
    (0..count)
        .map(|_| {
            Some(Peer {
                id: reader.u64().filter(|&id| id != 0)?,
                wants: match reader.u8()? {
                    0 => MemberRole::Voter,
                    1 => MemberRole::Learner,
                    _ => return None,
                },
                name: read_text(reader)?,
                cluster_address: read_text(reader)?,
                api_address: read_text(reader)?,
            })
        })
        .collect()
}

fn read_text(reader: &mut ByteReader<'_>) -> Option<String> {
    String::from_utf8(reader.bytes(PEER_TEXT_BYTES_MAX)?.to_vec()).ok()
}

/// The directory after a change.
pub(crate) fn updated(directory: &[Peer], changed: &Changed) -> Vec<Peer> {
    let touched = |peer: &Peer| changed.removed.contains(&peer.id);
    let mut peers: Vec<Peer> = directory.iter().filter(|peer| !touched(peer)).cloned().collect();
    for peer in &changed.put {
        match peers.iter_mut().find(|known| known.id == peer.id) {
            Some(known) => known.clone_from(peer),
            None => peers.push(peer.clone()),
        }
    }
    peers.sort_by_key(|peer| peer.id);
    peers
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests index what they built")]
    use super::*;

    fn peer(id: u64) -> Peer {
        let name = format!("node-{id}");
        let cluster_address = format!("127.0.0.1:{id}");
        Peer { id, name, cluster_address, ..Peer::default() }
    }

    /// What the library writes, which is what it will read where it is proposed.
    fn library_bytes(change: &ConfChangeV2) -> Bytes {
        use raft::prelude::*;
        let log = raft::storage::MemStorage::new_with_conf_state(raft::eraftpb::ConfState {
            voters: vec![1],
            ..raft::eraftpb::ConfState::default()
        });
        let config = raft::Config { id: 1, ..raft::Config::default() };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let mut node = raft::RawNode::new(&config, log, &logger).unwrap();
        node.campaign().unwrap();
        let ready = node.ready();
        node.mut_store().wl().append(ready.entries()).unwrap();
        let _ = node.advance(ready);
        node.propose_conf_change(Vec::new(), change.clone()).unwrap();
        let ready = node.ready();
        let entry = &ready.entries()[0];
        assert_eq!(entry.entry_type, EntryType::EntryConfChangeV2);
        entry.data.clone()
    }

    #[test]
    fn changes_as_the_library_writes_them_come_back() {
        let cases = [
            vec![MemberChange::Put(peer(2), MemberRole::Learner)],
            vec![MemberChange::Remove(300)],
            vec![
                MemberChange::Put(peer(u64::MAX), MemberRole::Voter),
                MemberChange::Remove(3),
                MemberChange::Put(peer(7), MemberRole::Learner),
            ],
        ];
        for changes in cases {
            let proposal = propose(&changes);
            let (read, changed) = read_change(&library_bytes(&proposal)).unwrap();
            assert_eq!(read, proposal);
            for change in changes {
                match change {
                    MemberChange::Put(peer, _) => assert!(changed.put.contains(&peer)),
                    MemberChange::Remove(id) => assert!(changed.removed.contains(&id)),
                }
            }
        }
        let leave = read_change(&Bytes::new()).unwrap();
        assert_eq!(leave.0, ConfChangeV2::default());
    }

    #[test]
    fn every_transition_and_type_is_read_and_no_other() {
        let read = |bytes: &[u8]| read_change(&Bytes::copy_from_slice(bytes)).map(|read| read.0);
        for (number, transition) in [
            (0, Some(ConfChangeTransition::Auto)),
            (1, Some(ConfChangeTransition::Implicit)),
            (2, Some(ConfChangeTransition::Explicit)),
            (3, None),
        ] {
            assert_eq!(read(&[0x08, number]).map(|change| change.get_transition()), transition);
        }
        for (number, change_type) in [
            (0, Some(ConfChangeType::AddNode)),
            (1, Some(ConfChangeType::RemoveNode)),
            (2, Some(ConfChangeType::AddLearnerNode)),
            (3, None),
        ] {
            let single = read(&[0x12, 4, 0x08, number, 0x10, 7]);
            let single = single.map(|change| change.get_changes()[0].clone());
            assert_eq!(single.as_ref().map(|single| single.change_type), change_type);
            assert!(single.is_none_or(|single| single.node_id == 7));
        }
        assert_eq!(read(&[0x12, 2, 0x08, 0]), None, "nobody has the number 0");
        assert_eq!(read(&[0x22, 0]), None);
    }

    #[test]
    fn a_change_and_a_directory_have_as_many_members_as_there_may_be() {
        let single = [0x12, 4, 0x08, 0, 0x10, 7];
        for (count, is_read) in [(MEMBERS_MAX, true), (MEMBERS_MAX + 1, false)] {
            let change = read_change(&Bytes::from(single.repeat(count)));
            assert_eq!(change.is_some(), is_read, "{count}");
            let mut directory = vec![u8::try_from(count).unwrap()];
            let mut one = Vec::new();
            put_directory(&mut one, &[peer(7)]);
            directory.extend(one[1..].repeat(count));
            let read = read_directory(&mut ByteReader::new(&directory));
            assert_eq!(read.map(|peers| peers.len()), is_read.then_some(count));
        }
    }

    #[test]
    fn cut_or_changed_bytes_are_refused_or_other_changes() {
        let proposal =
            propose(&[MemberChange::Put(peer(2), MemberRole::Learner), MemberChange::Remove(9)]);
        let bytes = library_bytes(&proposal);
        for len in 0..bytes.len() {
            if let Some((read, _)) = read_change(&bytes.slice(..len)) {
                assert_ne!(read, proposal);
            }
        }
        for bad in [&b"\x20\x01"[..], b"\x12\x02\x08\x01", b"\x12\x02\x10\x00", b"\x08\x03"] {
            assert_eq!(read_change(&Bytes::from_static(bad)), None);
        }
    }

    #[test]
    fn a_directory_follows_its_changes() {
        let first = updated(&[], &Changed { put: vec![peer(2), peer(1)], removed: vec![] });
        assert_eq!(first, [peer(1), peer(2)]);
        let moved = Peer { cluster_address: "other:1".into(), ..peer(2) };
        let second = updated(&first, &Changed { put: vec![moved.clone()], removed: vec![1] });
        assert_eq!(second, [moved]);
    }
}
