//! Checkpoints: records of a device's own that sign its chain up to them.
//!
//! ```text
//! body = prefix {"time":"T","type":"checkpoint","checkpoint":{"node":"N","device":"D","key":"K","signature":"S"}
//! S    = Ed25519 over  LABEL | body before  ,"signature"  | \n | seq | \n | prev
//! ```
//! `seq` and `prev` are those of the line's own links (see `chain`). Since `prev` is a hash over all that came
//! before, one signature vouches for the whole chain up to it: who cannot sign can neither edit what stands
//! before a checkpoint nor write another chain. What comes after the last one is not signed yet.
//!
//! The key is derived from the device's salt, which lies behind the barrier, by HKDF-SHA-256 (RFC 5869):
//! masks, which are HMACs under the salt itself, tell nothing of it.

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use aws_lc_rs::{digest, hkdf, hmac};
use data_encoding::{BASE64, HEXLOWER};
use jiff::Timestamp;

use crate::chain::{self, ChainHead, Links};
use crate::mask::SALT_BYTES;
use crate::text::{push_hex, push_string};

const LABEL: &[u8] = b"kallisto audit checkpoint 1\n";
const SIGNATURE: &[u8] = b",\"signature\":\"";
const TYPE: &[u8] = b"\",\"type\":\"checkpoint\",";
const TIME: &[u8] = b"{\"time\":\"";
const END: &[u8] = b"\"}";
const KEY_BYTES: usize = 32;
/// Characters of a signature: 64 bytes in Base64.
const SIGNATURE_CHARS: usize = 88;
/// Bytes of a key's hash that name it.
const KEY_ID_BYTES: usize = 8;
/// What leads the text of a public key.
const ALGORITHM: &str = "ed25519:";

/// The public half of a device's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevicePublicKey([u8; KEY_BYTES]);

/// What a device signs with, and how it is called.
pub(crate) struct CheckpointSigner {
    pair: Ed25519KeyPair,
    /// The members of its checkpoints that are always the same.
    members: Vec<u8>,
}

/// A key for one purpose, of the device with this salt.
fn derive(salt: &[u8; SALT_BYTES], purpose: &[u8]) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(salt);
    let purposes = [purpose];
    let derived = secret.expand(&purposes, hkdf::HKDF_SHA256).and_then(|out| out.fill(&mut key));
    assert!(derived.is_ok(), "a key has the length of the hash");
    key
}

/// What the anchors of the device with this salt are authenticated by.
pub(crate) fn anchor_key(salt: &[u8; SALT_BYTES]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &derive(salt, b"kallisto audit anchor 1"))
}

impl CheckpointSigner {
    /// The signer of a device. `None` when the library takes no key.
    pub(crate) fn new(salt: &[u8; SALT_BYTES], node: &str, device: &str) -> Option<Self> {
        let seed = derive(salt, b"kallisto audit signing 1");
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).ok()?;
        let mut members = b"\"checkpoint\":{\"node\":".to_vec();
        push_string(node, &mut members);
        members.extend_from_slice(b",\"device\":");
        push_string(device, &mut members);
        let mut signer = Self { pair, members };
        let id = signer.public_key().id();
        signer.members.extend_from_slice(format!(",\"key\":\"{id}\"").as_bytes());
        Some(signer)
    }

    pub(crate) fn public_key(&self) -> DevicePublicKey {
        let mut key = [0; KEY_BYTES];
        key.copy_from_slice(self.pair.public_key().as_ref());
        DevicePublicKey(key)
    }

    /// Adds the whole line of a checkpoint that follows `head`. Gives the new head.
    pub(crate) fn add(
        &self,
        head: ChainHead,
        prefix: &str,
        now: Timestamp,
        out: &mut Vec<u8>,
    ) -> ChainHead {
        let start = out.len();
        out.extend_from_slice(prefix.as_bytes());
        out.extend_from_slice(TIME);
        out.extend_from_slice(now.to_string().as_bytes());
        out.extend_from_slice(TYPE);
        out.extend_from_slice(&self.members);
        let message = message(&out[start..], head.seq + 1, &head.hash);
        out.extend_from_slice(SIGNATURE);
        out.extend_from_slice(BASE64.encode(self.pair.sign(&message).as_ref()).as_bytes());
        out.extend_from_slice(END);
        head.link(start, out)
    }
}

