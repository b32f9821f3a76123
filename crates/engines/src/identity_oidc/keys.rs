//! `key/NAME` and `key/NAME/rotate`: the named keys.

use kallisto_api::{Error, Fields, Response};
use kallisto_engine::{Call, EngineContext, Transaction};
use kallisto_identity_tokens::client::OauthClient;
use kallisto_identity_tokens::named_key::{
    DEFAULT, FreshVersions, NamedKey, NamedKeySettings, RETIRED_MAX,
};
use kallisto_identity_tokens::settings::TokenRole;
use kallisto_identity_tokens::signing_key::StoredSigningKey;
use kallisto_identity_tokens::{SigningAlgorithm, TokenSigningKey};

use super::records::{self, KEYS, RecordOrDefault, USES};

/// How often versions are made for a key that others change meanwhile.
const TRIES_MAX: usize = 8;

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    records::list(&call, KEYS, Some(DEFAULT))
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let key = NamedKey::find(&call.context, records::name_of(&call)?)?.ok_or(Error::NotFound)?;
    Ok(Response::data(&key.shown()))
}

/// What the request says of the settings that there are.
fn settings(fields: Fields<'_>, known: Option<&NamedKey>) -> Result<NamedKeySettings, Error> {
    let mut settings = known.map_or_else(NamedKeySettings::default, |key| key.settings.clone());
    if let Some(secs) = records::seconds(fields, "rotation_period")? {
        settings.rotation_period_secs = secs;
    }
    if let Some(secs) = records::seconds(fields, "verification_ttl")? {
        settings.verification_ttl_secs = secs;
    }
    if let Some(ids) = records::texts(fields, "allowed_client_ids")? {
        settings.allowed_client_ids = ids;
    }
    if let Some(name) = fields.string("algorithm")? {
        settings.algorithm = SigningAlgorithm::named(&name)
            .ok_or_else(|| Error::invalid(format!("unknown signing algorithm {name:?}")))?;
    }
    settings.check()?;
    Ok(settings)
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let name = records::name_of(&call)?;
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let now = records::now(&call.context);
    let record = format!("{KEYS}{name}");
    for _ in 0..TRIES_MAX {
        let known = NamedKey::find(&call.context, name)?;
        if known.is_none() {
            records::admit(call.storage, KEYS)?;
        }
        let algorithm = settings(fields, known.as_ref())?.algorithm;
        // The default key is made when it is needed.
        let needs = |key: Option<&NamedKey>| match key {
            None => true,
            Some(key) => key.signing().is_some() && key.needs_versions(algorithm),
        };
        let mut fresh = match needs(known.as_ref()) {
            true => Some(make(&call.context, algorithm).await?),
            false => None,
        };
        let changed = call.storage.transact(&record, |transaction| {
            let known = NamedKey::find_in(transaction, name, now)?;
            let settings = settings(fields, known.as_ref())?;
            check_users(&call.context, transaction, name, &settings)?;
            let fresh = match needs(known.as_ref()) {
                true if settings.algorithm != algorithm => return Ok(false),
                // Taken by a try that lost a race.
                true if fresh.is_none() => return Ok(false),
                true => fresh.take(),
                false => None,
            };
            let mut key = known.unwrap_or_else(|| NamedKey::new(settings.clone(), now));
            key.change(settings, fresh, now);
            transaction.put(&record, key.encode())?;
            Ok(true)
        });
        if changed.await? {
            return Ok(Response::Empty);
        }
    }
    Err(Error::Conflict)
}

/// Refuses a `verification_ttl` below the life of tokens that the key signs.
fn check_users(
    context: &EngineContext<'_>,
    transaction: &mut Transaction<'_>,
    name: &str,
    settings: &NamedKeySettings,
) -> Result<(), Error> {
    // What comes to refer to the key meanwhile makes this decide again.
    transaction.get(USES)?;
    let most = settings.verification_ttl_secs;
    let refuse = |who: &str| {
        Err(Error::invalid(format!(
            "unable to update key {name:?} because it is currently referenced by one or more {who} \
             greater than {most} seconds"
        )))
    };
    let roles = TokenRole::all(context)?;
    if roles.iter().any(|(_, role)| role.key == name && role.ttl_secs > most) {
        return refuse("roles with a token ttl");
    }
    let clients = OauthClient::all(context)?;
    if clients.iter().any(|(_, client)| client.key == name && client.id_token_ttl_secs > most) {
        return refuse("clients with an id_token_ttl");
    }
    Ok(())
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let name = records::name_of(&call)?;
    if name == DEFAULT {
        return Err(Error::invalid(format!("deletion of key {name:?} not allowed")));
    }
    let record = format!("{KEYS}{name}");
    let deleted = call.storage.transact(&record, |transaction| {
        transaction.get(USES)?;
        if transaction.get(&record)?.is_none() {
            return Ok(());
        }
        let refuse = |who: &str, names: Vec<String>| {
            Err(Error::invalid(format!(
                "unable to delete key {name:?} because it is currently referenced by these {who}: {}",
                names.join(", ")
            )))
        };
        let roles = TokenRole::all(&call.context)?.into_iter().filter(|(_, role)| role.key == name);
        let roles: Vec<String> = roles.map(|(name, _)| name).collect();
        if !roles.is_empty() {
            return refuse("roles", roles);
        }
        let clients = OauthClient::all(&call.context)?.into_iter();
        let clients = clients.filter(|(_, client)| client.key == name);
        let clients: Vec<String> = clients.map(|(name, _)| name).collect();
        if !clients.is_empty() {
            return refuse("clients", clients);
        }
        transaction.delete(&record)
    });
    deleted.await?;
    Ok(Response::Empty)
}

