//! Public keys, as users hand them in.
//!
//! A key is read of a line of `id_ed25519.pub` (type, base 64, comment), or of its base 64 alone, and kept as the bytes it was given as
//! (RFC 4253, section 6.6), after every field of them was looked at: curves' points are on the curve, numbers have their one spelling, and
//! nothing is left over.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ECDSA_P521_SHA512_ASN1,
    EcdsaVerificationAlgorithm, ParsedPublicKey,
};
use data_encoding::{BASE64, BASE64_NOPAD, DecodeKind, HEXLOWER};
use kallisto_pki::{Error, PkiKeyKind, Result};

use crate::wire::{SshReader, SshWriter};

/// Longest text of a key, in bytes: that of RSA with 16384 bits has less than a third.
pub const TEXT_BYTES_MAX: usize = 16 << 10;
/// Longest application name of a key on a security key, in bytes.
const APPLICATION_BYTES_MAX: usize = 256;
/// Fewest and most bits of RSA. What a role allows is the engine's matter; OpenSSH takes no more.
const RSA_BITS_MIN: usize = 1024;
const RSA_BITS_MAX: usize = 16384;
/// Longest public exponent of RSA, in bytes.
const RSA_EXPONENT_BYTES_MAX: usize = 8;

/// The type of a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// `ssh-rsa`.
    Rsa,
    /// `ecdsa-sha2-nistp256`.
    EcdsaP256,
    /// `ecdsa-sha2-nistp384`.
    EcdsaP384,
    /// `ecdsa-sha2-nistp521`.
    EcdsaP521,
    /// `ssh-ed25519`.
    Ed25519,
    /// `sk-ecdsa-sha2-nistp256@openssh.com`: on a security key.
    SkEcdsaP256,
    /// `sk-ssh-ed25519@openssh.com`: on a security key.
    SkEd25519,
}

impl KeyType {
    /// Every type.
    pub const ALL: [Self; 7] = [
        Self::Rsa,
        Self::EcdsaP256,
        Self::EcdsaP384,
        Self::EcdsaP521,
        Self::Ed25519,
        Self::SkEcdsaP256,
        Self::SkEd25519,
    ];

    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rsa => "ssh-rsa",
            Self::EcdsaP256 => "ecdsa-sha2-nistp256",
            Self::EcdsaP384 => "ecdsa-sha2-nistp384",
            Self::EcdsaP521 => "ecdsa-sha2-nistp521",
            Self::Ed25519 => "ssh-ed25519",
            Self::SkEcdsaP256 => "sk-ecdsa-sha2-nistp256@openssh.com",
            Self::SkEd25519 => "sk-ssh-ed25519@openssh.com",
        }
    }

    /// The name of its certificates.
    pub const fn certificate_name(self) -> &'static str {
        match self {
            Self::Rsa => "ssh-rsa-cert-v01@openssh.com",
            Self::EcdsaP256 => "ecdsa-sha2-nistp256-cert-v01@openssh.com",
            Self::EcdsaP384 => "ecdsa-sha2-nistp384-cert-v01@openssh.com",
            Self::EcdsaP521 => "ecdsa-sha2-nistp521-cert-v01@openssh.com",
            Self::Ed25519 => "ssh-ed25519-cert-v01@openssh.com",
            Self::SkEcdsaP256 => "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
            Self::SkEd25519 => "sk-ssh-ed25519-cert-v01@openssh.com",
        }
    }

    /// The name of its kind in settings of roles: `rsa`, `ecdsa` or `ed25519`.
    pub const fn family(self) -> &'static str {
        match self {
            Self::Rsa => "rsa",
            Self::EcdsaP256 | Self::EcdsaP384 | Self::EcdsaP521 | Self::SkEcdsaP256 => "ecdsa",
            Self::Ed25519 | Self::SkEd25519 => "ed25519",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// The curve: its name, its algorithm and the bytes of an uncompressed point (RFC 5656, 3.1 and 6.1).
    pub(crate) fn curve(
        self,
    ) -> Option<(&'static str, &'static EcdsaVerificationAlgorithm, usize)> {
        match self {
            Self::EcdsaP256 | Self::SkEcdsaP256 => Some(("nistp256", &ECDSA_P256_SHA256_ASN1, 65)),
            Self::EcdsaP384 => Some(("nistp384", &ECDSA_P384_SHA384_ASN1, 97)),
            Self::EcdsaP521 => Some(("nistp521", &ECDSA_P521_SHA512_ASN1, 133)),
            Self::Rsa | Self::Ed25519 | Self::SkEd25519 => None,
        }
    }

    /// The type of the keys of a kind.
    pub(crate) const fn of(kind: PkiKeyKind) -> Self {
        match kind {
            PkiKeyKind::Rsa(_) => Self::Rsa,
            PkiKeyKind::P256 => Self::EcdsaP256,
            PkiKeyKind::P384 => Self::EcdsaP384,
            PkiKeyKind::P521 => Self::EcdsaP521,
            PkiKeyKind::Ed25519 => Self::Ed25519,
        }
    }
}

