//! Restoring a backup: records come in beside those in use, and one entry has them take their place.
//!
//! A restore goes through the log like any write, so every member does the same at the same place, and a crash anywhere
//! finds the state before or the state after. *Begin* names a generation, its own index; *stage* brings records into it;
//! *switch* makes it the one in use if it holds as many records as were sent. What a restore that ended early left behind,
//! and the generation that was in use before, is removed later, by each server for itself ([`StateMachine::sweep`]).
//!
//! ```text
//! step    := format u8 (2) | what u8 | ...
//! begin   := ... 0 u8
//! stage   := ... 1 u8 | generation u64 | (key length varint | key | value length varint | value)*
//! switch  := ... 2 u8 | generation u64 | records u64
//! abandon := ... 3 u8 | generation u64
//! ```
//!
//! The format stands where a batch has its own, so an entry is one or the other. The decoder is total.
//!
//! [`StateMachine::sweep`]: super::machine::StateMachine::sweep
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use bytes::Bytes;
use kallisto_codec::{ByteReader, VARINT_BYTES_MAX, put_bytes};

use super::limits::ENTRY_BYTES_MAX;
use crate::Error;
use crate::batch::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::codec::SharedReader;

/// The number of this layout; a batch's is another.
const STEP_FORMAT: u8 = 2;
const BEGIN: u8 = 0;
const STAGE: u8 = 1;
const SWITCH: u8 = 2;
const ABANDON: u8 = 3;
/// Bytes of a stage before its records.
const STAGE_HEAD_BYTES: usize = 1 + 1 + 8;

/// One step of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RestoreStep {
    /// What is staged from here on belongs to a new generation; another that is staged is given up.
    Begin,
    /// More records of a generation.
    Stage(u64, Vec<(Bytes, Bytes)>),
    /// A generation of so many records takes the place of the one in use.
    Switch(u64, u64),
    /// A generation will not be staged to its end.
    Abandon(u64),
}

/// Which records count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generations {
    /// The one in use; 0 until something is restored.
    pub(crate) active: u64,
    /// The one that is staged; 0 for none.
    pub(crate) staged: u64,
    /// How many records it has.
    pub(crate) records: u64,
}

impl RestoreStep {
    /// Whether an entry's bytes are a step and no batch.
    pub(crate) fn is_in(bytes: &[u8]) -> bool {
        bytes.first() == Some(&STEP_FORMAT)
    }

    /// Refuses a step that no entry of the log holds, or that is more than who reads the log takes.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub(crate) fn check_limits(&self) -> Result<(), Error> {
        let Self::Stage(_, records) = self else { return Ok(()) };
        let mut bytes = STAGE_HEAD_BYTES;
        for (key, value) in records {
            if key.len() > KEY_BYTES_MAX {
                return Err(Error::TooLarge("bytes of a key"));
            }
            if value.len() > VALUE_BYTES_MAX {
                return Err(Error::TooLarge("bytes of a value"));
            }
            bytes += key.len() + value.len() + 2 * VARINT_BYTES_MAX;
        }
        if bytes > ENTRY_BYTES_MAX {
            Err(Error::TooLarge("bytes of a restore's step"))
        } else {
            Ok(())
        }
    }

    /// The bytes of a step.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![STEP_FORMAT];
        match self {
            Self::Begin => out.push(BEGIN),
            Self::Stage(generation, records) => {
                out.push(STAGE);
                out.extend_from_slice(&generation.to_le_bytes());
                for part in records.iter().flat_map(|(key, value)| [key, value]) {
                    put_bytes(&mut out, part);
                }
            }
            Self::Switch(generation, records) => {
                out.push(SWITCH);
                out.extend_from_slice(&generation.to_le_bytes());
                out.extend_from_slice(&records.to_le_bytes());
            }
            Self::Abandon(generation) => {
                out.push(ABANDON);
                out.extend_from_slice(&generation.to_le_bytes());
            }
        }
        out
    }

    /// The step in `bytes`; `None` if they are none.
    pub(crate) fn decode(bytes: &Bytes) -> Option<Self> {
        let mut reader = SharedReader::new(bytes);
        if reader.u8()? != STEP_FORMAT {
            return None;
        }
        let step = match reader.u8()? {
            BEGIN => Self::Begin,
            STAGE => {
                let generation = reader.u64()?;
                let mut records = Vec::new();
                while !reader.is_empty() {
                    let key = reader.bytes_shared(KEY_BYTES_MAX)?;
                    records.push((key, reader.bytes_shared(VALUE_BYTES_MAX)?));
                }
                Self::Stage(generation, records)
            }
            SWITCH => Self::Switch(reader.u64()?, reader.u64()?),
            ABANDON => Self::Abandon(reader.u64()?),
            _ => return None,
        };
        reader.is_empty().then_some(step)
    }
}

impl Generations {
    /// As the engine keeps them.
    pub(crate) fn encode(self) -> Vec<u8> {
        [self.active, self.staged, self.records].map(u64::to_le_bytes).concat()
    }

    /// What [`Generations::encode`] wrote.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = ByteReader::new(bytes);
        let (active, staged, records) = (reader.u64()?, reader.u64()?, reader.u64()?);
        reader.is_empty().then_some(Self { active, staged, records })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests index what they built")]
    use super::*;

    #[test]
    fn a_step_is_these_bytes() {
        let record = (Bytes::from_static(b"key"), Bytes::from_static(&[b'v'; 130]));
        let stage = [&b"\x02\x01\x07\0\0\0\0\0\0\0\x03key\x82\x01"[..], &[b'v'; 130]].concat();
        assert_eq!(RestoreStep::Stage(7, vec![record]).encode(), stage);
        let switch = b"\x02\x02\x07\0\0\0\0\0\0\0\x02\x01\0\0\0\0\0\0";
        assert_eq!(RestoreStep::Switch(7, 258).encode(), switch);
    }

    #[test]
    fn steps_come_back_and_cut_ones_do_not() {
        let records = vec![
            (Bytes::from_static(b"key"), Bytes::from_static(b"value")),
            (Bytes::from_static(b"k"), Bytes::new()),
        ];
        let steps = [
            RestoreStep::Begin,
            RestoreStep::Stage(7, records),
            RestoreStep::Switch(7, 2),
            RestoreStep::Abandon(9),
        ];
        for step in steps {
            let bytes = step.encode();
            assert!(RestoreStep::is_in(&bytes));
            assert_eq!(RestoreStep::decode(&Bytes::from(bytes.clone())), Some(step.clone()));
            for len in 0..bytes.len() {
                let cut = RestoreStep::decode(&Bytes::copy_from_slice(&bytes[..len]));
                assert_ne!(cut, Some(step.clone()));
            }
        }
        assert!(!RestoreStep::is_in(&crate::encode_batch(&crate::Batch::new())));
    }

    #[test]
    fn generations_come_back() {
        let generations = Generations { active: 1, staged: u64::MAX, records: 3 };
        let bytes = generations.encode();
        assert_eq!(Generations::decode(&bytes), Some(generations));
        assert_eq!(Generations::decode(&bytes[1..]), None);
    }
}
