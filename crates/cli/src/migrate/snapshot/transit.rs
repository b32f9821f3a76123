//! Keys of transit mounts, which are stored in the form that a backup has: whoever reads the storage has every key, exportable or not.

use data_encoding::BASE64;
use kallisto_vault_snapshot::OpenSnapshot;
use zeroize::Zeroizing;

use super::layout::StoredMount;
use super::{item, read_json, records_in};
use crate::migrate::endpoint::ItemFailure;
use crate::migrate::pass::is_nothing;
use crate::migrate::transit::{AUTO_ROTATE, FACTS, KDF};
use kallisto_command::json::{Json, Map};
use kallisto_command::secret::as_u64;

/// Types of keys by their numbers.
const TYPES: [(&str, &str); 12] = [
    ("0", "aes256-gcm96"),
    ("1", "ecdsa-p256"),
    ("2", "ed25519"),
    ("3", "rsa-2048"),
    ("4", "rsa-4096"),
    ("5", "chacha20-poly1305"),
    ("6", "ecdsa-p384"),
    ("7", "ecdsa-p521"),
    ("8", "aes128-gcm96"),
    ("9", "rsa-3072"),
    (HMAC, "hmac"),
    ("11", "xchacha20-poly1305"),
];
/// How derived keys derive, by numbers.
const KDFS: [(u64, &str); 2] = [(0, "hmac-sha256-counter"), (1, "hkdf_sha256")];
const NANOS: u64 = 1_000_000_000;
/// The type that keys of HMACs have. Vault gives them another number, which is that of another type in OpenBao and here; but only they have a size.
const HMAC: &str = "10";

/// The names of keys. The wrapping key of the mount lies in a folder among them.
pub(super) fn list(opened: &OpenSnapshot, mount: &StoredMount) -> Vec<String> {
    let mut names = records_in(opened, &format!("{}policy/", mount.folder));
    names.retain(|name| !name.contains('/'));
    names
}

/// What is said of a key.
pub(super) fn read(
    opened: &OpenSnapshot,
    mount: &StoredMount,
    path: &str,
) -> Result<Option<Map>, ItemFailure> {
    let Some(name) = path.strip_prefix("keys/") else { return Ok(None) };
    let Some(stored) = read_json(opened, &format!("{}policy/{name}", mount.folder))? else {
        return Ok(None);
    };
    // All of them are stored as they are shown but three, which are numbers there.
    let mut shown: Map = FACTS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), stored.get(*name)?.clone())))
        .collect();
    let number = match stored.get("type") {
        Some(Json::Number(number)) => &**number,
        _ => "",
    };
    let is_hmac = stored.get("key_size").is_some_and(|size| !is_nothing(size));
    let known = TYPES.iter().find(|(known, _)| *known == number);
    let Some((_, kind)) = known.filter(|_| is_hmac == (number == HMAC)) else {
        return Err(ItemFailure::Item(format!("a key of type {number:?} is not understood")));
    };
    shown.insert("type".to_owned(), (*kind).into());
    shown.remove(KDF);
    if shown.get("derived") == Some(&true.into()) {
        let kdf = stored.get(KDF).and_then(as_u64);
        let named = KDFS.iter().find(|(number, _)| kdf == Some(*number));
        let Some((_, name)) = named else {
            return Err(item("a key that derives in another way is not understood"));
        };
        shown.insert(KDF.to_owned(), (*name).into());
    }
    let period_ns = stored.get(AUTO_ROTATE).and_then(as_u64).unwrap_or(0);
    shown.insert(AUTO_ROTATE.to_owned(), (period_ns / NANOS).into());
    Ok(Some(shown))
}

/// A backup of a key, as its server would have made it if the key's owner had allowed it.
pub(super) fn backup(
    opened: &OpenSnapshot,
    mount: &StoredMount,
    path: &str,
) -> Result<Map, ItemFailure> {
    let name = path.strip_prefix("keys/").unwrap_or_default();
    let policy = read_json(opened, &format!("{}policy/{name}", mount.folder))?;
    let policy = policy.ok_or_else(|| item("it is gone at the source"))?;
    let archive = read_json(opened, &format!("{}archive/{name}", mount.folder))?;
    let backup = Json::object([
        ("policy", policy.into()),
        ("archived_keys", archive.map_or(Json::Null, Json::Object)),
    ]);
    let backup = Zeroizing::new(backup.to_text());
    Ok(Map::from([("backup".to_owned(), BASE64.encode(&backup).into())]))
}
