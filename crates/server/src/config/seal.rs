//! `seal`: who keeps the unseal key. Without a stanza and `VAULT_SEAL_TYPE`, people do.
//!
//! Keys and their precedence are Vault's: of `transit` the environment wins over the file, except
//! for the address and the token, and except for TLS when the file says anything about it. A key of
//! `static` is text (64 hexadecimal digits or base64), `env://NAME`, or `file://PATH` of 32 bytes or
//! such a text.

use std::path::PathBuf;

use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER_PERMISSIVE};
use secrecy::{SecretBox, SecretString};
use zeroize::{Zeroize, Zeroizing};

use super::error::Error;
use super::general::{checked_url, environment_first};
use super::model::{SealSettings, StaticKeyConfig, StaticSeal, TransitSeal, TransitTls};
use super::raw_value::RawValue;
use super::section::ConfigSection;
use super::section::Unused::{self, Silent};
use super::storage::{last, pair};
use kallisto_barrier::SecretKey;
use kallisto_command::config::Environment;
use kallisto_command::files;

/// Bytes of a static key.
const KEY_BYTES: usize = 32;
/// What leads the path of a file with a key.
const FILE: &str = "file://";
/// Where a transit engine is mounted when nobody says.
const TRANSIT_MOUNT_DEFAULT: &str = "transit";

/// Keys of any seal that nothing reads: there is one seal, so it has no rank.
const UNUSED: [(&str, Unused); 4] =
    [("priority", Silent), ("name", Silent), ("purpose", Silent), ("key_id_prefix", Silent)];

/// The kinds of seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SealKind {
    Shamir,
    Static,
    Transit,
}

pub(super) const KINDS: [(&str, SealKind); 3] =
    [("shamir", SealKind::Shamir), ("static", SealKind::Static), ("transit", SealKind::Transit)];

/// The seal that counts.
pub(super) fn read(
    top: &mut ConfigSection<'_>,
    environment: &Environment<'_>,
    warnings: &mut Vec<String>,
) -> Result<SealSettings, Error> {
    let wanted = RawValue::of_environment(environment, "SEAL_TYPE");
    let wanted = wanted.map(|raw| raw.choice(&KINDS)).transpose()?;
    let (kind, stanza) = match last(top.labelled("seal")?)? {
        None => (wanted.unwrap_or(SealKind::Shamir), None),
        Some((label, stanza)) => {
            let kind = KINDS.iter().find(|(name, _)| *name == label.to_ascii_lowercase());
            let Some((_, kind)) = kind else {
                return Err(stanza.refuse("the kinds of seal are shamir, static and transit"));
            };
            match wanted {
                Some(wanted) if wanted != *kind => {
                    let place = stanza.place();
                    warnings.push(format!("{place}: the environment names another seal than this"));
                    (wanted, None)
                }
                _ => (*kind, Some(stanza)),
            }
        }
    };
    let mut source = SealStanza { stanza, environment };
    if source.stanza.as_mut().map_or(Ok(None), |stanza| stanza.switch("disabled"))? == Some(true) {
        return Err(source.refuse("moving from one seal to another is not supported"));
    }
    let seal = match kind {
        SealKind::Shamir => SealSettings::Shamir,
        SealKind::Static => SealSettings::Static(static_seal(&mut source)?),
        SealKind::Transit => SealSettings::Transit(Box::new(transit(&mut source)?)),
    };
    if let Some(stanza) = source.stanza {
        stanza.finish(&UNUSED, warnings)?;
    }
    Ok(seal)
}

/// A stanza, which the environment may replace altogether.
struct SealStanza<'a, 'e> {
    stanza: Option<ConfigSection<'a>>,
    environment: &'e Environment<'e>,
}

impl SealStanza<'_, '_> {
    fn file(&mut self, key: &'static str) -> Result<Option<RawValue>, Error> {
        self.stanza.as_mut().map_or(Ok(None), |stanza| stanza.raw_value(key))
    }

    /// The environment, else the file.
    fn environment_first(
        &mut self,
        key: &'static str,
        variable: &str,
    ) -> Result<Option<RawValue>, Error> {
        let file = self.file(key)?;
        Ok(environment_first(self.environment, variable, file))
    }

