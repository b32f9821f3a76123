//! Accounts (RFC 8555, 7.3): made, found by their key, changed, deactivated, given another key.
//!
//! An account is of one directory: its id stands below it, and the same key makes another account in another one.
//!
//! Invariants:
//! - One key has one account in a directory: the record of the key is made with that of the account, and read in the same transaction.
//! - A deactivated account stays, so that its key makes no other one until it is tidied away.

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64URL_NOPAD;
use kallisto_api::error::{Denial, Error};
use kallisto_api::json::{Json, Map};
use kallisto_engine::{Stored, Transaction};

use super::config::EabPolicy;
use super::eab;
use super::exchange::{AcmeCall, AcmeDirectory, AcmeReply, SignedRequest};
use super::jws::{Binding, Jwk, Jws, JwsSigner};
use super::problem::{Failure, Kind, Problem, fail, malformed};
use crate::pki::given::{GivenFields, object};
use crate::pki::ids::IssuerId;

/// Most accounts of a mount.
const ACCOUNTS_MAX: usize = 200_000;
/// Most contacts of an account.
const CONTACTS_MAX: usize = 16;
/// Longest contact, in bytes.
const CONTACT_BYTES_MAX: usize = 320;

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AcmeAccount {
    pub(super) id: String,
    /// Whether it may be used: it was not deactivated.
    pub(super) is_valid: bool,
    contacts: Vec<String>,
    pub(super) key: Jwk,
    /// The path of its directory inside the mount.
    pub(super) directory: String,
    /// The id of the external account binding that it was made with; empty for none.
    pub(super) eab: String,
    pub(super) made_at: i64,
    /// When it was deactivated; 0 if it was not.
    pub(super) ended_at: i64,
}

pub(super) fn record(id: &str) -> String {
    format!("acme/account/{id}")
}

/// The record that says whose a key is.
pub(super) fn key_record(directory: &str, key: &Jwk) -> String {
    let place = format!("{directory}\n{}", key.thumbprint());
    format!("acme/key/{}", BASE64URL_NOPAD.encode(digest(&SHA256, place.as_bytes()).as_ref()))
}

impl AcmeAccount {
    const fn status(&self) -> &'static str {
        if self.is_valid { "valid" } else { "deactivated" }
    }

    fn encode(&self) -> Vec<u8> {
        Json::Object(object([
            ("status", self.status().into()),
            ("contacts", Json::strings(self.contacts.clone())),
            ("key", self.key.text().into()),
            ("directory", self.directory.as_str().into()),
            ("eab", self.eab.as_str().into()),
            ("made_at", self.made_at.into()),
            ("ended_at", self.ended_at.into()),
        ]))
        .to_text()
    }

    pub(super) fn decode(id: &str, stored: &Stored) -> Result<Self, Error> {
        stored.decode_object(|map| {
            let given = GivenFields::of(map);
            Ok(Self {
                id: id.to_owned(),
                is_valid: given.text("status")?.as_str() == "valid",
                contacts: given.list("contacts")?,
                key: Jwk::parse(&given.text("key")?).ok_or_else(|| stored.damaged())?,
                directory: given.text("directory")?,
                eab: given.text("eab")?,
                made_at: given.whole("made_at", 0)?,
                ended_at: given.whole("ended_at", 0)?,
            })
        })
    }

    fn url(&self, directory: &AcmeDirectory) -> String {
        directory.at(&format!("account/{}", self.id))
    }

    fn reply(&self, acme: &AcmeCall<'_>, code: u16) -> AcmeReply {
        let url = self.url(&acme.directory);
        let mut shown =
            object([("status", self.status().into()), ("orders", format!("{url}/orders").into())]);
        if !self.contacts.is_empty() {
            shown.insert("contact".to_owned(), Json::strings(self.contacts.clone()));
        }
        AcmeReply::json(code, shown).at(url)
    }
}

/// The account at a URL, if it is of this directory.
pub(super) fn by_url(acme: &AcmeCall<'_>, url: &str) -> Result<AcmeAccount, Failure> {
    let missing = || fail(Kind::AccountDoesNotExist, "account not found");
    let id = url.strip_prefix(&acme.directory.at("account/")).ok_or_else(missing)?;
    let id = IssuerId::parse(id).ok_or_else(missing)?.to_string();
    let stored = acme.call.storage.get(&record(&id))?.ok_or_else(missing)?;
    let account = AcmeAccount::decode(&id, &stored)?;
    if account.directory == acme.directory.path { Ok(account) } else { Err(missing()) }
}

