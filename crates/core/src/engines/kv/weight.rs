//! Whether a request for a secret is heavy, as far as one lookup can say.
//!
//! Called by `compute` before a request is authenticated, so it says nothing to the client, and it looks at no more than
//! the hot table, whose entries know how long their secret is and how many versions it has. What is not in memory is
//! measured by its record, which is not opened; that is looked up twice then, from a block that the first look left in the
//! cache.

use crate::engines::kv::access::Kv;
use crate::records::engine_kind::KvState;
use kallisto_auth::Operation;

use super::{long, v2};
use crate::api::error::Error;
use crate::api::request::Request;
use crate::limits::LIGHT_BODY_BYTES_MAX;
use crate::records::kv::VERSION_BYTES;
use crate::storage::keys;
use crate::view::NamespaceContext;
use crate::view::{Hot, Mount, hot_key};

/// Most versions of a secret of which the metadata is read or changed where the request arrived.
const LIGHT_VERSIONS_MAX: usize = 256;
/// The record of so many, as long as it may be where nothing else is known of it.
const LIGHT_METADATA_BYTES_MAX: usize = 8 << 10;

const _: () = assert!(LIGHT_VERSIONS_MAX * VERSION_BYTES < LIGHT_METADATA_BYTES_MAX);

/// A request for something in a mount.
struct Weighing<'a, 'r> {
    context: &'a NamespaceContext,
    request: &'a Request<'r>,
    mount: &'a Mount,
    /// The longest secret that is light.
    secret_bytes_max: usize,
}

/// Whether answering a request takes less than a millisecond, its body being small and secrets up to `secret_bytes_max`
/// soon read; `path` is inside the mount.
pub(crate) fn is_light(
    context: &NamespaceContext,
    request: &Request<'_>,
    mount: &Mount,
    path: &str,
    secret_bytes_max: usize,
) -> bool {
    let weighing = Weighing { context, request, mount, secret_bytes_max };
    if matches!(request.operation, Operation::List | Operation::Scan) {
        return !long::is_detailed(request, mount, path) && !long::is_long(request, mount, path);
    }
    // What cannot be read is not measured either: the handler says so.
    let measured = match mount.entry.kind.kv() {
        Some(KvState::V1) if request.operation == Operation::Read => weighing.one(path),
        Some(KvState::V2) => match v2::split(path) {
            (noun, Some(secret)) => weighing.versioned(noun, secret),
            (_, None) => Ok(true),
        },
        _ => Ok(true),
    };
    measured.unwrap_or(true)
}

impl Weighing<'_, '_> {
    /// A read of a secret without versions.
    fn one(&self, path: &str) -> Result<bool, Error> {
        if let Some((bytes, _)) = self.known(path) {
            return Ok(bytes <= self.secret_bytes_max);
        }
        self.fits(path, &keys::kv_one(self.mount.entry.id, path), self.secret_bytes_max)
    }

    fn versioned(&self, noun: &str, path: &str) -> Result<bool, Error> {
        let known = self.known(path);
        let reads = self.request.operation == Operation::Read;
        // What is parsed takes longer than what is copied.
        let bytes_max = match noun {
            "data" if reads => self.secret_bytes_max,
            "data" | "subkeys" => LIGHT_BODY_BYTES_MAX,
            _ => return self.has_few_versions(path, known),
        };
        let named = self.request.query.iter().find(|(name, _)| name == "version");
        let version = match named.map(|(_, text)| text.parse::<u64>()) {
            None | Some(Ok(0)) => None,
            Some(Ok(version)) => Some(version),
            // A number in another spelling, perhaps.
            Some(Err(_)) => return Ok(false),
        };
        match (noun, self.request.operation, version, known) {
            ("data", Operation::Read, None, Some((bytes, _))) => Ok(bytes <= bytes_max),
            ("data" | "subkeys", Operation::Read, Some(version), _) => {
                let key = keys::kv_version(self.mount.entry.id, path, version);
                Ok(self.has_few_versions(path, known)? && self.fits(path, &key, bytes_max)?)
            }
            (_, Operation::Read | Operation::Patch, _, Some((bytes, _))) => {
                Ok(bytes <= bytes_max && self.has_few_versions(path, known)?)
            }
            (_, Operation::Read | Operation::Patch, _, None) => {
                self.unknown_secret(path, bytes_max)
            }
            _ => self.has_few_versions(path, known),
        }
    }

    /// What memory knows of a secret: the bytes that a read of it copies, and how many versions it has.
    fn known(&self, path: &str) -> Option<(usize, usize)> {
        let hot = &self.context.view.hot;
        let guard = hot.pin();
        let entry = hot.get(&hot_key(self.mount.entry.id, path), &guard).map(Hot::from)?;
        Some((entry.sealed_bytes(), usize::from(entry.header.versions)))
    }

    fn has_few_versions(&self, path: &str, known: Option<(usize, usize)>) -> Result<bool, Error> {
        // The fold copies the secret of a version that stays, and a server without a log folds where it writes.
        match known {
            Some((bytes, versions)) => {
                Ok(versions <= LIGHT_VERSIONS_MAX && bytes <= self.secret_bytes_max)
            }
            None => {
                let key = keys::kv_meta(self.mount.entry.id, path);
                self.fits(path, &key, LIGHT_METADATA_BYTES_MAX)
            }
        }
    }

    /// Whether the current version of a secret that is not in memory is short.
    fn unknown_secret(&self, path: &str, bytes_max: usize) -> Result<bool, Error> {
        if !self.has_few_versions(path, None)? {
            return Ok(false);
        }
        let version = v2::current_version(self.context, self.mount.entry.id, path)?;
        let Some(version) = version else { return Ok(true) };
        self.fits(path, &keys::kv_version(self.mount.entry.id, path, version), bytes_max)
    }

    /// Whether a record of a path has so few bytes, or is not there.
    fn fits(&self, path: &str, key: &[u8], bytes_max: usize) -> Result<bool, Error> {
        if !self.mount.index.may_contain(path) {
            return Ok(true);
        }
        Ok(self.context.store.size_of(key)?.is_none_or(|bytes| bytes <= bytes_max))
    }
}

impl Kv<'_> {
    /// Whether what is not a secret in memory may be read now.
    pub(crate) fn lets_read(&self) -> bool {
        let most = self.secret_bytes_max;
        most == usize::MAX || is_light(self.context, self.call, self.mount, self.path, most)
    }
}
