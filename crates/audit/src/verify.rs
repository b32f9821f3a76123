//! Whether audit files are as they were written.
//!
//! [`Verifier`] takes lines, of one file after another in the order they were written, and finds the
//! first thing that is wrong: a line that is no record, that does not match its hash, or that does
//! not follow the one before. The first line of the first file may stand anywhere in its chain: what
//! came before it is in a file that was not given. Pure but for the reader it is handed.

use std::fmt;
use std::io::{self, BufRead, Read};

use crate::chain::{self, ChainHead};
use crate::checkpoint::{self, DevicePublicKey};
use crate::limits::{CHECKPOINT_RECORDS_MAX, LINE_BYTES_MAX};

/// Follows a chain through lines.
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    first: Option<u64>,
    head: Option<ChainHead>,
    /// A head that has to be in the chain.
    wanted: Option<ChainHead>,
    is_found: bool,
    /// What checkpoints have to be signed by.
    key: Option<DevicePublicKey>,
    /// The last of them.
    signed: Option<u64>,
    /// The records after it.
    unsigned: u64,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainFault {
    /// It is no audit record, or was cut short.
    NoRecord,
    /// It is not what its hash was made of.
    Edited {
        /// The number it says it has.
        seq: u64,
    },
    /// It does not follow the line before.
    Gap {
        /// The number that was due.
        expected: u64,
        /// The number it has.
        found: u64,
    },
    /// It has the number that was due, and follows another line than the one before.
    OtherChain {
        /// Its number.
        seq: u64,
    },
    /// It is a checkpoint, and its signature is not one of the key that was given.
    Unsigned {
        /// Its number.
        seq: u64,
    },
    /// It has the number of the head that was asked for, and another hash.
    OtherHead {
        /// Its number.
        seq: u64,
    },
}

/// What a sound chain holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedChain {
    /// The first record's number.
    pub first: u64,
    /// The last record.
    pub head: ChainHead,
    /// The last checkpoint whose signature was checked: it vouches for all records before.
    pub signed: Option<u64>,
}

/// Why a file is not sound.
#[derive(Debug)]
pub enum VerifyFailure {
    /// A line is wrong.
    Line {
        /// Its number in the file, from 1.
        line: u64,
        /// What is wrong with it.
        fault: ChainFault,
    },
    /// The file cannot be read.
    Unreadable(io::Error),
}

impl Verifier {
    /// A verifier that also wants to meet `head`, as the server told it.
    pub fn wanting(head: Option<ChainHead>) -> Self {
        Self { wanted: head, ..Self::default() }
    }

    /// The same, for which every checkpoint has to be signed by `key`.
    pub fn trusting(self, key: Option<DevicePublicKey>) -> Self {
        Self { key, ..self }
    }

    /// Takes the next line, without its newline.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn take(&mut self, line: &[u8]) -> Result<(), ChainFault> {
        let links = chain::read(line).ok_or(ChainFault::NoRecord)?;
        let seq = links.head.seq;
        if !links.sound {
            return Err(ChainFault::Edited { seq });
        }
        // A first record follows nothing; later ones follow what may be in another file.
        let before = match self.head {
            Some(head) => head,
            None if seq == 1 => ChainHead::default(),
            None => ChainHead { seq: seq - 1, hash: links.prev },
        };
        if before.seq.checked_add(1) != Some(seq) {
            return Err(ChainFault::Gap { expected: before.seq.saturating_add(1), found: seq });
        }
        if links.prev != before.hash {
            return Err(ChainFault::OtherChain { seq });
        }
        if let Some(wanted) = self.wanted.filter(|wanted| wanted.seq == seq) {
            if wanted != links.head {
                return Err(ChainFault::OtherHead { seq });
            }
            self.is_found = true;
        }
        self.unsigned = self.unsigned.saturating_add(1);
        if let Some(key) = &self.key
            && checkpoint::is_one(line)
        {
            if !key.vouches_for(line, &links) {
                return Err(ChainFault::Unsigned { seq });
            }
            (self.signed, self.unsigned) = (Some(seq), 0);
        }
        self.first.get_or_insert(seq);
        self.head = Some(links.head);
        Ok(())
    }

    /// Takes every line of a file.
    ///
    /// # Errors
    /// The first line that is wrong, or that the file cannot be read.
    pub fn take_file(&mut self, reader: &mut dyn BufRead) -> Result<u64, VerifyFailure> {
        let mut line = Vec::new();
        let mut count = 0;
        loop {
            line.clear();
            let limit = LINE_BYTES_MAX as u64;
            reader.take(limit).read_until(b'\n', &mut line).map_err(VerifyFailure::Unreadable)?;
            if line.is_empty() {
                return Ok(count);
            }
            count += 1;
            // A line without an end was cut short, or is longer than any of ours.
            let whole = line.strip_suffix(b"\n").ok_or(ChainFault::NoRecord);
            let taken = whole.and_then(|line| self.take(line));
            taken.map_err(|fault| VerifyFailure::Line { line: count, fault })?;
        }
    }

    /// What the chain holds; `None` for no record at all.
    pub fn verified(&self) -> Option<VerifiedChain> {
        Some(VerifiedChain { first: self.first?, head: self.head?, signed: self.signed })
    }

    /// Records that no checkpoint vouches for, if that are more than a device ever leaves: their end was cut off,
    /// or they are not of the device. `None` as well when no key was given.
    pub fn too_many_unsigned(&self) -> Option<u64> {
        let is_unsigned = self.signed.is_none() || self.unsigned > CHECKPOINT_RECORDS_MAX;
        (self.key.is_some() && is_unsigned).then_some(self.unsigned)
    }

    /// Whether the head that was asked for was met; true when none was.
    pub fn met_head(&self) -> bool {
        self.wanted.is_none_or(|wanted| self.is_found || wanted.seq == 0)
    }
}

