//! `sign`, `verify` and `hmac`.

use super::refusal;
use data_encoding::BASE64;
use kallisto_api::{Error, Fields, Json, Map, Response};
use kallisto_transit::{
    HashAlgorithm, Mac, Marshaling, RsaPadding, SaltBytes, Sign, SignInput, SignOptions,
    TransitKey, decode_base64,
};

use super::inputs::{Inputs, ItemOutcome, OnFailure, effort};
use super::{TransitHandler, missing_key};

/// How a request signs: the same for all its inputs.
struct SigningOptions {
    options: SignOptions,
    prehashed: bool,
    /// Whether it says that there is no hash.
    has_no_hash: bool,
}

/// What a request to verify brings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VerifyProof {
    Signature,
    Hmac,
}

pub(super) async fn sign(
    transit: &TransitHandler<'_>,
    name: &str,
    algorithm: Option<&str>,
) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let unpadded = asked(Fields::new(&body), algorithm)?;
    let key = transit.find(name)?.ok_or_else(|| Error::invalid("signing key not found"))?;
    if !key.kind().signs() {
        let kind = key.kind().name();
        return Err(Error::invalid(format!("key type {kind} does not support signing")));
    }
    let asked = with_padding(unpadded, &key, Fields::new(&body))?;
    let version = Fields::new(&body).int("key_version")?.unwrap_or(0);
    let inputs = Inputs::of(&body)?;
    let sign_one = |item: &Map| sign_one(&key, item, &asked, version, missing_in(&inputs));
    let outcomes = inputs.work_off(effort(&key, "input"), sign_one).await;
    inputs.answer(outcomes, &[("key_version", 0_u64.into())], &OnFailure::Told)
}

fn sign_one(
    key: &TransitKey,
    item: &Map,
    asked: &SigningOptions,
    version: i64,
    missing: MissingInput,
) -> ItemOutcome {
    let input = input_of(item, missing)?;
    let context = context_of(item)?;
    let request = Sign { input: asked.input(&input), context: &context, version };
    let signed = key.sign(&request, asked.options).map_err(refusal)?;
    let mut told = Map::from([
        ("signature".to_owned(), signed.text.into()),
        ("key_version".to_owned(), u64::from(signed.version).into()),
    ]);
    if let Some(public) = signed.public {
        // The contract has two names for it.
        let name = if missing == MissingInput::Refused { "publickey" } else { "public_key" };
        told.insert(name.into(), BASE64.encode(&public).into());
    }
    Ok(told)
}

pub(super) async fn verify(
    transit: &TransitHandler<'_>,
    name: &str,
    algorithm: Option<&str>,
) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let inputs = Inputs::of(&body)?;
    match proof(&inputs)? {
        VerifyProof::Hmac => verify_hmac(transit, name, algorithm, &body, &inputs).await,
        VerifyProof::Signature => verify_signature(transit, name, algorithm, &body, &inputs).await,
    }
}

async fn verify_signature(
    transit: &TransitHandler<'_>,
    name: &str,
    algorithm: Option<&str>,
    body: &Map,
    inputs: &Inputs<'_>,
) -> Result<Response, Error> {
    let unpadded = asked(Fields::new(body), algorithm)?;
    let missing = || Error::invalid("signature verification key not found");
    let key = transit.find(name)?.ok_or_else(missing)?;
    if !key.kind().signs() {
        let kind = key.kind().name();
        return Err(Error::invalid(format!("key type {kind} does not support verification")));
    }
    let asked = with_padding(unpadded, &key, Fields::new(body))?;
    let verify_one = |item: &Map| {
        let input = input_of(item, missing_in(inputs))?;
        let context = context_of(item)?;
        let request = Sign { input: asked.input(&input), context: &context, version: 0 };
        let signature = Fields::new(item).string("signature")?.unwrap_or_default();
        Ok(valid(key.verify(&request, asked.options, &signature).map_err(refusal)?))
    };
    let outcomes = inputs.work_off(effort(&key, "input"), verify_one).await;
    inputs.answer(outcomes, &[("valid", false.into())], &OnFailure::Told)
}

async fn verify_hmac(
    transit: &TransitHandler<'_>,
    name: &str,
    algorithm: Option<&str>,
    body: &Map,
    inputs: &Inputs<'_>,
) -> Result<Response, Error> {
    let key = transit.find(name)?.ok_or_else(missing_key)?;
    let hash = hash_of(Fields::new(body), algorithm)?;
    let verify_one = |item: &Map| {
        let input = input_of(item, missing_in(inputs))?;
        let hmac = Fields::new(item).string("hmac")?.unwrap_or_default();
        Ok(valid(key.verify_mac(hash, &input, &hmac).map_err(refusal)?))
    };
    let outcomes = inputs.work_off(effort(&key, "input"), verify_one).await;
    inputs.answer(outcomes, &[("valid", false.into())], &OnFailure::Told)
}

