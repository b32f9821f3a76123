//! TOTP: codes of time-based one-time passwords, made for others' keys and checked for our own (RFC 6238).
//!
//! A mount is a *generator* for keys that another service made (`keys/NAME` with its `url` or `key`, `GET code/NAME` gives the code of now) and
//! a *provider* for keys that it makes itself (`generate`, of which whoever logs in gets the QR code; `POST code/NAME` checks a code).
//!
//! In the mount's storage: `key/NAME` is a key, `tries/NAME` what was tried with it, `left/NAME` what is [`left`] of one that was deleted.
//!
//! Invariants:
//! - A code is good once: the periods whose codes were taken are kept in the transaction that takes one, so of any number of tries at once,
//!   at any server, one is told that it is valid. They belong to the secret: a key that is written or made again with the same one keeps them.
//! - Of each key, [`WRONG_TRIES_MAX`] wrong codes are looked at in a period; the count is a record, and outlives a change of leader.
//! - No answer holds a key but that to its making.

mod left;

use std::time::Duration;

use kallisto_api::json::Json;
use kallisto_api::{Error, Fields, Response, Span};
use kallisto_engine::FieldKind::{Flag, Span as Seconds, Text, Whole};
use kallisto_engine::route::{AFTER, Field, LIMIT, field};
use kallisto_engine::{Call, EngineSpec, Handler, RouteRows, RowIndex, handler, row};

use kallisto_totp::{JudgedCode, KeyInput, TotpKey, Tries, draw_qr, write_url};

/// Wrong codes of a key that are looked at in one of its periods.
const WRONG_TRIES_MAX: u64 = 5;

const NAME: Field = field("name", Text, "The name of the key.");
const KEY_FIELDS: &[Field] = &[
    NAME,
    field("generate", Flag, "Whether the server makes the key."),
    field("exported", Flag, "Whether a key that is made is shown, once."),
    field("key_size", Whole, "Bytes of a key that is made."),
    field("qr_size", Whole, "Pixels of a side of the QR code; 0 for none."),
    field("url", Text, "The `otpauth://totp` URL of a key that another service made."),
    field("key", Text, "That key itself, in base 32."),
    field("issuer", Text, "Who the codes are for."),
    field("account_name", Text, "Whose codes they are."),
    field("period", Seconds, "How long a code is good."),
    field("algorithm", Text, "`SHA1`, `SHA256` or `SHA512`."),
    field("digits", Whole, "Digits of a code: 6 or 8."),
    field("skew", Whole, "How many periods before and after now are good too: 0 or 1."),
];

static ROUTES: RouteRows<Handler> = RouteRows {
    name: "totp",
    tag: "secrets",
    about: "Codes of time-based one-time passwords, made and checked.",
    index: RowIndex::new(),
    groups: &[&[
        row!("keys", &[AFTER, LIMIT], { List => "List the keys.", handler!(list) }),
        row!("keys/{name}", KEY_FIELDS, {
            Read => "Read a key, without its secret.", handler!(read);
            Update => "Make a key, or take one over from another service.", handler!(write);
            Delete => "Delete a key.", handler!(delete);
        }),
        row!("code/{name}", &[NAME, field("code", Text, "The code to check.")], {
            Read => "Make the code of now.", handler!(make_code);
            Update => "Check a code.", handler!(check_code);
        }.light()),
    ]],
};

/// The engine.
pub(crate) static ENGINE: EngineSpec = EngineSpec::secret("totp", &ROUTES);

fn key_record(name: &str) -> String {
    format!("key/{name}")
}

fn tries_record(name: &str) -> String {
    format!("tries/{name}")
}

/// The key that a path names.
fn find(call: &Call<'_>) -> Result<Option<TotpKey>, Error> {
    let name = call.name("name")?;
    match call.storage.get(&key_record(name))? {
        Some(record) => record.decode(TotpKey::decode).map(Some),
        None => Ok(None),
    }
}

fn unknown(name: &str) -> Error {
    Error::invalid(format!("unknown key: {name}"))
}

async fn list(call: Call<'_>) -> Result<Response, Error> {
    call.list("key/")
}

async fn read(call: Call<'_>) -> Result<Response, Error> {
    let key = find(&call)?.ok_or(Error::NotFound)?;
    Ok(Response::data(&key.shown().into()))
}

