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
use crate::engines::kv_watch;
use crate::engines::route_handler::{self, ReadCall, RouteCall, RouteTable};
use crate::engines::server_engine::{Answer, EngineFacts, Run, ServerEngine, Weighed};
use crate::limits::ENTRY_BYTES_MAX;
use crate::pipeline::compute::{LIGHT_BODY_BYTES_MAX, LIGHT_SECRET_BYTES_MAX};
use crate::pipeline::state::{Call, NamespaceContext};
use crate::view::Mount;
use kallisto_auth::Operation;
use kallisto_engine::{Class, Routes};

/// What a KV handler works with.
pub(crate) struct Kv<'a> {
    pub(crate) unsealed: &'a NamespaceContext,
    pub(crate) call: &'a Call<'a, 'a>,
    pub(crate) mount: &'a Mount,
    /// The path inside the mount.
    pub(crate) path: &'a str,
    /// The longest secret that is read now: whoever asks has a longer one read beside the workers.
    pub(crate) secret_bytes_max: usize,
}

/// What answers a read or a list; `None` when it takes more than [`Kv`] lets it. The path is of the secret or the folder.
type Read = fn(&Kv<'_>, &str) -> Option<Result<Response, Error>>;

impl<'a> Kv<'a> {
    fn of(run: &'a RouteCall<'_>) -> Self {
        let RouteCall { unsealed, call, mount, path, .. } = run;
        Self { unsealed, call, mount, path, secret_bytes_max: usize::MAX }
    }

    fn reading(read: ReadCall<'a>) -> Self {
        let ReadCall { unsealed, call, mount, path, secret_bytes_max } = read;
        Self { unsealed, call, mount, path, secret_bytes_max }
    }

    /// Whether what is not a secret in memory may be read now.
    fn lets_read(&self) -> bool {
        let most = self.secret_bytes_max;
        most == usize::MAX
            || weight::is_light(self.unsealed, self.call, self.mount, self.path, most)
    }
}

/// Answers a read or a list that may ask to wait, or be too long to be made in one go.
fn answer_read(run: RouteCall<'_>, read: Read) -> Answer<'_> {
    Box::pin(async move {
        let kv = Kv::of(&run);
        let now = || {
            let answer = read(&kv, run.params.get("path"));
            answer.expect("no secret is over the largest number")
        };
        let is_long = long::is_long(run.call, run.mount, run.path);
        match kv_watch::asks_to_wait(run.call) {
            true if is_long => {
                Err(Error::invalid("a list this long has to be waited for in pages: limit"))
            }
            true => kv_watch::wait(run.core, &kv, now),
            false if is_long => Box::pin(long::list(run.core, &kv)).await,
            false => now(),
        }
    })
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

impl KvEngine {
    /// What answers.
    fn table(&self) -> &'static RouteTable {
        match self.0 {
            KvState::V1 => &routes::VERSION_1,
            KvState::V2 => &v2::routes::VERSION_2,
            KvState::Upgrading => &routes::UPGRADING,
        }
    }
}

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
            // A mount that is being upgraded is told of as what it will be.
            KvState::V2 | KvState::Upgrading => &v2::routes::VERSION_2,
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
        if call.operation.writes()
            || kv_watch::asks_to_wait(call)
            || long::is_long(call, mount, path)
        {
            return None;
        }
        let run = ReadCall { unsealed, call, mount, path, secret_bytes_max };
        // Most reads are these, and need no look at the table: its rows have the same functions.
        if call.operation == Operation::Read {
            match (self.0, path.strip_prefix("data/")) {
                (KvState::V1, _) => return v1::read(&Kv::reading(run), path),
                (KvState::V2, Some(secret)) => return v2::data::read(&Kv::reading(run), secret),
                (KvState::V2, None) | (KvState::Upgrading, _) => {}
            }
        }
        route_handler::answer_now(self.table(), run)
    }

    fn handle<'a>(&self, run: Run<'a>) -> Answer<'a> {
        route_handler::answer(self.table(), run)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::state::Access;
    use crate::routes::tests::{ROOT, ask, open_core};

    #[test]
    fn paths_that_name_no_secret_are_told_from_those_that_may() {
        use Operation::{Delete, List, Patch, Read, Scan, Update};
        let core = open_core(Access::Token);
        for (operation, path, told) in [
            (Read, "secret/", "missing"),
            (Delete, "secret/", "missing"),
            (List, "secret/", "missing"),
            (Read, "secret/data", "missing"),
            (Read, "secret/data/", "not found"),
            (Read, "secret/metadata/", "not found"),
            (Read, "secret/subkeys/", "not found"),
            (Delete, "secret/data/", "empty"),
            (Delete, "secret/metadata/", "empty"),
            (List, "secret/data", "operation"),
            (List, "secret/data/a", "operation"),
            (List, "secret/metadata", "not found"),
            (Scan, "secret/metadata", "not found"),
            (List, "secret/detailed-metadata/", "not found"),
            (Read, "secret/detailed-metadata/", "operation"),
            (Read, "secret/delete/", "operation"),
            (Read, "secret/delete/a", "operation"),
            (List, "secret/delete/a", "operation"),
            (Update, "secret/subkeys/a", "operation"),
            (Read, "secret/config/", "missing"),
            (List, "secret/config", "missing"),
            (Delete, "secret/config", "operation"),
            (Patch, "secret/other", "missing"),
            (Update, "secret/other/a", "missing"),
            (Read, "one/", "not found"),
            (List, "one/", "not found"),
            (Scan, "one/", "not found"),
            (Delete, "one/", "empty"),
            (Delete, "one/a/", "empty"),
            (Patch, "one/a", "operation"),
        ] {
            let answer = ask(&core, Some(ROOT), operation, path, "{}");
            let found = match answer {
                Ok(Response::Missing(_)) => "missing",
                Ok(Response::Empty) => "empty",
                Err(Error::NotFound) => "not found",
                Err(Error::UnsupportedOperation) => "operation",
                Err(Error::UnsupportedPath) => "path",
                _ => "something else",
            };
            assert_eq!(found, told, "{operation:?} {path}");
        }
    }
}
