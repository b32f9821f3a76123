//! Transit: encryption, signatures and HMACs for clients, under keys that stay here.
//!
//! What a key is and can do is `kallisto_transit`'s matter, which is pure; here requests get their
//! fields read, keys are kept in the mount's storage, and answers get their form on the wire. Decoded
//! keys are the memory of the mount ([`KeyCache`]), so that using one reads no store.
//!
//! In a mount's storage: `key/NAME` a named key, `wrapping-key` the pair that imports are wrapped for,
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
mod request;
mod routes;
mod sign;
mod store;
mod tools;

use std::any::Any;

use kallisto_api::Error;
use kallisto_engine::{Call, EngineJob, EngineSpec, Memory, Stored};

use cache::KeyCache;
use store::record_name;

/// Most items of one batch.
const BATCH_ITEMS_MAX: usize = 100_000;

/// Named keys that encrypt and sign for clients.
pub(super) static ENGINE: EngineSpec = EngineSpec {
    memory: Some(|| Box::new(KeyCache::new())),
    light: Some(is_light),
    jobs: &[EngineJob {
        name: "key_rotation",
        about: "Rotates the keys whose period is over.",
        period_secs: due::LOOK_SECS,
        run: |context| Box::pin(due::rotate_due(context)),
    }],
    ..EngineSpec::secret("transit", &routes::TRANSIT)
};

/// What a handler works with.
#[derive(Clone, Copy)]
struct TransitHandler<'a> {
    call: &'a Call<'a>,
}

/// The name of the key that a request is about.
///
/// # Errors
/// [`Error::UnsupportedPath`] for a name that no key has.
fn key_name<'a>(call: &Call<'a>) -> Result<&'a str, Error> {
    let name = call.params.get("name");
    if is_key_name(name) { Ok(name) } else { Err(Error::UnsupportedPath) }
}

/// Whether a request with a small body takes a moment only: it uses a key that is here already, and does no private
/// operation of RSA.
fn is_light(memory: &dyn Memory, path: &str) -> bool {
    let Some((verb, rest)) = path.split_once('/') else { return false };
    let name = rest.trim_end_matches('/').split('/');
    let (name, is_private) = match verb {
        "encrypt" | "verify" | "hmac" => (name.take(1).next(), false),
        "decrypt" | "rewrap" | "sign" => (name.take(1).next(), true),
        "datakey" => (name.skip(1).take(1).next(), false),
        _ => return false,
    };
    let keys = (memory as &dyn Any).downcast_ref::<KeyCache>();
    let key = keys.zip(name).and_then(|(keys, name)| keys.get(&record_name(name)));
    key.is_some_and(|key| !(is_private && key.kind().is_rsa()))
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

/// What a record holds.
fn decoded<T>(
    stored: &Stored,
    decode: fn(&[u8]) -> Result<T, kallisto_transit::Error>,
) -> Result<T, Error> {
    decode(&stored.value).map_err(|error| match error {
        kallisto_transit::Error::Damaged(_) => stored.damaged(),
        other => refusal(other),
    })
}

/// What a client hears of an error of the cryptography.
fn refusal(error: kallisto_transit::Error) -> Error {
    match error {
        kallisto_transit::Error::Invalid(message) => Error::Invalid(message),
        kallisto_transit::Error::Damaged(_) => Error::internal(&error),
        kallisto_transit::Error::Machine(what) => Error::Unavailable(what.to_owned()),
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
