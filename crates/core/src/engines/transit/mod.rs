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
use crate::engines::server_engine::{Answer, EngineFacts, Run, ServerEngine, Weighed};
pub(crate) use cache::KeyCache;
use kallisto_auth::Operation;
use kallisto_engine::{Class, Routes};

use crate::api::error::Error;
use crate::api::response::Response;
use crate::pipeline::state::{Call, Core, NamespaceContext};
use crate::storage::engine_storage::EngineStorage;
use crate::view::Mount;

/// What a handler works with.
struct Transit<'a, 'c, 'r> {
    core: &'a Core,
    unsealed: &'a NamespaceContext,
    call: &'a Call<'c, 'r>,
    mount: &'a Mount,
    storage: EngineStorage<'a>,
}

/// Answers a request; `path` is inside the mount.
async fn handle(
    core: &Core,
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
    mount: &Mount,
    path: &str,
) -> Result<Response, Error> {
    let transit =
        &Transit { core, unsealed, call, mount, storage: EngineStorage::of(unsealed, mount) };
    let segments: Vec<&str> = path.splitn(SEGMENTS_MAX + 1, '/').collect();
    match segments[..] {
        ["encrypt", name] => {
            checked(call, name, Operation::Update)?;
            crypt::encrypt(transit, name).await
        }
        ["decrypt", name] => {
            checked(call, name, Operation::Update)?;
            crypt::decrypt(transit, name).await
        }
        ["rewrap", name] => {
            checked(call, name, Operation::Update)?;
            crypt::rewrap(transit, name).await
        }
        ["datakey", form, name] => {
            checked(call, name, Operation::Update)?;
            crypt::datakey(transit, form, name)
        }
        ["sign" | "verify" | "hmac", name] => use_key(transit, segments[0], name, None).await,
        ["sign" | "verify" | "hmac", name, algorithm] => {
            use_key(transit, segments[0], name, Some(algorithm)).await
        }
        ["keys", ..] => keys(transit, &segments[1..]).await,
        _ => other(transit, &segments).await,
    }
}

/// Most segments of a path that means something.
const SEGMENTS_MAX: usize = 4;

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
    let Some((verb, rest)) = path.split_once('/') else { return matches!(path, "hash" | "random") };
    let name = rest.trim_end_matches('/').split('/');
    let (name, is_private) = match verb {
        "encrypt" | "verify" | "hmac" => (name.take(1).next(), false),
        "decrypt" | "rewrap" | "sign" => (name.take(1).next(), true),
        "datakey" => (name.skip(1).take(1).next(), false),
        "random" | "hash" => return true,
        _ => return false,
    };
    let key =
        name.and_then(|name| unsealed.view.transit.get(mount.entry.id, &store::shelf_name(name)));
    key.is_some_and(|key| !(is_private && key.kind().is_rsa()))
}

/// Whether a record on a mount's engine storage is a key, which may be kept decoded.
pub(crate) fn is_key(shelf_name: &str) -> bool {
    shelf_name.starts_with(store::KEY_FOLDER)
}

/// Refuses a name that no key has, and operations but one.
fn checked(call: &Call<'_, '_>, name: &str, takes: Operation) -> Result<(), Error> {
    if !is_key_name(name) {
        return Err(Error::UnsupportedPath);
    }
    takes_only(call, takes)
}

fn takes_only(call: &Call<'_, '_>, takes: Operation) -> Result<(), Error> {
    if call.operation == takes { Ok(()) } else { Err(Error::UnsupportedOperation) }
}

/// Letters, digits and underscores; dots and dashes inside.
fn is_key_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let ends = name.bytes().next().is_some_and(is_word) && name.bytes().last().is_some_and(is_word);
    ends && name.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

