//! Wrapping tokens as JSON Web Tokens: what `X-Vault-Wrap-Format: jwt` asks for.
//!
//! Such a text carries the token itself (`jti`), the server's address and its own times, signed by
//! the cluster with ES512, so that who receives it can see where to take it. It opens nothing but
//! the routes below `sys/wrapping/`, which take the token out of it again; everywhere else it is no
//! token at all, and does not burn the one inside.
//!
//! The key is made by the first request that asks, and lies in the engine storage of `sys/` of the root
//! namespace: the point that verifies, uncompressed, then the pair in PKCS#8. Reading a text takes
//! the point alone, since anyone may ask to look one up.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P521_SHA512_FIXED, ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    UnparsedPublicKey,
};
use data_encoding::BASE64URL_NOPAD;
use kallisto_store::{Batch, Seqno};
use secrecy::SecretString;
use zeroize::Zeroizing;

use super::token::invalid;
use crate::api::error::Error;
use crate::api::json::{self, Json};
use crate::api::request::Request;
use crate::records::token::TokenEntry;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;

/// Where the key is in the engine storage.
const RECORD: &str = "wrapping/key";
/// Length of a point on P-521, uncompressed.
const POINT_BYTES: usize = 133;
const HEADER: &[u8] = br#"{"alg":"ES512","typ":"JWT"}"#;
/// How much earlier than it was made a text is good: clocks differ.
const LEEWAY_SECS: i64 = 5;
/// Longest text that is looked at. Ours have under a kibibyte, of which the address is most.
const TEXT_BYTES_MAX: usize = 8 * 1024;

/// What signs the tokens of one request.
pub(super) struct WrappingSigner {
    pair: EcdsaKeyPair,
    address: String,
}

impl WrappingSigner {
    /// What signs, when the request asks for a signed text.
    ///
    /// # Errors
    /// When there is no key and none can be made.
    pub(super) async fn asked(
        context: &NamespaceContext,
        request: &Request<'_>,
    ) -> Result<Option<Self>, Error> {
        let formats = request.headers.values("x-vault-wrap-format");
        if request.wrap_ttl_secs == 0 || formats.first().is_none_or(|format| format != "jwt") {
            return Ok(None);
        }
        let record = match stored(context)? {
            Some(record) => record,
            None => make(context).await?,
        };
        let (_, pkcs8) = halves(&record)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P521_SHA512_FIXED_SIGNING, pkcs8);
        let pair = pair.map_err(|_| damaged())?;
        let address = context.info.api_addr.clone().unwrap_or_default();
        Ok(Some(Self { pair, address }))
    }

    /// The signed text of a token.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub(super) fn sign(
        &self,
        token: &str,
        entry: &TokenEntry,
        wrapped_accessor: Option<&str>,
    ) -> Result<SecretString, Error> {
        let made = entry.auth.created_at.as_second();
        let lives = i64::try_from(entry.ttl_secs).unwrap_or(i64::MAX);
        let claims = Json::object([
            ("accessor", wrapped_accessor.unwrap_or_default().into()),
            ("addr", self.address.as_str().into()),
            ("exp", number(made.saturating_add(lives))),
            ("iat", number(made)),
            ("jti", token.into()),
            ("nbf", number(made - LEEWAY_SECS)),
            ("type", "wrapping".into()),
        ]);
        let claims = Zeroizing::new(claims.to_text());
        let mut text = Zeroizing::new(BASE64URL_NOPAD.encode(HEADER));
        text.push('.');
        text.push_str(&Zeroizing::new(BASE64URL_NOPAD.encode(&claims)));
        let signature = self.pair.sign(&SystemRandom::new(), text.as_bytes());
        let signature = signature.map_err(|_| Error::internal(&"a signature was not made"))?;
        Ok(format!("{}.{}", *text, BASE64URL_NOPAD.encode(signature.as_ref())).into())
    }
}

fn number(secs: i64) -> Json {
    Json::Number(secs.to_string().into())
}

