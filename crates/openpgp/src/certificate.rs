//! A public key with what its owner says of it, and which part of it is encrypted to.

use std::cell::Cell;

use data_encoding::HEXLOWER;

use crate::encrypt::{self, EncryptionKey};
use crate::packet::{self, Packet};
use crate::public_key::PgpKey;
use crate::signature::{
    CERTIFICATIONS, DIRECT_KEY, KEY_REVOCATION, SUBKEY_BINDING, SUBKEY_REVOCATION, Signature,
    Statement,
};
use crate::{Error, KEY_BYTES_MAX};

/// What is encrypted before a key is taken: a key that refuses it is refused while nothing depends on it.
const TRIAL: &[u8] = b"trial";
/// Most signatures of a key that are verified: whoever sends a key has the server do it, a millisecond each on P-521.
const VERIFICATIONS_MAX: usize = 64;

/// Somebody whom texts are encrypted to.
#[derive(Clone, Debug)]
pub struct Recipient {
    fingerprint: String,
    key: EncryptionKey,
}

impl Recipient {
    /// Reads a public key in binary form; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// Why it cannot be encrypted to.
    pub fn parse(bytes: &[u8], now: u64) -> Result<Self, Error> {
        if bytes.len() > KEY_BYTES_MAX {
            return Err(Error::TooLong);
        }
        let packets = packet::all(bytes)?;
        let parts = Parts::of(&packets)?;
        let primary = PgpKey::parse(parts.primary)?;
        let about = parts.about_primary(&primary, now);
        let key = about.and_then(|about| parts.encryption_key(&primary, about, now));
        if parts.verifications_left.get() == 0 {
            return Err(Error::TooManySignatures);
        }
        let fingerprint = HEXLOWER.encode(&primary.fingerprint()?);
        let recipient = Self { fingerprint, key: key? };
        recipient.encrypt(TRIAL)?;
        Ok(recipient)
    }

    /// The fingerprint of the primary key, in hexadecimal digits.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// A message that only this recipient reads.
    ///
    /// # Errors
    /// When the text is too long, or the cipher fails.
    pub fn encrypt(&self, text: &[u8]) -> Result<Vec<u8>, Error> {
        encrypt::message(&self.key, text)
    }
}

/// A key packet or a name, and the signatures behind it.
struct SignedPart<'a> {
    packet: Packet<'a>,
    signatures: Vec<Signature<'a>>,
}

/// A key by its parts.
struct Parts<'a> {
    primary: &'a [u8],
    /// The primary key itself first, then names and subkeys as they come.
    all: Vec<SignedPart<'a>>,
    verifications_left: Cell<usize>,
}

impl<'a> Parts<'a> {
    fn of(packets: &[Packet<'a>]) -> Result<Self, Error> {
        let first = packets.first().ok_or(Error::Malformed)?;
        match first.tag {
            packet::PUBLIC_KEY => {}
            packet::SECRET_KEY | packet::SECRET_SUBKEY => return Err(Error::Secret),
            _ => return Err(Error::Malformed),
        }
        let mut all: Vec<SignedPart<'a>> = Vec::new();
        for (at, packet) in packets.iter().enumerate() {
            match packet.tag {
                packet::PUBLIC_KEY if at > 0 => return Err(Error::Several),
                packet::SECRET_KEY | packet::SECRET_SUBKEY => return Err(Error::Secret),
                packet::SIGNATURE => {
                    let part = all.last_mut().ok_or(Error::Malformed)?;
                    part.signatures.extend(Signature::parse(packet.body)?);
                }
                packet::PUBLIC_KEY
                | packet::USER_ID
                | packet::USER_ATTRIBUTE
                | packet::PUBLIC_SUBKEY => {
                    all.push(SignedPart { packet: *packet, signatures: Vec::new() });
                }
                // Trust packets and the like: nothing that is said to us.
                _ => {}
            }
        }
        Ok(Self { primary: first.body, all, verifications_left: Cell::new(VERIFICATIONS_MAX) })
    }

    /// What the primary key says of itself: by the newest signature over itself or one of its names.
    fn about_primary(&self, primary: &PgpKey<'_>, now: u64) -> Result<Statement, Error> {
        let mut newest: Option<Statement> = None;
        for part in &self.all {
            let over = match part.packet.tag {
                packet::PUBLIC_KEY => {
                    // Whoever can say so: to refuse is safe.
                    if part.signatures.iter().any(|one| one.kind == KEY_REVOCATION) {
                        return Err(Error::Revoked);
                    }
                    signed_over(primary, None)?
                }
                packet::USER_ID => signed_name(primary, part.packet.body)?,
                _ => continue,
            };
            let is_own = |one: &&Signature<'_>| {
                let is_kind = match part.packet.tag {
                    packet::PUBLIC_KEY => one.kind == DIRECT_KEY,
                    _ => CERTIFICATIONS.contains(&one.kind),
                };
                is_kind
                    && one.says.holds(now)
                    && one.is_by(primary, &over, &self.verifications_left)
            };
            for one in part.signatures.iter().filter(is_own) {
                if newest.is_none_or(|known| known.created() < one.says.created()) {
                    newest = Some(one.says);
                }
            }
        }
        let newest = newest.ok_or(Error::Unsigned)?;
        if newest.has_expired(primary.created, now) {
            return Err(Error::Expired);
        }
        Ok(newest)
    }

