//! `encrypt`, `decrypt`, `rewrap` and `datakey`.

use std::sync::Arc;

use data_encoding::BASE64;
use kallisto_api::{Error, Fields, Json, Logical, Map, Response};
use kallisto_transit::{
    Decrypt, Derivation, Encrypt, Encrypted, Kdf, KeyKind, KeySpec, TransitKey,
};
use zeroize::Zeroizing;

use super::inputs::{Inputs, ItemOutcome, OnFailure, base64, effort};
use super::refusal;
use super::store::Created;
use super::{TransitHandler, config, missing_key};

/// What OpenBao says of parameters it does not know; callers choose no nonces here either.
const NONCE_IGNORED: &str = "Endpoint ignored these unrecognized parameters: [nonce]";

pub(super) async fn encrypt(transit: &TransitHandler<'_>, name: &str) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let inputs = Inputs::of(&body)?;
    inputs.require("plaintext", "missing plaintext to encrypt")?;
    inputs.require_texts("plaintext")?;
    let with_context = inputs.have_context()?;
    let key = match transit.find(name)? {
        Some(key) => key,
        None => make_for_encryption(transit, name, Fields::new(&body), with_context).await?,
    };
    let effort = effort(&key, "plaintext");
    let outcomes = inputs.work_off(effort, |item| encrypt_one(&key, item)).await;
    let partial = Fields::new(&body).int("partial_failure_response_code")?;
    let answer = inputs.answer(outcomes, &[], &OnFailure::Status(partial))?;
    Ok(warn_of_nonce(&body, answer))
}

fn warn_of_nonce(body: &Map, answer: Response) -> Response {
    match answer {
        Response::Logical(logical) if body.contains_key("nonce") => {
            Response::Logical(Logical { warnings: vec![NONCE_IGNORED.into()], ..logical })
        }
        other => other,
    }
}

/// A first encryption makes its key, for those who may create it.
async fn make_for_encryption(
    transit: &TransitHandler<'_>,
    name: &str,
    fields: Fields<'_>,
    with_context: bool,
) -> Result<Arc<TransitKey>, Error> {
    if !transit.call.creates {
        return Err(missing_key());
    }
    let convergent = fields.boolean("convergent_encryption")?.unwrap_or(false);
    if convergent && !with_context {
        return Err(Error::invalid(
            "convergent encryption requires derivation to be enabled, so context is required",
        ));
    }
    let named = fields.string("type")?.unwrap_or_else(|| KeyKind::Aes256Gcm96.name().to_owned());
    let kind = match KeyKind::named(&named) {
        Some(kind) if kind.takes_associated_data() => kind,
        Some(_) => {
            return Err(Error::invalid(format!(
                "key type {named} not supported for this operation"
            )));
        }
        None => return Err(Error::invalid(format!("unknown key type {named}"))),
    };
    if config::upsert_is_disabled(transit)? {
        return Err(missing_key());
    }
    let derivation = match (with_context, convergent) {
        (false, _) => Derivation::None,
        (true, false) => Derivation::ByContext(Kdf::HkdfSha256),
        (true, true) => Derivation::Convergent,
    };
    let now_ns = transit.call.request.now_ns();
    let spec = KeySpec { derivation, ..KeySpec::default() };
    let created = transit.create(name, kind, move || TransitKey::make(kind, &spec, now_ns)).await?;
    Ok(match created {
        Created::New(key) | Created::Existing(key) => key,
    })
}

fn encrypt_one(key: &TransitKey, item: &Map) -> ItemOutcome {
    let plaintext = base64(item, "plaintext")?;
    let context = base64(item, "context")?;
    let associated = base64(item, "associated_data")?;
    let encrypted = key
        .encrypt(&Encrypt {
            plaintext: &plaintext,
            context: &context,
            associated: &associated,
            version: version_of(item)?,
        })
        .map_err(refusal)?;
    Ok(encrypted_data(encrypted))
}

fn version_of(item: &Map) -> Result<i64, Error> {
    Ok(Fields::new(item).int("key_version")?.unwrap_or(0))
}

