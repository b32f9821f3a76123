//! Issuers: what is kept of a CA, what is shown, and what a request for one says.

use data_encoding::BASE64;
use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields};
use kallisto_engine::names;
use kallisto_ssh::{PkiKeyKind, SshPublicKey, SshSigningKey};
use zeroize::Zeroizing;

use super::refuse;

/// A CA.
#[derive(Debug)]
pub(super) struct SshIssuer {
    pub(super) id: String,
    /// Empty for none.
    pub(super) name: String,
    pub(super) key: SshSigningKey,
}

impl SshIssuer {
    /// What is shown of it.
    pub(super) fn shown(&self) -> Map {
        let fields = [
            ("issuer_id", self.id.as_str()),
            ("issuer_name", self.name.as_str()),
            ("public_key", &self.key.public().line()),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
    }

    /// The record's bytes, under another name.
    pub(super) fn encode(&self, name: &str) -> Vec<u8> {
        let key = Zeroizing::new(BASE64.encode(self.key.pkcs8()));
        Json::object([("name", name.into()), ("pkcs8", key.as_str().into())]).to_text()
    }

    /// Reads a record back; `None` when it is damaged.
    pub(super) fn decode(id: &str, bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let fields = Fields::new(&map);
        let key = Zeroizing::new(fields.string("pkcs8").ok()??);
        let key = Zeroizing::new(BASE64.decode(key.as_bytes()).ok()?);
        Some(Self {
            id: id.to_owned(),
            name: fields.string("name").ok()??,
            key: SshSigningKey::from_pkcs8(&key).ok()?,
        })
    }
}

/// Which issuer is the default; empty for none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct IssuersConfig {
    pub(super) default: String,
    /// How often issuers were changed.
    pub(super) generation: i64,
}

impl IssuersConfig {
    pub(super) fn encode(&self) -> Vec<u8> {
        let fields =
            [("default", self.default.as_str().into()), ("generation", self.generation.into())];
        Json::object(fields).to_text()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let fields = Fields::new(&map);
        let default = fields.string("default").ok()??;
        Some(Self { default, generation: fields.int("generation").ok()?? })
    }
}

/// Where the key of a new CA comes from.
pub(super) enum SshKeySource {
    Given(Box<SshSigningKey>),
    Made(PkiKeyKind),
}

impl SshKeySource {
    /// Reads a request.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what cannot be taken.
    pub(super) fn read(fields: Fields<'_>) -> Result<Self, Error> {
        let text = |name: &str| fields.string(name).map(Option::unwrap_or_default);
        let (public, private) = (text("public_key")?, Zeroizing::new(text("private_key")?));
        match (fields.boolean("generate_signing_key")?, public.is_empty(), private.is_empty()) {
            (Some(true) | None, true, true) => Ok(Self::Made(kind(fields)?)),
            (Some(true), _, _) => Err(Error::invalid(
                "public_key and private_key must not be set when generate_signing_key is set to true",
            )),
            (_, false, false) => given(&public, &private),
            (Some(false), true, true) => Err(Error::invalid("missing public_key")),
            _ => Err(Error::invalid(
                "only one of public_key and private_key set; both must be set to use, or both must \
                 be blank to auto-generate",
            )),
        }
    }
}

fn given(public: &str, private: &str) -> Result<SshKeySource, Error> {
    let of = |what: &str, error: kallisto_ssh::Error| match refuse(error) {
        Error::Invalid(why) => {
            Error::invalid(format!("could not parse {what} provided value: {why}"))
        }
        other => other,
    };
    let public = SshPublicKey::parse(public).map_err(|error| of("public_key", error))?;
    let key = SshSigningKey::from_pem(private).map_err(|error| of("private_key", error))?;
    if *key.public() != public {
        return Err(Error::invalid("public_key is not the public key of private_key"));
    }
    Ok(SshKeySource::Given(Box::new(key)))
}

/// The kind of key that a request for a CA names.
fn kind(fields: Fields<'_>) -> Result<PkiKeyKind, Error> {
    let key_type = fields.string("key_type")?.filter(|text| !text.is_empty());
    let key_type = key_type.unwrap_or_else(|| "ssh-rsa".to_owned());
    let bits = fields.int("key_bits")?.unwrap_or(0);
    match (key_type.as_str(), bits) {
        ("ssh-rsa" | "rsa", 0) => Ok(PkiKeyKind::Rsa(4096)),
        ("ssh-rsa" | "rsa", bits) => rsa(&key_type, bits),
        ("ecdsa-sha2-nistp256", _) => Ok(PkiKeyKind::P256),
        ("ecdsa-sha2-nistp384", _) => Ok(PkiKeyKind::P384),
        ("ecdsa-sha2-nistp521", _) => Ok(PkiKeyKind::P521),
        ("ec", bits) => ec(bits),
        ("ssh-ed25519" | "ed25519", _) => Ok(PkiKeyKind::Ed25519),
        (other, _) => Err(Error::invalid(format!("unknown ssh key pair algorithm: {other}"))),
    }
}

fn rsa(key_type: &str, bits: i64) -> Result<PkiKeyKind, Error> {
    if bits < 2048 {
        return Err(Error::invalid(format!(
            "refusing to generate weak {key_type} key: {bits} bits < 2048 bits"
        )));
    }
    PkiKeyKind::named("rsa", bits).map_err(refuse)
}

fn ec(bits: i64) -> Result<PkiKeyKind, Error> {
    PkiKeyKind::named("ec", bits).map_err(|_| {
        Error::invalid(format!("unknown ECDSA key pair algorithm and bits: ec / {bits}"))
    })
}

/// The kind of a key that a request wants made for a user or host.
///
/// # Errors
/// [`Error::Invalid`] for a kind that there is not.
pub(super) fn issued_kind(fields: Fields<'_>) -> Result<PkiKeyKind, Error> {
    let key_type = fields.string("key_type")?.filter(|text| !text.is_empty());
    let bits = fields.int("key_bits")?.unwrap_or(0);
    match key_type.as_deref().unwrap_or("rsa") {
        "rsa" | "ssh-rsa" if bits == 0 => Ok(PkiKeyKind::Rsa(2048)),
        key_type @ ("rsa" | "ssh-rsa") => rsa(key_type, bits),
        "ec" => ec(bits),
        "ecdsa-sha2-nistp256" => Ok(PkiKeyKind::P256),
        "ecdsa-sha2-nistp384" => Ok(PkiKeyKind::P384),
        "ecdsa-sha2-nistp521" => Ok(PkiKeyKind::P521),
        "ed25519" | "ssh-ed25519" => Ok(PkiKeyKind::Ed25519),
        other => Err(Error::invalid(format!(
            "key_type {other:?} is none: it is \"rsa\", \"ec\" or \"ed25519\""
        ))),
    }
}

/// Checks the name of an issuer.
///
/// # Errors
/// [`Error::Invalid`] for what would be taken for something else.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    if name.eq_ignore_ascii_case("default") {
        return Err(Error::invalid("reserved keyword 'default' can not be used as issuer name"));
    }
    let is_id = name.len() == 36 && name.bytes().filter(|byte| *byte == b'-').count() == 4;
    if names::check(name).is_err() || name.contains('@') || is_id {
        return Err(Error::invalid("issuer name contained invalid characters"));
    }
    Ok(())
}
