//! The private keys of OpenSSH (its `PROTOCOL.key`): read to take in a CA, written to hand out keys of Ed25519.
//!
//! ```text
//! "openssh-key-v1\0" | string cipher | string kdf | string kdf options | uint32 number of keys | string public key | string private part
//! private part = uint32 check | uint32 check | string type | the key's own fields | string comment | 1 2 3 …
//! ```
//!
//! A key of RSA comes without two of the numbers that PKCS #1 wants; they are its private exponent modulo each prime less one. The library
//! checks a key whole when it reads it, so that what is computed here is right or refused.

use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use data_encoding::BASE64;
use der::asn1::{BitStringRef, ObjectIdentifier, OctetStringRef, UintRef};
use der::{Encode as _, Sequence};
use kallisto_pki::pem::Label;
use kallisto_pki::{Error, PrivateKey, Result};
use zeroize::{Zeroize as _, Zeroizing};

use crate::public_key::SshPublicKey;
use crate::wire::{SshReader, SshWriter};

const MAGIC: &[u8] = b"openssh-key-v1\0";
const LABEL: &str = "OPENSSH PRIVATE KEY";
/// What the private part is filled up to a multiple of when nothing encrypts it.
const BLOCK_BYTES: usize = 8;
/// Characters of a line, as OpenSSH writes it.
const LINE_CHARS: usize = 70;
/// Everything of a PKCS #8 document of Ed25519 before its seed (RFC 8410, section 7).
const ED25519_PKCS8: [u8; 16] = [0x30, 46, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 34, 4, 32];
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");

/// RFC 8017, appendix A.1.2.
#[derive(Sequence)]
struct RsaPrivate<'a> {
    version: u8,
    modulus: UintRef<'a>,
    public_exponent: UintRef<'a>,
    private_exponent: UintRef<'a>,
    prime1: UintRef<'a>,
    prime2: UintRef<'a>,
    exponent1: UintRef<'a>,
    exponent2: UintRef<'a>,
    coefficient: UintRef<'a>,
}

/// RFC 5915.
#[derive(Sequence)]
struct EcPrivate<'a> {
    version: u8,
    private_key: &'a OctetStringRef,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    curve: ObjectIdentifier,
    #[asn1(context_specific = "1", tag_mode = "EXPLICIT")]
    public_key: BitStringRef<'a>,
}

fn damaged<T>(_: T) -> Error {
    Error::invalid("ssh: the private key is damaged")
}

/// The key of a text in the form of OpenSSH; `None` for a text of another form.
///
/// # Errors
/// [`Error::Invalid`] for a key that is damaged, encrypted, or of a type that does not sign.
pub(crate) fn read(text: &str) -> Result<Option<PrivateKey>> {
    if !text.contains(LABEL) {
        return Ok(None);
    }
    let mut blocks = pem::parse_many(text).map_err(damaged)?;
    let block = blocks.pop().ok_or_else(|| damaged(()))?;
    if block.tag() != LABEL || !blocks.is_empty() {
        return Err(Error::invalid("ssh: more than one private key"));
    }
    let contents = Zeroizing::new(block.into_contents());
    let mut reader = SshReader::new(&contents);
    if reader.take(MAGIC.len()).map_err(damaged)? != MAGIC {
        return Err(Error::invalid("ssh: invalid openssh private key format"));
    }
    let (cipher, kdf) = (reader.text().map_err(damaged)?, reader.text().map_err(damaged)?);
    if cipher != "none" || kdf != "none" {
        return Err(Error::invalid("ssh: the private key has a passphrase: take it off"));
    }
    reader.string().map_err(damaged)?;
    if reader.uint32().map_err(damaged)? != 1 {
        return Err(Error::invalid("ssh: more than one private key"));
    }
    reader.string().map_err(damaged)?;
    let private = reader.string().map_err(damaged)?;
    reader.finish().map_err(damaged)?;
    read_private(private).map(Some)
}

fn read_private(bytes: &[u8]) -> Result<PrivateKey> {
    let mut reader = SshReader::new(bytes);
    if reader.uint32().map_err(damaged)? != reader.uint32().map_err(damaged)? {
        return Err(damaged(()));
    }
    let key = match reader.text().map_err(damaged)? {
        "ssh-ed25519" => read_ed25519(&mut reader)?,
        "ssh-rsa" => read_rsa(&mut reader)?,
        "ecdsa-sha2-nistp256" => read_ec(&mut reader, P256, 32)?,
        "ecdsa-sha2-nistp384" => read_ec(&mut reader, P384, 48)?,
        "ecdsa-sha2-nistp521" => read_ec(&mut reader, P521, 66)?,
        _ => return Err(Error::invalid("ssh: a private key of a type that signs no certificates")),
    };
    reader.string().map_err(damaged)?;
    let filling = reader.rest();
    let is_filling = filling.iter().zip(1..).all(|(byte, number): (_, u8)| *byte == number);
    if filling.len() < BLOCK_BYTES && is_filling { Ok(key) } else { Err(damaged(())) }
}

fn read_ed25519(reader: &mut SshReader<'_>) -> Result<PrivateKey> {
    let (public, pair) = (reader.string().map_err(damaged)?, reader.string().map_err(damaged)?);
    let (seed, second) = pair.split_at_checked(32).ok_or_else(|| damaged(()))?;
    if second != public {
        return Err(damaged(()));
    }
    let pkcs8 = Zeroizing::new([&ED25519_PKCS8, seed].concat());
    let key = PrivateKey::from_pkcs8(&pkcs8).map_err(damaged)?;
    // The document ends in the 32 bytes of the key.
    if key.spki().ends_with(public) { Ok(key) } else { Err(damaged(())) }
}