fn valid(valid: bool) -> Map {
    Map::from([("valid".to_owned(), valid.into())])
}

/// What a request without a proof is told.
const NEITHER: &str = "neither a 'signature' nor an 'hmac' were given to verify";

/// What the inputs are to be verified against: all against the same.
fn proof(inputs: &Inputs<'_>) -> Result<VerifyProof, Error> {
    let has =
        |item: &Map, field: &str| !matches!(item.get(field), None | Some(Json::Null)) as usize;
    let count = |field| inputs.items().map(|item| has(item, field)).sum::<usize>();
    let (signatures, hmacs, all) = (count("signature"), count("hmac"), inputs.items().count());
    let refuse = |why: &str| Err(Error::invalid(why));
    let is_empty = |item: &Map, field: &str| item.get(field).and_then(Json::as_str) == Some("");
    match (inputs, signatures, hmacs) {
        // Of two, one that is empty is none: clients send all fields that they know.
        (Inputs::One(item), 1, 1) => match (is_empty(item, "signature"), is_empty(item, "hmac")) {
            (false, true) => Ok(VerifyProof::Signature),
            (true, false) => Ok(VerifyProof::Hmac),
            (true, true) => refuse(NEITHER),
            (false, false) => refuse("provide one of 'signature' or 'hmac'"),
        },
        (Inputs::One(_), 0, 0) => refuse(NEITHER),
        (_, 0, 0) => refuse("no batch_input elements have 'signature' or 'hmac'"),
        (_, signatures, 0) if signatures == all => Ok(VerifyProof::Signature),
        (_, 0, hmacs) if hmacs == all => Ok(VerifyProof::Hmac),
        (_, _, 0) => refuse("some elements of batch_input are missing 'signature'"),
        (_, 0, _) => refuse("some elements of batch_input are missing 'hmac'"),
        _ => refuse("elements of batch_input must all provide 'signature' or all provide 'hmac'"),
    }
}

pub(super) async fn hmac(
    transit: &TransitHandler<'_>,
    name: &str,
    algorithm: Option<&str>,
) -> Result<Response, Error> {
    let body = transit.call.request.object()?;
    let fields = Fields::new(&body);
    let key = transit.find(name)?.ok_or_else(missing_key)?;
    let named = match algorithm {
        Some(named) => named.to_owned(),
        None => fields.string("algorithm")?.unwrap_or_else(|| DEFAULT_HASH.to_owned()),
    };
    let hash = HashAlgorithm::named(&named)
        .ok_or_else(|| Error::invalid(format!("unsupported algorithm {named:?}")))?;
    let mac: Mac = key.mac(fields.int("key_version")?.unwrap_or(0), hash).map_err(refusal)?;
    let inputs = Inputs::of(&body)?;
    let make_one = |item: &Map| {
        if !item.contains_key("input") {
            return Err(Error::invalid("missing input for HMAC"));
        }
        let input = input_of(item, MissingInput::Empty)?;
        Ok(Map::from([("hmac".to_owned(), mac.make(&input).into())]))
    };
    let outcomes = inputs.work_off(effort(&key, "input"), make_one).await;
    inputs.answer(outcomes, &[], &OnFailure::Told)
}

/// What an absent input is: empty where there is one, an error in a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingInput {
    Empty,
    Refused,
}

const fn missing_in(inputs: &Inputs<'_>) -> MissingInput {
    match inputs {
        Inputs::One(_) => MissingInput::Empty,
        Inputs::Batch(_) => MissingInput::Refused,
    }
}

fn input_of(item: &Map, missing: MissingInput) -> Result<Vec<u8>, Error> {
    if missing == MissingInput::Refused && !item.contains_key("input") {
        return Err(Error::invalid("missing input"));
    }
    let text = Fields::new(item).string("input")?.unwrap_or_default();
    decode_base64(&text)
        .map_err(|error| Error::invalid(format!("unable to decode input as base64: {error}")))
}

fn context_of(item: &Map) -> Result<Vec<u8>, Error> {
    let text = Fields::new(item).string("context")?.unwrap_or_default();
    decode_base64(&text).map_err(|_| Error::invalid("failed to base64-decode context"))
}

impl SigningOptions {
    fn input<'i>(&self, bytes: &'i [u8]) -> SignInput<'i> {
        if self.prehashed { SignInput::Digest(bytes) } else { SignInput::Message(bytes) }
    }
}

/// The hash of a request that names none.
const DEFAULT_HASH: &str = "sha2-256";

/// What a request says that wants no hash.
const NO_HASH: &str = "none";