async fn use_key(
    transit: &Transit<'_, '_, '_>,
    verb: &str,
    name: &str,
    algorithm: Option<&str>,
) -> Result<Response, Error> {
    checked(transit.call, name, Operation::Update)?;
    match verb {
        "sign" => sign::sign(transit, name, algorithm).await,
        "verify" => sign::verify(transit, name, algorithm).await,
        _ => sign::hmac(transit, name, algorithm).await,
    }
}

async fn keys(transit: &Transit<'_, '_, '_>, rest: &[&str]) -> Result<Response, Error> {
    let call = transit.call;
    match *rest {
        [] => {
            takes_only(call, Operation::List)?;
            manage::list(transit)
        }
        [name] if is_key_name(name) => match call.operation {
            Operation::Update => manage::create(transit, name).await,
            Operation::Read => manage::read(transit, name),
            Operation::Delete => {
                transit.delete(name).await?;
                Ok(Response::Empty)
            }
            Operation::List | Operation::Scan | Operation::Patch => {
                Err(Error::UnsupportedOperation)
            }
        },
        [name, "soft-delete"] => {
            checked(call, name, Operation::Delete)?;
            manage::set_aside(transit, name).await
        }
        [name, verb] => change(transit, name, verb).await,
        _ => Err(Error::UnsupportedPath),
    }
}

async fn change(transit: &Transit<'_, '_, '_>, name: &str, verb: &str) -> Result<Response, Error> {
    const VERBS: [&str; 6] =
        ["rotate", "config", "trim", "soft-delete-restore", "import", "import_version"];
    if !VERBS.contains(&verb) {
        return Err(Error::UnsupportedPath);
    }
    checked(transit.call, name, Operation::Update)?;
    match verb {
        "rotate" => {
            transit.call.object()?;
            manage::rotate(transit, name).await
        }
        "config" => manage::configure(transit, name).await,
        "trim" => manage::trim(transit, name).await,
        "soft-delete-restore" => manage::take_up(transit, name).await,
        "import" => portable::import(transit, name).await,
        _ => portable::import_version(transit, name).await,
    }
}

/// The routes that are asked for rarely.
async fn other(transit: &Transit<'_, '_, '_>, segments: &[&str]) -> Result<Response, Error> {
    let call = transit.call;
    match *segments {
        ["export", kind, name] => {
            checked(call, name, Operation::Read)?;
            portable::export(transit, kind, name, None)
        }
        ["export", kind, name, version] => {
            checked(call, name, Operation::Read)?;
            portable::export(transit, kind, name, Some(version))
        }
        ["backup", name] => {
            checked(call, name, Operation::Read)?;
            portable::backup(transit, name).await
        }
        ["restore"] => {
            takes_only(call, Operation::Update)?;
            portable::restore(transit, None).await
        }
        ["restore", name] => {
            checked(call, name, Operation::Update)?;
            portable::restore(transit, Some(name)).await
        }
        ["wrapping_key"] => {
            takes_only(call, Operation::Read)?;
            portable::wrapping_key(transit).await
        }
        ["random", ref rest @ ..] if rest.len() <= 2 => {
            takes_only(call, Operation::Update)?;
            tools::random(transit, rest.first().copied(), rest.get(1).copied())
        }
        ["hash", ref rest @ ..] if rest.len() <= 1 => {
            takes_only(call, Operation::Update)?;
            tools::hash(transit, rest.first().copied())
        }
        ["config", "keys"] => {
            reads_or_updates(call)?;
            config::keys(transit).await
        }
        ["cache-config"] => {
            reads_or_updates(call)?;
            config::cache(transit).await
        }
        _ => Err(Error::UnsupportedPath),
    }
}

fn reads_or_updates(call: &Call<'_, '_>) -> Result<(), Error> {
    match call.operation {
        Operation::Read | Operation::Update => Ok(()),
        _ => Err(Error::UnsupportedOperation),
    }
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
        Box::pin(
            async move { handle(run.core, &run.unsealed, run.call, run.mount, run.path).await },
        )
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