fn contacts(payload: &Map) -> Result<Option<Vec<String>>, Failure> {
    let given = match payload.get("contact") {
        None => return Ok(None),
        Some(Json::Array(given)) => given,
        Some(_) => return Err(malformed("the member \"contact\" is no list")),
    };
    if given.len() > CONTACTS_MAX {
        return Err(fail(Kind::InvalidContact, format!("more than {CONTACTS_MAX} contacts")));
    }
    let check = |contact: &Json| {
        let text = contact.as_str().ok_or_else(|| malformed("a contact is no text"))?;
        let Some((scheme, address)) = text.split_once(':') else {
            return Err(fail(Kind::InvalidContact, "a contact is no URL"));
        };
        if !scheme.eq_ignore_ascii_case("mailto") {
            return Err(fail(Kind::UnsupportedContact, "a contact is a mailto: URL"));
        }
        let (local, host) = address.rsplit_once('@').unwrap_or_default();
        let is_one = !local.is_empty()
            && !host.is_empty()
            && !address.contains(['?', ',', '%', '<', '>', ' '])
            && !address.chars().any(char::is_control)
            && text.len() <= CONTACT_BYTES_MAX;
        if is_one {
            Ok(text.to_owned())
        } else {
            Err(fail(Kind::InvalidContact, "a contact has one address and nothing besides"))
        }
    };
    given.iter().map(check).collect::<Result<Vec<_>, _>>().map(Some)
}

fn flag(payload: &Map, name: &str) -> Result<bool, Failure> {
    match payload.get(name) {
        None => Ok(false),
        Some(Json::Bool(flag)) => Ok(*flag),
        Some(_) => Err(malformed(format!("the member {name:?} is not true or false"))),
    }
}

/// What a new account comes to.
enum NewAccount {
    New,
    Known(Box<AcmeAccount>),
}

/// Makes an account, or finds the one that the key has (7.3, 7.3.1).
pub(super) async fn new(acme: &AcmeCall<'_>, signed: &SignedRequest) -> Result<AcmeReply, Failure> {
    let payload = signed.object()?;
    let only_finds = flag(&payload, "onlyReturnExisting")?;
    let contacts = contacts(&payload)?.unwrap_or_default();
    let binding = match payload.get("externalAccountBinding") {
        None => None,
        Some(Json::Object(binding)) => Some(Binding::read(binding, signed.url(), &signed.key)?),
        Some(_) => return Err(malformed("the external account binding is no JSON object")),
    };
    acme.policy()?;
    let key_name = key_record(&acme.directory.path, &signed.key);
    let mut account = AcmeAccount {
        id: IssuerId::make(acme.call.random)?.to_string(),
        is_valid: true,
        contacts,
        key: signed.key.clone(),
        directory: acme.directory.path.clone(),
        eab: String::new(),
        made_at: acme.now(),
        ended_at: 0,
    };
    account.eab = binding.as_ref().map(|binding| binding.key_id.clone()).unwrap_or_default();
    let is_full = acme.memory()?.read().acme_accounts >= ACCOUNTS_MAX;
    let needs_binding = acme.config.eab != EabPolicy::NotRequired;
    let storage = acme.call.storage;
    let made = storage.transact(&key_name, |transaction| {
        if let Some(known) = transaction.get(&key_name)? {
            let id = known.decode(|bytes| String::from_utf8(bytes.to_vec()).ok())?;
            let stored = transaction.get(&record(&id))?.ok_or_else(|| known.damaged())?;
            return Ok(Ok(NewAccount::Known(Box::new(AcmeAccount::decode(&id, &stored)?))));
        }
        if only_finds {
            let why = "an account with this key does not exist";
            return Ok(Err(fail(Kind::AccountDoesNotExist, why)));
        }
        if is_full {
            return Ok(Err(fail(Kind::RateLimited, "too many accounts")));
        }
        match &binding {
            Some(binding) => {
                let consumed = eab::consume(transaction, binding, &account.directory)?;
                if let Err(failure) = consumed {
                    return Ok(Err(failure));
                }
            }
            None if needs_binding => {
                return Ok(Err(fail(Kind::ExternalAccountRequired, "")));
            }
            None => {}
        }
        transaction.put(&key_name, account.id.clone().into_bytes())?;
        transaction.put(&record(&account.id), account.encode())?;
        Ok(Ok(NewAccount::New))
    });
    match made.await?? {
        NewAccount::New => Ok(account.reply(acme, 201)),
        NewAccount::Known(known) => {
            acme.check(&known)?;
            Ok(known.reply(acme, 200))
        }
    }
}

