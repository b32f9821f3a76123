//! The short way of writes that came together.
//!
//! A client that sends many secrets at once waits for all of them, and many clients wait at the same time. Each write is a request of its own, with its
//! own decision; but what they change goes into one batch, which is sealed, proposed, synced, applied and folded as one. A write joins a run
//! ([`RunWriter::join`]) where nothing has to be waited for and nothing is refused: whatever is not that simple (an audit device, a rate limit,
//! check-and-set, a refusal) is left alone, before anything was done, for [`Core::handle`]. So is one whose secret somebody else is writing, but that
//! one may wait for its latch and join a later run.
//!
//! Invariants:
//! - what is answered here is answered as [`Core::handle`] would have, and may be done where it would be;
//! - no two writes of a run are of one secret;
//! - a run is committed whole or not at all. Where another writer was first, nothing was done, and each goes its own way.

use std::sync::Arc;

use kallisto_auth::Operation;
use kallisto_store::{Commit, Error as StoreError};

use crate::api::error::Error;
use crate::api::request::Request;
use crate::api::response::Response;
use crate::caller::call::AuthzRequest;
use crate::dispatch::server_engine::{JoinAnswer, JoiningWrite, JudgedTarget};
use crate::limits::{LIGHT_BODY_BYTES_MAX, RUN_WRITES_MAX};
use crate::metrics::{self, InFlight};
use crate::pipeline::fast_path::FastPathCaller;
use crate::records::attribution::Author;
use crate::registry;
use crate::state::Core;
use crate::storage::latches::{BusyLatch, HeldLatches};
use crate::view::{LeftSecrets, NamespaceContext, RunChanges};

/// Writes of any callers that are committed together.
pub struct WriteRun {
    context: Arc<NamespaceContext>,
    changes: RunChanges,
    waiting: Vec<InFlight>,
    /// The latches of what they change, held until all are committed.
    held: HeldLatches,
}

/// Whoever adds writes to runs.
pub struct RunWriter<'a> {
    caller: &'a FastPathCaller<'a>,
    /// Who that is, once it was asked.
    author: Option<Author>,
}

/// What became of a write that was to join a run.
pub enum JoinOutcome {
    /// It is done when the run is.
    Joined,
    /// Somebody writes its secret now, in this run or elsewhere. Nothing was done; when the latch is free it may join another.
    Busy(BusyWrite),
    /// It has to go its own way, and nothing was done.
    Alone,
}

/// A write whose secret somebody else is writing.
pub struct BusyWrite(BusyLatch);

/// The latch of a secret that nobody else writes now.
pub struct ReadyWrite(HeldLatches);

/// A run of writes that is being committed; [`Core::finish_run`] waits for it.
#[must_use = "a run that is not awaited is not acknowledged"]
pub struct RunUnderWay {
    context: Arc<NamespaceContext>,
    commit: Commit,
    left: LeftSecrets,
    waiting: Vec<InFlight>,
    held: HeldLatches,
}

impl FastPathCaller<'_> {
    /// Writes of this caller that may join runs; `None` where each has to go its own way.
    pub fn run_writer(&self) -> Option<RunWriter<'_>> {
        let core = self.core;
        // An audit device has the record of a request before the request is done, and timers are those of single requests.
        if !core.store.leads() || core.audit.is_on() || core.metrics.routes.is_on() {
            return None;
        }
        Some(RunWriter { caller: self, author: None })
    }
}