/// The token in a signed text; `None` for a text that does not look like one.
///
/// # Errors
/// [`Error::Invalid`] when the cluster did not sign it.
pub(super) fn token_in(
    context: &NamespaceContext,
    text: &str,
) -> Result<Option<SecretString>, Error> {
    let Some((signed, signature)) = text.rsplit_once('.') else { return Ok(None) };
    let Some((header, claims)) = signed.split_once('.') else { return Ok(None) };
    if text.len() > TEXT_BYTES_MAX || header != BASE64URL_NOPAD.encode(HEADER) {
        return Ok(None);
    }
    let decode = |part: &str| BASE64URL_NOPAD.decode(part.as_bytes()).map_err(|_| invalid());
    let (claims, signature) = (Zeroizing::new(decode(claims)?), decode(signature)?);
    let record = stored(context)?.ok_or_else(invalid)?;
    let (point, _) = halves(&record)?;
    let key = UnparsedPublicKey::new(&ECDSA_P521_SHA512_FIXED, point);
    key.verify(signed.as_bytes(), &signature).map_err(|_| invalid())?;
    let claims = json::parse_object(&claims).map_err(|_| invalid())?;
    let token = claims.get("jti").and_then(Json::as_str).ok_or_else(invalid)?;
    Ok(Some(token.to_owned().into()))
}

/// The key's record, of the root namespace whatever namespace asks: a text says nothing of its own.
fn stored(context: &NamespaceContext) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
    let top = context.top.upgrade().ok_or(Error::Sealed)?;
    let record = EngineStorage::builtin(&top, MountId::SYSTEM)?.get(RECORD)?;
    Ok(record.map(|record| Zeroizing::new(record.value.to_vec())))
}

/// Makes the key; of two who do so at once both take the one that was first.
async fn make(context: &NamespaceContext) -> Result<Zeroizing<Vec<u8>>, Error> {
    let failed = || Error::internal(&"a key for wrapping tokens could not be made");
    let pair = EcdsaKeyPair::generate(&ECDSA_P521_SHA512_FIXED_SIGNING).map_err(|_| failed())?;
    let pkcs8 = pair.to_pkcs8v1().map_err(|_| failed())?;
    let mut record = Zeroizing::new(pair.public_key().as_ref().to_vec());
    assert!(record.len() == POINT_BYTES, "a point of P-521 has one length");
    record.extend_from_slice(pkcs8.as_ref());

    let top = context.top.upgrade().ok_or(Error::Sealed)?;
    let storage = EngineStorage::builtin(&top, MountId::SYSTEM)?;
    let mut batch = Batch::new();
    storage.expect_in(&mut batch, RECORD, Seqno::ABSENT);
    storage.put_in(&mut batch, RECORD, record.to_vec())?;
    match top.store.commit(batch).await {
        Ok(_) => Ok(record),
        Err(kallisto_store::Error::Conflict) => stored(context)?.ok_or(Error::Conflict),
        Err(error) => Err(error.into()),
    }
}

/// The point and the PKCS#8 document of a record.
fn halves(record: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    record.split_at_checked(POINT_BYTES).ok_or_else(damaged)
}

fn damaged() -> Error {
    Error::internal(&"the key of wrapping tokens is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::token::make_root;

    #[test]
    fn a_signed_text_is_good_from_a_little_before_it_was_made_until_its_token_ends() {
        let pair = EcdsaKeyPair::generate(&ECDSA_P521_SHA512_FIXED_SIGNING).unwrap();
        let signer = WrappingSigner { pair, address: "https://a".to_owned() };
        let mut entry = make_root(jiff::Timestamp::from_second(1000).unwrap()).unwrap();
        entry.ttl_secs = 60;
        let text = signer.sign("hvs.a", &entry, Some("acc")).unwrap();
        let text = secrecy::ExposeSecret::expose_secret(&text).to_owned();
        let claims = text.split('.').nth(1).unwrap();
        let claims = BASE64URL_NOPAD.decode(claims.as_bytes()).unwrap();
        let expected = r#"{"accessor":"acc","addr":"https://a","exp":1060,"iat":1000,"jti":"hvs.a","nbf":995,"type":"wrapping"}"#;
        assert_eq!(String::from_utf8(claims).unwrap(), expected);
    }
}
