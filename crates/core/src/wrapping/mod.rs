//! Response wrapping: an answer handed over inside a token that opens once.
//!
//! With a wrapping lifetime the answer of a request is kept in the cubbyhole of a fresh token, and
//! the client gets that token alone. [`keep`] does that as the last stage, for whatever answered;
//! the routes below `sys/wrapping/` look at such tokens, open them and wrap their content anew.
//!
//! Token and content are put in one batch and deleted in one batch that expects the token to be as
//! it was read: of two who open it at once one gets the content, and a crash leaves both or neither.
//! Any other use of the token takes its one use, as that of any limited token, and so
//! burns it.
//!
//! A wrapping token opens itself without being authenticated (`Admits::WrappingToken`): there its one use
//! would be taken before it is opened. It stands in the header, or in the body of a request that shows no token; beside another token
//! it is opened by that one's right. Who asks for it gets the token inside a signed text ([`jwt`]).

mod jwt;
pub(crate) mod receipts;
mod token;
pub(crate) mod unheard;

use crate::caller::find;
use crate::records::token::make_accessor;
use jiff::{SignedDuration, Timestamp};
use kallisto_auth::policy::RESPONSE_WRAPPING_NAME;
use kallisto_auth::{Token, TokenKind};
use kallisto_store::{Batch, Seqno};
use secrecy::{ExposeSecret, SecretString};

use self::jwt::WrappingSigner;
use self::receipts::{Maker, TokenEnd};
pub(crate) use self::token::is_wrapping;
use self::token::{content_key, invalid};
use crate::api::error::{Denial, Error};
use crate::api::fields::Fields;
use crate::api::json::{self, Json, Map, member};
use crate::api::request::{Request, TokenText};
use crate::api::request_id::RequestId;
use crate::api::response::{LeaseHandle, Logical, Response};
use crate::caller::call::AuthorizedCall;
use crate::limits::WRAPPED_BYTES_MAX;
use crate::records::token::TokenEntry;
use crate::records::token::TokenHash;
use crate::state::Core;
use crate::storage::keys;
use crate::storage::transact::transact;
use crate::view::NamespaceContext;

/// First byte of a record whose answer was found.
const FOUND: u8 = 0;
/// First byte of a record whose answer says that its subject is gone.
const MISSING: u8 = 1;

/// Keeps the answer of a request that asks for wrapping, and gives the token that opens it. An answer that says nothing is given as
/// it is, and one without an envelope: new unseal shares in a wrapping token that runs out would be lost, and with them everything.
///
/// # Errors
/// What making the token says.
pub(crate) async fn keep(
    core: &Core,
    request: &Request<'_>,
    answer: Response,
) -> Result<Response, Error> {
    let Some(content) = WrappableAnswer::of(&answer, request.id) else { return Ok(answer) };
    let context = core.namespace_context(request.namespace)?;
    match wrap(&context, request, &content).await {
        Ok(wrap_info) => {
            let warnings = content.logical.warnings.clone();
            Ok(Response::Logical(Logical { wrap_info, warnings, ..Logical::default() }))
        }
        Err(error) => {
            unheard::end(core, &context, request, &answer).await;
            Err(error)
        }
    }
}

/// An answer that can be wrapped.
struct WrappableAnswer<'a> {
    logical: &'a Logical,
    found: u8,
    /// The id of the request that it answers.
    id: RequestId,
}

impl<'a> WrappableAnswer<'a> {
    /// `None` for an answer that says nothing, has no envelope, or is wrapped already; and for what a login asks for besides, which
    /// has no token and is to be read by who logs in.
    fn of(answer: &'a Response, id: RequestId) -> Option<Self> {
        let logical = answer.logical()?;
        let asks = member(&logical.auth, "mfa_requirement").is_some_and(|asked| asked != b"null");
        let found = if matches!(answer, Response::Missing(_)) { MISSING } else { FOUND };
        (logical.wrap_info.is_empty() && !asks).then_some(Self { logical, found, id })
    }

    /// The record: one byte, then the envelope as the client would have had it.
    fn encode(&self) -> Result<Vec<u8>, Error> {
        let Logical { data, auth, .. } = self.logical;
        let mut out = Vec::with_capacity(data.len() + auth.len() + 256);
        out.push(self.found);
        self.logical.write_envelope(self.id, b"", &mut out);
        if out.len() > WRAPPED_BYTES_MAX {
            return Err(Error::TooLarge(format!(
                "an answer of {} bytes is over the limit of {WRAPPED_BYTES_MAX} for wrapping",
                out.len()
            )));
        }
        Ok(out)
    }
}

