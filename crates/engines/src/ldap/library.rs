//! The library: sets of accounts that are lent to one borrower at a time.
//!
//! A loan has an id, drawn before its lease is stored; the account that has it is the one that was lent. It is over when the password of the
//! account was changed, by whoever gives it back, by who manages the set, or by the end of the lease.
//!
//! An account comes into a set after its password was changed. A write that fails leaves the set as it was, with all that is lent.

use std::collections::BTreeSet;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use kallisto_api::json::{self, Json, Map};
use kallisto_api::{BoxFuture, Error, Fields, Response};
use kallisto_engine::{Call, Caller, EngineContext, LeaseCall, NewLease, RoleTtl, Transaction};

use super::rotation::{self, Rotation};
use super::static_role::{let_go, manage};
use super::{directory, encoded};
use crate::rotation::RotatedRecord as _;

/// How long an account is lent when nobody says, in seconds.
const TTL_SECS: u64 = 86_400;
/// Most accounts of a set.
const ACCOUNTS_MAX: usize = 256;

/// A set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AccountSet {
    accounts: Vec<String>,
    ttl_secs: u64,
    max_ttl_secs: u64,
    is_open_to_all: bool,
}

/// What the lease of a loan keeps.
pub(super) struct Loan {
    set: String,
    id: String,
}

impl Loan {
    /// The loan of a lease; `None` for a lease of something else.
    pub(super) fn decode(revocation: &[u8]) -> Option<Self> {
        let map = json::parse_object(revocation).ok()?;
        let text = |name: &str| map.get(name).and_then(Json::as_str).map(str::to_owned);
        Some(Self { set: text("set")?, id: text("loan")? })
    }

    fn encode(&self) -> Vec<u8> {
        Json::object([("loan", self.id.as_str().into()), ("set", self.set.as_str().into())])
            .to_text()
    }
}

pub(super) fn record_name(set: &str) -> String {
    format!("library/{set}")
}

fn account_name(account: &str) -> String {
    format!("account/{}", encoded(account))
}

impl AccountSet {
    fn decode(record: &Map) -> Result<Self, Error> {
        let mut set = Self::default();
        set.take(Fields::new(record))?;
        Ok(set)
    }

