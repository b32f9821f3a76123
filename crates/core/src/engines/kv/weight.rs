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
pub(crate) const LIGHT_METADATA_BYTES_MAX: usize = 8 << 10;

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

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use kallisto_auth::Operation::{Delete, List, Patch, Read, Scan, Update};

    use super::*;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core, request};
    use crate::state::Core;

    const SECRET_BYTES_MAX: usize = 20_000;

    fn put(core: &Core, path: &str, bytes: usize) {
        let body = format!(r#"{{"data":{{"v":"{}"}}}}"#, "x".repeat(bytes));
        ask(core, Some(ROOT), Update, path, &body).unwrap();
    }

    /// Stores a secret with so many versions.
    fn import(core: &Core, name: &str, versions: usize) {
        let (mut shown, mut data) = (String::new(), String::new());
        for version in 1..=versions {
            let comma = if version > 1 { "," } else { "" };
            let times = r#"{"created_time":"1960-01-01T00:00:00Z","deletion_time":""}"#;
            write!(shown, r#"{comma}"{version}":{times}"#).unwrap();
            write!(data, r#"{comma}"{version}":{{}}"#).unwrap();
        }
        let body = format!(
            r#"{{"metadata":{{"created_time":"1960-01-01T00:00:00Z","updated_time":"1960-01-01T00:00:00Z",
            "current_version":{versions},"oldest_version":1,"max_versions":{versions},"versions":{{{shown}}}}},"data":{{{data}}}}}"#
        );
        ask(core, Some(ROOT), Update, &format!("secret/import/{name}"), &body).unwrap();
    }

    fn is_light_at(core: &Core, operation: Operation, path: &str) -> bool {
        let context = core.context.load_full().unwrap();
        let (path, version) = path.split_once("?version=").unwrap_or((path, ""));
        let (mount, inside) = context.view.mounts.route(path).unwrap();
        let mut request = request(Some(ROOT), operation, path, "");
        if !version.is_empty() {
            request.query = vec![("version".to_owned(), version.to_owned())];
        }
        is_light(&context, &request, &mount, inside, SECRET_BYTES_MAX)
    }

    #[test]
    fn a_request_is_heavy_by_the_secret_and_the_versions_that_it_reads_or_changes() {
        let core = open_core(RouteAccess::Token);
        for (name, bytes) in [("small", 1), ("medium", 18_000), ("large", 30_000)] {
            put(&core, &format!("secret/data/{name}"), bytes);
            put(&core, &format!("one/{name}"), bytes);
        }
        import(&core, "few", LIGHT_VERSIONS_MAX);
        import(&core, "many", 400);
        const { assert!(400 * VERSION_BYTES > LIGHT_METADATA_BYTES_MAX) };
        // By what memory knows, and then by records alone.
        for is_in_memory in [true, false] {
            if !is_in_memory {
                core.context.load_full().unwrap().view.hot.clear();
            }
            for (operation, path, is_light) in [
                (Read, "secret/data/small", true),
                (Read, "secret/data/small?version=1", true),
                (Read, "secret/data/small?version=0", true),
                (Read, "secret/data/small?version=x", false),
                (Read, "secret/data/medium", true),
                (Read, "secret/data/medium?version=1", true),
                (Read, "secret/data/large", false),
                (Read, "secret/data/large?version=0", false),
                (Read, "secret/data/large?version=1", false),
                (Read, "secret/data/few?version=1", true),
                (Read, "secret/data/many", is_in_memory),
                (Read, "secret/data/many?version=1", false),
                (Read, "secret/data/none", true),
                (Read, "secret/data/none?version=1", true),
                (Read, "secret/data", true),
                (Read, "secret/subkeys/small", true),
                (Read, "secret/subkeys/medium", false),
                (Read, "secret/subkeys/medium?version=1", false),
                (Read, "secret/subkeys/many", false),
                (Read, "secret/metadata/small", true),
                (Read, "secret/metadata/few", true),
                (Read, "secret/metadata/many", false),
                (Read, "secret/metadata/large", !is_in_memory),
                (Patch, "secret/data/small", true),
                (Patch, "secret/data/medium", false),
                (Patch, "secret/data/few", true),
                (Patch, "secret/data/many", false),
                (Update, "secret/data/small", true),
                (Update, "secret/data/many", false),
                (Update, "secret/data/large", !is_in_memory),
                (Delete, "secret/data/many", false),
                (Update, "secret/destroy/many", false),
                (Update, "secret/destroy/few", true),
                (List, "secret/metadata/", true),
                (Scan, "secret/metadata/", true),
                (List, "secret/detailed-metadata/", false),
                (Read, "one/small", true),
                (Read, "one/medium", true),
                (Read, "one/large", false),
                (Update, "one/large", true),
                (List, "one/", true),
            ] {
                assert_eq!(
                    is_light_at(&core, operation, path),
                    is_light,
                    "{operation:?} {path}, in memory: {is_in_memory}"
                );
            }
        }
    }
}
