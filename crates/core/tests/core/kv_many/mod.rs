//! What Vault does not have, through the pipeline.

mod follow;
mod many;
mod model;
mod remount;
mod removed;
mod seen;

use kallisto_core::json::{self, Json, Map};
use kallisto_core::{Error, Operation, Path, Request, Response, TokenText};

use crate::support::{Site, TOKEN, ask_as};

/// Asks with a query.
fn query(site: &Site, token: &str, path: &str, pairs: &[(&str, &str)]) -> Result<Response, Error> {
    query_for(site, token, Operation::Read, path, pairs)
}

fn query_for(
    site: &Site,
    token: &str,
    operation: Operation,
    path: &str,
    pairs: &[(&str, &str)],
) -> Result<Response, Error> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let request = Request {
        token: Some(TokenText::new(token)),
        query: pairs.iter().map(own).collect(),
        ..Request::new(operation, Path::decode(path).unwrap(), jiff::Timestamp::UNIX_EPOCH)
    };
    pollster::block_on(site.core.handle(&request))
}

/// Asks for one of our own routes with a body.
fn own(site: &Site, token: &str, route: &str, body: &str) -> Result<Response, Error> {
    ask_as(&site.core, token, 0, Operation::Update, &format!("sys/kallisto/kv/{route}"), body)
}

/// The data of a reply.
#[track_caller]
fn data(reply: Response) -> Map {
    match reply {
        Response::Logical(logical) | Response::Missing(logical) => {
            json::parse_object(&logical.data).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

fn text(json: &Json) -> String {
    String::from_utf8(json.to_text()).unwrap()
}

/// The members of an array of texts.
fn texts(map: &Map, name: &str) -> Vec<String> {
    let Some(Json::Array(items)) = map.get(name) else { panic!("no {name}") };
    items.iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

/// A token called `id` with one policy of the same name.
fn bearer(site: &Site, id: &str, rules: &str) -> String {
    policy(site, id, rules);
    let body = format!(r#"{{"id":"{id}","policies":["{id}"],"no_default_policy":true}}"#);
    site.ask(Operation::Update, "auth/token/create", &body).unwrap();
    id.to_owned()
}

fn policy(site: &Site, name: &str, rules: &str) {
    let body = text(&Json::object([("policy", rules.into())]));
    site.ask(Operation::Update, &format!("sys/policies/acl/{name}"), &body).unwrap();
}

/// The names of all secrets of `secret/`.
fn all_names(site: &Site) -> Vec<String> {
    match ask_as(&site.core, TOKEN, 0, Operation::Scan, "secret/metadata/", "") {
        Ok(reply) => texts(&data(reply), "keys"),
        Err(Error::NotFound) => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

const ROUTES: &str = r#"path "sys/kallisto/*" { capabilities = ["read", "update"] }"#;
