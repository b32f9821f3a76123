//! Transit: encryption, signatures and HMACs for clients, under keys that stay here.
//!
//! What a key is and can do is `kallisto_transit`'s matter, which is pure; here requests get their
//! fields read, keys are kept in the mount's engine storage, and answers get their form on the wire. Decoded
//! keys are kept in the view ([`KeyCache`]), so that using one reads no store.
//!
//! On a mount's engine storage: `key/NAME` a named key, `wrapping-key` the pair that imports are wrapped for,
//! `config/…` settings.
//!
//! Invariants:
//! - A request that uses a key works with one value of it from start to end.
//! - No parameter chooses a nonce.
//! - Only a caller with the `create` capability makes a key by encrypting.

mod cache;
mod config;
mod crypt;
mod due;
mod inputs;
mod manage;
mod portable;
mod routes;
mod sign;
mod store;
mod tools;

use crate::engines::jobs::MountJob;
use crate::engines::route_handler::{self, RouteCall};
use crate::engines::server_engine::{Answer, EngineFacts, Run, ServerEngine, Weighed};
pub(crate) use cache::KeyCache;
use kallisto_engine::{Class, Routes};

use crate::api::error::Error;
use crate::pipeline::state::{Call, Core, NamespaceContext};
use crate::storage::engine_storage::EngineStorage;
use crate::view::Mount;

/// What a handler works with.
struct Transit<'a> {
    core: &'a Core,
    unsealed: &'a NamespaceContext,
    call: &'a Call<'a, 'a>,
    mount: &'a Mount,
    storage: EngineStorage<'a>,
}

impl<'a> Transit<'a> {
    fn of(run: &'a RouteCall<'_>) -> Self {
        let RouteCall { core, unsealed, call, mount, .. } = run;
        Self { core, unsealed, call, mount, storage: EngineStorage::of(unsealed, mount) }
    }
}

/// The name of the key that a request is about.
///
/// # Errors
/// [`Error::UnsupportedPath`] for a name that no key has.
fn key_name<'a>(run: &RouteCall<'a>) -> Result<&'a str, Error> {
    let name = run.params.get("name");
    if is_key_name(name) { Ok(name) } else { Err(Error::UnsupportedPath) }
}

/// Whether a mount's path is written by encrypting with a key that is not there yet.
fn creates(mount: &Mount, path: &str) -> bool {
    match path.strip_prefix("encrypt/") {
        Some(name) => !mount.index.contains(&store::shelf_name(name)),
        None => false,
    }
}

/// Whether a request with a small body takes a moment only: it uses a key that is here already, and does no private
/// operation of RSA.
fn is_light(unsealed: &NamespaceContext, mount: &Mount, path: &str) -> bool {
    let (verb, rest) = path.split_once('/').unwrap_or((path, ""));
    let name = rest.trim_end_matches('/').split('/');
    let (name, is_private) = match verb {
        "encrypt" | "verify" | "hmac" => (name.take(1).next(), false),
        "decrypt" | "rewrap" | "sign" => (name.take(1).next(), true),
        "datakey" => (name.skip(1).take(1).next(), false),
        _ => return routes::TRANSIT.find(path).is_some_and(|route| route.is_light),
    };
    let key =
        name.and_then(|name| unsealed.view.transit.get(mount.entry.id, &store::shelf_name(name)));
    key.is_some_and(|key| !(is_private && key.kind().is_rsa()))
}

/// Whether a record on a mount's engine storage is a key, which may be kept decoded.
pub(crate) fn is_key(shelf_name: &str) -> bool {
    shelf_name.starts_with(store::KEY_FOLDER)
}

/// Letters, digits and underscores; dots and dashes inside.
fn is_key_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let ends = name.bytes().next().is_some_and(is_word) && name.bytes().last().is_some_and(is_word);
    ends && name.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

fn missing_key() -> Error {
    Error::invalid("encryption key not found")
}

/// What a client hears of an error of the cryptography.
fn refusal(error: kallisto_transit::Error) -> Error {
    match error {
        kallisto_transit::Error::Invalid(message) => Error::Invalid(message),
        kallisto_transit::Error::Damaged(_) => Error::internal(&error),
        kallisto_transit::Error::Machine(what) => Error::Unavailable(what.to_owned()),
    }
}

/// Named keys that encrypt and sign for clients.
pub(crate) struct TransitEngine;

impl ServerEngine for TransitEngine {
    fn facts(&self) -> EngineFacts {
        EngineFacts::mountable("transit", Class::Secret)
    }

    fn routes(&self) -> &'static dyn Routes {
        &routes::TRANSIT
    }

    fn jobs(&self) -> Vec<MountJob> {
        vec![due::KEY_ROTATION]
    }

    fn handle<'a>(&self, run: Run<'a>) -> Answer<'a> {
        route_handler::answer(&routes::TRANSIT, run)
    }

    fn creates(&self, mount: &Mount, path: &str) -> bool {
        creates(mount, path)
    }

    fn is_light(&self, weighed: &Weighed<'_>) -> bool {
        is_light(weighed.unsealed, weighed.mount, weighed.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_names_are_words_with_dots_and_dashes_inside() {
        for name in ["a", "A_1", "a.b-c", "__", "a--b"] {
            assert!(is_key_name(name), "{name}");
        }
        for name in ["", "-a", "a.", ".", "a b", "a/b", "é"] {
            assert!(!is_key_name(name), "{name}");
        }
    }
}