    fn take(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        if let Some(given) = fields.strings("service_account_names")? {
            let mut known = BTreeSet::new();
            self.accounts = given;
            self.accounts.retain(|name| !name.trim().is_empty());
            if let Some(twice) =
                self.accounts.iter().find(|name| !known.insert(name.to_lowercase()))
            {
                return Err(Error::invalid(format!("{twice:?} is named twice")));
            }
        }
        for (name, secs) in [("ttl", &mut self.ttl_secs), ("max_ttl", &mut self.max_ttl_secs)] {
            if let Some(given) = fields.span(name)? {
                *secs = u64::try_from(given.secs())
                    .map_err(|_| Error::invalid(format!("{name} is negative")))?;
            }
            if *secs == 0 {
                *secs = TTL_SECS;
            }
        }
        if let Some(given) = fields.boolean("disable_check_in_enforcement")? {
            self.is_open_to_all = given;
        }
        if self.accounts.is_empty() {
            return Err(Error::invalid(r#""service_account_names" must be provided"#));
        }
        if self.accounts.len() > ACCOUNTS_MAX {
            return Err(Error::invalid(format!("a set has at most {ACCOUNTS_MAX} accounts")));
        }
        if self.ttl_secs > self.max_ttl_secs {
            return Err(Error::invalid(format!(
                "max_ttl ({}s) may not be less than ttl ({}s)",
                self.max_ttl_secs, self.ttl_secs
            )));
        }
        Ok(())
    }

    fn shown(&self) -> Json {
        Json::object([
            ("disable_check_in_enforcement", self.is_open_to_all.into()),
            ("max_ttl", self.max_ttl_secs.into()),
            ("service_account_names", Json::strings(self.accounts.iter().cloned())),
            ("ttl", self.ttl_secs.into()),
        ])
    }

    fn has(&self, account: &str) -> bool {
        self.accounts.iter().any(|one| one.to_lowercase() == account.to_lowercase())
    }
}

fn find(context: &EngineContext<'_>, name: &str) -> Result<Option<AccountSet>, Error> {
    let found = context.storage.get(&record_name(name))?;
    found.map(|found| found.decode_object(AccountSet::decode)).transpose()
}

/// The set that the path names.
fn named<'a>(call: &Call<'a>) -> Result<(&'a str, AccountSet), Error> {
    let name = call.name("name")?;
    let found = find(call, name)?;
    Ok((name, found.ok_or_else(|| Error::invalid(format!("{name:?} doesn't exist")))?))
}

/// The accounts that a write brings into a set: those whose records are there from an earlier write that failed, and those that are new.
async fn joining(call: &Call<'_>, name: &str, accounts: &[String]) -> Result<Vec<Rotation>, Error> {
    let directory = directory::find(&call.storage)?;
    let mut joining = Vec::new();
    for account in accounts {
        let known = rotation::find(call, &account_name(account))?;
        if let Some(known) = known.filter(|known| known.set == name) {
            joining.push(known);
            continue;
        }
        let dn = directory.find_dn(call, account).await?;
        directory.check_not_own(call, &dn).await?;
        let mut rotation =
            Rotation { username: account.clone(), dn, set: name.to_owned(), ..Rotation::default() };
        // The job changes its password if this request does not.
        rotation.change.next = call.now.as_second() + 60;
        joining.push(rotation);
    }
    Ok(joining)
}

/// Takes accounts for a set, without bringing them into it: nobody borrows them yet.
async fn take(call: &Call<'_>, key: &str, joining: &[Rotation]) -> Result<(), Error> {
    let taking = call.storage.transact(key, |transaction| {
        for rotation in joining {
            manage(transaction, rotation, key)?;
            let record = account_name(&rotation.username);
            if transaction.get(&record)?.is_none() {
                transaction.put(&record, rotation.encode())?;
            }
        }
        Ok(())
    });
    taking.await
}

/// Lets accounts go that did not come into the set; one whose password may have been set stays taken, since nobody else knows it.
async fn give_up(call: &Call<'_>, key: &str, joining: &[Rotation]) -> Result<(), Error> {
    let letting = call.storage.transact(key, |transaction| {
        let set = transaction.get(key)?;
        let set = set.map(|found| found.decode_object(AccountSet::decode)).transpose()?;
        for rotation in joining {
            let record = account_name(&rotation.username);
            let Some(found) = transaction.get(&record)? else { continue };
            let is_open = !found.decode_object(Rotation::decode)?.change.pending.is_empty();
            // Somebody else may have brought it in meanwhile.
            let is_in = set.as_ref().is_some_and(|set| set.has(&rotation.username));
            if !is_open && !is_in {
                remove(transaction, &rotation.username)?;
            }
        }
        Ok(())
    });
    letting.await
}

/// Accounts that are new get other passwords first, then the set is what was asked for, in one step: until then it is what it was.
pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let body = call.request.object()?;
    let before = find(&call, name)?;
    let mut set = before.clone().unwrap_or_default();
    set.take(Fields::new(&body))?;
    let is_new = |account: &&String| before.as_ref().is_none_or(|before| !before.has(account));
    let added: Vec<String> = set.accounts.iter().filter(is_new).cloned().collect();
    let joining = joining(&call, name, &added).await?;
    let key = record_name(name);
    take(&call, &key, &joining).await?;
    let written = async {
        for rotation in &joining {
            rotation::rotate_now(&call, &account_name(&rotation.username), None).await?;
        }
        let writing = call.storage.transact(&key, |transaction| {
            let known = transaction.get(&key)?;
            let known = known.map(|found| found.decode_object(AccountSet::decode)).transpose()?;
            if known != before {
                return Err(Error::Conflict);
            }
            let gone = known.iter().flat_map(|known| &known.accounts);
            for account in gone.filter(|account| !set.has(account)) {
                remove(transaction, account)?;
            }
            transaction.put(&key, set.shown().to_text())
        });
        writing.await
    };
    if let Err(error) = written.await {
        give_up(&call, &key, &joining).await?;
        return Err(error);
    }
    Ok(Response::Empty)
}