impl RunWriter<'_> {
    /// A run that nothing has joined.
    pub fn begin_run(&self) -> WriteRun {
        let context = Arc::clone(self.caller.context);
        let held = HeldLatches::none(Arc::clone(&context.latches));
        let changes = RunChanges::new(&context.view);
        WriteRun { context, changes, waiting: Vec::new(), held }
    }

    /// Whether writes of this caller may join a run: it has room, and was begun on the same state of the server.
    pub fn fits(&self, run: &WriteRun) -> bool {
        run.waiting.len() < RUN_WRITES_MAX && Arc::ptr_eq(self.caller.context, &run.context)
    }

    /// Adds a write of a secret's fields ([`Core::write_fields`]) to a run that it [fits](Self::fits), with the latch that was waited for, if any. The request
    /// has the token, address and time of the caller: they are not looked at again.
    pub fn join(
        &mut self,
        run: &mut WriteRun,
        request: &Request<'_>,
        ready: Option<ReadyWrite>,
    ) -> JoinOutcome {
        if let Some(ReadyWrite(held)) = ready {
            run.held.take_over(held);
        }
        self.try_join(run, request).unwrap_or(JoinOutcome::Alone)
    }

    fn try_join(&mut self, run: &mut WriteRun, request: &Request<'_>) -> Option<JoinOutcome> {
        let caller = self.caller;
        // All fields are named, so that whoever adds one decides whether such a request may join still.
        let Request {
            operation,
            path,
            namespace,
            wrap_ttl_secs,
            // Bounded below. The engine takes a body of fields alone, which comes from a protocol without query and headers.
            body: _,
            body_kind: _,
            query: _,
            headers: _,
            // Those of the caller.
            token: _,
            remote: _,
            now: _,
            // There is no audit record that would name it.
            id: _,
            // Logins alone look at it.
            client_chain: _,
        } = request;
        if *operation != Operation::Update
            || *wrap_ttl_secs > 0
            || !namespace.is_empty()
            || request.body_bytes() > LIGHT_BODY_BYTES_MAX
        {
            return None;
        }
        let (mount, inside) = caller.route(path.as_str())?;
        let engine = registry::driver(mount.entry.kind);
        if engine.is_open(inside) {
            return None;
        }
        // What hangs on who asks is no secret of KV, and joins no run.
        let view = &caller.context.view;
        let target = JudgedTarget { view, mount: &mount, path: inside, token: None };
        let asked = AuthzRequest::below(target, request);
        let call = caller.authorize(asked, |_| ()).ok()?;
        let joining = JoiningWrite {
            context: caller.context,
            call: &call,
            mount: &mount,
            path: inside,
            changes: &mut run.changes,
            held: &mut run.held,
            author: &mut self.author,
        };
        match engine.join(joining)? {
            JoinAnswer::Busy(latch) => Some(JoinOutcome::Busy(BusyWrite(latch))),
            JoinAnswer::Joined => {
                run.waiting.push(InFlight::of(request));
                Some(JoinOutcome::Joined)
            }
        }
    }
}

impl BusyWrite {
    /// Waits until nobody else writes the secret. What was decided of the write by then is not: the request is judged anew.
    pub async fn wait(self) -> ReadyWrite {
        ReadyWrite(self.0.wait().await)
    }
}

impl WriteRun {
    /// How many writes joined.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing joined.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Commits what joined; `None` when nothing did.
    pub fn commit(self) -> Option<RunUnderWay> {
        let Self { context, changes, waiting, held } = self;
        if waiting.is_empty() {
            return None;
        }
        let (commit, left) = changes.commit(&context.store);
        Some(RunUnderWay { context, commit, left, waiting, held })
    }
}