    /// The newest subkey that is for encryption, else the primary key if it is.
    fn encryption_key(
        &self,
        primary: &PgpKey<'_>,
        about: Statement,
        now: u64,
    ) -> Result<EncryptionKey, Error> {
        let mut best: Option<(u64, EncryptionKey)> = None;
        let mut refusal = Error::Unusable;
        for part in self.all.iter().filter(|part| part.packet.tag == packet::PUBLIC_SUBKEY) {
            match subkey(primary, part, now, &self.verifications_left) {
                Ok(None) => {}
                Ok(Some((created, key))) => {
                    if best.as_ref().is_none_or(|(known, _)| *known < created) {
                        best = Some((created, key));
                    }
                }
                Err(error) => refusal = error,
            }
        }
        if let Some((_, key)) = best {
            return Ok(key);
        }
        match primary.encrypts() && about.encrypts().unwrap_or(false) {
            true => EncryptionKey::of(primary),
            false => Err(refusal),
        }
    }
}

/// A subkey, if it is for encryption, with the time of its making.
fn subkey(
    primary: &PgpKey<'_>,
    part: &SignedPart<'_>,
    now: u64,
    verifications_left: &Cell<usize>,
) -> Result<Option<(u64, EncryptionKey)>, Error> {
    let key = PgpKey::parse(part.packet.body)?;
    if !key.encrypts() {
        return Ok(None);
    }
    if part.signatures.iter().any(|one| one.kind == SUBKEY_REVOCATION) {
        return Err(Error::Revoked);
    }
    let over = signed_over(primary, Some(&key))?;
    let bindings = part.signatures.iter().filter(|one| {
        one.kind == SUBKEY_BINDING
            && one.says.holds(now)
            && one.is_by(primary, &over, verifications_left)
    });
    let says = bindings.map(|one| one.says).max_by_key(Statement::created);
    let says = says.ok_or(Error::Unsigned)?;
    if says.has_expired(key.created, now) {
        return Err(Error::Expired);
    }
    match says.encrypts() {
        Some(false) => Ok(None),
        Some(true) | None => Ok(Some((key.created, EncryptionKey::of(&key)?))),
    }
}

fn signed_over(primary: &PgpKey<'_>, key: Option<&PgpKey<'_>>) -> Result<Vec<u8>, Error> {
    let mut over = Vec::new();
    primary.hashed(&mut over)?;
    if let Some(key) = key {
        key.hashed(&mut over)?;
    }
    Ok(over)
}

fn signed_name(primary: &PgpKey<'_>, name: &[u8]) -> Result<Vec<u8>, Error> {
    let mut over = signed_over(primary, None)?;
    over.push(0xb4);
    over.extend_from_slice(&u32::try_from(name.len()).map_err(|_| Error::Malformed)?.to_be_bytes());
    over.extend_from_slice(name);
    Ok(over)
}
