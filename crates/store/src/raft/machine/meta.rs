//! What an engine keeps about itself beside the records: which store it belongs to, its members, its generations.

use kallisto_codec::ByteReader;
use kallisto_lsm::Engine;
use raft::eraftpb::ConfState;

use crate::Error;
use crate::cluster::Peer;
use crate::raft::log::record::{put_membership, read_membership};
use crate::raft::members::{put_directory, read_directory};
use crate::raft::restore::Generations;

/// First byte of the keys of what the machine keeps about itself.
const META: u8 = 0x00;
/// Which generations there are.
pub(super) const GENERATIONS_KEY: [u8; 1] = [0x03];
/// Which store this is: 16 bytes.
pub(super) const STORE_ID_KEY: [u8; 2] = [META, 0x01];
/// The members at the flushed position, encoded as in the log.
pub(super) const MEMBERSHIP_KEY: [u8; 2] = [META, 0x02];
/// The members' names and addresses, as `members.rs` has them.
pub(super) const DIRECTORY_KEY: [u8; 2] = [META, 0x03];

/// Writes what an engine knows of the store it belongs to.
pub(crate) fn put_meta(
    batch: &mut kallisto_lsm::EntryBatch,
    store_id: &[u8; 16],
    membership: &ConfState,
    directory: &[Peer],
) -> Result<(), Error> {
    batch.put(&STORE_ID_KEY, store_id)?;
    put_members(batch, membership, directory)
}

pub(super) fn put_members(
    batch: &mut kallisto_lsm::EntryBatch,
    membership: &ConfState,
    directory: &[Peer],
) -> Result<(), Error> {
    let mut bytes = Vec::new();
    put_membership(&mut bytes, membership);
    batch.put(&MEMBERSHIP_KEY, &bytes)?;
    bytes.clear();
    put_directory(&mut bytes, directory);
    batch.put(&DIRECTORY_KEY, &bytes)?;
    Ok(())
}

pub(super) fn stored_membership(engine: &Engine) -> Result<Option<ConfState>, Error> {
    let Some(value) = engine.get(&MEMBERSHIP_KEY)? else { return Ok(None) };
    let members = read_membership(&mut ByteReader::new(&value));
    members.map(Some).ok_or_else(|| Error::Damaged("the engine's members cannot be read".into()))
}

pub(super) fn stored_directory(engine: &Engine) -> Result<Option<Vec<Peer>>, Error> {
    let Some(value) = engine.get(&DIRECTORY_KEY)? else { return Ok(None) };
    let peers = read_directory(&mut ByteReader::new(&value));
    peers.map(Some).ok_or_else(|| Error::Damaged("the engine's directory cannot be read".into()))
}

pub(super) fn stored_generations(engine: &Engine) -> Result<Generations, Error> {
    let Some(value) = engine.get(&GENERATIONS_KEY)? else { return Ok(Generations::default()) };
    let damaged = || Error::Damaged("the engine's generations cannot be read".into());
    Generations::decode(&value).ok_or_else(damaged)
}