async fn write(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let body = call.request.object()?;
    let given = KeyInput::read(Fields::new(&body))?;
    let key = given.make(|bytes| call.random.fill(bytes))?;
    let answer = match given.shown() {
        None => Response::Empty,
        Some(pixels) => {
            let url = write_url(&key);
            let mut data = vec![("url".to_owned(), Json::from(url.as_str()))];
            if pixels > 0 {
                let barcode = call.run_heavy(move || draw_qr(&url, pixels)).await??;
                data.push(("barcode".to_owned(), barcode.into()));
            }
            Response::data(&Json::Object(data.into_iter().collect()))
        }
    };
    let (record, tries) = (key_record(name), tries_record(name));
    let past = left::past(&call, seconds(&call));
    call.storage
        .transact(&record, |transaction| {
            let before = transaction.get(&record)?;
            let before = before.and_then(|record| TotpKey::decode(&record.value));
            let known = left::take_back(transaction, name, &key)?;
            match (before, known) {
                (Some(before), _) if before.fingerprint() == key.fingerprint() => {}
                (None, Some(known)) => transaction.put(&tries, known.encode())?,
                // What was tried with another key says nothing of this one.
                _ => transaction.delete(&tries)?,
            }
            left::sweep(transaction, &past, name)?;
            transaction.put(&record, key.encode())
        })
        .await?;
    Ok(answer)
}

async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let (record, tries) = (key_record(name), tries_record(name));
    let now = seconds(&call);
    let past = left::past(&call, now);
    call.storage
        .transact(&record, |transaction| {
            if let Some(key) = transaction.get(&record)? {
                let tried = transaction.get(&tries)?;
                transaction.delete(&record)?;
                transaction.delete(&tries)?;
                let tried = tried.and_then(|tried| Tries::decode(&tried.value));
                // What is damaged can be deleted too.
                if let (Some(key), Some(tried)) = (TotpKey::decode(&key.value), tried) {
                    left::leave(transaction, name, (&key, tried), now)?;
                }
            }
            left::sweep(transaction, &past, name)
        })
        .await?;
    Ok(Response::Empty)
}

/// The time in seconds since 1970.
fn seconds(call: &Call<'_>) -> u64 {
    u64::try_from(call.now.as_second()).unwrap_or(0)
}

async fn make_code(call: Call<'_>) -> Result<Response, Error> {
    let key = find(&call)?.ok_or_else(|| unknown(call.params.get("name")))?;
    let now = seconds(&call);
    let number = now / key.period_secs;
    let period = Span::from_secs(i64::try_from(key.period_secs).unwrap_or(i64::MAX));
    let ends = number.saturating_add(1).saturating_mul(key.period_secs);
    Ok(Response::data(&Json::object([
        ("code", key.code(number).as_str().into()),
        ("expire_time", ends.into()),
        ("generated", now.into()),
        ("period", period.map_or_else(String::new, Span::to_go).into()),
    ])))
}

async fn check_code(call: Call<'_>) -> Result<Response, Error> {
    let name = call.params.get("name");
    if find(&call)?.is_none() {
        return Err(unknown(name));
    }
    let body = call.request.object()?;
    let code = Fields::new(&body).string("code")?.filter(|code| !code.is_empty());
    let code = code.ok_or_else(|| Error::invalid("the code value is required"))?;
    let now = seconds(&call);
    let (record, tries) = (key_record(name), tries_record(name));
    let judged = call.storage.transact(&tries, |transaction| {
        // The key is read again: what is judged here is judged by the key that is there when it counts.
        let key = transaction.get(&record)?.ok_or_else(|| unknown(name))?;
        let key = key.decode(TotpKey::decode)?;
        if code.len() != key.digits || !code.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Error::invalid("invalid number of digits for the code"));
        }
        let before = match transaction.get(&tries)? {
            Some(record) => record.decode(Tries::decode)?,
            None => Tries::default(),
        };
        let (judged, after) = before.judge(&key, &code, now, WRONG_TRIES_MAX);
        if let Some(after) = after {
            transaction.put(&tries, after.encode())?;
        }
        Ok(judged)
    });
    match judged.await? {
        JudgedCode::Valid => Ok(valid(true)),
        JudgedCode::Wrong => Ok(valid(false)),
        JudgedCode::Used => {
            Err(Error::invalid("code already used; wait until the next time period"))
        }
        JudgedCode::TooMany { left } => {
            let left: Duration = left;
            Err(Error::TooManyTries { retry_after_secs: left.as_secs().max(1) })
        }
    }
}

fn valid(is_valid: bool) -> Response {
    Response::data(&Json::object([("valid", is_valid.into())]))
}

#[cfg(test)]
mod tests;
