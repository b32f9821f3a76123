//! What the simulation reads of a message between servers, and what it does to one when a run is sabotaged.
//!
//! The layout is in `docs/format.md`: format, type, flags, then `to`, `from`, `term`, `log term`, `index`, `commit`, each a `u64`.

use crate::sabotage::Sabotage;

const TYPE: usize = 1;
const FLAGS: usize = 2;
const TO: usize = 3;
const FROM: usize = TO + 8;
const TERM: usize = FROM + 8;
const INDEX: usize = TERM + 16;
const COMMIT: usize = INDEX + 8;
/// How many entries there are: behind the numbers and an empty context.
const ENTRIES: usize = TO + 12 * 8 + 1;

const APPEND: u8 = 0;
const VOTE: u8 = 2;
const VOTE_ANSWER: u8 = 3;
/// The flag of a refusal.
const REJECT: u8 = 1;
/// One message in so many has a byte flipped.
const FLIPPED_ONE_IN: u64 = 50;

/// A vote that a message shows: `voter` is for `candidate` in `term`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vote {
    pub(crate) voter: u64,
    pub(crate) candidate: u64,
    pub(crate) term: u64,
}

/// The vote in a message, if it shows one.
pub(crate) fn vote(message: &[u8]) -> Option<Vote> {
    let (to, from, term) = (number(message, TO)?, number(message, FROM)?, number(message, TERM)?);
    match (*message.get(TYPE)?, *message.get(FLAGS)? & REJECT) {
        // Whoever asks for votes is for itself.
        (VOTE, _) => Some(Vote { voter: from, candidate: from, term }),
        (VOTE_ANSWER, 0) => Some(Vote { voter: from, candidate: to, term }),
        _ => None,
    }
}

/// Whether a message brings entries.
pub(crate) fn brings_entries(message: &[u8]) -> bool {
    message.get(TYPE) == Some(&APPEND) && entries(message).is_some_and(|count| count > 0)
}

/// Breaks a message as `how` says.
pub(crate) fn sabotage(message: &mut [u8], how: Sabotage, dice: &mut fastrand::Rng) {
    let kind = message.get(TYPE).copied();
    match how {
        Sabotage::EarlyCommit if kind == Some(APPEND) => {
            let last = number(message, INDEX).zip(entries(message));
            let place = message.get_mut(COMMIT..COMMIT + 8);
            if let (Some((index, count)), Some(place)) = (last, place) {
                place.copy_from_slice(&(index + u64::from(count)).to_le_bytes());
            }
        }
        Sabotage::VoteTwice if kind == Some(VOTE_ANSWER) => message[FLAGS] &= !REJECT,
        Sabotage::FlippedByte if brings_entries(message) && dice.u64(..FLIPPED_ONE_IN) == 0 => {
            if let Some(last) = message.last_mut() {
                *last ^= 1;
            }
        }
        _ => {}
    }
}

fn entries(message: &[u8]) -> Option<u32> {
    let bytes = message.get(ENTRIES..ENTRIES + 4)?;
    bytes.try_into().ok().map(u32::from_le_bytes)
}

fn number(message: &[u8], at: usize) -> Option<u64> {
    message.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}