fn read_ec(
    reader: &mut SshReader<'_>,
    curve: ObjectIdentifier,
    scalar_bytes: usize,
) -> Result<PrivateKey> {
    reader.string().map_err(damaged)?;
    let point = reader.string().map_err(damaged)?;
    let scalar = reader.positive().map_err(damaged)?;
    let missing = scalar_bytes.checked_sub(scalar.len()).ok_or_else(|| damaged(()))?;
    let padded = Zeroizing::new([&vec![0; missing], scalar].concat());
    let document = EcPrivate {
        version: 1,
        private_key: OctetStringRef::new(&padded).map_err(damaged)?,
        curve,
        public_key: BitStringRef::from_bytes(point).map_err(damaged)?,
    };
    let der = Zeroizing::new(document.to_der().map_err(damaged)?);
    PrivateKey::from_pem(Label::EcPrivateKey, &der).map_err(damaged)
}

fn read_rsa(reader: &mut SshReader<'_>) -> Result<PrivateKey> {
    let mut number = || reader.positive().map_err(damaged);
    let (modulus, public, private) = (number()?, number()?, number()?);
    let (coefficient, prime1, prime2) = (number()?, number()?, number()?);
    let exponents = [prime1, prime2].map(|prime| Zeroizing::new(rest_of(private, prime)));
    let uint = |bytes| UintRef::new(bytes).map_err(damaged);
    let document = RsaPrivate {
        version: 0,
        modulus: uint(modulus)?,
        public_exponent: uint(public)?,
        private_exponent: uint(private)?,
        prime1: uint(prime1)?,
        prime2: uint(prime2)?,
        exponent1: uint(&exponents[0])?,
        exponent2: uint(&exponents[1])?,
        coefficient: uint(coefficient)?,
    };
    let der = Zeroizing::new(document.to_der().map_err(damaged)?);
    PrivateKey::from_pem(Label::RsaPrivateKey, &der)
}

/// `number` modulo `prime` less one, bit by bit. `prime` is odd, or the key is refused later.
fn rest_of(number: &[u8], prime: &[u8]) -> Vec<u8> {
    let mut divisor = Zeroizing::new(prime.to_vec());
    if let Some(last) = divisor.last_mut() {
        *last &= 0xfe;
    }
    // One byte more than the divisor: twice a rest, and one, is less than twice the divisor.
    let mut rest = vec![0_u8; divisor.len() + 1];
    for byte in number {
        for bit in (0..8).rev() {
            let mut carry = byte >> bit & 1;
            for place in rest.iter_mut().rev() {
                let doubled = u16::from(*place) << 1 | u16::from(carry);
                *place = (doubled & 0xff) as u8;
                carry = (doubled >> 8) as u8;
            }
            if rest[0] > 0 || rest[1..] >= divisor[..] {
                subtract(&mut rest, &divisor);
            }
        }
    }
    let zeros = rest.iter().take_while(|byte| **byte == 0).count();
    let bare = rest[zeros..].to_vec();
    rest.zeroize();
    bare
}

/// Takes the smaller number, of one byte less, from the larger one.
fn subtract(number: &mut [u8], smaller: &[u8]) {
    let mut borrow = false;
    for at in (0..number.len()).rev() {
        let taken = at.checked_sub(1).map_or(0, |at| smaller[at]);
        let (once, first) = number[at].overflowing_sub(taken);
        let (twice, second) = once.overflowing_sub(u8::from(borrow));
        number[at] = twice;
        borrow = first || second;
    }
}

/// A key of Ed25519 as OpenSSH writes it.
///
/// # Errors
/// [`Error::Machine`] for a key of another type, or without randomness.
pub(crate) fn write_ed25519(key: &PrivateKey, public: &SshPublicKey) -> Result<Zeroizing<String>> {
    let no_key = Error::Machine("a key of Ed25519 could not be written");
    // PKCS #8 of the library has the seed at the place where the form without attributes has it.
    let seed = key.pkcs8().get(ED25519_PKCS8.len()..ED25519_PKCS8.len() + 32);
    let (Some(seed), true) = (seed, key.pkcs8()[2..16] == ED25519_PKCS8[2..]) else {
        return Err(no_key);
    };
    let point = public.fields().get(4..).unwrap_or_default();
    let mut check = [0; 4];
    SystemRandom::new().fill(&mut check).map_err(|_| Error::Machine("no randomness"))?;
    let mut private = SshWriter::default();
    private.raw(&check).raw(&check).string(b"ssh-ed25519").string(point);
    let pair = Zeroizing::new([seed, point].concat());
    private.string(&pair).string(b"");
    let mut private = Zeroizing::new(private.into_bytes());
    let missing = private.len().next_multiple_of(BLOCK_BYTES) - private.len();
    private.extend((1..).take(missing));
    let mut whole = SshWriter::default();
    whole.raw(MAGIC).string(b"none").string(b"none").string(b"").uint32(1);
    whole.string(public.blob()).string(&private);
    let whole = Zeroizing::new(whole.into_bytes());
    let encoded = Zeroizing::new(BASE64.encode(&whole));
    let mut text = Zeroizing::new(String::with_capacity(encoded.len() + 128));
    text.push_str("-----BEGIN OPENSSH PRIVATE KEY-----\n");
    for line in encoded.as_bytes().chunks(LINE_CHARS) {
        text.push_str(std::str::from_utf8(line).unwrap_or_default());
        text.push('\n');
    }
    text.push_str("-----END OPENSSH PRIVATE KEY-----\n");
    Ok(text)
}