pub(super) async fn rotate(call: Call<'_>) -> Result<Response, Error> {
    let name = records::name_of(&call)?;
    let body = call.request.object()?;
    let cut_off_secs = records::seconds(Fields::new(&body), "verification_ttl")?;
    let missing = || Error::invalid(format!("no named key found at {name:?}"));
    let key = NamedKey::find(&call.context, name)?.ok_or_else(missing)?;
    if cut_off_secs.is_none() && key.retired_count() >= RETIRED_MAX {
        return Err(Error::invalid(format!(
            "{RETIRED_MAX} earlier versions of key {name:?} have tokens that can still be verified"
        )));
    }
    let rotated = rotate_if(&call.context, name, cut_off_secs, |_| true);
    if rotated.await? { Ok(Response::Empty) } else { Err(missing()) }
}

/// Rotates a key of which `is_wanted` holds; false when it is gone.
pub(super) async fn rotate_if(
    context: &EngineContext<'_>,
    name: &str,
    cut_off_secs: Option<u64>,
    is_wanted: impl Fn(&NamedKey) -> bool + Send + Sync,
) -> Result<bool, Error> {
    let now = records::now(context);
    let record = format!("{KEYS}{name}");
    for _ in 0..TRIES_MAX {
        let Some(known) = NamedKey::find(context, name)? else { return Ok(false) };
        let algorithm = known.settings.algorithm;
        if known.signing().is_none() {
            // The first versions of the default key are as good as rotated ones.
            ensure_versions(context, name).await?;
            return Ok(true);
        }
        let mut next = Some(make_one(context, algorithm).await?);
        let rotated = context.storage.transact(&record, |transaction| {
            let Some(mut key) = NamedKey::find_in(transaction, name, now)? else {
                return Ok(Some(false));
            };
            if !is_wanted(&key) {
                return Ok(Some(true));
            }
            let next = next.take().filter(|_| key.settings.algorithm == algorithm);
            let Some(next) = next else { return Ok(None) };
            key.rotate(next, now, cut_off_secs);
            transaction.put(&record, key.encode())?;
            Ok(Some(true))
        });
        if let Some(is_there) = rotated.await? {
            return Ok(is_there);
        }
    }
    Err(Error::Conflict)
}

/// Makes the first versions of a key that has none: the default one, before anything refers to it.
///
/// # Errors
/// [`Error::Conflict`] when others kept changing it.
pub(super) async fn ensure_versions(context: &EngineContext<'_>, name: &str) -> Result<(), Error> {
    let now = records::now(context);
    let record = format!("{KEYS}{name}");
    for _ in 0..TRIES_MAX {
        let Some(known) = NamedKey::find(context, name)? else { return Ok(()) };
        if known.signing().is_some() {
            return Ok(());
        }
        let algorithm = known.settings.algorithm;
        let mut fresh = Some(make(context, algorithm).await?);
        let made = context.storage.transact(&record, |transaction| {
            let Some(mut key) = NamedKey::find_in(transaction, name, now)? else { return Ok(true) };
            if key.signing().is_some() {
                return Ok(true);
            }
            let fresh = fresh.take().filter(|_| key.settings.algorithm == algorithm);
            let Some(fresh) = fresh else { return Ok(false) };
            key.take(fresh, now);
            transaction.put(&record, key.encode())?;
            Ok(true)
        });
        if made.await? {
            return Ok(());
        }
    }
    Err(Error::Conflict)
}

async fn make(
    context: &EngineContext<'_>,
    algorithm: SigningAlgorithm,
) -> Result<FreshVersions, Error> {
    if algorithm.is_slow_to_make() {
        return context.run_heavy(move || FreshVersions::make(algorithm)).await?;
    }
    FreshVersions::make(algorithm)
}

async fn make_one(
    context: &EngineContext<'_>,
    algorithm: SigningAlgorithm,
) -> Result<StoredSigningKey, Error> {
    let make = move || Ok::<_, Error>(TokenSigningKey::make(algorithm)?.store());
    if algorithm.is_slow_to_make() { context.run_heavy(make).await? } else { make() }
}