impl Core {
    /// Waits until a run is committed; false when that was not possible for all of it, another writer having been first say: nothing was done then, and each
    /// has to go its own way.
    ///
    /// # Errors
    /// What each of its writes is told.
    pub async fn finish_run(&self, run: RunUnderWay) -> Result<bool, Error> {
        let RunUnderWay { context, commit, left, waiting, held } = run;
        let count = waiting.len() as u64;
        let _places = self.metrics.in_flight.enter_all(waiting);
        let answer = match commit.await {
            Ok(position) => {
                left.keep(&context.view, position);
                Ok(Response::Empty)
            }
            Err(StoreError::Conflict | StoreError::TooLarge(_)) => return Ok(false),
            Err(error) => Err(error.into()),
        };
        drop(held);
        self.metrics.count_many(Operation::Update, metrics::outcome(&answer), count);
        answer.map(|_| true)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kallisto_auth::Path;
    use kallisto_store::Batch;

    use super::*;
    use crate::api::json::Map;
    use crate::api::request::{BodyKind, TokenText};
    use crate::engines::kv::fields::{ExpectedVersion, fields_body};
    use crate::platform::server_info::RouteAccess;
    use crate::records::engine_kind::EngineKind;
    use crate::routes::tests::{ROOT, ask, open_core};
    use crate::storage::keys;
    use crate::view::NamespaceContext;

    const TOKEN: &str = "writer";

    fn body(value: &str) -> Map {
        let fields = Map::from([("value".to_owned(), value.into())]);
        fields_body(EngineKind::KV_V2, fields, ExpectedVersion::Any)
    }

    fn write<'a>(token: &'a str, path: &'a str, body: &'a Map) -> Request<'a> {
        Request {
            token: Some(TokenText::new(token)),
            body_kind: BodyKind::Fields(body),
            ..Request::new(Operation::Update, Path::literal(path).unwrap(), Timestamp::UNIX_EPOCH)
        }
    }

    fn is_joined(outcome: &JoinOutcome) -> bool {
        matches!(outcome, JoinOutcome::Joined)
    }

    /// Has those of `requests` that can join one run do so; which they are.
    fn begin(core: &Core, requests: &[Request<'_>]) -> (Vec<bool>, Option<RunUnderWay>) {
        let reads = core.fast_reads().unwrap();
        let first = &requests[0];
        let caller = reads.bearer(first.token, None, first.now).unwrap().unwrap();
        let mut writer = caller.run_writer().unwrap();
        let mut run = writer.begin_run();
        let mut joins =
            |request| writer.fits(&run) && is_joined(&writer.join(&mut run, request, None));
        let joined = requests.iter().map(&mut joins).collect();
        (joined, run.commit())
    }

    /// Writes as a listener does: in a run what joins one, and the rest one by one; all of them where something else came first.
    fn write_all(core: &Core, requests: &[Request<'_>]) -> Vec<Result<(), Error>> {
        let (joined, run) = begin(core, requests);
        let is_done = run.is_none_or(|run| pollster::block_on(core.finish_run(run)).unwrap());
        let alone = |request| pollster::block_on(core.handle(request)).map(drop);
        let each = requests.iter().zip(joined);
        each.map(|(request, joined)| if joined && is_done { Ok(()) } else { alone(request) })
            .collect()
    }

    fn joins(core: &Core, request: &Request<'_>) -> bool {
        begin(core, std::slice::from_ref(request)).0[0]
    }

    fn core_with_token() -> Core {
        let core = open_core(RouteAccess::Token);
        let policy = r#"path "secret/data/new/*" { capabilities = ["create", "read"] }
            path "secret/data/mine/*" { capabilities = ["create", "update", "read"] }
            path "secret/data/limited/*" { capabilities = ["create", "update"]
                                           denied_parameters = { "data" = [] } }
            path "secret/config" { capabilities = ["update"] }
            path "one/*" { capabilities = ["create", "update"] }"#;
        let policy = crate::Json::object([("policy", policy.into())]).to_text();
        let policy = String::from_utf8(policy).unwrap();
        update(&core, "sys/policies/acl/p", &policy);
        update(&core, "auth/token/create", &format!(r#"{{"id":"{TOKEN}","policies":["p"]}}"#));
        core
    }

    fn update(core: &Core, path: &str, body: &str) {
        ask(core, Some(ROOT), Operation::Update, path, body).unwrap();
    }

    fn shown(core: &Core, path: &str) -> String {
        match ask(core, Some(ROOT), Operation::Read, path, "") {
            Ok(Response::Logical(found)) => String::from_utf8(found.data).unwrap(),
            other => format!("{other:?}"),
        }
    }

    fn context_of(core: &Core) -> Arc<NamespaceContext> {
        core.context.load_full().unwrap()
    }

    #[test]
    fn a_run_is_committed_as_one_and_counted_as_many() {
        let core = core_with_token();
        let context = context_of(&core);
        let counted = || {
            let mut counts = core.metrics.requests();
            counts
                .find(|(operation, outcome, _)| (*operation, *outcome) == ("update", "ok"))
                .unwrap()
                .2
        };
        let (seen, before) = (context.view.feed.latest(), counted());
        let body = body("v");
        let paths: Vec<_> = (0..40).map(|at| format!("secret/data/mine/{at}")).collect();
        let requests: Vec<_> = paths.iter().map(|path| write(TOKEN, path, &body)).collect();
        let (joined, run) = begin(&core, &requests);
        assert!(joined.iter().all(|joined| *joined));
        assert!(pollster::block_on(core.finish_run(run.unwrap())).unwrap());
        assert_eq!(counted() - before, 40);
        let heard = context.view.feed.take(seen, 99, |_| true).unwrap();
        assert_eq!(heard.changes.len(), 40);
        let places: std::collections::BTreeSet<_> = paths
            .iter()
            .map(|path| {
                let key = keys::kv_meta(
                    context.view.mounts.route(path).unwrap().0.entry.id,
                    &path["secret/data/".len()..],
                );
                context.store.get(&key).unwrap().unwrap().seqno.0
            })
            .collect();
        assert_eq!(places.len(), 1, "one commit");
        assert_eq!(core.metrics.in_flight.len(), 0);
    }

    /// Two servers that are asked for the same, one of them by runs.
    #[test]
    fn a_run_leaves_what_its_writes_alone_would_leave() {
        let mut dice = fastrand::Rng::with_seed(7);
        let cores = [core_with_token(), core_with_token()];
        let folders = ["new", "mine", "limited", "other"];
        let (mut done, mut refused) = (0, 0);
        for round in 0..60 {
            for core in &cores {
                let settings = if round % 9 == 4 { r#"{"cas_required":true}"# } else { "{}" };
                update(core, "secret/metadata/mine/1", settings);
                update(core, "secret/metadata/mine/2", r#"{"max_versions":2}"#);
                if round % 5 == 0 {
                    let _ = ask(core, Some(ROOT), Operation::Delete, "secret/data/mine/3", "");
                }
            }
            let mut paths: Vec<String> = Vec::new();
            for _ in 0..dice.usize(1..12) {
                let path =
                    format!("secret/data/{}/{}", dice.choice(folders).unwrap(), dice.u8(..6));
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
            let body = body(&format!("{round} \"\n\u{1f511}"));
            let requests: Vec<_> = paths.iter().map(|path| write(TOKEN, path, &body)).collect();
            let by_run = write_all(&cores[0], &requests);
            let alone = |request| pollster::block_on(cores[1].handle(request)).map(drop);
            let alone: Vec<_> = requests.iter().map(alone).collect();
            assert_eq!(by_run, alone, "{paths:?}");
            done += alone.iter().filter(|answer| answer.is_ok()).count();
            refused += alone.iter().filter(|answer| answer.is_err()).count();
        }
        assert!(done > 60 && refused > 80, "{done} {refused}");
        for folder in folders {
            for at in 0..6 {
                let path = format!("secret/data/{folder}/{at}");
                // Times are those of the requests, and ids are drawn: neither is shown here.
                assert_eq!(shown(&cores[0], &path), shown(&cores[1], &path), "{path}");
            }
        }
    }

    #[test]
    fn what_is_not_simple_goes_its_own_way() {
        let core = core_with_token();
        let plain = body("v");
        assert!(joins(&core, &write(TOKEN, "secret/data/mine/a", &plain)));
        let with = |expected| {
            let fields = Map::from([("value".to_owned(), "v".into())]);
            fields_body(EngineKind::KV_V2, fields, expected)
        };
        let (cas, long) =
            (with(ExpectedVersion::Version(0)), body(&"v".repeat(LIGHT_BODY_BYTES_MAX)));
        let path = "secret/data/mine/a";
        for (what, request) in [
            ("check-and-set", write(TOKEN, path, &cas)),
            ("a long value", write(TOKEN, path, &long)),
            ("a folder", write(TOKEN, "secret/data/mine/a/", &plain)),
            ("no secret", write(TOKEN, "secret/config", &plain)),
            ("no right", write(TOKEN, "secret/data/other", &plain)),
            ("a forbidden parameter", write(TOKEN, "secret/data/limited/a", &plain)),
            ("another engine", write(TOKEN, "one/a", &plain)),
            ("nowhere", write(TOKEN, "nowhere/data/a", &plain)),
            (
                "another operation",
                Request { operation: Operation::Delete, ..write(TOKEN, path, &plain) },
            ),
            ("wrapped", Request { wrap_ttl_secs: 60, ..write(TOKEN, path, &plain) }),
            ("a namespace", Request { namespace: "team", ..write(TOKEN, path, &plain) }),
            (
                "no fields",
                Request {
                    body: br#"{"data":{}}"#,
                    body_kind: BodyKind::Json,
                    ..write(TOKEN, path, &plain)
                },
            ),
        ] {
            assert!(!joins(&core, &request), "{what}");
        }
        let context = context_of(&core);
        let (mount, _) = context.view.mounts.route("secret/").unwrap();
        let latch =
            pollster::block_on(context.latches.hold(&keys::kv_meta(mount.entry.id, "mine/a")));
        assert!(!joins(&core, &write(TOKEN, path, &plain)), "somebody writes it");
        drop(latch);
        assert!(joins(&core, &write(TOKEN, path, &plain)));
        update(&core, "secret/config", r#"{"cas_required":true}"#);
        assert!(!joins(&core, &write(TOKEN, path, &plain)), "a refusal");
    }

    #[test]
    fn a_run_has_an_end() {
        let core = core_with_token();
        let body = body("v");
        let paths: Vec<_> =
            (0..=RUN_WRITES_MAX).map(|at| format!("secret/data/mine/{at}")).collect();
        let requests: Vec<_> = paths.iter().map(|path| write(TOKEN, path, &body)).collect();
        let (joined, run) = begin(&core, &requests);
        assert_eq!(joined.iter().filter(|joined| **joined).count(), RUN_WRITES_MAX);
        assert!(pollster::block_on(core.finish_run(run.unwrap())).unwrap());
    }

    #[test]
    fn nothing_of_a_run_is_done_where_another_writer_was_first() {
        let core = core_with_token();
        let context = context_of(&core);
        let (mount, _) = context.view.mounts.route("secret/").unwrap();
        let key = keys::kv_meta(mount.entry.id, "mine/b");
        for name in ["a", "b"] {
            update(&core, &format!("secret/data/mine/{name}"), r#"{"data":{"value":"before"}}"#);
        }
        let body = body("after");
        let requests =
            ["secret/data/mine/a", "secret/data/mine/b"].map(|path| write(TOKEN, path, &body));
        let reads = core.fast_reads().unwrap();
        let caller = reads.bearer(requests[0].token, None, requests[0].now).unwrap().unwrap();
        let mut writer = caller.run_writer().unwrap();
        let mut run = writer.begin_run();
        let mut joins = |request| is_joined(&writer.join(&mut run, request, None));
        assert!(requests.iter().all(&mut joins));
        // As a server would that led meanwhile.
        let record = context.store.get(&key).unwrap().unwrap();
        let mut batch = Batch::new();
        batch.put(key, record.value);
        pollster::block_on(context.store.commit(batch)).unwrap();
        let run = run.commit().unwrap();
        assert_eq!(pollster::block_on(core.finish_run(run)), Ok(false));
        for name in ["a", "b"] {
            assert!(shown(&core, &format!("secret/data/mine/{name}")).contains("before"));
        }
        assert!(write_all(&core, &requests).iter().all(Result::is_ok), "and its latches are free");
    }

    fn store_reads(core: &Core) -> u64 {
        context_of(core).store.counts()[0]
    }

    #[test]
    fn a_secret_that_was_written_again_is_written_without_a_read() {
        let core = core_with_token();
        let body = body("v");
        let requests =
            ["secret/data/mine/a", "secret/data/mine/b"].map(|path| write(TOKEN, path, &body));
        let run = || {
            let before = store_reads(&core);
            let (joined, run) = begin(&core, &requests);
            assert_eq!(joined, [true, true]);
            assert!(pollster::block_on(core.finish_run(run.unwrap())).unwrap());
            store_reads(&core) - before
        };
        assert_eq!([run(), run(), run(), run()], [0, 2, 0, 0]);
        // Whoever else writes has it forgotten.
        update(&core, "secret/data/mine/a", r#"{"data":{"value":"alone"}}"#);
        assert_eq!([run(), run()], [1, 0]);
        update(&core, "secret/metadata/mine/b", r#"{"custom_metadata":{"a":"b"}}"#);
        assert_eq!([run(), run()], [1, 1], "custom metadata is not kept in the clear");
        let of_b = shown(&core, "secret/metadata/mine/b");
        assert!(of_b.contains(r#""a":"b""#) && of_b.contains(r#""current_version":8"#), "{of_b}");
        ask(&core, Some(ROOT), Operation::Delete, "secret/metadata/mine/a", "").unwrap();
        assert_eq!(run(), 1, "only the other is there");
        assert!(shown(&core, "secret/metadata/mine/a").contains(r#""current_version":1,"#));
        // After a rotation the records are sealed again, which may be in between.
        update(&core, "sys/rotate", "");
        for _ in 0..3 {
            assert!(write_all(&core, &requests).iter().all(Result::is_ok));
        }
        assert!(shown(&core, "secret/metadata/mine/a").contains(r#""current_version":4,"#));
    }

    #[test]
    fn what_was_known_of_a_secret_and_is_no_more_so_is_refused_once() {
        let core = core_with_token();
        let body = body("v");
        let requests =
            ["secret/data/mine/a", "secret/data/mine/b"].map(|path| write(TOKEN, path, &body));
        for _ in 0..3 {
            assert!(write_all(&core, &requests).iter().all(Result::is_ok));
        }
        let context = context_of(&core);
        let (mount, _) = context.view.mounts.route("secret/").unwrap();
        let key = keys::kv_meta(mount.entry.id, "mine/b");
        let known = context.view.recent.take(&key).unwrap();
        update(&core, "secret/data/mine/b", r#"{"data":{"value":"between"}}"#);
        context.view.recent.put(&key, known);
        let (joined, run) = begin(&core, &requests);
        assert_eq!(joined, [true, true]);
        assert_eq!(pollster::block_on(core.finish_run(run.unwrap())), Ok(false));
        assert!(shown(&core, "secret/data/mine/b").contains("between"));
        let (joined, run) = begin(&core, &requests);
        assert_eq!(
            (joined, pollster::block_on(core.finish_run(run.unwrap()))),
            (vec![true, true], Ok(true))
        );
        for (name, version) in [("a", 4), ("b", 5)] {
            let shown = shown(&core, &format!("secret/metadata/mine/{name}"));
            assert!(shown.contains(&format!(r#""current_version":{version},"#)), "{shown}");
        }
    }

    /// What the view was told of a run is what a server finds in its records that begins anew.
    #[test]
    fn what_runs_left_is_found_when_the_server_is_unsealed_again() {
        let store = Arc::new(kallisto_store::MemoryStore::new());
        let core = Core::new(store, crate::platform::server_info::ServerInfo::default());
        let root = Some(ROOT.to_owned().into());
        let made = pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
        let paths: Vec<_> = (0..20).map(|at| format!("secret/data/{}/{at}", at % 3)).collect();
        update(&core, "secret/config", r#"{"delete_version_after":"1h"}"#);
        for round in 0..13 {
            let body = body(&format!("{round}"));
            let requests: Vec<_> = paths.iter().map(|path| write(ROOT, path, &body)).collect();
            let some = &requests[..requests.len() - round];
            assert!(write_all(&core, some).iter().all(Result::is_ok));
        }
        let seen = || {
            let secrets = paths.iter().map(|path| {
                let metadata = path.replacen("data", "metadata", 1);
                (shown(&core, path), shown(&core, &metadata))
            });
            let folder = ask(&core, Some(ROOT), Operation::List, "secret/metadata/1/", "");
            (secrets.collect::<Vec<_>>(), format!("{folder:?}"))
        };
        let before = seen();
        assert!(before.0[0].0.contains(r#""version":13"#), "{}", before.0[0].0);
        pollster::block_on(core.seal()).unwrap();
        pollster::block_on(core.give_share(made.keys[0].clone())).unwrap();
        assert_eq!(seen(), before);
        let body = body("after");
        assert!(write_all(&core, &[write(ROOT, &paths[0], &body)])[0].is_ok());
        assert!(shown(&core, &paths[0]).contains(r#""version":14"#));
    }
}