fn message(body: &[u8], seq: u64, prev: &[u8; 32]) -> Vec<u8> {
    let mut message = LABEL.to_vec();
    message.extend_from_slice(body);
    message.extend_from_slice(format!("\n{seq}\n").as_bytes());
    push_hex(prev, &mut message);
    message
}

/// Whether a line is a checkpoint, signed or not.
pub(crate) fn is_one(line: &[u8]) -> bool {
    let at_time = line.iter().position(|&byte| byte == b'{').map(|at| &line[at..]);
    let rest = at_time.and_then(|line| line.strip_prefix(TIME));
    rest.is_some_and(|rest| {
        let end = rest.iter().position(|&byte| byte == b'"').unwrap_or(rest.len());
        rest[end..].starts_with(TYPE)
    })
}

impl DevicePublicKey {
    /// Reads what [`DevicePublicKey::to_text`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let bytes = BASE64.decode(text.strip_prefix(ALGORITHM)?.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// The key as people keep it.
    pub fn to_text(&self) -> String {
        format!("{ALGORITHM}{}", BASE64.encode(&self.0))
    }

    /// What checkpoints call it.
    pub fn id(&self) -> String {
        let hash = digest::digest(&digest::SHA256, &self.0);
        HEXLOWER.encode(&hash.as_ref()[..KEY_ID_BYTES])
    }

    /// Whether a checkpoint was signed by the other half of this key.
    pub(crate) fn vouches_for(&self, line: &[u8], links: &Links) -> bool {
        let signature =
            chain::body(line).and_then(|body| body.strip_suffix(END)).and_then(|body| {
                let (rest, signature) =
                    body.split_at_checked(body.len().checked_sub(SIGNATURE_CHARS)?)?;
                Some((rest.strip_suffix(SIGNATURE)?, BASE64.decode(signature).ok()?))
            });
        signature.is_some_and(|(body, signature)| {
            let message = message(body, links.head.seq, &links.prev);
            UnparsedPublicKey::new(&ED25519, self.0).verify(&message, &signature).is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_signed_by_its_device_for_its_place_alone() {
        let signer = CheckpointSigner::new(&[7; SALT_BYTES], "n1", "file").unwrap();
        let head = ChainHead { seq: 41, hash: [9; 32] };
        let sign = |prefix: &str| {
            let mut line = Vec::new();
            let next = signer.add(head, prefix, Timestamp::UNIX_EPOCH, &mut line);
            assert_eq!(next.seq, 42);
            line.pop();
            line
        };
        for prefix in ["", "@cee: "] {
            let line = sign(prefix);
            let links = chain::read(&line).unwrap();
            assert!(links.sound && is_one(&line));
            assert!(chain::begins_a_record(&line, prefix));
            let key = signer.public_key();
            assert!(key.vouches_for(&line, &links));
            assert_eq!(DevicePublicKey::parse(&key.to_text()), Some(key));
            let moved = Links { head: ChainHead { seq: 43, ..links.head }, ..links };
            assert!(!key.vouches_for(&line, &moved));
            let follows_another = Links { prev: [8; 32], ..links };
            assert!(!key.vouches_for(&line, &follows_another));
            let other = CheckpointSigner::new(&[8; SALT_BYTES], "n1", "file").unwrap().public_key();
            assert!(!other.vouches_for(&line, &links) && other.id() != key.id());
            for at in 0..line.len() {
                let mut edited = line.clone();
                edited[at] ^= 1;
                let vouched =
                    chain::read(&edited).is_some_and(|links| key.vouches_for(&edited, &links));
                let is_of_links = at >= chain::body(&line).unwrap().len();
                assert!(!vouched || is_of_links, "byte {at}");
            }
        }
    }

    #[test]
    fn other_records_are_no_checkpoints() {
        for line in [
            "{\"time\":\"t\",\"type\":\"request\",\"request\":{\"path\":\"\\\"type\\\":\\\"checkpoint\\\",\"}",
            "{\"type\":\"checkpoint\",\"time\":\"t\"",
            "{}",
            "",
        ] {
            assert!(!is_one(line.as_bytes()), "{line}");
        }
        assert_eq!(DevicePublicKey::parse("ed25519:AAAA"), None);
        assert_eq!(DevicePublicKey::parse("AAAA"), None);
    }
}
