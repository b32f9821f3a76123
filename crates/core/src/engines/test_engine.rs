//! An engine that exists only in tests, and does all that the contract lets an engine do.

use std::sync::Mutex;

use kallisto_auth::Operation;
use kallisto_engine::FieldKind::Text;
use kallisto_engine::route::{AFTER, Field, LIMIT, field};
use kallisto_engine::{
    Admits, Call, EngineContext, EngineJob, EngineSpec, Handler, Memory, RouteRows, RowIndex,
    handler, row,
};

use crate::api::error::Error;
use crate::api::json::Json;
use crate::api::response::Response;

const NAME: Field = field("name", Text, "A name.");
/// What it answers that is no JSON.
const CONTENT_TYPE: &str = "application/x-test";

static ROUTES: RouteRows<Handler> = RouteRows {
    name: "test",
    tag: "secrets",
    about: "What only tests ask.",
    index: RowIndex::new(),
    groups: &[&[
        row!("raw", &[AFTER, LIMIT], { List => "List the names.", handler!(list) }),
        row!("raw/{name}", &[NAME], {
            Read => "Read bytes as they came.", handler!(read);
            Update => "Store the body as it comes.", handler!(write);
            Delete => "Delete bytes.", handler!(delete);
        }.light().creating(|to| Some(record(to.params.get("name"))))),
        row!("open/{name}", &[NAME], {
            Read => "Read bytes without a token.", handler!(read_open);
            Update => "Echo bytes without a token.", handler!(echo);
        }.admitting(Admits::Anyone)),
        row!("count/{name}", &[NAME], { Update => "Count one more.", handler!(count) }),
        row!("decoded", &[], { Read => "Tell what is decoded.", handler!(decoded) }),
        row!("heavy", &[], { Update => "Work on other threads.", handler!(heavy) }),
        row!("who", &[], { Read => "Tell who asks, and of which mount.", handler!(who) }),
        row!("random", &[], { Read => "Give two random bytes.", handler!(random) }),
    ]],
};

/// The engine.
pub(crate) static ENGINE: EngineSpec = EngineSpec {
    caseless_folders: &["raw/"],
    memory: Some(|| Box::new(Names::default())),
    jobs: &[EngineJob {
        name: "touch",
        about: "Writes down when it ran.",
        period_secs: 60,
        run: |context| Box::pin(touch(context)),
    }],
    ..EngineSpec::secret("test", &ROUTES)
};

fn record(name: &str) -> String {
    format!("raw/{}", name.to_ascii_lowercase())
}

/// The names of all records, as the engine saw them committed.
#[derive(Default)]
struct Names(Mutex<Vec<String>>);

impl Memory for Names {
    fn put(&self, name: &str, value: &[u8]) -> bool {
        let mut names = self.0.lock().unwrap();
        names.retain(|known| known != name);
        names.push(name.to_owned());
        names.sort();
        value != b"damaged"
    }

    fn remove(&self, name: &str) {
        self.0.lock().unwrap().retain(|known| known != name);
    }
}

fn bytes(body: &[u8]) -> Response {
    Response::Text { code: 200, content_type: CONTENT_TYPE, body: body.to_vec() }
}

async fn list(call: Call<'_>) -> Result<Response, Error> {
    call.list("raw/")
}

async fn read(call: Call<'_>) -> Result<Response, Error> {
    let found = call.storage.get(&record(call.params.get("name")))?.ok_or(Error::NotFound)?;
    Ok(bytes(&found.value))
}

async fn write(call: Call<'_>) -> Result<Response, Error> {
    call.storage.put(&record(call.params.get("name")), call.request.body.to_vec()).await?;
    Ok(Response::data(&Json::object([("created", call.creates.into())])))
}

async fn delete(call: Call<'_>) -> Result<Response, Error> {
    call.storage.delete(&record(call.params.get("name"))).await?;
    Ok(Response::Empty)
}

async fn read_open(call: Call<'_>) -> Result<Response, Error> {
    assert!(call.caller.is_none(), "nobody is asked who they are at an open route");
    read(call).await
}

async fn echo(call: Call<'_>) -> Result<Response, Error> {
    Ok(bytes(call.request.body))
}

async fn count(call: Call<'_>) -> Result<Response, Error> {
    let name = format!("count/{}", call.params.get("name"));
    let counted = call.storage.transact(&name, |transaction| {
        let found = transaction.get(&name)?;
        let before =
            found.and_then(|found| Some(u64::from_be_bytes((*found.value).try_into().ok()?)));
        let count = before.unwrap_or(0) + 1;
        transaction.put(&name, count.to_be_bytes().to_vec())?;
        Ok(count)
    });
    Ok(Response::data(&Json::object([("count", counted.await?.into())])))
}

