//! Requests below `identity/`, as root, and what is read out of their answers.

use kallisto_core::json::parse_object;
use kallisto_core::{Error, Map, Operation, Response};

use crate::support::Site;

pub(crate) fn ask(
    site: &Site,
    operation: Operation,
    path: &str,
    body: &str,
) -> Result<Option<Map>, Error> {
    match site.ask(operation, &format!("identity/{path}"), body)? {
        Response::Logical(reply) => Ok(Some(parse_object(&reply.data).unwrap())),
        Response::Empty => Ok(None),
        other => panic!("{path}: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn write(site: &Site, path: &str, body: &str) -> Option<Map> {
    ask(site, Operation::Update, path, body).unwrap()
}

/// Why a write is refused.
#[track_caller]
pub(crate) fn refusal(site: &Site, path: &str, body: &str) -> String {
    match ask(site, Operation::Update, path, body) {
        Err(Error::Invalid(message)) => message,
        other => panic!("{path} {body}: {other:?}"),
    }
}

pub(crate) fn text(map: &Map, name: &str) -> String {
    map[name].as_str().unwrap().to_owned()
}

pub(crate) fn id(answer: Option<Map>) -> String {
    text(&answer.unwrap(), "id")
}

/// The accessor of the method of tokens.
pub(crate) fn accessor(site: &Site) -> String {
    let Response::Merged(reply) = site.ask(Operation::Read, "sys/auth", "").unwrap() else {
        panic!("no methods");
    };
    text(parse_object(&reply.data).unwrap()["token/"].as_object().unwrap(), "accessor")
}
