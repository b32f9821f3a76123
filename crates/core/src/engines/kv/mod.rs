//! The key-value engines, versions 1 and 2 (API.md A10, A11).
//!
//! Called by the door with an authorised request, its mount and the path inside the mount. They
//! read the view (index first: it is the gate, and asks for no more than "may be there", since
//! table and store compare whole keys), read records of older versions from the store, and
//! write by one batch per request. Neither keeps a map of its own.

mod list;
pub(crate) mod long;
pub(crate) mod record;
pub(crate) mod staged;
pub(crate) mod time;
pub(crate) mod upgrade;
pub(crate) mod v1;
pub(crate) mod v2;
pub(crate) mod weight;

use crate::api::error::Error;
use crate::api::response::Response;
use crate::engines::mount::EngineKind;
use crate::limits::ENTRY_BYTES_MAX;
use crate::pipeline::state::{Call, Unsealed};
use crate::view::Mount;

/// What a KV handler works with.
pub(crate) struct Kv<'a, 'c, 'r> {
    pub(crate) unsealed: &'a Unsealed,
    pub(crate) call: &'a Call<'c, 'r>,
    pub(crate) mount: &'a Mount,
    /// The longest secret that is read now: whoever asks has a longer one read beside the workers.
    pub(crate) secret_bytes_max: usize,
}

/// Answers a read, list or scan; `path` is inside the mount.
pub(crate) fn read(
    unsealed: &Unsealed,
    call: &Call<'_, '_>,
    mount: &Mount,
    path: &str,
) -> Result<Response, Error> {
    let answer = read_up_to(usize::MAX, unsealed, call, mount, path);
    answer.expect("no secret is over the largest number")
}

/// The same, unless a secret longer than `secret_bytes_max` has to be read for it, or a long record.
pub(crate) fn read_up_to(
    secret_bytes_max: usize,
    unsealed: &Unsealed,
    call: &Call<'_, '_>,
    mount: &Mount,
    path: &str,
) -> Option<Result<Response, Error>> {
    let kv = Kv { unsealed, call, mount, secret_bytes_max };
    match mount.entry.kind {
        EngineKind::KvV1 => v1::read(&kv, path),
        EngineKind::KvV2 => v2::read(&kv, path),
        EngineKind::KvUpgrading => Some(Err(upgrade::refusal())),
        _ => Some(Err(Error::UnsupportedPath)),
    }
}

/// Runs an operation that changes something; `path` is inside the mount.
pub(crate) async fn write(
    unsealed: &Unsealed,
    call: &Call<'_, '_>,
    mount: &Mount,
    path: &str,
) -> Result<Response, Error> {
    let kv = Kv { unsealed, call, mount, secret_bytes_max: usize::MAX };
    match mount.entry.kind {
        EngineKind::KvV1 => v1::write(&kv, path).await,
        EngineKind::KvV2 => v2::write(&kv, path).await,
        EngineKind::KvUpgrading => Err(upgrade::refusal()),
        _ => Err(Error::UnsupportedPath),
    }
}

impl Kv<'_, '_, '_> {
    /// Whether what is not a secret in memory may be read now; `path` is inside the mount.
    fn lets_read(&self, path: &str) -> bool {
        let most = self.secret_bytes_max;
        most == usize::MAX || weight::is_light(self.unsealed, self.call, self.mount, path, most)
    }
}

/// Refuses a write to a folder.
pub(crate) fn check_entry_path(path: &str) -> Result<(), Error> {
    if path.is_empty() || path.ends_with('/') {
        return Err(Error::invalid("cannot write to a path ending in '/'"));
    }
    Ok(())
}

/// Refuses an entry over its limit.
pub(crate) fn check_entry_size(text: &[u8]) -> Result<(), Error> {
    if text.len() > ENTRY_BYTES_MAX {
        return Err(Error::TooLarge(format!(
            "entry of {} bytes is over the limit of {ENTRY_BYTES_MAX}",
            text.len()
        )));
    }
    Ok(())
}

/// The failure of a record that was stored by us and cannot be read back.
fn damaged(error: record::Malformed) -> Error {
    Error::internal(&error)
}