async fn decoded(call: Call<'_>) -> Result<Response, Error> {
    let names = call.memory::<Names>()?.0.lock().unwrap().clone();
    Ok(Response::data(&Json::object([("names", Json::strings(names))])))
}

async fn heavy(call: Call<'_>) -> Result<Response, Error> {
    let thread = call.run_heavy(|| std::thread::current().name().map(str::to_owned)).await?;
    Ok(Response::data(&Json::object([("thread", thread.unwrap_or_default().into())])))
}

async fn who(call: Call<'_>) -> Result<Response, Error> {
    let caller = call.caller.ok_or(Error::NotFound)?;
    Ok(Response::data(&Json::object([
        ("display_name", caller.display_name.as_str().into()),
        ("mount", call.mount.path.into()),
        ("max_lease", call.mount.max_lease_secs.into()),
    ])))
}

async fn random(call: Call<'_>) -> Result<Response, Error> {
    let mut drawn = [0; 2];
    call.random.fill(&mut drawn)?;
    Ok(bytes(&drawn))
}

async fn touch(context: EngineContext<'_>) -> Result<(), Error> {
    context.storage.put("touched", context.now.to_string().into_bytes()).await
}

mod tests {
    use std::sync::Arc;

    use kallisto_auth::Path;

    use super::*;
    use crate::AuditBatch;
    use crate::api::error::Denial;
    use crate::api::json;
    use crate::api::request::{Request, TokenText};
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::{ROOT, ask, open_core};
    use crate::state::Core;
    use crate::storage::engine_storage::EngineStorage;

    fn core() -> Core {
        open_core(RouteAccess::Token)
    }

