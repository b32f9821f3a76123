//! What is remembered of a wrapping token for whoever made it: whether it waits, was opened, expired or was taken back.
//!
//! Beside a wrapping token whose maker showed a token, its batch puts a receipt: `wrapping/receipt/ACCESSOR` in the engine storage of
//! `sys/` of the namespace. It names the maker, by entity or else by token, and none of the content. Opening the token, or using it up in
//! another way, marks the receipt. The maker asks by accessor (`sys/wrapping/lookup`) and takes a token back that waits
//! (`sys/wrapping/revoke`): a caller who knows an accessor and is not the maker gets the answer for an accessor that never existed.
//!
//! Receipts are kept for [`KEPT_SECS`] after the end of the token. [`sweep`] deletes them then, by the clock.

use data_encoding::HEXLOWER;
use jiff::{SignedDuration, Timestamp};
use kallisto_store::Batch;

use super::token::{content_key, invalid, is_wrapping};
use crate::api::error::{Denial, Error};
use crate::api::fields::Fields;
use crate::api::json::{self, Json, Map};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::caller::policies::CallerPolicies;
use crate::records::token::TokenEntry;
use crate::state::Core;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::{self, MountId};
use crate::storage::transact::transact;
use crate::view::NamespaceContext;
use kallisto_engine::address;
use kallisto_engine::pace::{ITEMS_PER_TURN, cooperative_yield};

/// Where receipts are.
const FOLDER: &str = "wrapping/receipt/";
/// How long a receipt is kept after the end of its token, in seconds.
const KEPT_SECS: i64 = 24 * 60 * 60;
/// Receipts that are deleted in one batch.
const SWEPT_AT_ONCE: usize = 256;

/// Who made a wrapping token: an entity, or the bearer of one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Maker(String);

impl Maker {
    /// Whoever a request is from; `None` without a token that is good, and for a wrapping token, which nobody has afterwards.
    pub(super) fn of(context: &NamespaceContext, request: &Request<'_>) -> Option<Self> {
        let caller = CallerPolicies::with_text(context, request.token?, request.now).ok()?;
        (!is_wrapping(caller.entry())).then(|| Self::from_caller(&caller))
    }

    fn from_caller(caller: &CallerPolicies) -> Self {
        Self(match caller.entity_id() {
            Some(id) => format!("entity {id}"),
            None => format!("token {}", HEXLOWER.encode(&caller.hash)),
        })
    }
}

/// How a wrapping token ended, when it did not expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenEnd {
    Opened,
    Withdrawn,
}

impl TokenEnd {
    const fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// A receipt as it is stored.
struct Receipt(Map);

impl Receipt {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Json::as_str).unwrap_or_default()
    }

    fn time(&self, name: &str) -> Option<Timestamp> {
        self.text(name).parse().ok()
    }

    /// When its token ended, or will.
    fn end(&self) -> Option<Timestamp> {
        self.time("ended_at").or_else(|| self.time("expires_at"))
    }

    fn state(&self, now: Timestamp) -> &str {
        match self.text("end") {
            "" if self.time("expires_at").is_some_and(|end| end <= now) => "expired",
            "" => "waiting",
            end => end,
        }
    }
}

fn name(accessor: &str) -> String {
    format!("{FOLDER}{accessor}")
}

fn storage(context: &NamespaceContext) -> Result<EngineStorage<'_>, Error> {
    EngineStorage::builtin(context, MountId::SYSTEM)
}

/// Adds the receipt of a token that is made.
pub(super) fn put_in(
    batch: &mut Batch,
    context: &NamespaceContext,
    entry: &TokenEntry,
    maker: &Maker,
) -> Result<(), Error> {
    let auth = &entry.auth;
    let expires_at = auth.expires_at.map_or(Json::Null, |end| end.to_string().into());
    let receipt = Json::object([
        ("maker", maker.0.as_str().into()),
        ("creation_path", auth.path.as_str().into()),
        ("created_at", auth.created_at.to_string().into()),
        ("expires_at", expires_at),
    ]);
    storage(context)?.put_in(batch, &name(&auth.accessor), receipt.to_text())
}

fn read(context: &NamespaceContext, accessor: &str) -> Result<Option<Receipt>, Error> {
    // What is no accessor is the name of nothing.
    if accessor.is_empty() || !accessor.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.') {
        return Ok(None);
    }
    let record = storage(context)?.get(&name(accessor))?;
    let Some(record) = record else { return Ok(None) };
    json::parse_object(&record.value).map(|map| Some(Receipt(map))).map_err(|e| Error::internal(&e))
}

/// Adds to a batch that a token has ended, if there is a receipt of it.
pub(super) fn mark_in(
    batch: &mut Batch,
    context: &NamespaceContext,
    accessor: &str,
    (end, now): (TokenEnd, Timestamp),
) -> Result<(), Error> {
    let Some(Receipt(mut receipt)) = read(context, accessor)? else { return Ok(()) };
    receipt.insert("end".into(), end.name().into());
    receipt.insert("ended_at".into(), now.to_string().into());
    storage(context)?.put_in(batch, &name(accessor), Json::Object(receipt).to_text())
}

/// Notes that a wrapping token was used up by a request that is no unwrapping.
///
/// # Errors
/// The store's refusal.
pub(crate) async fn note_used(
    context: &NamespaceContext,
    accessor: &str,
    now: Timestamp,
) -> Result<(), Error> {
    let mut batch = Batch::new();
    mark_in(&mut batch, context, accessor, (TokenEnd::Opened, now))?;
    if !batch.ops().is_empty() {
        context.store.commit(batch).await?;
    }
    Ok(())
}