/// Lets an account go that nobody has.
fn remove(transaction: &mut Transaction<'_>, account: &str) -> Result<(), Error> {
    let key = account_name(account);
    if let Some(found) = transaction.get(&key)? {
        let rotation = found.decode_object(Rotation::decode)?;
        if !rotation.loan.is_empty() {
            return Err(Error::invalid(format!(
                "{account:?} can't be deleted because it is currently checked out"
            )));
        }
        let_go(transaction, &rotation)?;
    }
    transaction.delete(&key)
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    Ok(Response::data(&find(&call, name)?.ok_or(Error::NotFound)?.shown()))
}

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    call.list("library/")
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    // Those that did not come into it go with it as well.
    let mut accounts = Vec::new();
    for record in call.storage.list("account/")? {
        let found = rotation::find(&call, &format!("account/{record}"))?;
        accounts.extend(found.filter(|found| found.set == name).map(|found| found.username));
    }
    let key = record_name(name);
    let deleting = call.storage.transact(&key, |transaction| {
        for account in &accounts {
            remove(transaction, account)?;
        }
        transaction.delete(&key)
    });
    deleting.await.map(|()| Response::Empty)
}

pub(super) async fn status(call: Call<'_>) -> Result<Response, Error> {
    let (_, set) = named(&call)?;
    let mut shown = Map::new();
    for account in &set.accounts {
        let found = rotation::find(&call, &account_name(account))?.unwrap_or_default();
        let mut state = Map::from([("available".to_owned(), found.is_available().into())]);
        for (name, text) in [
            ("borrower_client_token", &found.borrower_token),
            ("borrower_entity_id", &found.borrower_entity),
            ("last_error", &found.change.last_error),
        ] {
            if !text.is_empty() {
                state.insert(name.to_owned(), text.as_str().into());
            }
        }
        shown.insert(account.clone(), state.into());
    }
    Ok(Response::data(&Json::Object(shown)))
}

pub(super) async fn check_out(call: Call<'_>) -> Result<Response, Error> {
    let (name, set) = named(&call)?;
    let body = call.request.object()?;
    let asked = Fields::new(&body).span("ttl")?.map_or(0, |span| span.secs());
    let asked = u64::try_from(asked).map_err(|_| Error::invalid("ttl is negative"))?;
    let loan = Loan { set: name.to_owned(), id: call.random.make_uuid()? };
    let lease = NewLease {
        ttl_secs: if asked > 0 { asked.min(set.ttl_secs) } else { 0 },
        role_default_secs: set.ttl_secs,
        role_max_secs: set.max_ttl_secs,
        renewable: true,
        revocation: loan.encode(),
    };
    // Where none is left nothing is begun.
    let is_left = |account: &String| {
        let found = rotation::find(&call, &account_name(account));
        found.is_ok_and(|found| found.is_some_and(|found| found.is_available()))
    };
    if !set.accounts.iter().any(is_left) {
        return Err(Error::invalid("No service accounts available for check-out."));
    }
    call.issue(lease, move |_: Timestamp| -> BoxFuture<'_, Result<Json, Error>> {
        Box::pin(lend(call, set, loan))
    })
    .await
}

fn token_of(caller: Option<&Caller>) -> String {
    caller.map(|caller| HEXLOWER.encode(&caller.token.id)).unwrap_or_default()
}

async fn lend(call: Call<'_>, set: AccountSet, loan: Loan) -> Result<Json, Error> {
    let key = record_name(&loan.set);
    let lending = call.storage.transact(&key, |transaction| {
        for account in &set.accounts {
            let key = account_name(account);
            let Some(found) = transaction.get(&key)? else { continue };
            let mut rotation = found.decode_object(Rotation::decode)?;
            if rotation.is_available() && rotation.set == loan.set {
                loan.id.clone_into(&mut rotation.loan);
                rotation.borrower_token = token_of(call.caller);
                rotation.borrower_entity =
                    call.caller.map(|caller| caller.entity_id.clone()).unwrap_or_default();
                transaction.put(&key, rotation.encode())?;
                return Ok(rotation);
            }
        }
        Err(Error::invalid("No service accounts available for check-out."))
    });
    let lent = lending.await?;
    Ok(Json::object([
        ("password", lent.change.password.into()),
        ("service_account_name", lent.username.into()),
    ]))
}

