//! Anchors: where a device's chain stood, kept apart from what the device writes.
//!
//! ```text
//! anchor := "1 " seq " " hash " " mac \n      mac = HMAC-SHA-256 over node, device, seq and hash, under a key of the salt
//! ```
//! While a device works its head is kept every second that it moved, and once more when it ends. Before it
//! writes again after a start, what its destination holds is compared with that ([`judge`]). A chain that is
//! not as it was left goes on behind the anchor: the gap shows in the file for ever, and the server does not
//! vouch for what stands there instead.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use aws_lc_rs::{digest, hmac};
use data_encoding::HEXLOWER;

use crate::chain::ChainHead;
use crate::checkpoint::anchor_key;
use crate::mask::SALT_BYTES;

/// Longest anchor that is read, in bytes.
const ANCHOR_BYTES_MAX: u64 = 512;
const FORMAT: &str = "1";
/// How long after the record of the anchor the last one of a destination may have been written, in seconds. Anchors are kept
/// every second; one that is older than this was put back, or could not be written for as long.
const AHEAD_SECS_MAX: i64 = 60;

/// Where anchors are kept: a few bytes by the name of a device.
pub trait Anchors: Send + Sync {
    /// What is kept for a device.
    ///
    /// # Errors
    /// What the operating system says.
    fn read(&self, device: &str) -> io::Result<Option<Vec<u8>>>;

    /// Keeps bytes for a device, in place of what was kept: those or these, never a part.
    ///
    /// # Errors
    /// What the operating system says.
    fn write(&self, device: &str, bytes: &[u8]) -> io::Result<()>;
}

/// Anchors as files of a directory, which is made when it is needed.
#[derive(Debug)]
pub struct AnchorFiles(pub PathBuf);

impl AnchorFiles {
    fn path(&self, device: &str) -> PathBuf {
        // A device may be called by any path.
        let name = digest::digest(&digest::SHA256, device.as_bytes());
        self.0.join(HEXLOWER.encode(&name.as_ref()[..16]))
    }
}

#[expect(clippy::disallowed_methods, reason = "the seam: anchors are files here only")]
impl Anchors for AnchorFiles {
    fn read(&self, device: &str) -> io::Result<Option<Vec<u8>>> {
        match File::open(self.path(device)) {
            Ok(file) => {
                let mut bytes = Vec::new();
                file.take(ANCHOR_BYTES_MAX).read_to_end(&mut bytes)?;
                Ok(Some(bytes))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&self, device: &str, bytes: &[u8]) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let path = self.path(device);
        let fresh = path.with_extension("new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(bytes)?;
        fs::rename(fresh, path)
    }
}

/// How what a destination holds agrees with the anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnchorVerdict {
    /// It does, or the destination keeps nothing that could be compared.
    Sound,
    /// There is nothing to compare with, and need not be: the device is new, or the server keeps no anchors.
    New,
    /// The anchor of a device that wrote before is missing, or is not its own.
    Unanchored,
    /// The destination is empty.
    Missing,
    /// Its last record comes before the anchor.
    Cut,
    /// It has another record where the anchor was taken, or none.
    Rewritten,
    /// It goes on long after the anchor: what this server keeps was put back from an older copy.
    Ahead,
}

impl AnchorVerdict {
    /// Whether somebody has to look.
    pub const fn is_fault(self) -> bool {
        !matches!(self, Self::Sound | Self::New)
    }

    /// Its name for operators.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::New => "new",
            Self::Unanchored => "unanchored",
            Self::Missing => "missing",
            Self::Cut => "cut",
            Self::Rewritten => "rewritten",
            Self::Ahead => "ahead",
        }
    }
}

/// What a destination has at the number of the anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// It cannot know: what it is given is sent on.
    Unknown,
    /// No record of that number.
    Absent,
    /// This record.
    Found {
        /// Where it is in the chain.
        head: ChainHead,
        /// How many seconds after it the last record was written, by their times; 0 where one tells none.
        newest_secs: i64,
    },
}

/// Where the chain goes on, and how the destination agrees with the anchor.
pub(crate) fn judge(
    anchor: ChainHead,
    last: Option<ChainHead>,
    sought: Sought,
) -> (ChainHead, AnchorVerdict) {
    match (sought, last) {
        // Nothing was written before.
        _ if anchor.seq == 0 => (last.unwrap_or_default(), AnchorVerdict::Sound),
        (Sought::Unknown, _) => (anchor, AnchorVerdict::Sound),
        (Sought::Found { head, newest_secs }, Some(last)) if head == anchor => (
            last,
            if newest_secs > AHEAD_SECS_MAX { AnchorVerdict::Ahead } else { AnchorVerdict::Sound },
        ),
        (Sought::Absent, None) => (anchor, AnchorVerdict::Missing),
        (Sought::Absent, Some(last)) if last.seq < anchor.seq => (anchor, AnchorVerdict::Cut),
        (Sought::Absent | Sought::Found { .. }, _) => (anchor, AnchorVerdict::Rewritten),
    }
}

/// Writes and reads the anchors of one device.
pub(crate) struct AnchorFile {
    key: hmac::Key,
    context: String,
}

