//! The methods of a second factor. There is one type: codes of apps.

use kallisto_totp::complete_method;

use super::records::{
    Contexts, LAST_METHOD, LAST_RULE, place, read_record, rules, storage, text, texts,
};
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::dispatch::route_handler::RouteCall;
use crate::engines::identity::site::list_reply;
use crate::identity::names;
use crate::random;
use crate::storage::engine_storage::{EngineStorage, IDENTITY_MOUNT};
use crate::view::NamespaceContext;
use kallisto_engine::{Storage, Transaction};

pub(super) const METHODS: &str = "mfa/method/";
/// Most methods that a namespace is given.
pub(super) const METHODS_MAX: usize = 256;
/// Wrong codes of somebody that are looked at in a period when nobody says, and at the most.
const ATTEMPTS_DEFAULT: i64 = 5;
const ATTEMPTS_MAX: i64 = 100;
/// Keys of a method that are deleted at a time.
const DELETED_AT_ONCE: usize = 1024;

fn record_of(id: &str) -> String {
    format!("{METHODS}{id}")
}

fn name_record(name: &str) -> String {
    format!("mfa/method-name/{}", name.to_ascii_lowercase())
}

/// A method and where it is.
pub(super) struct FoundMethod<'c> {
    pub(super) context: &'c NamespaceContext,
    pub(super) method: Map,
}

/// The method with this id, of the request's namespace or one above.
pub(super) fn find<'c>(
    contexts: &'c Contexts<'_>,
    id: &str,
) -> Result<Option<FoundMethod<'c>>, Error> {
    if kallisto_engine::names::check(id).is_err() {
        return Ok(None);
    }
    for context in contexts.iter() {
        if let Some(method) = read_record(&storage(context)?, &record_of(id))? {
            return Ok(Some(FoundMethod { context, method }));
        }
    }
    Ok(None)
}

/// The methods of a namespace, by id.
pub(super) fn all(storage: &EngineStorage<'_>) -> Result<Vec<Map>, Error> {
    let ids = storage.list(METHODS)?;
    let read = ids.iter().map(|id| read_record(storage, &record_of(id)));
    read.filter_map(Result::transpose).collect()
}

pub(super) fn list(run: &RouteCall<'_>) -> Result<Response, Error> {
    let methods = all(&storage(&run.context)?)?;
    let shown = methods
        .into_iter()
        .map(|method| (text(&method, "id").to_owned(), Json::Object(place(method, &run.context))));
    list_reply(shown)
}

pub(super) fn read(run: &RouteCall<'_>) -> Result<Response, Error> {
    let contexts = Contexts::of(&run.context);
    let found = find(&contexts, run.params.get("method_id"))?.ok_or(Error::NotFound)?;
    Ok(Response::data(&Json::Object(place(found.method, found.context))))
}

/// What a request says of a method, over what is known of it.
fn merged(known: Option<&Map>, body: &Map) -> Result<Map, Error> {
    let mut given = known.cloned().unwrap_or_default();
    given.extend(body.iter().map(|(name, value)| (name.clone(), value.clone())));
    let fields = Fields::new(&given);
    let attempts = fields.int("max_validation_attempts")?.filter(|given| *given != 0);
    let attempts = attempts.unwrap_or(ATTEMPTS_DEFAULT);
    if !(1..=ATTEMPTS_MAX).contains(&attempts) {
        return Err(Error::invalid(format!(
            "max_validation_attempts must be from 1 to {ATTEMPTS_MAX}"
        )));
    }
    if fields.string("issuer")?.is_none_or(|issuer| issuer.is_empty()) {
        return Err(Error::invalid("issuer must be set"));
    }
    let name = fields.string("method_name")?.or(fields.string("name")?).unwrap_or_default();
    if !name.is_empty() {
        names::check("the name of a method", &name)?;
        kallisto_engine::names::check(&name)
            .map_err(|_| Error::invalid("a method_name is made of letters, digits and -._@"))?;
    }
    let mut method = complete_method(&given)?;
    method.insert("max_validation_attempts".to_owned(), attempts.into());
    method.insert("name".to_owned(), name.into());
    method.insert("type".to_owned(), "totp".into());
    Ok(method)
}