/// A public key.
#[derive(Clone, PartialEq, Eq)]
pub struct SshPublicKey {
    key_type: KeyType,
    bits: u16,
    blob: Vec<u8>,
}

impl fmt::Debug for SshPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SshPublicKey({} {})", self.key_type.name(), self.bits)
    }
}

/// What there is to say of base 64 that is none.
fn not_base64(error: data_encoding::DecodeError) -> Error {
    // A text that ends too early is wrong where its last group begins.
    let at = match error.kind {
        DecodeKind::Length | DecodeKind::Padding | DecodeKind::Trailing => error.position / 4 * 4,
        DecodeKind::Symbol => error.position,
    };
    Error::invalid(format!("illegal base64 data at input byte {at}"))
}

impl SshPublicKey {
    /// Reads a key of a line: type, base 64 and a comment, or base 64 alone.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what it is not.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(Error::invalid(format!("a key of more than {TEXT_BYTES_MAX} bytes")));
        }
        let text = text.trim();
        if text.contains(['\n', '\r']) {
            return Err(Error::invalid("more than one line, where one public key is wanted"));
        }
        let mut words = text.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        let (said, encoded) = match words.next() {
            Some(second) => (Some(first), second),
            None => (None, first),
        };
        if encoded.is_empty() {
            return Err(Error::invalid("no key"));
        }
        let blob = match encoded.ends_with('=') {
            true => BASE64.decode(encoded.as_bytes()),
            false => BASE64_NOPAD.decode(encoded.as_bytes()),
        };
        let key = Self::from_blob(&blob.map_err(not_base64)?)?;
        match said {
            Some(said) if said != key.key_type.name() => Err(Error::invalid(format!(
                "the line says {said:?}, and the key in it is of type {}",
                key.key_type.name()
            ))),
            _ => Ok(key),
        }
    }

    /// Reads the bytes of a key.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what they are not.
    pub fn from_blob(blob: &[u8]) -> Result<Self> {
        let mut reader = SshReader::new(blob);
        let name = reader.text()?;
        let key_type = KeyType::named(name).ok_or_else(|| unknown(name))?;
        let bits = match key_type {
            KeyType::Rsa => read_rsa(&mut reader)?,
            KeyType::EcdsaP256 | KeyType::EcdsaP384 | KeyType::EcdsaP521 | KeyType::SkEcdsaP256 => {
                read_point(&mut reader, key_type)?
            }
            KeyType::Ed25519 | KeyType::SkEd25519 => read_ed25519(&mut reader)?,
        };
        if matches!(key_type, KeyType::SkEcdsaP256 | KeyType::SkEd25519) {
            let application = reader.text()?;
            let is_plain = !application.is_empty() && !application.chars().any(char::is_control);
            if application.len() > APPLICATION_BYTES_MAX || !is_plain {
                return Err(Error::invalid("ssh: the application of a security key is no name"));
            }
        }
        reader.finish()?;
        Ok(Self { key_type, bits, blob: blob.to_vec() })
    }

    /// A key of fields that are known to be right.
    pub(crate) fn of(key_type: KeyType, bits: u16, fields: SshWriter) -> Self {
        let mut writer = SshWriter::default();
        writer.string(key_type.name().as_bytes()).raw(&fields.into_bytes());
        Self { key_type, bits, blob: writer.into_bytes() }
    }

    /// Its type.
    pub const fn key_type(&self) -> KeyType {
        self.key_type
    }

    /// Its bits: those of the modulus of RSA, or of the curve.
    pub const fn bits(&self) -> u16 {
        self.bits
    }

    /// Its bytes.
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// The bytes after the name of its type, which its certificates have too.
    pub(crate) fn fields(&self) -> &[u8] {
        &self.blob[4 + self.key_type.name().len()..]
    }

    /// SHA-256 of its bytes, in hexadecimal digits.
    pub fn hash(&self) -> String {
        HEXLOWER.encode(digest(&SHA256, &self.blob).as_ref())
    }

    /// A line without a comment, with a newline at its end, as `authorized_keys` has it.
    pub fn line(&self) -> String {
        format!("{} {}\n", self.key_type.name(), BASE64.encode(&self.blob))
    }
}

