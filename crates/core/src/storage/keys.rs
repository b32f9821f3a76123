//! The storage keys of records: one table of kinds, mirrored in `docs/format.md`.
//!
//! A *logical* key is one byte of kind, then what that kind is addressed by. Mount ids and versions
//! are big-endian so that byte order is number order. A path holds no NUL (see `auth::Path`), so a
//! NUL ends it before a version. Logical keys are what the core speaks in.
//!
//! A *storage* key is what the store sees: the same, with every name replaced by its keyed hash
//! ([`StorageKeys`]). A secret's metadata and versions share a prefix there, so that one streaming scan
//! meets a secret's records together, metadata first.
//!
//! What belongs to a namespace has the namespace's number in front of a whole key of its own, in both
//! spellings, and the number is hashed with the name: the same name in two namespaces looks unlike.

use std::cell::RefCell;

use kallisto_barrier::{Keyring, NAME_HASH_BYTES};
use kallisto_leases::LeaseId;

/// Identifies a mount in keys; given once, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MountId(pub u32);

impl MountId {
    /// The server's own endpoints at `sys/`.
    pub const SYSTEM: Self = Self(0);
    /// `identity/`.
    pub const IDENTITY: Self = Self(1);
    /// `cubbyhole/`.
    pub const CUBBYHOLE: Self = Self(2);
    /// `auth/token/`.
    pub const TOKEN: Self = Self(3);
    /// The last that is not given to what an operator mounts; a few are left for later built-ins.
    pub const RESERVED: Self = Self(15);
}

/// Identifies a namespace in keys; given once, never reused. The root namespace is number 0 where a
/// number is asked for, and has none in front of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NamespaceNumber(pub(crate) u32);

impl NamespaceNumber {
    /// The root namespace.
    pub(crate) const ROOT: Self = Self(0);
}

/// Bytes of a hidden name and a version.
const HIDDEN_BYTES: usize = NAME_HASH_BYTES + 8;
/// The storage key of a secret's metadata or of one of its versions, in the root namespace.
pub(crate) type StoredSecretKey = [u8; 5 + HIDDEN_BYTES];

/// Kinds of records: the first byte of a key. Never reuse a number.
pub(crate) mod kind {
    /// What the barrier keeps for itself; never seen above it.
    pub(crate) const BARRIER: u8 = 0x00;
    /// The cluster's identity.
    pub(crate) const CLUSTER: u8 = 0x01;
    /// A mount, by id.
    pub(crate) const MOUNT: u8 = 0x02;
    /// The highest mount id given.
    pub(crate) const MOUNT_COUNTER: u8 = 0x03;
    /// A token, by its keyed hash.
    pub(crate) const TOKEN: u8 = 0x04;
    /// A policy, by name.
    pub(crate) const POLICY: u8 = 0x05;
    /// A token role, by name.
    pub(crate) const TOKEN_ROLE: u8 = 0x06;
    /// What the text of a batch token is sealed as; no record has this kind.
    pub(crate) const BATCH_TOKEN: u8 = 0x07;
    /// The authority of the cluster's certificates.
    pub(crate) const AUTHORITY: u8 = 0x08;
    /// A namespace, by number.
    pub(crate) const NAMESPACE: u8 = 0x09;
    /// The highest namespace number given.
    pub(crate) const NAMESPACE_COUNTER: u8 = 0x0a;
    /// That a namespace lives: whatever is written inside depends on it.
    pub(crate) const NAMESPACE_LIFE: u8 = 0x0b;
    /// The lease of a dynamic secret, by its id.
    pub(crate) const LEASE: u8 = 0x0c;
    /// The settings of a KV v2 mount.
    pub(crate) const KV_CONFIG: u8 = 0x10;
    /// The metadata of a KV v2 secret, by path.
    pub(crate) const KV_META: u8 = 0x11;
    /// One version of a KV v2 secret, by path and version.
    pub(crate) const KV_VERSION: u8 = 0x12;
    /// A KV v1 secret, by path.
    pub(crate) const KV_ONE: u8 = 0x13;
    /// What any other engine keeps, by mount and name.
    pub(crate) const SHELF: u8 = 0x20;
    /// What belongs to a namespace: its number, then a key of any kind above. The highest kind, so that
    /// a scan knows the namespaces before it meets what is in them.
    pub(crate) const INSIDE: u8 = 0x30;
}