/// Refuses a method more than there may be. Every method that is made changes one record, so that none comes between the count and the
/// commit.
fn count_one_more(
    kept: &EngineStorage<'_>,
    transaction: &mut Transaction<'_>,
    id: &str,
) -> Result<(), Error> {
    transaction.get(LAST_METHOD)?;
    if kept.list_some(METHODS, METHODS_MAX).len() >= METHODS_MAX {
        return Err(Error::invalid(format!("more than {METHODS_MAX} methods")));
    }
    transaction.put(LAST_METHOD, id.as_bytes().to_vec())
}

pub(super) async fn write(run: &RouteCall<'_>, id: Option<&str>) -> Result<Response, Error> {
    let mut body = run.call.object()?;
    // What is the server's to say.
    body.retain(|name, _| name != "id" && name != "type" && name != "name");
    let kept = storage(&run.context)?;
    let drawn = random::make_uuid()?;
    let known_id = id.map(str::to_owned);
    let id = known_id.clone().unwrap_or_else(|| drawn.clone());
    let record = record_of(&id);
    if known_id.is_some() && read_record(&kept, &record)?.is_none() {
        return Err(Error::NotFound);
    }
    Storage::new(&kept, IDENTITY_MOUNT)
        .transact(LAST_METHOD, |transaction| {
            let known = transaction.get(&record)?;
            let known = known.map(|known| known.object()).transpose()?;
            match known_id {
                Some(_) if known.is_none() => return Err(Error::NotFound),
                Some(_) => {}
                None => count_one_more(&kept, transaction, &id)?,
            }
            let mut method = merged(known.as_ref(), &body)?;
            method.insert("id".to_owned(), id.as_str().into());
            let (before, after) =
                (known.as_ref().map_or("", |known| text(known, "name")), text(&method, "name"));
            if !after.is_empty() {
                let holder = transaction.get(&name_record(after))?;
                if holder.is_some_and(|holder| holder.value != id.as_bytes()) {
                    return Err(Error::invalid("a method of this name exists"));
                }
            }
            if !before.eq_ignore_ascii_case(after) {
                if !before.is_empty() {
                    transaction.delete(&name_record(before))?;
                }
                if !after.is_empty() {
                    transaction.put(&name_record(after), id.as_bytes().to_vec())?;
                }
            }
            transaction.put(&record, Json::Object(method).to_text())
        })
        .await?;
    Ok(match known_id {
        Some(_) => Response::Empty,
        None => Response::data(&Json::object([("method_id", drawn.into())])),
    })
}

pub(super) async fn delete(run: &RouteCall<'_>) -> Result<Response, Error> {
    let id = run.params.get("method_id").to_owned();
    kallisto_engine::names::check(&id)?;
    let kept = storage(&run.context)?;
    let record = record_of(&id);
    let records = Storage::new(&kept, IDENTITY_MOUNT);
    records
        .transact(LAST_METHOD, |transaction| {
            let Some(known) = transaction.get(&record)? else { return Ok(()) };
            let known = known.object()?;
            // Every rule that is written changes this record.
            transaction.get(LAST_RULE)?;
            let rules = rules(&kept)?;
            let names_it = |rule: &&Map| texts(rule, "mfa_method_ids").any(|of| of == id);
            if let Some(rule) = rules.iter().find(names_it) {
                return Err(Error::invalid(format!(
                    "methodID is still used by an enforcement configuration with ID: {}",
                    text(rule, "id")
                )));
            }
            let name = text(&known, "name");
            if !name.is_empty() {
                transaction.delete(&name_record(name))?;
            }
            transaction.delete(&record)
        })
        .await?;
    for folder in [format!("mfa/secret/{id}/"), format!("mfa/tries/{id}/")] {
        loop {
            let names = records.scan_some(&folder, DELETED_AT_ONCE);
            if names.is_empty() {
                break;
            }
            records
                .delete_all(names.iter().map(|name| format!("{folder}{name}")).collect())
                .await?;
        }
    }
    Ok(Response::Empty)
}