fn encrypted_data(encrypted: Encrypted) -> Map {
    Map::from([
        ("ciphertext".to_owned(), encrypted.text.into()),
        ("key_version".to_owned(), u64::from(encrypted.version).into()),
    ])
}

pub(super) async fn decrypt(transit: &TransitHandler<'_>, name: &str) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let inputs = Inputs::of(&body)?;
    check_ciphertexts(&inputs)?;
    inputs.require("ciphertext", "missing ciphertext to decrypt")?;
    inputs.have_context()?;
    let key = transit.find(name)?.ok_or_else(missing_key)?;
    let effort = effort(&key, "ciphertext");
    let outcomes = inputs.work_off(effort, |item| decrypt_one(&key, item)).await;
    let partial = Fields::new(&body).int("partial_failure_response_code")?;
    inputs.answer(outcomes, &[("plaintext", "".into())], &OnFailure::Status(partial))
}

/// A single empty ciphertext is refused before its key is looked for.
fn check_ciphertexts(inputs: &Inputs<'_>) -> Result<(), Error> {
    match inputs {
        Inputs::One(item) => ciphertext_of(item).map(|_| ()),
        Inputs::Batch(_) => Ok(()),
    }
}

fn ciphertext_of(item: &Map) -> Result<&str, Error> {
    match item.get("ciphertext").and_then(Json::as_str) {
        None | Some("") => Err(Error::invalid("missing ciphertext to decrypt")),
        Some(text) => Ok(text),
    }
}

/// What decrypts an input, with the bytes it borrows.
fn with_decrypt<T>(
    item: &Map,
    run: impl FnOnce(&Decrypt<'_>) -> Result<T, kallisto_transit::Error>,
) -> Result<T, Error> {
    let ciphertext = ciphertext_of(item)?;
    let (context, associated) = (base64(item, "context")?, base64(item, "associated_data")?);
    run(&Decrypt { ciphertext, context: &context, associated: &associated }).map_err(refusal)
}

fn decrypt_one(key: &TransitKey, item: &Map) -> ItemOutcome {
    let plaintext = with_decrypt(item, |request| key.decrypt(request))?;
    Ok(Map::from([("plaintext".to_owned(), BASE64.encode(&plaintext).into())]))
}

pub(super) async fn rewrap(transit: &TransitHandler<'_>, name: &str) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let inputs = Inputs::of(&body)?;
    check_ciphertexts(&inputs)?;
    inputs.have_context()?;
    let key = transit.find(name)?.ok_or_else(missing_key)?;
    let rewrap_one = |item: &Map| {
        let version = version_of(item)?;
        with_decrypt(item, |request| key.rewrap(request, version)).map(encrypted_data)
    };
    let outcomes = inputs.work_off(effort(&key, "ciphertext"), rewrap_one).await;
    inputs.answer(outcomes, &[], &OnFailure::Told)
}

pub(super) fn datakey(
    transit: &TransitHandler<'_>,
    form: &str,
    name: &str,
) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let fields = Fields::new(&body);
    if !matches!(form, "plaintext" | "wrapped") {
        return Err(Error::invalid("Invalid path, must be 'plaintext' or 'wrapped'"));
    }
    let context =
        base64(&body, "context").map_err(|_| Error::invalid("failed to base64-decode context"))?;
    let key = transit.find(name)?.ok_or_else(missing_key)?;
    let bytes = match fields.int("bits")?.unwrap_or(256) {
        128 => 16,
        256 => 32,
        512 => 64,
        _ => return Err(Error::invalid("invalid bit length")),
    };
    let mut data_key = Zeroizing::new(vec![0; bytes]);
    kallisto_transit::fill_random(&mut data_key).map_err(refusal)?;
    let associated = base64(&body, "associated_data")?;
    let encrypted = key
        .encrypt(&Encrypt {
            plaintext: &data_key,
            context: &context,
            associated: &associated,
            version: version_of(&body)?,
        })
        .map_err(refusal)?;
    let mut data = encrypted_data(encrypted);
    if form == "plaintext" {
        data.insert("plaintext".into(), BASE64.encode(&data_key).into());
    }
    Ok(Response::data(&data.into()))
}