    /// The file, else the environment.
    fn file_first(&mut self, key: &'static str, variable: &str) -> Result<Option<RawValue>, Error> {
        let file = self.file(key)?;
        Ok(file.or_else(|| RawValue::of_environment(self.environment, variable)))
    }

    fn refuse(&self, what: &str) -> Error {
        match &self.stanza {
            Some(stanza) => stanza.refuse(what),
            None => Error::Missing(format!("VAULT_SEAL_TYPE: {what}")),
        }
    }
}

fn static_seal(source: &mut SealStanza<'_, '_>) -> Result<StaticSeal, Error> {
    let current = [
        source.environment_first("current_key", "STATIC_SEAL_CURRENT_KEY")?,
        source.file("current_key_file")?.map(as_file),
        source.file("key_file")?.map(as_file),
    ];
    let current = only(source, current, "a current_key or current_key_file is missing")?;
    let id = source.environment_first("current_key_id", "STATIC_SEAL_CURRENT_KEY_ID")?;
    let id = id.ok_or_else(|| source.refuse("a current_key_id is missing"))?.text()?;
    let current = static_key(id, &current, source)?;
    let previous = source.environment_first("previous_key", "STATIC_SEAL_PREVIOUS_KEY")?;
    let previous_id = source.environment_first("previous_key_id", "STATIC_SEAL_PREVIOUS_KEY_ID")?;
    let previous = match (previous, previous_id) {
        (Some(raw), Some(id)) => Some(static_key(id.text()?, &raw, source)?),
        (None, None) => None,
        _ => return Err(source.refuse("previous_key and previous_key_id go together")),
    };
    if previous.as_ref().is_some_and(|previous| previous.id == current.id) {
        return Err(source.refuse("current_key_id and previous_key_id are the same"));
    }
    Ok(StaticSeal { current, previous })
}

fn static_key(
    id: String,
    raw: &RawValue,
    source: &SealStanza<'_, '_>,
) -> Result<StaticKeyConfig, Error> {
    let file = raw.expose()?.strip_prefix(FILE).map(PathBuf::from);
    Ok(StaticKeyConfig { id, file, key: key_of(raw, source.environment)? })
}

/// The path in a key such as `key_file`, as the reference that `current_key` would hold.
fn as_file(raw: RawValue) -> RawValue {
    let path = raw.expose().map(|path| format!("{FILE}{path}"));
    path.map_or_else(|_| raw.with_text(FILE), |text| raw.with_text(&text))
}

fn only(
    source: &SealStanza<'_, '_>,
    raw: [Option<RawValue>; 3],
    missing: &str,
) -> Result<RawValue, Error> {
    let mut raw = raw.into_iter().flatten();
    let first = raw.next().ok_or_else(|| source.refuse(missing))?;
    match raw.next() {
        Some(second) => Err(second.refuse("the key is given twice")),
        None => Ok(first),
    }
}

/// The key that a value is or refers to.
fn key_of(raw: &RawValue, environment: &Environment<'_>) -> Result<SecretBox<[u8; 32]>, Error> {
    let text = raw.expose()?;
    let mut bytes = if let Some(path) = text.strip_prefix(FILE) {
        let read = files::read(path.as_ref());
        let bytes = read.map_err(|error| raw.refuse(format!("reading the key: {error}")))?;
        decode_file(Zeroizing::new(bytes))
    } else if let Some(name) = text.strip_prefix("env://") {
        let value = environment.plain(name).map(Zeroizing::new);
        let value = value.ok_or_else(|| raw.refuse(format!("{name} is not set")))?;
        decode(value.as_bytes())
    } else {
        decode(text.as_bytes())
    };
    let Some(found) = bytes.as_deref_mut().and_then(|bytes| bytes.as_mut_array::<KEY_BYTES>())
    else {
        return Err(raw.refuse("expected a key of 32 bytes, as 64 hexadecimal digits or base64"));
    };
    // What no key can be made of is refused here, before a start is tried.
    SecretKey::from_bytes(found).map_err(|error| raw.refuse(error.to_string()))?;
    let key = SecretBox::init_with_mut(|key: &mut [u8; KEY_BYTES]| key.copy_from_slice(found));
    found.zeroize();
    Ok(key)
}

