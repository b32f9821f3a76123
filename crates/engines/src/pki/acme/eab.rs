//! External account bindings (RFC 8555, 7.3.4): keys that an operator hands out, each for one account.
//!
//! A key is consumed in the transaction that makes its account, so of many who race with one key one has it.
//!
//! The text of a key is what clients take as base64url, its prefix included; so what they sign with is what that decodes to.

use data_encoding::BASE64URL_NOPAD;
use kallisto_api::json::{self, Json};
use kallisto_api::{Error, Response};
use kallisto_engine::{Call, Transaction};
use zeroize::Zeroizing;

use super::jws::Binding;
use super::problem::{Failure, Kind, fail};
use crate::pki::answer;
use crate::pki::given::{GivenFields, object, write_time};
use crate::pki::ids::IssuerId;

/// What the text of a key begins with.
const PREFIX: &str = "vault-eab-0-";
/// Random bytes of a key.
const KEY_BYTES: usize = 32;
const FOLDER: &str = "acme/eab/";

fn record(id: &str) -> String {
    format!("{FOLDER}{id}")
}

/// The path inside the mount of the directory that a request is for.
fn directory(call: &Call<'_>) -> String {
    match (call.params.get("ref"), call.params.get("role")) {
        ("", "") => "acme".to_owned(),
        ("", role) => format!("roles/{role}/acme"),
        (issuer, "") => format!("issuer/{issuer}/acme"),
        (issuer, role) => format!("issuer/{issuer}/roles/{role}/acme"),
    }
}

/// Hands out a key.
pub(super) async fn make(call: Call<'_>) -> Result<Response, Error> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    call.random.fill(&mut *bytes)?;
    let id = IssuerId::make(call.random)?.to_string();
    let key = Zeroizing::new(format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&*bytes)));
    let kept = object([
        ("key", key.as_str().into()),
        ("key_type", "hs".into()),
        ("acme_directory", format!("{}/directory", directory(&call)).into()),
        ("created_on", write_time(call.now.as_second()).into()),
    ]);
    call.storage.put(&record(&id), Json::Object(kept.clone()).to_text()).await?;
    let mut data = kept;
    data.insert("id".to_owned(), id.into());
    Ok(answer::data(data, Vec::new()))
}

/// Lists the keys that no account has yet.
pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    let names = call.names_in(FOLDER)?;
    let mut info = kallisto_api::Map::new();
    for name in &names {
        let Some(stored) = call.storage.get(&record(name))? else { continue };
        let Ok(mut kept) = json::parse_object(&stored.value) else { continue };
        kept.remove("key");
        info.insert(name.clone(), Json::Object(kept));
    }
    let data = object([("keys", Json::strings(names)), ("key_info", Json::Object(info))]);
    Ok(answer::data(data, Vec::new()))
}

/// Deletes a key.
pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let id = call.params.get("id");
    kallisto_engine::names::check(id)?;
    call.storage.delete(&record(id)).await?;
    Ok(Response::Empty)
}

/// Consumes the key that a binding names, if it verifies; the transaction is the one that makes the account.
pub(super) fn consume(
    transaction: &mut Transaction<'_>,
    binding: &Binding,
    directory: &str,
) -> Result<Result<(), Failure>, Error> {
    let unknown = || fail(Kind::Unauthorized, "the external account binding is not verified");
    if IssuerId::parse(&binding.key_id).is_none() {
        return Ok(Err(unknown()));
    }
    let name = record(&binding.key_id);
    let Some(stored) = transaction.get(&name)? else { return Ok(Err(unknown())) };
    let (secret, bound_to) = stored.decode_object(|kept| {
        let given = GivenFields::of(kept);
        Ok((Zeroizing::new(given.text("key")?), given.text("acme_directory")?))
    })?;
    let secret = BASE64URL_NOPAD.decode(secret.as_bytes()).map_err(|_| stored.damaged())?;
    let secret = Zeroizing::new(secret);
    if bound_to != format!("{directory}/directory") {
        return Ok(Err(unknown()));
    }
    if let Err(failure) = binding.verify(&secret) {
        return Ok(Err(failure));
    }
    transaction.delete(&name)?;
    Ok(Ok(()))
}