impl AnchorFile {
    pub(crate) fn new(salt: &[u8; SALT_BYTES], node: &str, device: &str) -> Self {
        // With lengths, so that no two pairs of names read the same.
        let context = format!("{} {node} {} {device}", node.len(), device.len());
        Self { key: anchor_key(salt), context }
    }

    fn covered(&self, text: &str) -> Vec<u8> {
        format!("{FORMAT} {} {text}", self.context).into_bytes()
    }

    pub(crate) fn encode(&self, head: ChainHead) -> Vec<u8> {
        let text = format!("{} {}", head.seq, head.hash_text());
        let mac = hmac::sign(&self.key, &self.covered(&text));
        format!("{FORMAT} {text} {}\n", HEXLOWER.encode(mac.as_ref())).into_bytes()
    }

    /// The head in an anchor; `None` for what this device did not keep.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Option<ChainHead> {
        let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
        let (text, mac) = text.strip_prefix(FORMAT)?.strip_prefix(' ')?.rsplit_once(' ')?;
        let mac = HEXLOWER.decode(mac.as_bytes()).ok()?;
        hmac::verify(&self.key, &self.covered(text), &mac).ok()?;
        ChainHead::parse(&text.replacen(' ', ":", 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn head(seq: u64, hash: u8) -> ChainHead {
        ChainHead { seq, hash: [hash; 32] }
    }

    #[test]
    fn an_anchor_reads_back_for_its_device_alone() {
        let sealed = AnchorFile::new(&[1; SALT_BYTES], "n", "d");
        let bytes = sealed.encode(head(77, 3));
        assert_eq!(sealed.decode(&bytes), Some(head(77, 3)));
        for other in [
            AnchorFile::new(&[2; SALT_BYTES], "n", "d"),
            AnchorFile::new(&[1; SALT_BYTES], "m", "d"),
            AnchorFile::new(&[1; SALT_BYTES], "n", "e"),
        ] {
            assert_eq!(other.decode(&bytes), None);
        }
        for at in 0..bytes.len() {
            let mut edited = bytes.clone();
            edited[at] ^= 1;
            assert_eq!(sealed.decode(&edited), None, "byte {at}");
            assert_eq!(sealed.decode(&bytes[..at]), None, "cut at {at}");
        }
    }

    /// Nodes and devices are called by any text: where two names end and begin is part of what is authenticated.
    #[test]
    fn two_pairs_of_names_that_join_to_one_text_have_anchors_of_their_own() {
        let of = |node: &str, device: &str| AnchorFile::new(&[1; SALT_BYTES], node, device);
        let bytes = of("a b", "c").encode(head(77, 3));
        assert_eq!(of("a b", "c").decode(&bytes), Some(head(77, 3)));
        for (node, device) in [("a", "b c"), ("a b c", ""), ("", "a b c"), ("a ", "b c")] {
            assert_eq!(of(node, device).decode(&bytes), None, "{node:?} {device:?}");
        }
    }

    #[test]
    fn every_way_a_file_can_be_is_judged() {
        use Sought::{Absent, Unknown};
        let found = |head, newest_secs| Sought::Found { head, newest_secs };
        let anchor = head(10, 1);
        for (last, sought, goes_on, verdict) in [
            (Some(head(12, 2)), found(anchor, AHEAD_SECS_MAX), head(12, 2), AnchorVerdict::Sound),
            (
                Some(head(12, 2)),
                found(anchor, AHEAD_SECS_MAX + 1),
                head(12, 2),
                AnchorVerdict::Ahead,
            ),
            (Some(anchor), found(anchor, 0), anchor, AnchorVerdict::Sound),
            (None, Unknown, anchor, AnchorVerdict::Sound),
            (None, Absent, anchor, AnchorVerdict::Missing),
            (Some(head(9, 4)), Absent, anchor, AnchorVerdict::Cut),
            (Some(head(12, 4)), found(head(10, 5), 0), anchor, AnchorVerdict::Rewritten),
            // Nothing was cut from what ends where the anchor is.
            (Some(head(10, 4)), Absent, anchor, AnchorVerdict::Rewritten),
            // It begins behind the anchor.
            (Some(head(12, 4)), Absent, anchor, AnchorVerdict::Rewritten),
        ] {
            assert_eq!(judge(anchor, last, sought), (goes_on, verdict), "{last:?} {sought:?}");
        }
        assert_eq!(
            judge(ChainHead::default(), None, Absent),
            (ChainHead::default(), AnchorVerdict::Sound)
        );
    }

    #[test]
    fn files_keep_what_was_last_given() {
        let root = std::env::temp_dir().join(format!("kallisto-anchors-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let files = AnchorFiles(root.join("inside"));
        assert_eq!(files.read("a/b").unwrap(), None);
        files.write("a/b", b"one").unwrap();
        files.write("a/b", b"two").unwrap();
        assert_eq!(files.read("a/b").unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(files.read("a").unwrap(), None);
        // An anchor that cannot be read is not one that never was: whoever makes it unreadable would hide a cut.
        let below_a_file = AnchorFiles(files.path("a/b"));
        assert!(below_a_file.read("a/b").is_err());
        fs::remove_dir_all(&root).unwrap();
    }
}