    fn told(answer: Result<Response, Error>) -> String {
        match answer.unwrap() {
            Response::Text { content_type: CONTENT_TYPE, body, .. } => {
                String::from_utf8(body).unwrap()
            }
            Response::Logical(logical) => String::from_utf8(logical.data).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// A token with these rules.
    fn token(core: &Core, rules: &str) -> String {
        let body = Json::object([("policy", rules.into())]).to_text();
        let body = String::from_utf8(body).unwrap();
        ask(core, Some(ROOT), Operation::Update, "sys/policies/acl/p", &body).unwrap();
        let made =
            ask(core, Some(ROOT), Operation::Update, "auth/token/create", r#"{"policies":["p"]}"#);
        let Response::Logical(logical) = made.unwrap() else {
            panic!("a token is a logical answer")
        };
        let auth = json::parse_object(&logical.auth).unwrap();
        auth.get("client_token").and_then(Json::as_str).unwrap().to_owned()
    }

    #[test]
    fn bodies_and_answers_need_not_be_json() {
        let core = core();
        let body = "\u{0} no {json";
        assert_eq!(
            told(ask(&core, Some(ROOT), Operation::Update, "test/raw/a", body)),
            r#"{"created":true}"#
        );
        assert_eq!(told(ask(&core, Some(ROOT), Operation::Read, "test/raw/a", "")), body);
        assert_eq!(
            told(ask(&core, Some(ROOT), Operation::List, "test/raw", "")),
            r#"{"keys":["a"]}"#
        );
        ask(&core, Some(ROOT), Operation::Delete, "test/raw/a", "").unwrap();
        let gone = ask(&core, Some(ROOT), Operation::Read, "test/raw/a", "");
        assert_eq!(gone.unwrap_err(), Error::NotFound);
    }

    #[test]
    fn an_open_route_asks_for_no_token_and_looks_at_none() {
        let core = core();
        ask(&core, Some(ROOT), Operation::Update, "test/raw/a", "shown").unwrap();
        for token in [None, Some(ROOT), Some("nobody's")] {
            assert_eq!(told(ask(&core, token, Operation::Read, "test/open/a", "")), "shown");
            assert_eq!(told(ask(&core, token, Operation::Update, "test/open/a", "b")), "b");
            let deleted = ask(&core, token, Operation::Delete, "test/open/a", "");
            assert_eq!(deleted.unwrap_err(), Error::UnsupportedOperation);
        }
        for path in ["test/raw/a", "test/who", "test/open/a/b", "test/open", "test/openly"] {
            let refused = ask(&core, None, Operation::Read, path, "");
            assert_eq!(refused.unwrap_err(), Error::Denied(Denial::BadToken), "{path}");
        }
    }

    #[test]
    fn the_fast_path_leaves_open_routes_alone() {
        let core = core();
        for token in [None, Some(ROOT), Some("nobody's")] {
            let request = Request {
                token: token.map(TokenText::new),
                ..Request::new(
                    Operation::Read,
                    Path::literal("test/open/a").unwrap(),
                    jiff::Timestamp::UNIX_EPOCH,
                )
            };
            let answer = core.read_fast(&request, &mut AuditBatch::default());
            assert!(answer.is_none(), "{answer:?}");
        }
    }

    #[test]
    fn policies_admit_to_all_other_routes_and_tell_making_from_changing() {
        let core = core();
        let maker = token(&core, r#"path "test/raw/*" { capabilities = ["create"] }"#);
        let write = |path| ask(&core, Some(&maker), Operation::Update, path, "x");
        assert_eq!(told(write("test/raw/new")), r#"{"created":true}"#);
        assert_eq!(write("test/raw/new").unwrap_err(), Error::Denied(Denial::Policy));
        let read = ask(&core, Some(&maker), Operation::Read, "test/raw/new", "");
        assert_eq!(read.unwrap_err(), Error::Denied(Denial::Policy));
        // A rule for one spelling of a name without case holds for all of them.
        let denied = token(
            &core,
            r#"path "test/*" { capabilities = ["read"] } path "test/raw/secret" { capabilities = ["deny"] }"#,
        );
        ask(&core, Some(ROOT), Operation::Update, "test/raw/secret", "x").unwrap();
        let read = ask(&core, Some(&denied), Operation::Read, "test/raw/secret", "");
        assert_eq!(read.unwrap_err(), Error::Denied(Denial::Policy));
    }

    #[test]
    fn what_is_not_in_the_table_is_refused_by_it() {
        let core = core();
        for (operation, path, refusal) in [
            (Operation::Read, "test/other", Error::UnsupportedPath),
            (Operation::Read, "test/raw", Error::UnsupportedOperation),
            (Operation::List, "test/who", Error::UnsupportedPath),
            (Operation::Update, "test/who", Error::UnsupportedOperation),
            (Operation::Read, "test/raw/a/", Error::UnsupportedPath),
            (Operation::Patch, "test/raw/a", Error::UnsupportedOperation),
        ] {
            let answer = ask(&core, Some(ROOT), operation, path, "");
            assert_eq!(answer.unwrap_err(), refusal, "{operation:?} {path}");
        }
    }

    #[test]
    fn no_update_is_lost_when_many_transact_at_once() {
        const THREADS: usize = 4;
        const EACH: usize = 50;
        let core = Arc::new(core());
        let counting: Vec<_> = (0..THREADS)
            .map(|_| {
                let core = Arc::clone(&core);
                std::thread::spawn(move || {
                    for _ in 0..EACH {
                        ask(&core, Some(ROOT), Operation::Update, "test/count/a", "").unwrap();
                    }
                })
            })
            .collect();
        counting.into_iter().for_each(|thread| thread.join().unwrap());
        let next = ask(&core, Some(ROOT), Operation::Update, "test/count/a", "");
        assert_eq!(told(next), format!(r#"{{"count":{}}}"#, THREADS * EACH + 1));
    }

    #[test]
    fn decoded_records_are_those_that_were_committed() {
        let core = core();
        for name in ["b", "a", "c"] {
            ask(&core, Some(ROOT), Operation::Update, &format!("test/raw/{name}"), "x").unwrap();
        }
        ask(&core, Some(ROOT), Operation::Delete, "test/raw/c", "").unwrap();
        let decoded = ask(&core, Some(ROOT), Operation::Read, "test/decoded", "");
        assert_eq!(told(decoded), r#"{"names":["raw/a","raw/b"]}"#);
    }

    #[test]
    fn a_job_runs_at_each_mount_once_a_period() {
        let core = core();
        ask(&core, Some(ROOT), Operation::Update, "sys/mounts/other", r#"{"type":"test"}"#)
            .unwrap();
        for secs in [1000, 1059] {
            let now = jiff::Timestamp::from_second(secs).unwrap();
            pollster::block_on(core.run_due_jobs(now)).unwrap();
        }
        let context = core.context.load_full().unwrap();
        for path in ["test/", "other/"] {
            let mount = context.view.mounts.at(path).unwrap();
            let touched = EngineStorage::of(&context, &mount).get("touched").unwrap().unwrap();
            assert_eq!(&*touched.value, b"1970-01-01T00:16:40Z", "{path}");
        }
        let jobs = core.metrics.jobs.all();
        let job = jobs.iter().find(|job| job.facts.name == "test_touch").unwrap();
        assert_eq!((job.runs, job.failures), (1, 0));
    }

    #[test]
    fn a_handler_is_told_who_asks_and_works_beside_the_workers() {
        let core = core();
        let who = told(ask(&core, Some(ROOT), Operation::Read, "test/who", ""));
        assert!(
            who.contains(r#""display_name":"root""#) && who.contains(r#""mount":"test/""#),
            "{who}"
        );
        let heavy = told(ask(&core, Some(ROOT), Operation::Update, "test/heavy", ""));
        assert!(heavy.contains("make-key"), "{heavy}");
        ask(&core, Some(ROOT), Operation::Read, "test/random", "").unwrap();
    }
}
