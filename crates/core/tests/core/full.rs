//! A full disk: what takes something away from somebody is taken into the reserve, and nothing else is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use kallisto_core::json::{self, Json};
use kallisto_core::{Core, Error, Operation, Response, ServerInfo};
use kallisto_store::{Batch, Commit, Error as StoreError, MemoryStore, Need, Store, StoreLayer};

use crate::support::{TOKEN, request_of, whole_core};

/// A store in memory that has room for what is essential alone, once it is full.
#[derive(Default)]
struct FullStore {
    inner: MemoryStore,
    is_full: AtomicBool,
}

impl StoreLayer for FullStore {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn commit(&self, batch: Batch) -> Commit {
        if self.is_full.load(Ordering::SeqCst) && batch.need() != Need::Essential {
            return Commit::decided(Err(StoreError::Unavailable("no space is left".into())));
        }
        self.inner.commit(batch)
    }
}

fn ask(core: &Core, operation: Operation, path: &str, body: &str) -> Result<Response, Error> {
    pollster::block_on(core.handle(&request_of(TOKEN, 0, operation, path, body)))
}

/// The data of an answer, or what a login handed out.
fn data(answer: Result<Response, Error>) -> Json {
    let Ok(Response::Logical(logical)) = answer else { panic!("{answer:?}") };
    let text = if logical.auth.is_empty() { logical.data } else { logical.auth };
    json::parse(&text).unwrap()
}

fn text(map: &Json, name: &str) -> String {
    map.as_object().unwrap().get(name).and_then(Json::as_str).unwrap().to_owned()
}

#[test]
fn what_takes_something_away_is_done_on_a_full_disk() {
    use Operation::{Delete, Update};
    let store = Arc::<FullStore>::default();
    let core = whole_core(Arc::clone(&store) as _, ServerInfo::default());
    let root = Some(TOKEN.to_owned().into());
    pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
    let update = |path: &str, body: &str| {
        let answer = ask(&core, Update, path, body);
        assert!(answer.is_ok(), "{path}: {answer:?}");
        answer
    };
    for (path, body) in [
        ("sys/mounts/transit", r#"{"type":"transit"}"#),
        ("sys/mounts/other", r#"{"type":"kv","options":{"version":"2"}}"#),
        ("sys/auth/approle", r#"{"type":"approle"}"#),
        ("sys/auth/userpass", r#"{"type":"userpass"}"#),
        ("sys/auth/gone", r#"{"type":"userpass"}"#),
        ("sys/namespaces/n", "{}"),
        ("transit/keys/k", "{}"),
        ("transit/keys/k/config", r#"{"deletion_allowed":true}"#),
        ("other/data/a", r#"{"data":{"a":"b"}}"#),
        ("secret/data/a", r#"{"data":{"a":"b"}}"#),
        ("secret/data/b", r#"{"data":{"a":"b"}}"#),
        ("secret/data/c", r#"{"data":{"a":"b"}}"#),
        ("sys/policies/acl/p", r#"{"policy":"path \"*\" { capabilities = [\"read\"] }"}"#),
        ("auth/token/roles/r", r#"{"allowed_policies":"p"}"#),
        ("auth/approle/role/web", r#"{"token_policies":"p"}"#),
        ("auth/approle/role/last", r#"{"token_policies":"p"}"#),
        ("auth/userpass/users/u", r#"{"password":"pw"}"#),
        ("auth/gone/users/u", r#"{"password":"pw"}"#),
        ("identity/group", r#"{"name":"g","policies":["p"]}"#),
        ("identity/entity", r#"{"name":"e","policies":["p"]}"#),
    ] {
        update(path, body).unwrap();
    }
    let mint = || data(update("auth/approle/role/web/secret-id", "{}"));
    let [one, two] = [mint(), mint()];
    update("auth/approle/role/last/secret-id", "{}").unwrap();
    let token = text(&data(update("auth/gone/login/u", r#"{"password":"pw"}"#)), "client_token");
    store.is_full.store(true, Ordering::SeqCst);
    let by_id = format!(r#"{{"secret_id":"{}"}}"#, text(&one, "secret_id"));
    let by_accessor = format!(r#"{{"secret_id_accessor":"{}"}}"#, text(&two, "secret_id_accessor"));
    for (operation, path, body) in [
        (Update, "auth/approle/role/web/secret-id/destroy", &*by_id),
        (Update, "auth/approle/role/web/secret-id-accessor/destroy", &by_accessor),
        (Delete, "auth/approle/role/last", ""),
        (Delete, "auth/userpass/users/u", ""),
        (Delete, "auth/token/roles/r", ""),
        (Delete, "identity/entity/name/e", ""),
        (Delete, "identity/group/name/g", ""),
        (Delete, "sys/policies/acl/p", ""),
        (Delete, "transit/keys/k", ""),
        (Delete, "secret/data/a", ""),
        (Update, "secret/destroy/b", r#"{"versions":[1]}"#),
        (Delete, "secret/metadata/b", ""),
        (Update, "sys/kallisto/kv/delete", r#"{"path":"secret/c"}"#),
        (Delete, "sys/mounts/other", ""),
        (Delete, "sys/mounts/transit", ""),
        (Delete, "sys/auth/gone", ""),
        (Delete, "sys/auth/approle", ""),
        (Delete, "sys/namespaces/n", ""),
    ] {
        let answer = ask(&core, operation, path, body);
        assert!(answer.is_ok(), "{operation:?} {path}: {answer:?}");
    }
    let lookup = request_of(&token, 0, Operation::Read, "auth/token/lookup-self", "");
    let ended = pollster::block_on(core.handle(&lookup));
    assert!(matches!(ended, Err(Error::Denied(_))), "its login method is gone: {ended:?}");
    // What was removed is, and everything else waits for space.
    for path in ["other/data/a", "secret/data/b", "auth/userpass/users/u", "sys/policies/acl/p"] {
        assert!(ask(&core, Operation::Read, path, "").is_err(), "{path}");
    }
    for (path, body) in [
        ("secret/data/a", r#"{"data":{"a":"b"}}"#),
        ("secret/undelete/a", r#"{"versions":[1]}"#),
        ("sys/mounts/again", r#"{"type":"kv"}"#),
        ("auth/userpass/users/u", r#"{"password":"pw"}"#),
        ("sys/policies/acl/p", r#"{"policy":"path \"a\" { capabilities = [\"read\"] }"}"#),
        ("identity/entity", r#"{"name":"e"}"#),
        ("identity/group", r#"{"name":"g"}"#),
        ("auth/token/create", "{}"),
    ] {
        let answer = ask(&core, Update, path, body);
        assert!(matches!(answer, Err(Error::Unavailable(_))), "{path}: {answer:?}");
    }
}
