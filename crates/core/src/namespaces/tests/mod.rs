//! Two namespaces side by side, and what of one could be met in the other: nothing.

mod cross;
mod life;
mod quotas;
mod tokens;

use std::sync::Arc;

use jiff::Timestamp;
use kallisto_auth::{Operation, Path};
use kallisto_store::{MemoryStore, Visit};

use crate::api::error::Error;
use crate::api::json::{self, Json, Map};
use crate::api::request::{BodyKind, Request, TokenText};
use crate::api::response::{BatchAnswer, Logical, Response};
use crate::platform::server_info::ServerInfo;
use crate::state::Core;
use crate::storage::keys::{self, NamespaceNumber};

const ROOT: &str = "root";
/// A policy for everything in a namespace.
const ALL: &str = "path \"*\" { capabilities = [\"create\", \"read\", \"update\", \"patch\", \
                   \"delete\", \"list\", \"scan\", \"sudo\"] }";

/// A request, with what differs between two of them.
#[derive(Clone, Copy)]
struct Ask<'a> {
    namespace: &'a str,
    token: Option<&'a str>,
    wrap_ttl_secs: u64,
    secs: i64,
}

/// As root, in a namespace.
fn root(namespace: &str) -> Ask<'_> {
    Ask { namespace, token: Some(ROOT), wrap_ttl_secs: 0, secs: 0 }
}

/// With a token, in a namespace.
fn with<'a>(namespace: &'a str, token: &'a str) -> Ask<'a> {
    Ask { token: Some(token), ..root(namespace) }
}

impl Ask<'_> {
    fn ask(
        self,
        core: &Core,
        operation: Operation,
        path: &str,
        body: &str,
    ) -> Result<Response, Error> {
        let path = Path::decode(path).map_err(|error| Error::invalid(error.to_string()))?;
        let request = Request {
            namespace: self.namespace,
            token: self.token.map(TokenText::new),
            body: body.as_bytes(),
            body_kind: BodyKind::MergePatch,
            wrap_ttl_secs: self.wrap_ttl_secs,
            remote: Some(([127, 0, 0, 1], 1).into()),
            ..Request::new(operation, path, Timestamp::from_second(self.secs).unwrap())
        };
        pollster::block_on(core.handle(&request))
    }

    /// The data or `auth` of an answer that has to be good.
    #[track_caller]
    fn get(self, core: &Core, operation: Operation, path: &str, body: &str) -> Map {
        match self.ask(core, operation, path, body).unwrap() {
            Response::Logical(logical) | Response::Merged(logical) => {
                let parts = [&logical.data, &logical.auth, &logical.wrap_info];
                let said = parts.into_iter().find(|text| !text.is_empty());
                said.map(|text| json::parse_object(text).unwrap()).unwrap_or_default()
            }
            Response::Empty => Map::new(),
            other => panic!("{path}: {other:?}"),
        }
    }
}

fn open() -> (Arc<MemoryStore>, Core, String) {
    let store = Arc::new(MemoryStore::new());
    let core = Core::new(Arc::clone(&store) as _, ServerInfo::default());
    let made = core.initialize_dev(Some(ROOT.to_owned().into()), Timestamp::UNIX_EPOCH);
    let made = pollster::block_on(made).unwrap();
    let key = crate::seal::Initialized::hex(&made.keys).remove(0);
    (store, core, key)
}

fn make(core: &Core, above: &str, name: &str) -> Map {
    root(above).get(core, Operation::Update, &format!("sys/namespaces/{name}"), "{}")
}

#[track_caller]
fn text(map: &Map, name: &str) -> String {
    map.get(name).and_then(Json::as_str).unwrap_or_else(|| panic!("{name} in {map:?}")).to_owned()
}

/// A JSON object of texts.
fn object(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), Json::from(*value)));
    String::from_utf8(Json::Object(pairs.collect()).to_text()).unwrap()
}

/// A token of a namespace, made by root.
fn token(core: &Core, namespace: &str, body: &str) -> String {
    let auth = root(namespace).get(core, Operation::Update, "auth/token/create", body);
    text(&auth, "client_token")
}

fn policy(core: &Core, namespace: &str, name: &str, rules: &str) {
    let path = format!("sys/policies/acl/{name}");
    root(namespace).get(core, Operation::Update, &path, &object(&[("policy", rules)]));
}

/// Everything an answer says.
fn said(answer: &Result<Response, Error>) -> String {
    let of = |logical: &Logical| {
        let parts = [&logical.data, &logical.auth, &logical.wrap_info];
        let parts = parts.map(|text| String::from_utf8_lossy(text).into_owned());
        parts.concat() + &logical.warnings.concat()
    };
    match answer {
        Ok(
            Response::Logical(logical)
            | Response::Accepted(logical)
            | Response::Missing(logical)
            | Response::Merged(logical)
            | Response::WithStatus { logical, .. },
        ) => of(logical),
        Ok(Response::Each(answers)) => {
            let part = |one: &BatchAnswer| match &one.answer {
                Ok(part) => String::from_utf8_lossy(part.data()).into_owned(),
                Err(error) => error.to_string(),
            };
            answers.iter().map(part).collect()
        }
        Ok(Response::Bare { body, .. }) => String::from_utf8(body.to_text()).unwrap(),
        Ok(Response::Text { body, .. }) => String::from_utf8_lossy(body).into_owned(),
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

/// The records inside a namespace, by key.
fn records(core: &Core, number: NamespaceNumber) -> Vec<(Vec<u8>, Vec<u8>)> {
    records_below(core, &keys::inside(number, &[]))
}

fn records_below(core: &Core, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let context = core.context.load_full().unwrap();
    let mut all = Vec::new();
    let scanned = context.store.scan(prefix, &mut |key, record| {
        all.push((key.to_vec(), record.value.to_vec()));
        Visit::Continue
    });
    scanned.unwrap();
    all
}

fn number(core: &Core, path: &str) -> NamespaceNumber {
    let context = core.context.load_full().unwrap();
    context.view.namespaces.at(path).unwrap().namespace.number
}