/// A file holds the 32 bytes themselves, or their text.
fn decode_file(bytes: Zeroizing<Vec<u8>>) -> Option<Zeroizing<Vec<u8>>> {
    match bytes.len() {
        KEY_BYTES => Some(bytes),
        _ => decode(&bytes),
    }
}

fn decode(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let text = text.trim_ascii();
    let decoded = match text.len() {
        64 => HEXLOWER_PERMISSIVE.decode(text),
        44 => BASE64.decode(text),
        43 => BASE64_NOPAD.decode(text),
        _ => return None,
    };
    decoded.ok().map(Zeroizing::new)
}

fn transit(source: &mut SealStanza<'_, '_>) -> Result<TransitSeal, Error> {
    let address = source.file_first("address", "ADDR")?;
    let address = address.ok_or_else(|| source.refuse("an address is missing"))?;
    let token = source.file_first("token", "TOKEN")?;
    let token = token.ok_or_else(|| source.refuse("a token is missing"))?;
    let key_name = source.environment_first("key_name", "TRANSIT_SEAL_KEY_NAME")?;
    let key_name = key_name.ok_or_else(|| source.refuse("a key_name is missing"))?;
    let mount_path = source.environment_first("mount_path", "TRANSIT_SEAL_MOUNT_PATH")?;
    let renewal = source.environment_first("disable_renewal", "TRANSIT_SEAL_DISABLE_RENEWAL")?;
    let namespace = source.environment_first("namespace", "NAMESPACE")?;
    Ok(TransitSeal {
        address: checked_url(&address)?,
        token: checked_token(&token)?,
        key_name: path_part(&key_name)?,
        mount_path: match mount_path {
            Some(raw) => path_part(&raw)?,
            None => TRANSIT_MOUNT_DEFAULT.to_owned(),
        },
        namespace: namespace.map(|raw| path_part(&raw)).transpose()?.map(|path| path + "/"),
        disable_renewal: renewal.map_or(Ok(false), |raw| raw.switch())?,
        tls: transit_tls(source)?,
    })
}

/// A token goes into a header.
fn checked_token(raw: &RawValue) -> Result<SecretString, Error> {
    match raw.expose()?.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => raw.secret(),
        false => Err(raw.refuse("holds characters that no token has")),
    }
}

/// A path that goes into a URL, without slashes around it.
fn path_part(raw: &RawValue) -> Result<String, Error> {
    let path = raw.expose()?.trim_matches('/');
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
    match path.is_empty() || !path.chars().all(known) || path.contains("..") {
        true => Err(raw.refuse("expected a name of letters, digits, '-', '_', '.' and '/'")),
        false => Ok(path.to_owned()),
    }
}

/// All of it from the file, or all of it from the environment.
fn transit_tls(source: &mut SealStanza<'_, '_>) -> Result<TransitTls, Error> {
    let mut raw = [
        source.file("tls_ca_cert")?,
        source.file("tls_client_cert")?,
        source.file("tls_client_key")?,
        source.file("tls_server_name")?,
        source.file("tls_skip_verify")?,
    ];
    if raw.iter().all(Option::is_none) {
        raw = ["CACERT", "CLIENT_CERT", "CLIENT_KEY", "TLS_SERVER_NAME", "SKIP_VERIFY"]
            .map(|variable| RawValue::of_environment(source.environment, variable));
    }
    let [ca_cert, cert, key, server_name, skip_verify] = raw;
    let names = ("tls_client_cert, VAULT_CLIENT_CERT", "tls_client_key, VAULT_CLIENT_KEY");
    let client_identity = pair(source.stanza.as_ref(), (cert, key), names)?;
    let trusts_anyone = skip_verify.map_or(Ok(false), |raw| raw.switch())?;
    Ok(TransitTls {
        ca_cert: ca_cert.map(|raw| raw.path()).transpose()?,
        client_identity,
        server_name: server_name.map(|raw| raw.text()).transpose()?,
        trusts_anyone,
    })
}