/// A key taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParsedKey<'a> {
    /// [`kind::MOUNT`]
    Mount(MountId),
    /// [`kind::TOKEN`]
    Token(&'a [u8]),
    /// [`kind::POLICY`]
    Policy(&'a str),
    /// [`kind::TOKEN_ROLE`]
    TokenRole(&'a str),
    /// [`kind::LEASE`]
    Lease(&'a str),
    /// [`kind::KV_CONFIG`]
    KvConfig(MountId),
    /// [`kind::KV_META`]
    KvMeta(MountId, &'a str),
    /// [`kind::KV_VERSION`]
    KvVersion(MountId, &'a str, u64),
    /// [`kind::KV_ONE`]
    KvOne(MountId, &'a str),
    /// [`kind::SHELF`]
    EngineStorage(MountId, &'a str),
    /// [`kind::NAMESPACE`]
    Namespace(NamespaceNumber),
    /// [`kind::NAMESPACE_LIFE`]
    NamespaceLife(NamespaceNumber),
    /// [`kind::INSIDE`], and the key there.
    Inside(NamespaceNumber, &'a [u8]),
    /// A kind the view does not follow.
    Other,
}

/// The storage key of the seal's configuration.
pub(crate) fn seal_config() -> Vec<u8> {
    vec![kind::BARRIER, 1]
}

/// The storage key of the keyring.
pub(crate) fn keyring() -> Vec<u8> {
    vec![kind::BARRIER, 2]
}

/// The storage key of what says that requests of the configuration follow the initialisation.
pub(crate) fn set_up() -> Vec<u8> {
    vec![kind::BARRIER, 3]
}

/// The storage key that the text of a batch token of a namespace is sealed for. Nothing is stored
/// under it; it keeps a token of one namespace from being spelled as another's.
pub(crate) fn batch_token(number: NamespaceNumber) -> Vec<u8> {
    match number {
        NamespaceNumber::ROOT => vec![kind::BATCH_TOKEN],
        number => inside(number, &[kind::BATCH_TOKEN]),
    }
}

/// Makes storage keys of logical ones: names are hidden under a keyring's name key.
///
/// It remembers the last name it hid: a secret's records come together, in a batch as in a scan, and
/// hiding a name costs more than the rest of the key.
pub(crate) struct StorageKeys<'k> {
    keyring: &'k Keyring,
    last: RefCell<Hidden>,
}

/// A name that was hidden, with the kind and mount in front of it.
#[derive(Default)]
struct Hidden {
    name: Vec<u8>,
    hash: [u8; NAME_HASH_BYTES],
}

impl<'k> StorageKeys<'k> {
    pub(crate) fn new(keyring: &'k Keyring) -> Self {
        Self { keyring, last: RefCell::default() }
    }

    /// The same, which knows a secret's name already: by the logical key of its metadata, and the storage key.
    pub(crate) fn knowing(keyring: &'k Keyring, kv_meta: &[u8], storage: &StoredSecretKey) -> Self {
        let hash = *storage[5..].first_chunk().expect("a hash is shorter than a storage key");
        Self { keyring, last: RefCell::new(Hidden { name: kv_meta.to_vec(), hash }) }
    }

    /// The keyring whose name key hides names.
    pub(crate) const fn keyring(&self) -> &'k Keyring {
        self.keyring
    }

    /// The storage key of a logical key.
    pub(crate) fn of(&self, logical: &[u8]) -> Vec<u8> {
        match parse(logical) {
            ParsedKey::Inside(number, inner) => {
                self.of_parsed(&inside(number, &[]), inner, parse(inner))
            }
            parsed => self.of_parsed(&[], logical, parsed),
        }
    }

    /// The storage key of `logical`, which is what was parsed and stands behind `front`.
    fn of_parsed(&self, front: &[u8], logical: &[u8], parsed: ParsedKey<'_>) -> Vec<u8> {
        let hide = |kind, mount, name, version| self.hide(front, kind, mount, name, version);
        match parsed {
            ParsedKey::KvMeta(mount, path) => hide(kind::KV_META, mount, path, Some(0)),
            ParsedKey::KvVersion(mount, path, version) => {
                hide(kind::KV_META, mount, path, Some(version))
            }
            ParsedKey::KvOne(mount, path) => hide(kind::KV_ONE, mount, path, None),
            ParsedKey::EngineStorage(mount, name) => hide(kind::SHELF, mount, name, None),
            ParsedKey::Policy(name) => hide(kind::POLICY, MountId(0), name, None),
            ParsedKey::TokenRole(name) => hide(kind::TOKEN_ROLE, MountId(0), name, None),
            ParsedKey::Lease(id) => hide(kind::LEASE, MountId(0), id, None),
            // Ids, and hashes under a key already.
            ParsedKey::Mount(_)
            | ParsedKey::Token(_)
            | ParsedKey::KvConfig(_)
            | ParsedKey::Namespace(_)
            | ParsedKey::NamespaceLife(_)
            | ParsedKey::Inside(..)
            | ParsedKey::Other => [front, logical].concat(),
        }
    }

    /// Kind, mount, 16 bytes of the name's keyed hash, and the version if the kind has one.
    fn hide(
        &self,
        front: &[u8],
        kind: u8,
        mount: MountId,
        name: &str,
        version: Option<u64>,
    ) -> Vec<u8> {
        let mut key = Vec::with_capacity(front.len() + 5 + HIDDEN_BYTES);
        key.extend_from_slice(front);
        key.push(kind);
        key.extend_from_slice(&mount.0.to_be_bytes());
        let scope_bytes = key.len();
        let mut last = self.last.borrow_mut();
        let known = last.name.split_at_checked(scope_bytes) == Some((&key, name.as_bytes()));
        if !known {
            last.hash = self.keyring.name_hash(&key, name.as_bytes());
            last.name.clear();
            last.name.extend_from_slice(&key);
            last.name.extend_from_slice(name.as_bytes());
        }
        key.extend_from_slice(&last.hash);
        if let Some(version) = version {
            key.extend_from_slice(&version.to_be_bytes());
        }
        key
    }
}

/// The version behind a KV v2 secret's hidden name in a storage key, in any namespace; 0 for its metadata. `None` for keys of
/// other records.
fn stored_version(storage: &[u8]) -> Option<u64> {
    let key = match storage.split_at_checked(5) {
        Some(([kind::INSIDE, ..], key)) => key,
        _ => storage,
    };
    let key = <&StoredSecretKey>::try_from(key).ok().filter(|key| key[0] == kind::KV_META)?;
    key.last_chunk().copied().map(u64::from_be_bytes)
}

/// Which version of a KV v2 secret a storage key is of, in any namespace; `None` for other records.
pub(crate) fn version_of(storage: &[u8]) -> Option<u64> {
    stored_version(storage).filter(|&version| version != 0)
}

/// Whether a storage key is that of a KV v2 secret's metadata, in any namespace.
pub(crate) fn is_kv_meta(storage: &[u8]) -> bool {
    stored_version(storage) == Some(0)
}

/// A storage key behind all records of the secret that has a record under `storage`, and before those of the next one.
pub(crate) fn behind_secret(storage: &[u8]) -> Vec<u8> {
    let mut key = storage.to_vec();
    if stored_version(storage).is_some()
        && let Some(version) = key.last_chunk_mut()
    {
        *version = u64::MAX.to_be_bytes();
    }
    key
}

/// The key of the cluster's authority.
pub(crate) fn authority() -> Vec<u8> {
    vec![kind::AUTHORITY]
}

/// The key of the cluster record.
pub(crate) fn cluster() -> Vec<u8> {
    vec![kind::CLUSTER]
}

/// The key of the mount counter.
pub(crate) fn mount_counter() -> Vec<u8> {
    vec![kind::MOUNT_COUNTER]
}

/// The key of a mount.
pub(crate) fn mount(id: MountId) -> Vec<u8> {
    with_mount(kind::MOUNT, id, 0)
}

/// The key of a namespace.
pub(crate) fn namespace(number: NamespaceNumber) -> Vec<u8> {
    with_mount(kind::NAMESPACE, MountId(number.0), 0)
}

/// The key of the namespace counter.
pub(crate) fn namespace_counter() -> Vec<u8> {
    vec![kind::NAMESPACE_COUNTER]
}

/// The key of what says that a namespace lives.
pub(crate) fn namespace_life(number: NamespaceNumber) -> Vec<u8> {
    with_mount(kind::NAMESPACE_LIFE, MountId(number.0), 0)
}

/// A key inside a namespace; the prefix of all of them for an empty one.
pub(crate) fn inside(number: NamespaceNumber, inner: &[u8]) -> Vec<u8> {
    let mut key = with_mount(kind::INSIDE, MountId(number.0), inner.len());
    key.extend_from_slice(inner);
    key
}

/// Whether a key is the cluster's, whichever namespace asks for it: the counter of mount ids, so that
/// no two mounts of a cluster share an id, and what was made with the cluster.
pub(crate) fn is_shared(key: &[u8]) -> bool {
    matches!(key.first(), Some(&(kind::MOUNT_COUNTER | kind::CLUSTER | kind::AUTHORITY)))
}

/// The key of a token.
pub(crate) fn token(hash: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + hash.len());
    key.push(kind::TOKEN);
    key.extend_from_slice(hash);
    key
}

/// The key of a policy.
pub(crate) fn policy(name: &str) -> Vec<u8> {
    with_path(kind::POLICY, MountId(0), name, 0)
}

/// The key of a token role.
pub(crate) fn token_role(name: &str) -> Vec<u8> {
    with_path(kind::TOKEN_ROLE, MountId(0), name, 0)
}

/// The key of a lease.
pub(crate) fn lease(id: &LeaseId) -> Vec<u8> {
    with_path(kind::LEASE, MountId(0), id.as_str(), 0)
}

/// The key of a KV v2 mount's settings.
pub(crate) fn kv_config(id: MountId) -> Vec<u8> {
    with_mount(kind::KV_CONFIG, id, 0)
}

/// The key of a KV v2 secret's metadata.
pub(crate) fn kv_meta(id: MountId, path: &str) -> Vec<u8> {
    with_path(kind::KV_META, id, path, 0)
}

/// The key of one version of a KV v2 secret.
pub(crate) fn kv_version(id: MountId, path: &str, version: u64) -> Vec<u8> {
    let mut key = with_path(kind::KV_VERSION, id, path, 9);
    key.push(0);
    key.extend_from_slice(&version.to_be_bytes());
    key
}

/// The key of a KV v1 secret.
pub(crate) fn kv_one(id: MountId, path: &str) -> Vec<u8> {
    with_path(kind::KV_ONE, id, path, 0)
}

/// The key of what an engine keeps under a name.
pub(crate) fn storage(id: MountId, name: &str) -> Vec<u8> {
    with_path(kind::SHELF, id, name, 0)
}

/// The storage prefixes under which everything of a mount's engine lives.
pub(crate) fn engine_prefixes(id: MountId) -> [Vec<u8>; 4] {
    [kind::KV_CONFIG, kind::KV_META, kind::KV_ONE, kind::SHELF].map(|kind| with_mount(kind, id, 0))
}

/// The storage prefix of a mount's records of one kind.
pub(crate) fn engine_prefix(kind: u8, id: MountId) -> Vec<u8> {
    with_mount(kind, id, 0)
}

/// Takes a key apart; bytes that are no key of ours are [`ParsedKey::Other`].
pub(crate) fn parse(key: &[u8]) -> ParsedKey<'_> {
    parse_known(key).unwrap_or(ParsedKey::Other)
}

fn parse_known(key: &[u8]) -> Option<ParsedKey<'_>> {
    let (&kind, rest) = key.split_first()?;
    if kind == kind::TOKEN {
        return Some(ParsedKey::Token(rest));
    }
    let (id, rest) = rest.split_first_chunk::<4>()?;
    let id = MountId(u32::from_be_bytes(*id));
    Some(match kind {
        kind::MOUNT => ParsedKey::Mount(id),
        kind::POLICY => ParsedKey::Policy(std::str::from_utf8(rest).ok()?),
        kind::TOKEN_ROLE => ParsedKey::TokenRole(std::str::from_utf8(rest).ok()?),
        kind::LEASE => ParsedKey::Lease(std::str::from_utf8(rest).ok()?),
        kind::KV_CONFIG => ParsedKey::KvConfig(id),
        kind::KV_META => ParsedKey::KvMeta(id, std::str::from_utf8(rest).ok()?),
        kind::KV_ONE => ParsedKey::KvOne(id, std::str::from_utf8(rest).ok()?),
        kind::SHELF => ParsedKey::EngineStorage(id, std::str::from_utf8(rest).ok()?),
        kind::NAMESPACE => ParsedKey::Namespace(NamespaceNumber(id.0)),
        kind::NAMESPACE_LIFE => ParsedKey::NamespaceLife(NamespaceNumber(id.0)),
        kind::INSIDE => ParsedKey::Inside(NamespaceNumber(id.0), rest),
        kind::KV_VERSION => {
            let (rest, version) = rest.split_last_chunk::<8>()?;
            let path = std::str::from_utf8(rest.strip_suffix(&[0])?).ok()?;
            ParsedKey::KvVersion(id, path, u64::from_be_bytes(*version))
        }
        _ => return None,
    })
}

fn with_mount(kind: u8, id: MountId, extra: usize) -> Vec<u8> {
    let mut key = Vec::with_capacity(5 + extra);
    key.push(kind);
    key.extend_from_slice(&id.0.to_be_bytes());
    key
}

fn with_path(kind: u8, id: MountId, path: &str, extra: usize) -> Vec<u8> {
    let mut key = with_mount(kind, id, path.len() + extra);
    key.extend_from_slice(path.as_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_known_by_their_storage_keys() {
        let keyring = Keyring::generate([1; 16], 0).unwrap();
        let keys = StorageKeys::new(&keyring);
        let logical = [
            (kv_version(MountId(7), "a/b", 3), true),
            (kv_version(MountId(7), "", u64::MAX), true),
            (kv_meta(MountId(7), "a/b"), false),
            (kv_one(MountId(7), "a/b"), false),
            (kv_config(MountId(7)), false),
            (mount(MountId(7)), false),
            (token(&[kind::KV_META; 28]), false),
            (token(&[1; 32]), false),
        ];
        for (key, is) in logical {
            assert_eq!(version_of(&keys.of(&key)).is_some(), is, "{key:?}");
            assert_eq!(
                version_of(&keys.of(&inside(NamespaceNumber(9), &key))).is_some(),
                is,
                "{key:?}"
            );
        }
        assert!(version_of(&[]).is_none());
        let third = keys.of(&inside(NamespaceNumber(9), &kv_version(MountId(7), "a/b", 3)));
        assert_eq!(version_of(&third), Some(3));
    }

    #[test]
    fn behind_a_secret_there_is_none_of_its_records() {
        let keyring = Keyring::generate([1; 16], 0).unwrap();
        let keys = StorageKeys::new(&keyring);
        let (metadata, version) = (kv_meta(MountId(7), "a/b"), kv_version(MountId(7), "a/b", 3));
        for front in [Vec::new(), inside(NamespaceNumber(9), &[])] {
            let of = |key: &[u8]| keys.of(&[&front[..], key].concat());
            let behind = behind_secret(&of(&metadata));
            assert_eq!(behind, behind_secret(&of(&version)));
            assert_eq!(behind, of(&kv_version(MountId(7), "a/b", u64::MAX)));
        }
        // There is one record of each of these.
        let one = keys.of(&kv_one(MountId(7), "a/b"));
        assert_eq!(behind_secret(&one), one);
    }

    /// Data of past versions lies under them.
    #[test]
    fn the_keys_of_single_records_are_what_they_were() {
        assert_eq!(seal_config(), [kind::BARRIER, 1]);
        assert_eq!(keyring(), [kind::BARRIER, 2]);
        assert_eq!(set_up(), [kind::BARRIER, 3]);
        assert_eq!(cluster(), [kind::CLUSTER]);
        assert_eq!(mount_counter(), [kind::MOUNT_COUNTER]);
        assert_eq!(authority(), [kind::AUTHORITY]);
        assert_eq!(namespace_counter(), [kind::NAMESPACE_COUNTER]);
        assert_eq!(engine_prefix(kind::KV_ONE, MountId(0x0102)), [kind::KV_ONE, 0, 0, 1, 2]);
    }

    #[test]
    fn keys_parse_back() {
        let id = MountId(7);
        assert_eq!(parse(&mount(id)), ParsedKey::Mount(id));
        assert_eq!(parse(&kv_config(id)), ParsedKey::KvConfig(id));
        assert_eq!(parse(&kv_meta(id, "a/b")), ParsedKey::KvMeta(id, "a/b"));
        assert_eq!(parse(&kv_one(id, "a")), ParsedKey::KvOne(id, "a"));
        assert_eq!(parse(&storage(id, "role/a")), ParsedKey::EngineStorage(id, "role/a"));
        assert_eq!(parse(&kv_version(id, "a/b", 300)), ParsedKey::KvVersion(id, "a/b", 300));
        let id = LeaseId::new("db/creds/r", "unJMmnBWSUfWch79qSsTpiu9").unwrap();
        assert_eq!(parse(&lease(&id)), ParsedKey::Lease(id.as_str()));
        assert_eq!(parse(&token(b"0123")), ParsedKey::Token(b"0123"));
        let number = NamespaceNumber(9);
        assert_eq!(parse(&namespace(number)), ParsedKey::Namespace(number));
        assert_eq!(parse(&namespace_life(number)), ParsedKey::NamespaceLife(number));
        assert_eq!(parse(&inside(number, b"\x04ab")), ParsedKey::Inside(number, b"\x04ab"));
        for junk in [
            &b""[..],
            b"\x11",
            b"\x11\0\0",
            b"\x12\0\0\0\x01abc",
            b"\xff\0\0\0\x01",
            b"\x11\0\0\0\x01\xff",
        ] {
            assert_eq!(parse(junk), ParsedKey::Other);
        }
    }

    /// The same name in two namespaces, and in none, is three names to who reads the store.
    #[test]
    fn a_name_is_hidden_with_its_namespace() {
        let ring = Keyring::generate([1; 16], 0).unwrap();
        let keys = StorageKeys::new(&ring);
        let name = policy("default");
        let [one, two] = [1, 2].map(|at| keys.of(&inside(NamespaceNumber(at), &name)));
        assert_eq!(one[..5], inside(NamespaceNumber(1), &[]));
        assert_ne!(one[5..], two[5..]);
        assert_ne!(one[5..], keys.of(&name));
        assert_eq!(one, keys.of(&inside(NamespaceNumber(1), &name)));
    }

    #[test]
    fn versions_of_a_path_sort_by_number_and_apart_from_other_paths() {
        let id = MountId(1);
        let mut keys = [
            kv_version(id, "a", 2),
            kv_version(id, "a", 256),
            kv_version(id, "a/b", 1),
            kv_version(id, "a!", 1),
        ];
        let expected = keys.clone();
        keys.sort();
        assert_eq!(
            keys,
            [expected[0].clone(), expected[1].clone(), expected[3].clone(), expected[2].clone()]
        );
    }
}
