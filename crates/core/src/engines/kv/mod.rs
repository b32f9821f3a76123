//! The key-value engines, versions 1 and 2.
//!
//! Called by the pipeline with an authorised request, its mount and the path inside the mount. They
//! read the view (index first: it is the gate, and asks for no more than "may be there", since
//! table and store compare whole keys), read records of older versions from the store, and
//! write by one batch per request. Neither keeps a map of its own.

pub(crate) mod fields;
mod list;
pub(crate) mod long;
pub(crate) mod record;
mod routes;
pub(crate) mod staged;
pub(crate) mod time;
pub(crate) mod upgrade;
pub(crate) mod v1;
pub(crate) mod v2;
pub(crate) mod weight;

use crate::api::error::Error;
use crate::api::response::Response;
use crate::engines::beyond;
use crate::engines::server_engine::{Answer, EngineFacts, Run, ServerEngine, Weighed};
use crate::limits::ENTRY_BYTES_MAX;
use crate::pipeline::compute::{LIGHT_BODY_BYTES_MAX, LIGHT_SECRET_BYTES_MAX};
use crate::pipeline::state::{Call, NamespaceContext};
use crate::view::Mount;
use kallisto_engine::{Class, Routes};

/// What a KV handler works with.
pub(crate) struct Kv<'a, 'c, 'r> {
    pub(crate) unsealed: &'a NamespaceContext,
    pub(crate) call: &'a Call<'c, 'r>,
    pub(crate) mount: &'a Mount,
    /// The longest secret that is read now: whoever asks has a longer one read beside the workers.
    pub(crate) secret_bytes_max: usize,
}

/// Answers a read, list or scan; `path` is inside the mount.
pub(crate) fn read(
    unsealed: &NamespaceContext,
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
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
    mount: &Mount,
    path: &str,
) -> Option<Result<Response, Error>> {
    let kv = Kv { unsealed, call, mount, secret_bytes_max };
    match mount.entry.kind.kv() {
        Some(KvState::V1) => v1::read(&kv, path),
        Some(KvState::V2) => v2::read(&kv, path),
        Some(KvState::Upgrading) => Some(Err(upgrade::refusal())),
        _ => Some(Err(Error::UnsupportedPath)),
    }
}

/// Runs an operation that changes something; `path` is inside the mount.
pub(crate) async fn write(
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
    mount: &Mount,
    path: &str,
) -> Result<Response, Error> {
    let kv = Kv { unsealed, call, mount, secret_bytes_max: usize::MAX };
    match mount.entry.kind.kv() {
        Some(KvState::V1) => v1::write(&kv, path).await,
        Some(KvState::V2) => v2::write(&kv, path).await,
        Some(KvState::Upgrading) => Err(upgrade::refusal()),
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

/// How the secrets of a key-value engine are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KvState {
    /// Without versions.
    V1,
    /// With versions.
    V2,
    /// On their way from the one to the other.
    Upgrading,
}

/// Key-value secrets.
pub(crate) struct KvEngine(pub(crate) KvState);

impl ServerEngine for KvEngine {
    fn facts(&self) -> EngineFacts {
        let stored = match self.0 {
            KvState::V1 => "kv-v1",
            KvState::V2 => "kv-v2",
            KvState::Upgrading => "kv-upgrading",
        };
        EngineFacts { stored, has_folders: true, ..EngineFacts::mountable("kv", Class::Secret) }
    }

    fn routes(&self) -> &'static dyn Routes {
        match self.0 {
            KvState::V1 => &routes::VERSION_1,
            KvState::V2 | KvState::Upgrading => &routes::VERSION_2,
        }
    }

    fn read_fast(
        &self,
        secret_bytes_max: usize,
        unsealed: &NamespaceContext,
        call: &Call<'_, '_>,
        mount: &Mount,
        path: &str,
    ) -> Option<Result<Response, Error>> {
        if call.operation.writes() || beyond::asks_to_wait(call) || long::is_long(call, mount, path)
        {
            return None;
        }
        read_up_to(secret_bytes_max, unsealed, call, mount, path)
    }

    fn handle<'a>(&self, run: Run<'a>) -> Answer<'a> {
        let state = self.0;
        Box::pin(async move {
            let Run { core, unsealed, call, mount, path } = run;
            if state == KvState::Upgrading || call.operation.writes() {
                return write(&unsealed, call, mount, path).await;
            }
            let is_long = long::is_long(call, mount, path);
            if !beyond::asks_to_wait(call) {
                return Box::pin(long::list(core, &unsealed, call, mount, path)).await;
            }
            if is_long {
                return Err(Error::invalid(
                    "a list this long has to be waited for in pages: limit",
                ));
            }
            beyond::wait(core, &unsealed, call, mount, path)
        })
    }

    fn creates(&self, mount: &Mount, path: &str) -> bool {
        match self.0 {
            KvState::V1 => !mount.index.contains(path),
            KvState::V2 => match path.split_once('/') {
                Some(("data" | "metadata", secret)) => !mount.index.contains(secret),
                _ => false,
            },
            KvState::Upgrading => false,
        }
    }

    fn is_light(&self, weighed: &Weighed<'_>) -> bool {
        let is_audited = (weighed.is_audited)();
        let most = if is_audited { LIGHT_BODY_BYTES_MAX } else { LIGHT_SECRET_BYTES_MAX };
        weight::is_light(weighed.unsealed, weighed.request, weighed.mount, weighed.path, most)
    }

    fn kv(&self) -> Option<KvState> {
        Some(self.0)
    }
}