/// The accessor that a body names; `None` when it names none.
pub(super) fn named(request: &Request<'_>) -> Result<Option<String>, Error> {
    let body = request.object()?;
    Ok(Fields::new(&body).string("accessor")?.filter(|accessor| !accessor.is_empty()))
}

/// The receipt of a token that the bearer of the request's token made.
///
/// # Errors
/// [`Error::Denied`] without a good token, [`Error::Invalid`] for an accessor of no token of the bearer's.
fn own(
    context: &NamespaceContext,
    request: &Request<'_>,
    accessor: &str,
) -> Result<Receipt, Error> {
    let text = request.token.ok_or(Error::Denied(Denial::BadToken))?;
    let caller = CallerPolicies::with_text(context, text, request.now)?;
    address::check(&caller.entry().bound_cidrs, request.remote)?;
    if caller.is_limited() {
        // Its uses are counted where routes ask for a token; this one answers anyone.
        return Err(Error::Denied(Denial::Policy));
    }
    let receipt = read(context, accessor)?;
    let maker = Maker::from_caller(&caller);
    receipt.filter(|receipt| receipt.text("maker") == maker.0).ok_or_else(invalid)
}

/// Tells the maker of a wrapping token what became of it.
///
/// # Errors
/// As [`own`].
pub(super) fn look_up(
    context: &NamespaceContext,
    request: &Request<'_>,
    accessor: &str,
) -> Result<Response, Error> {
    let receipt = own(context, request, accessor)?;
    Ok(Response::data(&Json::object([
        ("state", receipt.state(request.now).into()),
        ("expire_time", receipt.text("expires_at").into()),
        ("creation_path", receipt.text("creation_path").into()),
        ("creation_time", receipt.text("created_at").into()),
    ])))
}

/// Answers `sys/wrapping/revoke`: the maker takes a token back that nobody has opened.
///
/// # Errors
/// As [`own`]; [`Error::Invalid`] saying how the token ended, when it did.
pub(crate) async fn revoke(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let context = core.namespace_context(request.namespace)?;
    let accessor = named(request)?.ok_or_else(|| Error::invalid("missing accessor"))?;
    let now = request.now;
    let ended = |receipt: &Receipt| {
        Error::invalid(format!("the wrapping token is not waiting: {}", receipt.state(now)))
    };
    let receipt = own(&context, request, &accessor)?;
    if receipt.state(now) != "waiting" {
        return Err(ended(&receipt));
    }
    transact(&context.store, |batch| {
        let hash = context.view.tokens.with_accessor(&accessor).ok_or_else(invalid)?;
        let key = keys::token(&hash);
        let stored = context.store.get(&key)?.ok_or_else(invalid)?;
        batch.expect(key.clone(), stored.seqno);
        batch.delete(key);
        batch.delete(content_key(&hash));
        mark_in(batch, &context, &accessor, (TokenEnd::Withdrawn, now))
    })
    .await?;
    Ok(Response::Empty)
}

/// Deletes receipts whose token ended long enough ago.
///
/// # Errors
/// The store's refusal; the next run tries again.
pub(crate) async fn sweep(context: &NamespaceContext, now: Timestamp) -> Result<(), Error> {
    let storage = storage(context)?;
    let kept = SignedDuration::from_secs(KEPT_SECS);
    let mut after = None;
    loop {
        let page = storage.list_page(FOLDER, after.as_deref(), SWEPT_AT_ONCE);
        let Some(last) = page.last() else { return Ok(()) };
        let mut batch = Batch::new();
        for (at, accessor) in page.iter().enumerate() {
            if at % ITEMS_PER_TURN == 0 {
                cooperative_yield().await;
            }
            let Some(receipt) = read(context, accessor)? else { continue };
            let due = receipt.end().and_then(|end| end.checked_add(kept).ok());
            if due.is_some_and(|due| due <= now) {
                storage.delete_in(&mut batch, &name(accessor));
            }
        }
        if !batch.ops().is_empty() {
            batch.set_essential();
            context.store.commit(batch).await?;
        }
        after = Some(last.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(text: &str) -> Receipt {
        Receipt(json::parse_object(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_wrapping_token_waits_until_it_is_opened_or_its_time_is_over() {
        let waiting = receipt(r#"{"expires_at":"1970-01-01T00:01:00Z"}"#);
        let at = |secs| Timestamp::from_second(secs).unwrap();
        assert_eq!(
            [59, 60, 61].map(|secs| waiting.state(at(secs))),
            ["waiting", "expired", "expired"]
        );
        let opened = receipt(r#"{"expires_at":"1970-01-01T00:01:00Z","end":"opened"}"#);
        assert_eq!(opened.state(at(61)), "opened");
    }

    #[test]
    fn what_is_no_accessor_names_no_record() {
        let core = crate::routes::tests::open_core(crate::RouteAccess::Token);
        let context = core.namespace_context("").unwrap();
        let mut batch = Batch::new();
        let names = ["abcDEF123", "abc.ns1", "a/b", "a b", ""];
        for accessor in &names[..4] {
            storage(&context).unwrap().put_in(&mut batch, &name(accessor), b"{}".to_vec()).unwrap();
        }
        pollster::block_on(context.store.commit(batch)).unwrap();
        let found = names.map(|accessor| read(&context, accessor).unwrap().is_some());
        assert_eq!(found, [true, true, false, false, false]);
    }
}