/// The account of a loan.
fn account_of(context: &EngineContext<'_>, loan: &Loan) -> Result<Option<String>, Error> {
    for account in find(context, &loan.set)?.map(|set| set.accounts).unwrap_or_default() {
        let key = account_name(&account);
        if rotation::find(context, &key)?.is_some_and(|found| found.loan == loan.id) {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// The end of a lease: the account is taken back, unless it was given back before.
pub(super) async fn end_loan(call: &LeaseCall<'_>, loan: &Loan) -> Result<(), Error> {
    match account_of(call, loan)? {
        Some(key) => rotation::rotate_now(call, &key, Some(&loan.id)).await,
        None => Ok(()),
    }
}

/// A loan goes on while the account is out.
pub(super) fn renew_loan(call: &LeaseCall<'_>, loan: &Loan) -> Result<(), Error> {
    match account_of(call, loan)? {
        Some(_) => Ok(()),
        None => Err(Error::invalid("the account was checked in already")),
    }
}

/// How long accounts of a loan's set may be out by now.
pub(super) fn loan_ttl(call: &LeaseCall<'_>, loan: &Loan) -> Result<RoleTtl, Error> {
    let set = find(call, &loan.set)?;
    let of_set =
        |set: AccountSet| RoleTtl { default_secs: set.ttl_secs, max_secs: set.max_ttl_secs };
    Ok(set.map(of_set).unwrap_or_default())
}

/// Who may give an account back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckIn {
    /// Who borrowed it.
    ByBorrower,
    /// Anybody who may ask.
    ByAnyone,
}

pub(super) async fn check_in(call: Call<'_>) -> Result<Response, Error> {
    give_back(&call, CheckIn::ByBorrower).await
}

pub(super) async fn force_check_in(call: Call<'_>) -> Result<Response, Error> {
    give_back(&call, CheckIn::ByAnyone).await
}

async fn give_back(call: &Call<'_>, who: CheckIn) -> Result<Response, Error> {
    let (_, set) = named(call)?;
    let body = call.request.object()?;
    let given = Fields::new(&body).strings("service_account_names")?.unwrap_or_default();
    let who = if set.is_open_to_all { CheckIn::ByAnyone } else { who };
    let (token, entity) =
        (token_of(call.caller), call.caller.map_or("", |caller| caller.entity_id.as_str()));
    let is_own = |found: &Rotation| match (who, found.borrower_entity.is_empty()) {
        (CheckIn::ByAnyone, _) => true,
        (CheckIn::ByBorrower, true) => found.borrower_token == token,
        (CheckIn::ByBorrower, false) => found.borrower_entity == entity,
    };
    let mut meant = Vec::new();
    if given.is_empty() {
        for account in &set.accounts {
            let found = rotation::find(call, &account_name(account))?;
            if found.is_some_and(|found| !found.loan.is_empty() && is_own(&found)) {
                meant.push(account.clone());
            }
        }
        if meant.len() > 1 {
            return Err(Error::invalid(
                "when multiple service accounts are checked out, the 'service_account_names' to check in must be provided",
            ));
        }
    }
    for account in given {
        if !set.has(&account) {
            return Err(Error::invalid(format!("not found: {account:?} is not in the set")));
        }
        meant.push(account);
    }
    // All of them or none, as far as it is the caller's to say.
    let mut loans = Vec::new();
    for account in &meant {
        let found = rotation::find(call, &account_name(account))?.unwrap_or_default();
        if !found.loan.is_empty() && !is_own(&found) {
            return Err(Error::invalid(format!(
                "{account:?} can't be checked in because it wasn't checked out by the caller"
            )));
        }
        loans.push(found.loan);
    }
    for (account, loan) in meant.iter().zip(&loans).filter(|(_, loan)| !loan.is_empty()) {
        rotation::rotate_now(call, &account_name(account), Some(loan)).await?;
    }
    Ok(Response::data(&Json::object([("check_ins", Json::strings(meant))])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_reads_back_and_says_what_it_cannot_be() {
        let read = |body: &str| {
            let map = json::parse_object(body.as_bytes()).unwrap();
            let mut set = AccountSet::default();
            set.take(Fields::new(&map)).map(|()| set)
        };
        let set = read(r#"{"service_account_names":"a,b","ttl":"1h","max_ttl":"20h"}"#).unwrap();
        assert_eq!(
            AccountSet::decode(&json::parse_object(&set.shown().to_text()).unwrap()),
            Ok(set)
        );
        for bad in [
            "{}",
            r#"{"service_account_names":"a,A"}"#,
            r#"{"service_account_names":"a","ttl":"48h"}"#,
            r#"{"service_account_names":"a","ttl":"-1h"}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let loan = Loan { set: "s".into(), id: "i".into() };
        assert!(Loan::decode(&loan.encode()).is_some_and(|read| read.id == "i" && read.set == "s"));
        assert!(Loan::decode(br#"{"username":"x","deletion_ldif":"y"}"#).is_none());
    }
}