/// What a record says; `None` when the bytes are no record. Data and `auth` are taken out as they stand: an answer may be deeper than a body,
/// and have more values.
fn decode(record: &[u8]) -> Option<Response> {
    let (&found, envelope) = record.split_first()?;
    let raw = |name: &str| member(envelope, name).filter(|text| *text != b"null");
    let small = |name: &str| raw(name).and_then(|text| json::parse(text).ok());
    let warnings = match small("warnings") {
        Some(Json::Array(all)) => all.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let lease_secs = match small("lease_duration") {
        Some(Json::Number(secs)) => secs.parse().ok()?,
        _ => return None,
    };
    let renewable = raw("renewable").is_some_and(|text| text == b"true");
    let lease = match small("lease_id") {
        Some(Json::String(id)) if !id.is_empty() => Some(LeaseHandle { id, renewable }),
        _ => None,
    };
    let text = |name: &str| raw(name).unwrap_or_default().to_vec();
    let (data, auth) = (text("data"), text("auth"));
    // All fields are named, so that whoever adds one decides whether it is kept.
    let (wrap_info, etag, index, touched) = (Vec::new(), None, None, Vec::new());
    let logical =
        Logical { data, lease_secs, lease, auth, wrap_info, warnings, etag, index, touched };
    match found {
        FOUND => Some(Response::Logical(logical)),
        MISSING => Some(Response::Missing(logical)),
        _ => None,
    }
}

/// The answer in a wrapping token; `None` when it holds none.
///
/// # Errors
/// When the record cannot be read.
pub(crate) fn content(
    context: &NamespaceContext,
    hash: &TokenHash,
) -> Result<Option<Response>, Error> {
    let record = context.store.get(&content_key(hash))?;
    Ok(record.and_then(|record| decode(&record.value)))
}

/// The accessor of what an answer hands out: of a token, or of a secret id.
fn wrapped_accessor(logical: &Logical) -> Option<String> {
    const SECRET_ID: &str = "secret_id_accessor";
    let member = |text: &[u8], name: &str| {
        let map = json::parse_object(text).ok()?;
        map.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    };
    if !logical.auth.is_empty() {
        return member(&logical.auth, "accessor");
    }
    let hands_out = memchr::memmem::find(&logical.data, SECRET_ID.as_bytes()).is_some();
    let hands_out = hands_out && memchr::memmem::find(&logical.data, b"\"secret_id\":").is_some();
    hands_out.then(|| member(&logical.data, SECRET_ID)).flatten()
}

/// Keeps an answer in a fresh token; the `wrap_info` of the reply.
async fn wrap(
    context: &NamespaceContext,
    request: &Request<'_>,
    content: &WrappableAnswer<'_>,
) -> Result<Vec<u8>, Error> {
    let mut batch = Batch::new();
    let ttl_secs = request.wrap_ttl_secs.min(context.leases.max_secs);
    let path = request.path.as_str();
    let maker = Maker::of(context, request);
    let told = (content.encode()?, maker.as_ref());
    let made = put_in(&mut batch, context, path, ttl_secs, told, request.now)?;
    let signer = WrappingSigner::asked(context, request).await?;
    let wrap_info = made.wrap_info(wrapped_accessor(content.logical), signer.as_ref())?;
    context.store.commit(batch).await?;
    Ok(wrap_info)
}

/// A wrapping token that was made.
struct WrappingToken {
    entry: TokenEntry,
    text: SecretString,
}

/// Adds a wrapping token, its content and the receipt of its maker to a batch.
fn put_in(
    batch: &mut Batch,
    context: &NamespaceContext,
    path: &str,
    ttl_secs: u64,
    (record, maker): (Vec<u8>, Option<&Maker>),
    now: Timestamp,
) -> Result<WrappingToken, Error> {
    let text = find::make_text_in(&context.view)?;
    let cluster = context.view.cluster().ok_or(Error::Sealed)?;
    let tag = cluster.token_key.hash(text.expose_secret());
    let key = keys::token(tag.as_ref());
    let ttl = SignedDuration::from_secs(i64::try_from(ttl_secs).unwrap_or(i64::MAX));
    let entry = TokenEntry {
        auth: Token {
            accessor: context.view.marked(make_accessor()?),
            kind: TokenKind::Service,
            policies: vec![RESPONSE_WRAPPING_NAME.into()],
            display_name: "token".into(),
            path: path.into(),
            created_at: now,
            expires_at: Some(now.saturating_add(ttl).unwrap_or(Timestamp::MAX)),
            orphan: true,
        },
        parent: None,
        parent_above: None,
        meta: None,
        uses_left: 1,
        ttl_secs,
        period_secs: 0,
        explicit_max_ttl_secs: ttl_secs,
        max_ttl_secs: 0,
        renewable: false,
        role: None,
        entity_id: None,
        bound_cidrs: Vec::new(),
        kept: Map::new(),
        renewed_at: None,
    };
    batch.expect(key.clone(), Seqno::ABSENT);
    batch.put(key, entry.encode());
    batch.put(content_key(tag.as_ref()), record);
    if let Some(maker) = maker {
        receipts::put_in(batch, context, &entry, maker)?;
    }
    Ok(WrappingToken { entry, text })
}

impl WrappingToken {
    /// The `wrap_info` of a reply, as JSON text; with a signer the token comes in its text.
    fn wrap_info(
        &self,
        wrapped_accessor: Option<String>,
        signer: Option<&WrappingSigner>,
    ) -> Result<Vec<u8>, Error> {
        let auth = &self.entry.auth;
        let token = self.text.expose_secret();
        let signed = signer
            .map(|signer| signer.sign(token, &self.entry, wrapped_accessor.as_deref()))
            .transpose()?;
        let token = signed.as_ref().map_or(token, |signed| signed.expose_secret());
        let mut map: Map = [
            ("token", Json::from(token)),
            ("accessor", auth.accessor.as_str().into()),
            ("ttl", self.entry.ttl_secs.into()),
            ("creation_time", auth.created_at.to_string().into()),
            ("creation_path", auth.path.as_str().into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        if let Some(accessor) = wrapped_accessor {
            map.insert("wrapped_accessor".into(), accessor.into());
        }
        Ok(Json::Object(map).to_text())
    }
}

/// Whether a token is a wrapping token that was not used yet.
fn is_whole(entry: &TokenEntry, now: Timestamp) -> bool {
    is_wrapping(entry) && entry.uses_left == 1 && !entry.auth.is_expired(now)
}

/// The wrapping token of a text, and its hash.
fn find(
    context: &NamespaceContext,
    text: &str,
    now: Timestamp,
) -> Result<(TokenHash, TokenEntry), Error> {
    let inside = jwt::token_in(context, text)?;
    let text = inside.as_ref().map_or(text, |inside| inside.expose_secret());
    let guard = context.view.tokens.pin();
    let found = find::find(&context.view, Some(TokenText::new(text)), now, &guard);
    let (hash, live) = found.map_err(|error| match error {
        Error::Denied(_) => invalid(),
        other => other,
    })?;
    let entry = live.entry();
    if is_whole(&entry, now) { Ok((hash, entry)) } else { Err(invalid()) }
}

/// The wrapping token in the body; `None` when there is none but the one that asks.
fn given(request: &Request<'_>) -> Result<Option<SecretString>, Error> {
    let body = request.object()?;
    let own = request.token.map(TokenText::expose);
    let given = Fields::new(&body).string("token")?;
    let given = given.filter(|text| !text.is_empty() && Some(text.as_str()) != own);
    Ok(given.map(SecretString::from))
}

/// The wrapping token that a request is about: the one in its body, else the one that asks.
fn subject(request: &Request<'_>) -> Result<SecretString, Error> {
    if let Some(given) = given(request)? {
        return Ok(given);
    }
    let own = request.token.ok_or(Error::Denied(Denial::NoWrappingToken))?;
    Ok(own.expose().to_owned().into())
}

/// Answers `sys/wrapping/lookup`, for anyone and without using the token; by accessor, for the maker of the token.
///
/// # Errors
/// [`Error::Invalid`] when it is no wrapping token, or was opened.
pub(crate) fn look_up(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let context = core.namespace_context(request.namespace)?;
    if let Some(accessor) = receipts::named(request)? {
        return receipts::look_up(&context, request, &accessor);
    }
    let (_, entry) = find(&context, subject(request)?.expose_secret(), request.now)?;
    Ok(Response::data(&Json::object([
        ("creation_path", entry.auth.path.as_str().into()),
        ("creation_time", entry.auth.created_at.to_string().into()),
        ("creation_ttl", entry.ttl_secs.into()),
    ])))
}

/// Whether a request to unwrap is answered without asking who asks: a wrapping token opens itself, in the header or
/// alone in the body, and what is no wrapping token is refused to everyone.
pub(crate) fn opens_itself(core: &Core, request: &Request<'_>) -> bool {
    let Ok(context) = core.namespace_context(request.namespace) else { return true };
    match given(request) {
        Ok(Some(_)) if request.token.is_none() => true,
        Ok(Some(other)) => find(&context, other.expose_secret(), request.now).is_err(),
        Ok(None) | Err(_) => true,
    }
}

/// Opens the wrapping token that asks: the one in the header, or in the body of a request without a header.
///
/// # Errors
/// [`Error::Invalid`] when it is none, or was opened.
pub(crate) async fn unwrap_itself(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let context = core.namespace_context(request.namespace)?;
    if request.token.is_some() && given(request)?.is_some() {
        return Err(invalid());
    }
    unwrap(&context, &subject(request)?, request.now).await
}

/// Opens the wrapping token in the body, for a caller who may.
///
/// # Errors
/// [`Error::Invalid`] when it is none, or was opened.
pub(crate) async fn unwrap_given(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    unwrap(context, &subject(call)?, call.now).await
}

async fn unwrap(
    context: &NamespaceContext,
    text: &SecretString,
    now: Timestamp,
) -> Result<Response, Error> {
    let (hash, _) = find(context, text.expose_secret(), now)?;
    let ((), record) = take(context, &hash, now, |_, _, _| Ok(())).await?;
    decode(&record).ok_or_else(|| Error::internal(&"a wrapped answer is damaged"))
}

/// Answers `sys/wrapping/wrap`: the body comes back, wrapped.
///
/// # Errors
/// [`Error::Invalid`] unless wrapping is asked for.
pub(crate) fn echo(call: &AuthorizedCall<'_, '_>) -> Result<Response, Error> {
    let body = call.object()?;
    if call.wrap_ttl_secs == 0 {
        return Err(Error::invalid("endpoint requires response wrapping to be used"));
    }
    Ok(Response::data(&Json::Object(body)))
}

/// Answers `sys/wrapping/rewrap`: the content moves to a fresh token of the same lifetime.
///
/// # Errors
/// [`Error::Invalid`] when the token is no wrapping token, or was opened.
pub(crate) async fn rewrap(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let signer = WrappingSigner::asked(context, call).await?;
    let (hash, _) = find(context, subject(call)?.expose_secret(), call.now)?;
    let maker = Maker::of(context, call);
    let again = |batch: &mut Batch, old: &TokenEntry, record: &[u8]| {
        let told = (record.to_vec(), maker.as_ref());
        put_in(batch, context, &old.auth.path, old.ttl_secs, told, call.now)
    };
    let (made, record) = take(context, &hash, call.now, again).await?;
    let accessor = match decode(&record) {
        Some(Response::Logical(logical) | Response::Missing(logical)) => wrapped_accessor(&logical),
        _ => None,
    };
    let wrap_info = made.wrap_info(accessor, signer.as_ref())?;
    Ok(Response::Logical(Logical { wrap_info, ..Logical::default() }))
}

/// Ends a wrapping token and gives what was in it, to one caller only; `also` adds to the same batch.
async fn take<T>(
    context: &NamespaceContext,
    hash: &TokenHash,
    now: Timestamp,
    also: impl Fn(&mut Batch, &TokenEntry, &[u8]) -> Result<T, Error>,
) -> Result<(T, Vec<u8>), Error> {
    let (key, content) = (keys::token(hash), content_key(hash));
    // Somebody else may use it meanwhile.
    transact(&context.store, |batch| {
        let stored = context.store.get(&key)?.ok_or_else(invalid)?;
        let entry = TokenEntry::decode(&stored.value);
        let entry = entry.ok_or_else(|| Error::internal(&"a token record is damaged"))?;
        if !is_whole(&entry, now) {
            return Err(invalid());
        }
        let record = context.store.get(&content)?.ok_or_else(invalid)?;
        batch.expect(key.clone(), stored.seqno);
        batch.delete(key.clone());
        batch.delete(content.clone());
        receipts::mark_in(batch, context, &entry.auth.accessor, (TokenEnd::Opened, now))?;
        let made = also(batch, &entry, &record.value)?;
        Ok((made, record.value.to_vec()))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logical(data: &str, auth: &str) -> Logical {
        let warnings = vec!["a \"b\"".to_owned()];
        Logical {
            data: data.into(),
            auth: auth.into(),
            warnings,
            lease_secs: 7,
            ..Logical::default()
        }
    }

    #[test]
    fn what_is_wrapped_comes_back_as_it_was() {
        for answer in [
            Response::Logical(logical(r#"{"a":1.50,"b":[null]}"#, "")),
            Response::Logical(logical("", r#"{"accessor":"x"}"#)),
            Response::Missing(logical(r#"{"data":null}"#, "")),
            Response::Logical(Logical {
                lease: Some(LeaseHandle { id: "db/creds/\"r\"/x".into(), renewable: true }),
                ..logical("{}", "")
            }),
        ] {
            let record = WrappableAnswer::of(&answer, RequestId::make()).unwrap().encode().unwrap();
            let again = decode(&record).unwrap();
            assert_eq!(format!("{again:?}"), format!("{answer:?}"));
            assert!(
                kallisto_engine::wrapped::envelope(&record)
                    .unwrap()
                    .starts_with(r#"{"request_id":""#)
            );
        }
        assert!(WrappableAnswer::of(&Response::Empty, RequestId::make()).is_none());
        assert!(decode(b"").is_none() && decode(b"\x02{}").is_none());
    }

    /// An answer is deeper than the body that it came from, and a list may have more values than a body.
    #[test]
    fn what_no_body_could_hold_comes_back_too() {
        let deep =
            format!("{}1{}", r#"{"a":"#.repeat(json::DEPTH_MAX), "}".repeat(json::DEPTH_MAX));
        let long = format!("{{\"keys\":[1{}]}}", ",1".repeat(json::VALUES_MAX));
        for data in [deep, long] {
            let answer = Response::Logical(logical(&data, ""));
            let record = WrappableAnswer::of(&answer, RequestId::make()).unwrap().encode().unwrap();
            let again = decode(&record).expect("it comes back");
            assert!(again.logical().unwrap().data == data.as_bytes());
        }
    }

    #[test]
    fn the_accessor_of_what_is_handed_out_is_told() {
        let token = logical("", r#"{"accessor":"t","client_token":"hvs.x"}"#);
        assert_eq!(wrapped_accessor(&token).as_deref(), Some("t"));
        let secret_id = logical(r#"{"secret_id":"s","secret_id_accessor":"a"}"#, "");
        assert_eq!(wrapped_accessor(&secret_id).as_deref(), Some("a"));
        assert_eq!(wrapped_accessor(&logical(r#"{"data":{"a":1}}"#, "")), None);
    }

    #[test]
    fn an_answer_is_wrapped_up_to_its_limit() {
        let logical = |bytes: usize| Logical { data: vec![b'1'; bytes], ..Logical::default() };
        let encoded = |bytes: usize| {
            let id = RequestId::make();
            WrappableAnswer { logical: &logical(bytes), found: FOUND, id }.encode()
        };
        let besides = encoded(1).unwrap().len() - 1;
        let most = WRAPPED_BYTES_MAX - besides;
        assert_eq!(encoded(most).unwrap().len(), WRAPPED_BYTES_MAX);
        for over in [1, 100] {
            assert!(matches!(encoded(most + over), Err(Error::TooLarge(_))));
        }
    }

    #[test]
    fn a_secret_id_is_known_by_its_accessor_only_where_one_is_handed_out() {
        let accessor =
            |data: &str| wrapped_accessor(&Logical { data: data.into(), ..Logical::default() });
        let both = r#"{"secret_id":"s","secret_id_accessor":"acc"}"#;
        assert_eq!(accessor(both).as_deref(), Some("acc"));
        assert_eq!(accessor(r#"{"secret_id_accessor":"acc"}"#), None, "it is looked up");
        assert_eq!(accessor(r#"{"secret_id":"s"}"#), None);
    }
}