fn unknown(name: &str) -> Error {
    let shown: String = name.chars().take(64).collect();
    if name.ends_with("-cert-v01@openssh.com") {
        return Error::invalid(format!("it is a certificate ({shown:?}), where a key is wanted"));
    }
    Error::invalid(format!("ssh: unknown key algorithm: {shown:?}"))
}

fn read_rsa(reader: &mut SshReader<'_>) -> Result<u16> {
    let (exponent, modulus) = (reader.positive()?, reader.positive()?);
    let is_odd = |number: &[u8]| number.last().is_some_and(|byte| byte % 2 == 1);
    let bits = bits_of(modulus);
    if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
        return Err(Error::invalid(format!(
            "ssh: RSA with {bits} bits: from {RSA_BITS_MIN} to {RSA_BITS_MAX} are supported"
        )));
    }
    let is_exponent = exponent.len() <= RSA_EXPONENT_BYTES_MAX && exponent != [1];
    if !is_exponent || !is_odd(exponent) || !is_odd(modulus) {
        return Err(Error::invalid("ssh: an RSA key with a modulus or exponent that none has"));
    }
    u16::try_from(bits).map_err(|_| Error::Machine("an RSA key of more bits than its limit"))
}

/// The bits of a number without leading zeros.
pub(crate) fn bits_of(number: &[u8]) -> usize {
    let zeros = number.first().map_or(8, |byte| byte.leading_zeros() as usize);
    (number.len() * 8).saturating_sub(zeros)
}

fn read_point(reader: &mut SshReader<'_>, key_type: KeyType) -> Result<u16> {
    let (curve, algorithm, length) = key_type.curve().ok_or(Error::Machine("no curve"))?;
    let said = reader.text()?;
    if said != curve {
        return Err(Error::invalid(format!("ssh: a key of {} on another curve", key_type.name())));
    }
    let point = reader.string()?;
    // Compressed points are of no key of SSH (RFC 5656, 3.1, leaves them to both sides, and OpenSSH refuses them).
    let is_uncompressed = point.len() == length && point.first() == Some(&4);
    if !is_uncompressed || ParsedPublicKey::new(algorithm, point).is_err() {
        return Err(Error::invalid("ssh: a point that is not on its curve"));
    }
    Ok(match key_type {
        KeyType::EcdsaP384 => 384,
        KeyType::EcdsaP521 => 521,
        _ => 256,
    })
}

fn read_ed25519(reader: &mut SshReader<'_>) -> Result<u16> {
    if reader.string()?.len() != 32 {
        return Err(Error::invalid("ssh: an Ed25519 key of another length than 32 bytes"));
    }
    Ok(256)
}