/// Reads, changes or deactivates an account (7.3.2, 7.3.6).
pub(super) async fn update(
    acme: &AcmeCall<'_>,
    signed: &SignedRequest,
) -> Result<AcmeReply, Failure> {
    let account = own(acme, signed)?;
    if signed.only_reads() {
        return Ok(account.reply(acme, 200));
    }
    let payload = signed.object()?;
    let contacts = contacts(&payload)?;
    let ends = match payload.get("status") {
        None => false,
        Some(Json::String(status)) if status == "deactivated" => true,
        Some(Json::String(status)) if status == "valid" => false,
        Some(_) => return Err(malformed("an account's status becomes deactivated or nothing")),
    };
    let (name, now) = (record(&account.id), acme.now());
    let changed = acme.call.storage.transact(&name, |transaction| {
        let stored = transaction.get(&name)?.ok_or(Error::NotFound)?;
        let mut changed = AcmeAccount::decode(&account.id, &stored)?;
        if let Some(contacts) = &contacts {
            changed.contacts.clone_from(contacts);
        }
        if ends {
            changed.is_valid = false;
            changed.ended_at = now;
        }
        if contacts.is_some() || ends {
            transaction.put(&name, changed.encode())?;
        }
        Ok(changed)
    });
    Ok(changed.await?.reply(acme, 200))
}

/// Refuses what an account does that was deactivated or tidied away meanwhile.
///
/// # Errors
/// [`Error::Denied`] then, which [`ended`] makes the answer of; or when its record cannot be read.
pub(super) fn need_valid(transaction: &mut Transaction<'_>, id: &str) -> Result<(), Error> {
    let known = transaction.get(&record(id))?;
    let account = known.map(|known| AcmeAccount::decode(id, &known)).transpose()?;
    match account.is_some_and(|account| account.is_valid) {
        true => Ok(()),
        false => Err(Error::Denied(Denial::Policy)),
    }
}

/// What the client of an account hears that ended meanwhile ([`need_valid`]).
pub(super) fn ended(error: Error) -> Failure {
    match error {
        Error::Denied(_) => fail(Kind::Unauthorized, "the account is deactivated"),
        other => other.into(),
    }
}

/// The account that signed, if the path is its own.
pub(super) fn own<'s>(
    acme: &AcmeCall<'_>,
    signed: &'s SignedRequest,
) -> Result<&'s AcmeAccount, Failure> {
    let account = signed.account()?;
    let asked = acme.call.params.get("kid");
    if !asked.is_empty() && asked != account.id {
        return Err(fail(Kind::Unauthorized, "the account is another one"));
    }
    Ok(account)
}

/// Gives an account another key (7.3.5): the outer request is signed by the old one, the inner by the new.
pub(super) async fn change_key(
    acme: &AcmeCall<'_>,
    signed: &SignedRequest,
) -> Result<AcmeReply, Failure> {
    let account = signed.account()?;
    let inner = Jws::of(&signed.object()?)?;
    let JwsSigner::Key(new) = &inner.signer else {
        return Err(malformed("the inner JWS is signed by the new key, given as jwk"));
    };
    inner.verify(new)?;
    if inner.url != signed.url() {
        return Err(malformed("the inner JWS is of another url"));
    }
    if inner.nonce.is_some() {
        return Err(malformed("the inner JWS has no nonce"));
    }
    let payload = inner.object()?;
    if payload.get("account").and_then(Json::as_str) != Some(&*account.url(&acme.directory)) {
        return Err(malformed("the inner JWS names another account"));
    }
    let Some(Json::Object(old)) = payload.get("oldKey") else {
        return Err(malformed("the inner JWS names no old key"));
    };
    if Jwk::read(old)? != account.key {
        return Err(malformed("the inner JWS names another old key"));
    }
    let old_name = key_record(&account.directory, &account.key);
    let new_name = key_record(&account.directory, new);
    let name = record(&account.id);
    let changed = acme.call.storage.transact(&name, |transaction| {
        if let Some(other) = transaction.get(&new_name)? {
            return Ok(Err(String::from_utf8_lossy(&other.value).into_owned()));
        }
        let stored = transaction.get(&name)?.ok_or(Error::NotFound)?;
        let mut changed = AcmeAccount::decode(&account.id, &stored)?;
        if changed.key != account.key {
            return Err(Error::Conflict);
        }
        changed.key = new.clone();
        transaction.delete(&old_name)?;
        transaction.put(&new_name, account.id.clone().into_bytes())?;
        transaction.put(&name, changed.encode())?;
        Ok(Ok(changed))
    });
    match changed.await? {
        Ok(changed) => Ok(changed.reply(acme, 200)),
        Err(other) => {
            let problem = Problem::new(Kind::Malformed, "an account with the new key exists");
            let url = acme.directory.at(&format!("account/{other}"));
            Err(problem.with_code(409).at(url).into())
        }
    }
}
