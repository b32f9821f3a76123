//! A core, and requests to it as root.

use std::sync::Arc;

use jiff::Timestamp;
use kallisto_core::json::{self, Map};
use kallisto_core::{
    Core, EngineSet, Error, InitSpec, KvVersion, Logical, Operation, Path, Request, Response,
    RouteAccess, ServerInfo, TokenText, set_engines,
};
use kallisto_store::{MemoryStore, Store};
use secrecy::ExposeSecret;

/// The root token of every core here.
pub(crate) const TOKEN: &str = "root";

/// A core with the engines of the server.
pub(crate) fn whole_core(store: Arc<dyn Store>, info: ServerInfo) -> Core {
    set_engines(EngineSet {
        engines: &[kallisto_engines::ENGINES, kallisto_auth_methods::METHODS],
        identity_oidc: &kallisto_engines::IDENTITY_OIDC,
    });
    Core::new(store, info)
}

/// A core over a store that outlives it.
pub(crate) struct Site {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) core: Core,
    pub(crate) keys: Vec<String>,
}

/// A sealed core over `store`.
pub(crate) fn sealed(store: Arc<MemoryStore>, hot_bytes_max: usize) -> Core {
    let info = ServerInfo {
        version: "1.18.0".to_owned(),
        build_date: "2026-11-01T00:00:00Z".to_owned(),
        hot_bytes_max,
        unauthenticated_rekey: RouteAccess::Open,
        ..ServerInfo::default()
    };
    whole_core(store, info)
}

impl Site {
    /// A core with one share, unsealed, KV version 2 at `secret/`.
    pub(crate) fn open(hot_bytes_max: usize) -> Self {
        let store = Arc::new(MemoryStore::new());
        let core = sealed(Arc::clone(&store), hot_bytes_max);
        let now = Timestamp::UNIX_EPOCH;
        let root_token = Some(TOKEN.to_owned().into());
        let spec = InitSpec { shares: 1, threshold: 1, root_token, mount_kv: Some(KvVersion::V2) };
        let made = pollster::block_on(core.initialize(&spec, now)).unwrap();
        assert_eq!(made.root_token.expose_secret(), TOKEN);
        let keys = kallisto_core::Initialized::hex(&made.keys);
        let site = Self { store, core, keys };
        site.unseal();
        site
    }

    pub(crate) fn unseal(&self) {
        let body = format!(r#"{{"key":"{}"}}"#, self.keys[0]);
        self.ask(Operation::Update, "sys/unseal", &body).unwrap();
        assert!(!self.core.is_sealed());
    }

    pub(crate) fn ask(
        &self,
        operation: Operation,
        path: &str,
        body: &str,
    ) -> Result<Response, Error> {
        ask(&self.core, operation, path, body)
    }

    pub(crate) fn put(&self, path: &str, value: &str) {
        let body = format!(r#"{{"data":{{"v":"{value}"}}}}"#);
        self.ask(Operation::Update, &format!("secret/data/{path}"), &body).unwrap();
    }

    /// The reply's data, or the error.
    pub(crate) fn get(&self, path: &str) -> Result<String, Error> {
        self.ask(Operation::Read, &format!("secret/data/{path}"), "").map(data_text)
    }

    #[track_caller]
    pub(crate) fn assert_holds(&self, path: &str, value: &str) {
        let reply = self.get(path).unwrap();
        assert!(reply.starts_with(&format!(r#"{{"data":{{"v":"{value}"}},"#)), "{path}: {reply}");
    }
}

/// Asks as root.
pub(crate) fn ask(
    core: &Core,
    operation: Operation,
    path: &str,
    body: &str,
) -> Result<Response, Error> {
    ask_as(core, TOKEN, 0, operation, path, body)
}

/// Asks with a token, so many seconds after the beginning of time.
pub(crate) fn ask_as(
    core: &Core,
    token: &str,
    secs: i64,
    operation: Operation,
    path: &str,
    body: &str,
) -> Result<Response, Error> {
    pollster::block_on(core.handle(&request_of(token, secs, operation, path, body)))
}

/// The same request, for whoever asks in another way.
pub(crate) fn request_of<'a>(
    token: &'a str,
    secs: i64,
    operation: Operation,
    path: &'a str,
    body: &'a str,
) -> Request<'a> {
    Request {
        token: Some(TokenText::new(token)),
        body: body.as_bytes(),
        ..Request::new(
            operation,
            Path::decode(path).unwrap(),
            Timestamp::from_second(secs).unwrap(),
        )
    }
}

/// The payload of an answer of the common kind.
#[track_caller]
pub(crate) fn logical(response: Response) -> Logical {
    match response {
        Response::Logical(logical) => logical,
        other => panic!("{other:?}"),
    }
}

/// The text of an answer's data, also of an answer that has it at the top level too.
#[track_caller]
pub(crate) fn data_text(response: Response) -> String {
    match response {
        Response::Logical(logical) | Response::Merged(logical) => {
            String::from_utf8(logical.data).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

/// The same data, read.
#[track_caller]
pub(crate) fn data(answer: Result<Response, Error>) -> Map {
    json::parse_object(data_text(answer.unwrap()).as_bytes()).unwrap()
}