/// The name of the hash of a request: in its path, or in its body by the new or the old name.
fn hash_name(fields: Fields<'_>, in_path: Option<&str>) -> Result<String, Error> {
    let given = |name| Ok::<_, Error>(fields.string(name)?.filter(|text| !text.is_empty()));
    let named = match in_path {
        Some(named) => Some(named.to_owned()),
        None => {
            given("hash_algorithm")?.map_or_else(|| given("algorithm"), |named| Ok(Some(named)))?
        }
    };
    Ok(named.unwrap_or_else(|| DEFAULT_HASH.to_owned()))
}

fn hash_named(name: &str) -> Result<HashAlgorithm, Error> {
    HashAlgorithm::named(name)
        .ok_or_else(|| Error::invalid(format!("invalid hash algorithm {name:?}")))
}

/// The hash a request names.
fn hash_of(fields: Fields<'_>, in_path: Option<&str>) -> Result<HashAlgorithm, Error> {
    hash_named(&hash_name(fields, in_path)?)
}

/// How to sign, all but the padding.
fn asked(fields: Fields<'_>, in_path: Option<&str>) -> Result<SigningOptions, Error> {
    let name = hash_name(fields, in_path)?;
    let has_no_hash = name == NO_HASH;
    let hash = hash_named(if has_no_hash { DEFAULT_HASH } else { &name })?;
    let named = fields.string("marshaling_algorithm")?.unwrap_or_else(|| "asn1".to_owned());
    let marshaling = Marshaling::named(&named)
        .ok_or_else(|| Error::invalid(format!("invalid marshaling type {named:?}")))?;
    let padding = RsaPadding::Pss(salt(fields)?);
    Ok(SigningOptions {
        options: SignOptions { hash, marshaling, padding },
        prehashed: fields.boolean("prehashed")?.unwrap_or(false),
        has_no_hash,
    })
}

/// The padding that RSA keys sign with; others have none and do not ask.
fn with_padding(
    mut asked: SigningOptions,
    key: &TransitKey,
    fields: Fields<'_>,
) -> Result<SigningOptions, Error> {
    let named = fields.string("signature_algorithm")?;
    if asked.has_no_hash && key.kind().signs_digests() {
        if !asked.prehashed || named.as_deref() != Some("pkcs1v15") {
            return Err(Error::invalid(
                "hash_algorithm=none requires both prehashed=true and signature_algorithm=pkcs1v15",
            ));
        }
        if key.kind().is_rsa() {
            return Err(Error::invalid(
                "hash_algorithm=none is not available for keys of RSA: name the hash of the digest",
            ));
        }
    }
    if !key.kind().is_rsa() {
        return Ok(asked);
    }
    match named.as_deref() {
        None | Some("" | "pss") => {}
        Some("pkcs1v15") => asked.options.padding = RsaPadding::Pkcs1v15,
        Some(other) => {
            return Err(Error::invalid(format!("unsupported rsa signature algorithm {other}")));
        }
    }
    Ok(asked)
}

fn salt(fields: Fields<'_>) -> Result<SaltBytes, Error> {
    let Some(given) = fields.string("salt_length")? else { return Ok(SaltBytes::Auto) };
    match given.to_ascii_lowercase().as_str() {
        "auto" | "0" => return Ok(SaltBytes::Auto),
        "hash" | "-1" => return Ok(SaltBytes::Hash),
        _ => {}
    }
    let count: i64 = given.parse().map_err(|_| {
        Error::invalid(format!("salt length neither 'auto', 'hash', nor an int: {given}"))
    })?;
    let count = usize::try_from(count)
        .map_err(|_| Error::invalid(format!("salt length is invalid: {count}")))?;
    Ok(SaltBytes::Bytes(count))
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::Update;

    use super::super::ENGINE;
    use crate::testing::TestMount;

    #[test]
    fn an_empty_text_is_no_second_proof() {
        let mount = TestMount::new(&ENGINE);
        let ask = |path: &str, body: &str| mount.ask(1_800_000_000, Update, path, body);
        ask("keys/k", r#"{"type":"ed25519"}"#).unwrap();
        let proof = |path: &str, field: &str| {
            TestMount::text(&ask(path, r#"{"input":"YWJj"}"#).unwrap(), field)
        };
        let (signature, hmac) = (proof("sign/k", "signature"), proof("hmac/k", "hmac"));
        for (signature, hmac) in [(signature.as_str(), ""), ("", hmac.as_str())] {
            let body = format!(r#"{{"input":"YWJj","signature":"{signature}","hmac":"{hmac}"}}"#);
            assert_eq!(
                TestMount::text(&ask("verify/k", &body).unwrap(), "valid"),
                "true",
                "{body}"
            );
        }
        let why = |signature: &str, hmac: &str| {
            let body = format!(r#"{{"input":"YWJj","signature":"{signature}","hmac":"{hmac}"}}"#);
            ask("verify/k", &body).unwrap_err().to_string()
        };
        assert_eq!(why(&signature, &hmac), "provide one of 'signature' or 'hmac'");
        assert_eq!(why("", ""), "neither a 'signature' nor an 'hmac' were given to verify");
    }
}