impl fmt::Display for ChainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRecord => f.write_str("it is no audit record, or was cut short"),
            Self::Edited { seq } => write!(f, "record {seq} was edited"),
            Self::Gap { expected, found } if found > expected => {
                write!(f, "record {expected} is missing: record {found} stands in its place")
            }
            Self::Gap { expected, found } => {
                write!(f, "record {found} stands where record {expected} belongs")
            }
            Self::OtherChain { seq } => {
                write!(f, "record {seq} does not follow the record before it")
            }
            Self::Unsigned { seq } => {
                write!(f, "checkpoint {seq} is not signed by the key that was given")
            }
            Self::OtherHead { seq } => write!(f, "record {seq} is not the one the server wrote"),
        }
    }
}

impl fmt::Display for VerifyFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { line, fault } => write!(f, "line {line}: {fault}"),
            Self::Unreadable(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 6;

    /// A small file, line by line, with newlines.
    fn lines() -> Vec<Vec<u8>> {
        let mut head = ChainHead::default();
        (0..COUNT)
            .map(|at| {
                let mut line = format!("{{\"time\":\"{at}\",\"type\":\"request\"").into_bytes();
                head = head.link(0, &mut line);
                line
            })
            .collect()
    }

    fn verify(lines: &[Vec<u8>]) -> Result<Option<VerifiedChain>, VerifyFailure> {
        let mut verifier = Verifier::default();
        verifier.take_file(&mut &lines.concat()[..])?;
        Ok(verifier.verified())
    }

    #[test]
    fn a_file_as_written_is_sound_and_so_is_each_of_its_ends() {
        let all = lines();
        for from in 0..COUNT {
            let verified = verify(&all[from..]).unwrap().unwrap();
            assert_eq!((verified.first, verified.head.seq), (from as u64 + 1, COUNT as u64));
        }
        assert_eq!(verify(&[]).unwrap(), None);
    }

    #[test]
    fn a_chain_goes_on_over_files() {
        let all = lines();
        for cut in 0..=COUNT {
            let mut verifier = Verifier::default();
            verifier.take_file(&mut &all[..cut].concat()[..]).unwrap();
            verifier.take_file(&mut &all[cut..].concat()[..]).unwrap();
            assert_eq!(verifier.verified().unwrap().head.seq, COUNT as u64);
        }
        let mut verifier = Verifier::default();
        verifier.take_file(&mut &all[3..].concat()[..]).unwrap();
        assert!(verifier.take_file(&mut &all[..3].concat()[..]).is_err(), "in the wrong order");
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let all = lines().concat();
        for at in 0..all.len() {
            for bit in 0..8 {
                let mut edited = all.clone();
                edited[at] ^= 1 << bit;
                let mut verifier = Verifier::default();
                assert!(verifier.take_file(&mut &edited[..]).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn every_removed_byte_and_every_inserted_one_is_found() {
        let all = lines().concat();
        for at in 0..all.len() {
            let removed = [&all[..at], &all[at + 1..]].concat();
            assert!(Verifier::default().take_file(&mut &removed[..]).is_err(), "removed {at}");
            for byte in [b'x', b'0', b'\n', b'"'] {
                let inserted = [&all[..at], &[byte], &all[at..]].concat();
                assert!(
                    Verifier::default().take_file(&mut &inserted[..]).is_err(),
                    "{byte} at {at}"
                );
            }
        }
    }

    #[test]
    fn every_removed_moved_doubled_or_forged_line_is_found() {
        let all = lines();
        for at in 0..COUNT {
            // Without its first line a file is sound by itself; without its last one too. Those two
            // are found by the file before and by the server's head.
            if at > 0 && at + 1 < COUNT {
                let mut removed = all.clone();
                removed.remove(at);
                assert!(verify(&removed).is_err(), "removed {at}");
            }
            for to in 0..COUNT {
                let mut doubled = all.clone();
                doubled.insert(to, all[at].clone());
                assert!(verify(&doubled).is_err(), "doubled {at} at {to}");
                if at != to {
                    let mut swapped = all.clone();
                    swapped.swap(at, to);
                    assert!(verify(&swapped).is_err(), "swapped {at} and {to}");
                }
            }
            let mut forged = all.clone();
            let mut line = b"{\"time\":\"forged\"".to_vec();
            ChainHead { seq: at as u64, hash: [0; 32] }.link(0, &mut line);
            forged[at] = line;
            assert!(verify(&forged).is_err(), "forged {at}");
        }
    }

    #[test]
    fn the_servers_head_finds_a_cut_end_and_a_new_chain() {
        let all = lines();
        let head = verify(&all).unwrap().unwrap().head;
        let check = |lines: &[Vec<u8>]| {
            let mut verifier = Verifier::wanting(Some(head));
            verifier.take_file(&mut &lines.concat()[..]).map(|_| verifier.met_head())
        };
        assert!(check(&all).unwrap());
        assert!(!check(&all[..COUNT - 1]).unwrap());
        let mut other = ChainHead::default();
        let forged: Vec<Vec<u8>> = (0..COUNT)
            .map(|_| {
                let mut line = b"{\"time\":\"forged\"".to_vec();
                other = other.link(0, &mut line);
                line
            })
            .collect();
        assert!(verify(&forged).is_ok(), "a whole new chain is sound by itself");
        let failure = check(&forged).unwrap_err();
        let fault = ChainFault::OtherHead { seq: COUNT as u64 };
        assert!(matches!(failure, VerifyFailure::Line { fault: found, .. } if found == fault));
    }

    #[test]
    fn a_first_record_follows_nothing() {
        for (hash, wanted) in [([0; 32], Ok(())), ([5; 32], Err(ChainFault::OtherChain { seq: 1 }))]
        {
            let mut line = b"{\"time\":\"t\"".to_vec();
            ChainHead { seq: 0, hash }.link(0, &mut line);
            assert_eq!(Verifier::default().take(line.strip_suffix(b"\n").unwrap()), wanted);
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_numbers() {
        let told = |fault: ChainFault| VerifyFailure::Line { line: 9, fault }.to_string();
        for (fault, text) in [
            (ChainFault::NoRecord, "line 9: it is no audit record, or was cut short"),
            (ChainFault::Edited { seq: 3 }, "line 9: record 3 was edited"),
            (
                ChainFault::Gap { expected: 3, found: 4 },
                "line 9: record 3 is missing: record 4 stands in its place",
            ),
            (
                ChainFault::Gap { expected: 4, found: 3 },
                "line 9: record 3 stands where record 4 belongs",
            ),
            (
                ChainFault::OtherChain { seq: 3 },
                "line 9: record 3 does not follow the record before it",
            ),
            (
                ChainFault::Unsigned { seq: 3 },
                "line 9: checkpoint 3 is not signed by the key that was given",
            ),
            (ChainFault::OtherHead { seq: 3 }, "line 9: record 3 is not the one the server wrote"),
        ] {
            assert_eq!(told(fault), text);
        }
        let unreadable = VerifyFailure::Unreadable(io::ErrorKind::PermissionDenied.into());
        assert_eq!(unreadable.to_string(), "cannot be read: permission denied");
    }

    /// As many records as a device leaves unsigned, and one more.
    #[test]
    fn records_behind_the_last_checkpoint_are_counted_to_the_edge() {
        use crate::checkpoint::CheckpointSigner;
        let signer = CheckpointSigner::new(&[7; crate::mask::SALT_BYTES], "n", "d").unwrap();
        let mut file = Vec::new();
        let mut head = signer.add(ChainHead::default(), "", jiff::Timestamp::UNIX_EPOCH, &mut file);
        let mut verifier = Verifier::default().trusting(Some(signer.public_key()));
        verifier.take_file(&mut &file[..]).unwrap();
        for count in 0..=CHECKPOINT_RECORDS_MAX + 1 {
            let told = (count > CHECKPOINT_RECORDS_MAX).then_some(count);
            assert_eq!(verifier.too_many_unsigned(), told);
            let mut line = b"{\"time\":\"t\"".to_vec();
            head = head.link(0, &mut line);
            verifier.take(line.strip_suffix(b"\n").unwrap()).unwrap();
        }
    }

    #[test]
    fn a_torn_last_line_is_found() {
        let all = lines().concat();
        for cut in 1..lines()[COUNT - 1].len() {
            let torn = &all[..all.len() - cut];
            assert!(Verifier::default().take_file(&mut &torn[..]).is_err(), "{cut}");
        }
    }
}
