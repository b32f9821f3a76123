//! What ends: orders, authorizations, and what says which account was issued which certificate. All of it is deleted by the clock.
//!
//! An order enters itself under the time at which there is nothing more to do with it; names are sorted, so what is due stands first. What is left
//! of it then (authorizations that are still valid, a certificate that is still good) is entered again under the time at which that ends. So the
//! store comes back to what it was, and a pass costs by what has ended, not by what there is.
//!
//! Accounts do not end by themselves. Those without anything of theirs left are deleted by `tidy` with `tidy_acme`.
//!
//! Invariants:
//! - What `acme/end/` says of an order is made with it, and goes with the last record of it.

use kallisto_api::Error;
use kallisto_api::json::{self, Json};
use kallisto_engine::storage::Page;
use kallisto_engine::{EngineContext, Storage, Transaction};
use kallisto_pki::Serial;

use super::accounts::{self, AcmeAccount};
use super::orders::{self, AcmeAuthorization, AcmeOrder, AuthorizationStatus};
use crate::pki::given::{GivenFields, object};

/// How long an order is told of after it ended, in seconds.
const KEPT_SECS: i64 = 3600;
/// Most that end in one pass.
const ENDS_MAX: usize = 500;
const FOLDER: &str = "acme/end/";

/// The record that says that an account was issued a certificate.
pub(super) fn certificate_record(account: &str, serial: &Serial) -> String {
    format!("acme/cert/{account}/{}", serial.dashed())
}

/// What is left of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LeftOver {
    account: String,
    order: String,
    authorizations: Vec<String>,
    /// The certificate, with dashes; empty for none.
    serial: String,
    not_after: i64,
}

fn name(at: i64, order: &str) -> String {
    format!("{FOLDER}{at:012}-{order}")
}

impl LeftOver {
    fn encode(&self) -> Vec<u8> {
        Json::Object(object([
            ("account", self.account.as_str().into()),
            ("order", self.order.as_str().into()),
            ("authorizations", Json::strings(self.authorizations.clone())),
            ("serial", self.serial.as_str().into()),
            ("not_after", self.not_after.into()),
        ]))
        .to_text()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let given = GivenFields::of(&map);
        Some(Self {
            account: given.text("account").ok()?,
            order: given.text("order").ok()?,
            authorizations: given.list("authorizations").ok()?,
            serial: given.text("serial").ok()?,
            not_after: given.whole("not_after", 0).ok()?,
        })
    }
}

fn left_of(account: &str, order: &AcmeOrder) -> LeftOver {
    LeftOver {
        account: account.to_owned(),
        order: order.id.clone(),
        authorizations: order.authorizations.clone(),
        serial: String::new(),
        not_after: 0,
    }
}

/// Enters a new order.
pub(super) fn enter(
    transaction: &mut Transaction<'_>,
    account: &str,
    order: &AcmeOrder,
) -> Result<(), Error> {
    let left = left_of(account, order);
    transaction.put(&name(order.expires + KEPT_SECS, &order.id), left.encode())
}

/// Enters the certificate of an order.
pub(super) fn enter_certificate(
    transaction: &mut Transaction<'_>,
    account: &str,
    order: &AcmeOrder,
    serial: &Serial,
    not_after: i64,
) -> Result<(), Error> {
    transaction.put(&certificate_record(account, serial), Vec::new())?;
    let left = LeftOver { serial: serial.dashed(), not_after, ..left_of(account, order) };
    transaction.put(&name(order.expires + KEPT_SECS, &order.id), left.encode())
}

/// Deletes what has ended.
pub(super) async fn run(context: EngineContext<'_>) -> Result<(), Error> {
    let now = context.now.as_second();
    let due = name(now + 1, "");
    for place in context.storage.list_some(FOLDER, ENDS_MAX) {
        let place = format!("{FOLDER}{place}");
        if place >= due {
            return Ok(());
        }
        end(context.storage, &place, now).await?;
    }
    Ok(())
}

/// Deletes what has ended of one order.
async fn end(storage: Storage<'_>, place: &str, now: i64) -> Result<(), Error> {
    storage
        .transact(place, |transaction| {
            let Some(stored) = transaction.get(place)? else { return Ok(()) };
            transaction.delete(place)?;
            let Some(mut left) = LeftOver::decode(&stored.value) else { return Ok(()) };
            let mut next_at = i64::MAX;
            if !left.order.is_empty() {
                transaction.delete(&orders::record(&left.account, &left.order))?;
            }
            let mut kept = Vec::new();
            for id in &left.authorizations {
                let record = orders::authorization_record(&left.account, id);
                let Some(stored) = transaction.get(&record)? else { continue };
                let one = AcmeAuthorization::decode(id, &stored);
                match one {
                    Ok(one) if one.status(now) == AuthorizationStatus::Valid => {
                        next_at = next_at.min(one.expires);
                        kept.push(id.clone());
                    }
                    _ => transaction.delete(&record)?,
                }
            }
            left.authorizations = kept;
            if !left.serial.is_empty() {
                if left.not_after > now {
                    next_at = next_at.min(left.not_after);
                } else {
                    let record = format!("acme/cert/{}/{}", left.account, left.serial);
                    transaction.delete(&record)?;
                    left.serial.clear();
                }
            }
            if next_at == i64::MAX {
                return Ok(());
            }
            let order = place.split_once('-').map_or("", |(_, order)| order).to_owned();
            left.order.clear();
            transaction.put(&name(next_at.max(now + 1), &order), left.encode())
        })
        .await
}

/// What tidying a page of accounts found.
pub(in crate::pki) struct Tidied {
    /// The records to delete.
    pub(in crate::pki) deletes: Vec<String>,
    /// How many accounts that is.
    pub(in crate::pki) accounts: i64,
    /// The last name that was looked at; none at the end.
    pub(in crate::pki) last: Option<String>,
}

/// Finds accounts that nothing is left of: made or deactivated longer ago than `buffer_secs`, without orders, authorizations and good certificates.
pub(in crate::pki) fn tidy_accounts(
    storage: Storage<'_>,
    page: &Page,
    now: i64,
    buffer_secs: i64,
) -> Result<Tidied, Error> {
    let mut found = Tidied { deletes: Vec::new(), accounts: 0, last: None };
    for id in storage.list_page("acme/account/", page)? {
        found.last = Some(id.clone());
        let record = accounts::record(&id);
        let Some(stored) = storage.get(&record)? else { continue };
        let Ok(account) = AcmeAccount::decode(&id, &stored) else { continue };
        let since = if account.is_valid { account.made_at } else { account.ended_at };
        let has_any = |folder: String| !storage.list_some(&folder, 1).is_empty();
        let is_needed = has_any(orders::folder(&id))
            || has_any(orders::authorization_folder(&id))
            || has_any(format!("acme/cert/{id}/"));
        if is_needed || since.saturating_add(buffer_secs) >= now {
            continue;
        }
        found.deletes.push(record);
        found.deletes.push(accounts::key_record(&account.directory, &account.key));
        found.accounts += 1;
    }
    Ok(found)
}
