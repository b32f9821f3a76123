//! The key-value engines, versions 1 and 2.
//!
//! Called by the pipeline with an authorised request, its mount and the path inside the mount. They
//! read the view (index first: it is the gate, and asks for no more than "may be there", since
//! table and store compare whole keys), read records of older versions from the store, and
//! write by one batch per request. Neither keeps a map of its own.

pub(crate) mod access;
pub(crate) mod fields;
mod list;
pub(crate) mod long;
mod reading;
mod routes;
pub(crate) mod staged;
pub(crate) mod time;
pub(crate) mod upgrade;
pub(crate) mod v1;
pub(crate) mod v2;
pub(crate) mod weight;

use crate::api::error::Error;
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::dispatch::route_handler::{self, ReadCall, RouteTable};
use crate::dispatch::server_engine::{
    EngineAnswer, JoinAnswer, JoiningWrite, JudgedTarget, RecoverSource, RunningRequest,
    ServerEngine, Weighed,
};
use crate::engines::kv::access::Kv;
use crate::engines::kv_batch;
use crate::engines::kv_watch;
use crate::limits::LIGHT_BODY_BYTES_MAX;
use crate::limits::LIGHT_SECRET_BYTES_MAX;
use crate::records::engine_kind::KvState;
use crate::view::Mount;
use crate::view::NamespaceContext;
use kallisto_auth::Operation;
use kallisto_engine::Routes;

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
        context: &NamespaceContext,
        call: &AuthorizedCall<'_, '_>,
        mount: &Mount,
        path: &str,
    ) -> Option<Result<Response, Error>> {
        if call.operation.writes()
            || kv_watch::asks_to_wait(call)
            || long::is_long(call, mount, path)
        {
            return None;
        }
        let run = ReadCall { context, call, mount, path, secret_bytes_max };
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

    fn join(&self, joining: JoiningWrite<'_>) -> Option<JoinAnswer> {
        match (self.0, joining.path.strip_prefix("data/")) {
            (KvState::V2, Some(secret)) => v2::join(secret, joining),
            _ => None,
        }
    }

    fn handle<'a>(&self, run: RunningRequest<'a>) -> EngineAnswer<'a> {
        route_handler::answer(self.table(), run)
    }

    fn creates(&self, update: JudgedTarget<'_>) -> bool {
        let JudgedTarget { mount, path, .. } = update;
        match self.0 {
            KvState::V1 => !mount.index.contains(path),
            KvState::V2 => match path.split_once('/') {
                Some(("data" | "metadata" | "import", secret)) => !mount.index.contains(secret),
                _ => false,
            },
            KvState::Upgrading => false,
        }
    }

    fn has_snapshots(&self) -> bool {
        self.0 != KvState::Upgrading
    }

    fn recover<'a>(&self, run: RunningRequest<'a>, from: RecoverSource) -> EngineAnswer<'a> {
        Box::pin(kv_batch::recover_one(run, from))
    }

    fn is_light(&self, weighed: &Weighed<'_>) -> bool {
        let is_audited = (weighed.is_audited)();
        let most = if is_audited { LIGHT_BODY_BYTES_MAX } else { LIGHT_SECRET_BYTES_MAX };
        weight::is_light(weighed.context, weighed.request, weighed.mount, weighed.path, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core};

    #[test]
    fn a_write_creates_what_is_not_there_whatever_the_version() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load_full().unwrap();
        let (one, _) = context.view.mounts.route("one/").unwrap();
        let (two, _) = context.view.mounts.route("secret/").unwrap();
        let view = &context.view;
        let creates = |state, mount: &Mount, path: &str| {
            KvEngine(state).creates(JudgedTarget { view, mount, path, token: None })
        };
        for is_there in [false, true] {
            assert_eq!(creates(KvState::V1, &one, "a"), !is_there);
            for path in ["data/a", "metadata/a", "import/a"] {
                assert_eq!(creates(KvState::V2, &two, path), !is_there, "{path}");
            }
            for path in ["delete/a", "config", "a"] {
                assert!(!creates(KvState::V2, &two, path), "{path}");
            }
            assert!(!creates(KvState::Upgrading, &two, "data/a"));
            ask(&core, Some(ROOT), Operation::Update, "one/a", r#"{"v":1}"#).unwrap();
            let data = r#"{"data":{"v":1}}"#;
            ask(&core, Some(ROOT), Operation::Update, "secret/data/a", data).unwrap();
        }
        assert!(!KvEngine(KvState::Upgrading).has_snapshots());
        assert!(KvEngine(KvState::V1).has_snapshots() && KvEngine(KvState::V2).has_snapshots());
    }

    #[test]
    fn a_folder_is_not_written_to() {
        use Operation::{Patch, Update};
        let core = open_core(RouteAccess::Token);
        for (operation, path) in [
            (Update, "secret/data/"),
            (Update, "secret/data/a/"),
            (Patch, "secret/data/a/"),
            (Update, "secret/metadata/"),
            (Update, "secret/metadata/a/"),
            (Patch, "secret/metadata/a/"),
            (Update, "secret/import/a/"),
            (Update, "one/"),
            (Update, "one/a/"),
        ] {
            let answer = ask(&core, Some(ROOT), operation, path, r#"{"data":{"k":"v"}}"#);
            let Err(Error::Invalid(why)) = answer else { panic!("{path}: {answer:?}") };
            assert_eq!(why, "cannot write to a path ending in '/'", "{operation:?} {path}");
        }
    }

    #[test]
    fn paths_that_name_no_secret_are_told_from_those_that_may() {
        use Operation::{Delete, List, Patch, Read, Scan, Update};
        let core = open_core(RouteAccess::Token);
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
