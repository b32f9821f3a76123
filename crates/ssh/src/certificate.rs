//! Certificates: what one says, and its signature (OpenSSH's `PROTOCOL.certkeys`).

use std::collections::BTreeMap;

use data_encoding::BASE64;
use kallisto_pki::{Error, Result};

use crate::public_key::SshPublicKey;
use crate::signing_key::{RsaHash, SshSigningKey};
use crate::wire::SshWriter;

/// Most principals of a certificate: OpenSSH reads no more.
pub const PRINCIPALS_MAX: usize = 256;
/// Longest principal, in bytes.
pub const PRINCIPAL_BYTES_MAX: usize = 255;
/// Longest key id, in bytes.
pub const KEY_ID_BYTES_MAX: usize = 1024;
/// Most critical options, and most extensions.
pub const OPTIONS_MAX: usize = 64;
/// Longest name of an option or extension, and longest value, in bytes.
pub const OPTION_NAME_BYTES_MAX: usize = 128;
/// See [`OPTION_NAME_BYTES_MAX`].
pub const OPTION_VALUE_BYTES_MAX: usize = 8 << 10;

/// Critical options or extensions: names, in the order that the form wants, with their values.
pub type OptionMap = BTreeMap<String, String>;

/// Whom a certificate is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateKind {
    /// Who logs in.
    User,
    /// Where to.
    Host,
}

impl CertificateKind {
    /// Its name in requests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Host => "host",
        }
    }
}

/// What a certificate says.
#[derive(Clone, Debug)]
pub struct SshContents {
    /// The key it is for.
    pub public: SshPublicKey,
    /// Its serial number.
    pub serial: u64,
    /// Whom it is of.
    pub kind: CertificateKind,
    /// What servers write in their logs.
    pub key_id: String,
    /// The names it is good for; none means all of them.
    pub principals: Vec<String>,
    /// From when on it is good, in seconds since 1970.
    pub valid_after: u64,
    /// From when on it is not good any more.
    pub valid_before: u64,
    /// What a server has to know, or refuse.
    pub critical_options: OptionMap,
    /// What is allowed, where a server knows it.
    pub extensions: OptionMap,
    /// Random bytes, so that nobody chooses what is signed.
    pub nonce: [u8; 32],
}

/// Checks a principal. It is one name: a comma would make two of it where principals are lists, and a newline where they are lines.
///
/// # Errors
/// [`Error::Invalid`] naming the first that is none.
pub fn check_principal(name: &str) -> Result<()> {
    let is_bad = |c: char| c == ',' || c.is_whitespace() || c.is_control();
    if name.is_empty() || name.contains(is_bad) {
        let shown: String = name.chars().take(64).collect();
        return Err(Error::invalid(format!(
            "{shown:?} is not a valid value for valid_principals: a principal has no comma, space or \
             control character"
        )));
    }
    if name.len() > PRINCIPAL_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a value of valid_principals has more than {PRINCIPAL_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}

/// Checks names and values of critical options or extensions, which are called `what`.
///
/// # Errors
/// [`Error::Invalid`] naming what is too much, or no name.
pub fn check_options(options: &OptionMap, what: &str) -> Result<()> {
    if options.len() > OPTIONS_MAX {
        return Err(Error::invalid(format!("more than {OPTIONS_MAX} {what}")));
    }
    for (name, value) in options {
        let is_name = !name.is_empty()
            && name.len() <= OPTION_NAME_BYTES_MAX
            && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
        if !is_name {
            let shown: String = name.chars().take(64).collect();
            return Err(Error::invalid(format!("{shown:?} is no name for {what}")));
        }
        if value.len() > OPTION_VALUE_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the value of {name} in {what} has more than {OPTION_VALUE_BYTES_MAX} bytes"
            )));
        }
        // A line of a log or of a command is not broken by it.
        if value.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the value of {name} in {what} has a control character"
            )));
        }
    }
    Ok(())
}

/// Checks a key id, which servers write in their logs.
///
/// # Errors
/// [`Error::Invalid`] for one that is too long or has control characters.
pub fn check_key_id(id: &str) -> Result<()> {
    if id.len() > KEY_ID_BYTES_MAX {
        return Err(Error::invalid(format!("a key_id of more than {KEY_ID_BYTES_MAX} bytes")));
    }
    if id.chars().any(char::is_control) {
        return Err(Error::invalid("a key_id with a control character"));
    }
    Ok(())
}

impl SshContents {
    /// Signs it. What it says is checked once more: nothing is signed that a server would read as something else.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what no certificate may say; [`Error::Machine`] when the library does not sign.
    pub fn sign(&self, key: &SshSigningKey, hash: RsaHash) -> Result<Certificate> {
        check_key_id(&self.key_id)?;
        check_options(&self.critical_options, "critical_options")?;
        check_options(&self.extensions, "extensions")?;
        if self.principals.len() > PRINCIPALS_MAX {
            return Err(Error::invalid(format!("more than {PRINCIPALS_MAX} valid_principals")));
        }
        self.principals.iter().try_for_each(|name| check_principal(name))?;
        if self.valid_before <= self.valid_after {
            return Err(Error::invalid("the certificate would end before it begins"));
        }
        let key_type = self.public.key_type();
        let mut writer = SshWriter::default();
        writer.string(key_type.certificate_name().as_bytes()).string(&self.nonce);
        writer.raw(self.public.fields()).uint64(self.serial).uint32(match self.kind {
            CertificateKind::User => 1,
            CertificateKind::Host => 2,
        });
        writer.string(self.key_id.as_bytes());
        let mut principals = SshWriter::default();
        for name in &self.principals {
            principals.string(name.as_bytes());
        }
        writer.string(&principals.into_bytes());
        writer.uint64(self.valid_after).uint64(self.valid_before);
        writer.string(&packed(&self.critical_options)).string(&packed(&self.extensions));
        writer.string(b"").string(key.public().blob());
        let mut bytes = writer.into_bytes();
        let signature = key.sign(&bytes, hash)?;
        let mut signed = SshWriter::default();
        signed.string(&signature);
        bytes.extend(signed.into_bytes());
        Ok(Certificate { name: key_type.certificate_name(), bytes })
    }
}

/// Options as the form has them: a name, and its value as a string in a string, or nothing in it for one without a value.
fn packed(options: &OptionMap) -> Vec<u8> {
    let mut writer = SshWriter::default();
    for (name, value) in options {
        let mut data = SshWriter::default();
        if !value.is_empty() {
            data.string(value.as_bytes());
        }
        writer.string(name.as_bytes()).string(&data.into_bytes());
    }
    writer.into_bytes()
}

/// A signed certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    name: &'static str,
    bytes: Vec<u8>,
}

impl Certificate {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A line without a comment, with a newline at its end, as `id_ed25519-cert.pub` has it.
    pub fn line(&self) -> String {
        format!("{} {}\n", self.name, BASE64.encode(&self.bytes))
    }
}
